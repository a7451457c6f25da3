"""``seatrial doctor``: checks an installation, says what is missing and prints the command that fixes it."""

import os
import platform
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import metadata
from itertools import chain
from pathlib import Path

import click
import httpx
from packaging.requirements import Requirement
from sqlalchemy.exc import SQLAlchemyError

from app.cli.showing import echo_line
from seatrial import alive
from seatrial.attestation.key_folder import KeyFolder
from seatrial.attestation.keys import KeyFileError
from seatrial.contracts import registry
from seatrial.installed import PACKAGE, lacking
from seatrial.store.artifacts import open_store
from seatrial.store.database import connect
from seatrial.store.integrity import find_damage
from seatrial.store.migrations import current_revision, is_compatible
from seatrial.store.private_files import open_to_others
from seatrial.store.queue import WakeupNotifier
from seatrial.store.settings import Settings
from seatrial.store.settings_errors import InvalidSettingsError

FREE_BYTES = 2**30
PROGRAM_S = 120.0
ANSWER_S = 10.0
"""Seconds for what listens on the port: Seatrial may be answering its first request on a busy machine."""

_TORCH = (
    "import torch; "
    "names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]; "
    "print(torch.__version__); print(', '.join(names))"
)


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        subject: What was checked.
        found: What was found.
        fix: The command that fixes it; empty where nothing is missing.
        is_needed: Whether Seatrial needs it.
        is_unsafe: Whether it works as it is and should not stay so.
    """

    subject: str
    found: str
    fix: str = ""
    is_needed: bool = True
    is_unsafe: bool = False

    @property
    def verdict(self) -> str:
        """``ok``, ``missing``, ``optional`` for what is missing and not needed, or ``warning``."""
        if self.is_unsafe or not self.fix:
            return "warning" if self.is_unsafe else "ok"
        return "missing" if self.is_needed else "optional"


@click.command()
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder everything is written under.  [default: SEATRIAL_HOME or .seatrial]",
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="Port to serve on.")
@click.option("--verify", is_flag=True, help="Read every stored file too, and compare it with its digest.")
def doctor(home: Path | None, port: int, verify: bool) -> None:
    """Check the installation: each part is ok, or missing or unsafe, with the command that fixes it.

    Exits with 0 when nothing that is needed is missing, else with 1. Changes nothing.
    """
    if home is not None:
        os.environ["SEATRIAL_HOME"] = str(home.absolute())
    missing = 0
    for finding in chain(findings(port, home), stored_files() if verify else ()):
        echo_line(f"{finding.verdict:<8}  {finding.subject}: {finding.found}")
        if finding.fix:
            echo_line(f"{'':<8}  fix: {finding.fix}")
        missing += finding.verdict == "missing"
    sys.exit(1 if missing else 0)


def findings(port: int, home: Path | None = None) -> Iterator[Finding]:
    """Check everything, one after the other; ``home`` is what was given for the settings' one."""
    yield Finding("python", platform.python_version())
    try:
        settings = Settings()
    except InvalidSettingsError as error:
        yield Finding("settings", str(error), "set these variables as the table of settings says")
        return
    yield from packages(is_worker_needed=not settings.is_distributed)
    yield from brought_families()
    checks: list[Callable[[Settings], Finding]] = [device, resources, folder, privacy, signing, database]
    if settings.is_distributed:
        checks.append(broker)
    for check in checks:
        yield check(settings)
    yield listening(settings, port, "" if home is None else f" --home {shlex.quote(str(home))}")


def packages(*, is_worker_needed: bool) -> Iterator[Finding]:
    """Compare what is installed with what each extra asks for."""
    extras = metadata(PACKAGE).get_all("Provides-Extra") or []
    for extra in ("", *extras):
        missing = sorted(_told(asked, installed) for asked, installed in lacking(extra))
        name = f"{PACKAGE}[{extra}]" if extra else PACKAGE
        is_needed = not extra or (extra == "worker" and is_worker_needed)
        if not missing:
            yield Finding(name, "its packages are installed")
            continue
        yield Finding(name, ", ".join(missing), f"pip install '{name}'", is_needed)


