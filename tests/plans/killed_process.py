"""An API process that advances plans once and is killed at a point of a step: run by tests/plans/test_killed.py."""

import os
import signal
import sys
from typing import Any

from app.main import create_app
from app.plans import advancing
from seatrial.store.settings import Settings

LEASE_S = 0.3


def kill_at(kind: str, point: str) -> None:
    """Kill this process: before ``_begin``, else after a function, or the whole step, with nothing written later."""
    is_step = point == kind
    real: Any = advancing._ACTIONS[kind] if is_step else getattr(advancing, point)

    def replaced(*arguments: Any) -> Any:
        step = next(one for one in arguments if isinstance(one, advancing.Claimed))
        if step.kind == kind and point == "_begin":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*arguments)
        if step.kind == kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    if is_step:
        advancing._ACTIONS[kind] = replaced
    else:
        setattr(advancing, point, replaced)


if __name__ == "__main__":
    home, database_url, kind, point = sys.argv[1:]
    app = create_app(Settings(home=home, database_url=database_url, require_keys=False))
    kill_at(kind, point)
    advancing.advance_plans(app.state.services, lease_s=LEASE_S)
    sys.exit("nothing killed it")
