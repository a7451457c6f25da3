"""``seatrial serve``: the API in this process, workers beside it, everything under one folder."""

import importlib.util
import os
import shlex
import signal
import socket
import sys
from importlib.metadata import version
from pathlib import Path

import click

from app.cli.loopback import is_loopback
from app.cli.showing import echo_line
from app.cli.supervisor import Supervisor
from seatrial import alive, floors
from seatrial.imports import kept_imports
from seatrial.store.private_files import created_privately
from seatrial.store.settings import Settings

WORKER_MODULES = ("torch", "safetensors", "scipy", "matplotlib")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder everything is written under.  [default: SEATRIAL_HOME or .seatrial]",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    help="Worker processes; 0: none here.  [default: SEATRIAL_LOCAL_WORKERS or 1; 0 with a broker]",
)
def serve(host: str, port: int, home: Path | None, workers: int | None) -> None:
    """Run the service: the API in this process and its workers beside it.

    On a loopback address no key is needed; on any other address keys are required.
    """
    settings = _settings(host, home)
    count = workers if workers is not None else 0 if settings.is_distributed else settings.local_workers
    if count:
        require_worker_extra()
    listener = _listen(host, port)
    try:
        # The workers started from here inherit it.
        with created_privately():
            _run(settings, listener, host, count)
    finally:
        listener.close()


def require_worker_extra() -> None:
    """Fail with a sentence when the packages of the GPU side are not installed."""
    missing = [name for name in WORKER_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"a worker needs {', '.join(missing)}: install it with `pip install 'seatrial[worker]'`, "
            "or serve without workers here: `seatrial serve --workers 0`"
        )


def _settings(host: str, home: Path | None) -> Settings:
    # Through the environment, so that the workers started from here read the same.
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    if not is_loopback(host):
        os.environ["SEATRIAL_REQUIRE_KEYS"] = "true"
    elif "SEATRIAL_REQUIRE_KEYS" not in os.environ:
        os.environ["SEATRIAL_REQUIRE_KEYS"] = "false"
    return Settings()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror or error}. Give another --port, or 0 for a free one."
        ) from error
    listener.set_inheritable(False)
    return listener


def _run(settings: Settings, listener: socket.socket, host: str, count: int) -> None:
    with kept_imports():
        import uvicorn

        from app.main import create_app
        from app.web.listening import bounded_http, raise_file_limit
        from app.web.logs import configure_logs
        from seatrial.store.database import connect
        from seatrial.store.migrations import upgrade

    if not settings.is_distributed:
        database = connect(settings)
        upgrade(database)
        database.dispose()
    config = uvicorn.Config(
        create_app(settings),
        http=bounded_http(settings, files=raise_file_limit()),
        ws="none",
        log_level=settings.log_level,
        access_log=False,
        lifespan="on",
        # An open event stream must not hold the server back for ever.
        timeout_graceful_shutdown=5,
        # Uploads are streamed to disk by the rooms themselves; a slow client may take its time.
        timeout_keep_alive=30,
    )
    # uvicorn has made its handlers only now.
    configure_logs(settings)
    server = uvicorn.Server(config)
    supervisor = Supervisor(floors.command("workers.local"), count, lambda line: echo_line(line, err=True))
    # uvicorn raises the signals it caught once more when it has shut down; by then the workers must still be stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    _announce(settings, listener, host, count)
    alive.mark_port(settings.home, listener.getsockname()[1])
    supervisor.start()
    try:
        server.run(sockets=[listener])
    finally:
        supervisor.stop()
        alive.unmark_port(settings.home)
    if not server.started:
        raise click.ClickException("the API did not start; the reason is above")


def _announce(settings: Settings, listener: socket.socket, host: str, count: int) -> None:
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{listener.getsockname()[1]}"
    workers = "no workers here" if count == 0 else "1 local worker" if count == 1 else f"{count} local workers"
    echo_line(f"Seatrial {version('seatrial')} listens on {url}")
    echo_line(f"  console        {url}/")
    echo_line(f"  documentation  {url}/docs")
    echo_line(f"  home           {settings.home.absolute()} ({workers})")
    if not settings.require_keys:
        echo_line("  keys           none needed: only this machine can connect")
        return
    # Of this service's database, wherever the command is run.
    home = "" if settings.database_url else f" --home {shlex.quote(str(settings.home.absolute()))}"
    echo_line(f"  keys           required: `seatrial keys create NAME{home}` creates one")
    sys.stdout.flush()