def brought_families() -> Iterator[Finding]:
    """Tell which families other distributions bring, and which of them cannot be loaded."""
    ours = {point.name for point in registry.SHIPPED}
    if theirs := [kind for kind in registry.families() if kind not in ours]:
        yield Finding("families", f"{', '.join(theirs)} of other distributions")
    for name, why in registry.broken().items():
        yield Finding(f"family {name}", why, "uninstall the distribution that offers it, or mend it", False)


def _told(asked: Requirement, installed: str | None) -> str:
    return (
        f"{asked.name} is not installed"
        if installed is None
        else f"{asked.name} is {installed}, needs {asked.specifier}"
    )


def device(settings: Settings) -> Finding:
    """Check what networks are computed on; torch is imported in a process of its own."""
    done = _program("-c", _TORCH)
    if done is None or done.returncode != 0:
        said = "" if done is None else done.stderr.strip().rpartition("\n")[2]
        failure = f"torch cannot be loaded: {said}" if said else "torch cannot be loaded"
        return Finding("device", failure, "pip install 'seatrial[worker]'", not settings.is_distributed)
    torch_version, _, names = done.stdout.strip().partition("\n")
    if settings.device.startswith("cuda") and not names:
        return Finding(
            "device",
            f"torch {torch_version} finds no GPU, and SEATRIAL_DEVICE is {settings.device}",
            "install a torch built for the driver (pytorch.org), or set SEATRIAL_DEVICE=auto",
        )
    chosen = "cpu" if settings.device == "cpu" else names or "cpu (no GPU found)"
    return Finding("device", f"torch {torch_version} on {chosen}")


def resources(_: Settings) -> Finding:
    """Check the language resources of text attacks."""
    done = _program("-m", "seatrial.floors", "workers.resources", "list")
    if done is None or done.returncode != 0:
        return Finding("language resources", "cannot be listed", "pip install 'seatrial[text]'", is_needed=False)
    recipes = done.stdout.partition("\nRecipes:\n")[2].splitlines()
    lacking = [line.strip() for line in recipes if " lacks " in line]
    if lacking:
        return Finding("language resources", "; ".join(lacking), "seatrial resources install", is_needed=False)
    return Finding("language resources", f"all {len(recipes)} recipes run")


