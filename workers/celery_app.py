"""The Celery application of the distributed set-up.

A worker per GPU: ``celery -A workers.celery_app worker -Q gpu -P solo``. One scheduler, which also keeps house:
``celery -A workers.celery_app worker -B -Q cpu -P solo``. Importing this imports no torch: the scheduler runs from the
API's image.
"""

import logging
import os
from typing import Any

from celery.signals import after_setup_logger, after_setup_task_logger, celeryd_init

from seatrial.logs import json_formatter
from seatrial.store.private_files import UMASK, private_folder
from seatrial.store.queue import make_celery
from seatrial.store.settings import get_settings
from seatrial.terminals import EscapingFormatter

app = make_celery(get_settings())


# In worker processes only: whoever merely imports this keeps the umask it has.
@celeryd_init.connect  # type: ignore[untyped-decorator]
def _create_privately(**_: Any) -> None:
    if not get_settings().broker_url:
        # Celery would ask a broker of its own default, which nobody runs, and try again for ever.
        raise SystemExit("SEATRIAL_BROKER_URL is not set: it names the broker of the API and the workers, redis://...")
    os.umask(UMASK)
    # The scheduler keeps its schedule there, and may be the first of all processes to start.
    private_folder(get_settings().home.absolute())


@after_setup_logger.connect  # type: ignore[untyped-decorator]
@after_setup_task_logger.connect  # type: ignore[untyped-decorator]
def _format(logger: logging.Logger, **_: Any) -> None:
    as_json = get_settings().log_json
    for handler in logger.handlers:
        handler.setFormatter(json_formatter() if as_json else EscapingFormatter(handler.formatter))
