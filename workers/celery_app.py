"""The Celery application of the distributed set-up.

A worker per GPU: ``celery -A workers.celery_app worker -Q gpu -P solo``. One scheduler, which also keeps house:
``celery -A workers.celery_app worker -B -Q cpu -P solo``. Importing this imports no torch: the scheduler runs from the
API's image.
"""

import os
from typing import Any

from celery.signals import celeryd_init

from app.core.private_files import UMASK
from app.core.queue import make_celery
from app.core.settings import get_settings

app = make_celery(get_settings())


# In worker processes only: whoever merely imports this keeps the umask it has.
@celeryd_init.connect  # type: ignore[untyped-decorator]
def _create_privately(**_: Any) -> None:
    os.umask(UMASK)