def folder(settings: Settings) -> Finding:
    """Check that the home can be written and has free space."""
    home = settings.home.absolute()
    there = next(one for one in (home, *home.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "home", f"{there} cannot be written", "seatrial serve --home DIR, with a folder you can write to"
        )
    free = shutil.disk_usage(there).free
    detail = f"{home}, {free / 2**30:.1f} GiB free"
    fix = "" if free >= FREE_BYTES else "free some space, or give another folder: seatrial serve --home DIR"
    return Finding("home", detail, fix)


def privacy(settings: Settings) -> Finding:
    """Check that other users of the machine cannot read models, data or the database."""
    # The folders below a home that is left open may be meant for others: language resources are read by many.
    paths = [settings.home.absolute()]
    if "://" not in settings.resolved_artifacts_url:
        paths.append(Path(settings.resolved_artifacts_url).absolute())
    if (url := settings.resolved_database_url).startswith("sqlite:///"):
        paths += [Path(url.removeprefix("sqlite:///") + end).absolute() for end in ("", "-wal", "-shm")]
    exposed = open_to_others(paths)
    if not exposed:
        return Finding("privacy", "other users cannot read what is written")
    named = " ".join(shlex.quote(str(path)) for path in exposed)
    detail = f"other users of this machine may read {', '.join(map(str, exposed))}"
    return Finding("privacy", detail, f"chmod go= {named}", is_unsafe=True)


def database(settings: Settings) -> Finding:
    """Check that the database answers and its schema is up to date."""
    url = settings.resolved_database_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return Finding("database", "none yet: `seatrial serve` creates it")
    opened = connect(settings, pool_size=1)
    try:
        is_migrated, revision = is_compatible(opened), current_revision(opened) or "nothing"
    except SQLAlchemyError as error:
        # The message itself may hold the address and the password.
        detail = f"does not answer ({type(error).__name__})"
        return Finding("database", detail, "start it, or set SEATRIAL_DATABASE_URL to where it is")
    finally:
        opened.dispose()
    if not is_migrated:
        return Finding("database", f"its schema is not up to date (at {revision})", "seatrial migrate")
    return Finding("database", f"{opened.engine.dialect.name}, its schema is up to date (at {revision})")


def broker(settings: Settings) -> Finding:
    """Check that the broker answers."""
    if WakeupNotifier(settings).is_reachable():
        return Finding("broker", "answers")
    return Finding("broker", "does not answer", "start it, or set SEATRIAL_BROKER_URL to where it is")


def signing(settings: Settings) -> Finding:
    """Tell whether verdicts are signed, and that they are not any more."""
    keys, fix = KeyFolder.of(settings), "seatrial keys signing create"
    try:
        listed, key = keys.published().keys, keys.signing_key()
    except KeyFileError as error:
        return Finding("signing", str(error), "restore what cannot be read, or set SEATRIAL_SIGNING_PASSPHRASE")
    if key is not None:
        expires = next((one.exp for one in listed if one.kid == key.public.key_id), None)
        until = "" if expires is None else f", until {expires:%Y-%m-%d}"
        return Finding("signing", f"verdicts are signed by {key.public.key_id}{until}")
    if not listed:
        return Finding("signing", "no key signs verdicts", fix, is_needed=False)
    return Finding("signing", "no key signs verdicts any more: each has expired, is revoked, or is not here", fix)


def stored_files() -> Iterator[Finding]:
    """Read every stored file, and tell which are damaged or gone and whose they are."""
    try:
        settings = Settings()
    except InvalidSettingsError:
        # Told already.
        return
    url = settings.resolved_database_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        # To look would make it.
        return
    opened = connect(settings, pool_size=1)
    is_whole = True
    try:
        for one in find_damage(opened, open_store(settings)):
            is_whole = False
            used_by = [*one.uploads, *one.weights, *(f"audit {audit_id}" for audit_id in one.audits), *one.unfinished]
            state = "is gone" if one.is_missing else "is damaged"
            mends = ["upload it again"] if one.uploads else []
            mends += [f"seatrial audit retry {audit_id} if it failed, else submit it again" for audit_id in one.audits]
            mends += ["delete that version and harden again"] if one.weights else []
            mends += ["begin what has not ended anew if it fails"] if one.unfinished else []
            detail = f"{one.digest} {state}: {', '.join(used_by) or 'nothing that is stored names it'}"
            yield Finding("store", detail, ", ".join(mends) or "delete it", is_needed=bool(used_by))
    except SQLAlchemyError as error:
        yield Finding("store", f"the database does not answer ({type(error).__name__})", "see above")
        return
    finally:
        opened.dispose()
    if is_whole:
        yield Finding("store", "every file is what its digest says")


def listening(settings: Settings, port: int, given: str = "") -> Finding:
    """Check that a service of this home can listen on a port, or does; ``given`` is how it is told of the home."""
    fix = f"seatrial serve{given} --port 0"
    of_home = alive.ports(settings.home)
    elsewhere = "".join(f"; this home is served on {one}" for one in sorted(of_home - {port}))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            is_ours = _is_ours(port)
            # What is behind a proxy or in a container leaves its mark in a home of its own.
            if is_ours and (port in of_home or settings.is_distributed):
                return Finding("port", f"{port}: Seatrial listens there")
            taken = f"another Seatrial, of another home than {settings.home.absolute()}, listens there"
            detail = f"{port}: {taken if is_ours else error.strerror}{elsewhere}"
            return Finding("port", detail, fix, is_needed=not of_home)
    return Finding("port", f"{port} is free{elsewhere}")


def _is_ours(port: int) -> bool:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=ANSWER_S, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success and re.search(r'"version"', answer.text) is not None


def _program(*arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run Python and return how it ended, or None when it does not end."""
    try:
        return subprocess.run(  # noqa: S603
            [sys.executable, "-P", *arguments], capture_output=True, text=True, timeout=PROGRAM_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
