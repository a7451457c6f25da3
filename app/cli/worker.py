"""``seatrial worker``: one worker in the foreground."""

import os
import sys
from pathlib import Path

import click

from app.cli.serve import require_worker_extra
from seatrial import floors
from seatrial.contracts.wakeups import QUEUE_HOUSEKEEPING, QUEUE_WORK
from seatrial.store.private_files import created_privately
from seatrial.store.settings import Settings


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the database and the files.  [default: SEATRIAL_HOME or .seatrial]",
)
@click.option(
    "--queues",
    default=f"{QUEUE_WORK},{QUEUE_HOUSEKEEPING}",
    show_default=True,
    help=f"With a broker: queues to serve. {QUEUE_WORK}: audits; {QUEUE_HOUSEKEEPING}: sweeps, without torch.",
)
@click.option("--beat", is_flag=True, help="With a broker: also send the periodic tasks. One process per installation.")
@click.option(
    "--until-idle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="End when there has been nothing to do for so long. Such a worker polls the database, for batch systems.",
)
def worker(home: Path | None, queues: str, beat: bool, until_idle: float | None) -> None:
    """Run one worker: on the broker's wake-ups when SEATRIAL_BROKER_URL is set, else polling the database."""
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    command = worker_command(Settings(), queues.split(","), beat=beat, pid=os.getpid(), until_idle_s=until_idle)
    sys.stdout.flush()
    with created_privately():
        os.execv(command[0], command)  # noqa: S606


def worker_command(
    settings: Settings, queues: list[str], *, beat: bool, pid: int, until_idle_s: float | None = None
) -> list[str]:
    """Return the command that becomes the worker.

    Raises:
        click.ClickException: The options do not fit the settings, or packages are missing.
    """
    known = {QUEUE_WORK, QUEUE_HOUSEKEEPING}
    if unknown := set(queues) - known:
        raise click.ClickException(f"no such queue: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    if until_idle_s is not None:
        if beat or QUEUE_WORK not in queues:
            raise click.ClickException("a worker that ends when idle does audits only: leave --beat and --queues out")
        require_worker_extra()
        return floors.command("workers.local", "--until-idle", f"{until_idle_s:g}")
    if not settings.is_distributed:
        if beat or QUEUE_WORK not in queues:
            raise click.ClickException("without SEATRIAL_BROKER_URL a worker sweeps by itself: leave the options out")
        require_worker_extra()
        return floors.command("workers.local")
    if QUEUE_WORK in queues:
        require_worker_extra()
    return [
        *floors.command("celery", "-A", "workers.celery_app", "worker"),
        *("-P", "solo", "-Q", ",".join(queues), "-n", f"{'-'.join(queues)}-{pid}@%h"),
        # A solo worker at work answers nobody, so asking each other only delays the start.
        *("--without-gossip", "--without-mingle", "-l", settings.log_level),
        *(["-B"] if beat else []),
    ]
