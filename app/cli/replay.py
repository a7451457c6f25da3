"""``seatrial replay``: run an audit again from its bundle and compare number by number."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from app.cli.attest import SIGNING_KEY, read_key
from app.cli.embedded import embedded
from app.cli.exits import BadRequestError, CouldNotRunError, Exit, ending_as_documented
from app.cli.files import shorten
from app.cli.memory import memory_limited
from app.cli.progress import progress_display, say
from app.cli.remote import KEY
from app.cli.reproduction import Reproduction
from app.cli.showing import echo_line
from app.cli.tolerances import Tolerances, read_tolerances
from seatrial.client import Client, ProblemResponseError, Source, WaitTimeoutError
from seatrial.contracts.registry import as_meant
from seatrial.contracts.states import RunState
from seatrial.store.salts import DRAWN, GIVEN
from seatrial.terminals import escaped_line

if TYPE_CHECKING:
    from app.reports.bundle_layout import BundleInput
    from app.reports.replays import Comparison
    from app.reports.unbundling import Bundle

MEANINGS: dict[Exit, str] = {
    Exit.PASSED: "identical, or within the tolerance; metrics added since are listed",
    Exit.FAILED: "different: a table says where",
    Exit.BAD_REQUEST: "the bundle is damaged, or a model or data file is not the recorded one",
    Exit.COULD_NOT_RUN: "could not run: the service or a check failed",
    Exit.TIMED_OUT: "timed out",
}
# \b keeps click from filling the lines into a paragraph.
_EPILOG = "\b\nExit status:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in MEANINGS.items())
_SHOWN = 50
MEMORY_BYTES = 4 * 2**30
"""Most memory that reading a bundle may take beyond what the command has: a few kilobytes can ask for gigabytes."""
_TOO_LARGE = f"reading it takes more than {MEMORY_BYTES / 2**30:g} GiB of memory"
_INPUT = click.Path(exists=True, path_type=Path)


@click.command(epilog=_EPILOG)
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--url",
    "--server",
    "url",
    envvar="SEATRIAL_URL",
    help="Service to run it on.  [env: SEATRIAL_URL; default: one of its own]",
)
@KEY
@click.option(
    "--model",
    "models",
    multiple=True,
    type=_INPUT,
    help="Model, where the bundle does not contain it; may be repeated.",
)
@click.option(
    "--data", "data", multiple=True, type=_INPUT, help="Dataset, where the bundle does not contain it; may be repeated."
)
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    metavar="[FAMILY=]NUMBER",
    help="Largest difference that counts as the same, of all families or of one; may be repeated. Another device adds "
    "floats in another order: by default none is allowed on like hardware, and on unlike what the family allows.",
)
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait.  [default: until it ends]")
@click.option(
    "--attestation",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Attestation of the audit: sign that this run confirms it, beside what is signed there.",
)
@SIGNING_KEY
def replay(
    bundle: Path,
    url: str | None,
    key: str | None,
    models: Sequence[Path],
    data: Sequence[Path],
    tolerances: Sequence[str],
    timeout: float | None,
    attestation: Path | None,
    signing_key: Path | None,
) -> None:
    """Run the audit in BUNDLE again and compare every number and every record.

    BUNDLE is what GET /v1/audits/{id}/bundle returned. With ?inputs=true it contains model and data; else name them: a
    file with another digest is refused.
    """
    with ending_as_documented():
        # Reading records takes Arrow, which other commands do without.
        from app.reports.unbundling import BundleError

        tolerance = read_tolerances(tolerances)
        signing = read_key(signing_key)
        if (attestation is None) != (signing is None):
            raise BadRequestError("--attestation and --signing-key go together: a reproduction is signed by who ran it")
        try:
            with TemporaryDirectory(prefix="seatrial-replay-") as scratch:
                recorded = _opened(bundle, Path(scratch, "recorded"))
                reproduction = Reproduction(attestation, signing, recorded) if attestation and signing else None
                files = _files(recorded, models, data)
                with _client(url, key) as client:
                    replayed = _run(client, recorded, files, Path(scratch), timeout)
                if is_unlike(recorded.index.versions, replayed.index.versions):
                    tolerance = tolerance.on_unlike_hardware(check.kind for check in recorded.index.checks)
                comparison = _compared(recorded, replayed, tolerance)
                status = _tell(comparison, tolerance)
                if reproduction is not None and status == Exit.PASSED:
                    reproduction.add(comparison, replayed, tolerance.largest)
                    echo_line(f"Signed in {attestation}: reproduced.")
        except BundleError as error:
            raise BadRequestError(f"{bundle} is not a sound bundle: {error}") from error
        sys.exit(status)


def _opened(path: Path, folder: Path) -> "Bundle":
    from app.reports.unbundling import open_bundle

    try:
        with memory_limited(MEMORY_BYTES):
            bundle = open_bundle(path, folder)
    except MemoryError as error:
        raise BadRequestError(f"{path} is not a sound bundle: {_TOO_LARGE}") from error
    if not any(one.result for one in bundle.results.values()):
        raise BadRequestError(f"{path} holds no numbers: no check of audit {bundle.index.audit} succeeded")
    return bundle


def _files(bundle: "Bundle", models: Sequence[Path], data: Sequence[Path]) -> dict[str, Source]:
    """Return where the bytes of each model and dataset are, by its id; an endpoint has none.

    Raises:
        BadRequestError: A file is another one than the bundle names, or there is none.
    """
    files: dict[str, Source] = {}
    for kind, paths in (("model", models), ("dataset", data)):
        wanted = [one for one in bundle.index.inputs if one.kind == kind]
        for path in paths:
            source = _source(path, kind)
            digest = _digest(source)
            found = [one for one in wanted if one.digest == digest]
            if not found:
                named = "; ".join(f"{_called(one)} has {one.digest}" for one in wanted)
                raise BadRequestError(f"{path} is not the recorded {kind}: its digest is {digest}; {named}")
            files |= {one.id: source for one in found}
    for one in bundle.index.inputs:
        if one.id in files or (one.kind == "model" and one.format == "endpoint"):
            continue
        if one.file is None:
            option = "--model" if one.kind == "model" else "--data"
            raise BadRequestError(f"the bundle does not contain {_called(one)}: give it with {option} ({one.digest})")
        path = bundle.path(one.file)
        if (digest := _digest(path)) != one.digest:
            raise BadRequestError(f"{one.file} is not {_called(one)}: its digest is {digest}, not {one.digest}")
        files[one.id] = path
    return files


def _source(path: Path, kind: str) -> Source:
    if not path.is_dir():
        return path
    from app.cli.uploads import prepare_data, prepare_model

    prepared = prepare_model(path, for_task=None, say=say) if kind == "model" else prepare_data(path, None, model=None)
    if prepared.source is None:
        raise BadRequestError(f"{path} is an endpoint, which has no file: leave it out")
    return prepared.source


def _digest(source: Source) -> str:
    import hashlib

    with source.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _called(one: "BundleInput") -> str:
    return f"{', '.join(one.roles)} ({one.name} {one.version})"


@contextmanager
def _client(url: str | None, key: str | None) -> Iterator[Client]:
    with ExitStack() as stack:
        if url is None:
            url, key = stack.enter_context(embedded(say=say)), None
        yield stack.enter_context(Client(url, key))


def _run(
    client: Client, recorded: "Bundle", files: dict[str, Source], scratch: Path, timeout_s: float | None
) -> "Bundle":
    manifests = [recorded.manifest(one) for one in recorded.index.inputs]
    inputs = zip(recorded.index.inputs, manifests, strict=True)
    ids = {one.id: _upload(client, one, manifest, files.get(one.id)) for one, manifest in inputs}
    try:
        spec = _renamed(recorded.index.spec, ids)
    except RecursionError as error:
        raise BadRequestError("the bundle's specification is nested too deeply") from error
    options = asked_again(spec)
    audit = client.submit(options.pop("model"), options.pop("dataset"), _meant(options.pop("checks")), **options)
    say(f"{recorded.index.audit} runs again as {audit.id}.")
    try:
        with progress_display() as show:
            ended = client.wait(audit.id, timeout_s=timeout_s, progress=show)
    except WaitTimeoutError as error:
        say(str(error))
        sys.exit(Exit.TIMED_OUT)
    for position, check in enumerate(ended.checks):
        before = recorded.results.get(position)
        if before is not None and before.result is not None and check.state != RunState.SUCCEEDED:
            why = f": {check.error.title}: {check.error.detail}" if check.error else ""
            raise CouldNotRunError(f"check {position} ({check.kind}) is {check.state} this time{why}")
    if ended.error is not None:
        raise CouldNotRunError(f"{ended.error.title}: {ended.error.detail}")
    return _opened(client.bundle(audit.id, scratch / "replayed.zip"), scratch / "replayed")


_REQUESTED = {DRAWN: GIVEN}
"""What a service adds to a request, by the name it is asked for with."""


def asked_again(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a recorded request is asked again.

    What it is judged by changes no number, and names a policy of the service it came from; but where it says when the
    audit stops, and then it is there in full. Nothing is taken over (``reuse``): a service that has the records would
    compare them with themselves.
    """
    unasked = {"baseline", "idempotency_key", "reuse"} | (set() if spec.get("stop") else {"policy"})
    return {_REQUESTED.get(name, name): value for name, value in spec.items() if name not in unasked}


def _upload(client: Client, one: "BundleInput", manifest: dict[str, Any], source: Source | None) -> str:
    """Return the id of a model or dataset on the service; the same again is the one already there."""

    def add(manifest: dict[str, Any]) -> str:
        if one.kind == "dataset":
            assert source is not None  # noqa: S101 - only endpoints are without
            return client.add_dataset(source, manifest).id
        return (client.add_endpoint(manifest) if source is None else client.add_model(source, manifest)).id

    try:
        return add(manifest)
    except ProblemResponseError as error:
        if error.status != 409:
            raise
    # Something else holds this name and version there. Neither changes a number.
    return add({**manifest, "version": f"{one.version[:30]}-{one.digest.removeprefix('sha256:')[:16]}"})


def _meant(checks: Any) -> Any:
    """Return checks as the version that ran them meant them; what is none the service refuses in its own words."""
    if not isinstance(checks, list):
        return checks
    return [as_meant(str(check.get("kind")), check) if isinstance(check, dict) else check for check in checks]


def _renamed(value: Any, ids: dict[str, str]) -> Any:
    """Return a specification with the ids of this service in it."""
    if isinstance(value, dict):
        return {key: _renamed(inner, ids) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, ids) for inner in value]
    return ids.get(value, value) if isinstance(value, str) else value


def _compared(recorded: "Bundle", replayed: "Bundle", tolerance: Tolerances) -> "Comparison":
    """Return what differs."""
    from app.reports.replays import compare

    before, now = recorded.index.versions, replayed.index.versions
    for package in before:
        if now.get(package, "") != before[package]:
            say(f"Recorded with {package} {before[package]}, run again with {now.get(package, 'none')}.")
    try:
        with memory_limited(MEMORY_BYTES):
            comparison = compare(recorded, replayed, tolerance=tolerance.overall or 0.0, by_family=tolerance.by_family)
        if is_unlike(before, now):
            # Byte-identical on like hardware only.
            for kind, apart in comparison.largest.items():
                say(f"On unlike hardware: {kind} differs by at most {apart:.3g}; {tolerance.of(kind):g} is allowed.")
        return comparison
    except MemoryError as error:
        raise BadRequestError(f"the records cannot be compared: {_TOO_LARGE}") from error
    except (ValueError, TypeError, RecursionError) as error:
        # Values that no family writes: texts that are no UTF-8, lists of lists of lists.
        raise BadRequestError(f"the records cannot be compared: {shorten(str(error))}") from error


def is_unlike(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether what measured both runs is told, and is not the same."""
    from app.reports.repository import HARDWARE

    return HARDWARE in before and HARDWARE in now and before[HARDWARE] != now[HARDWARE]


def _tell(comparison: "Comparison", tolerance: Tolerances) -> Exit:
    """Print what came out and return how the command ends."""
    if comparison.recast:
        say(f"The intervals of {comparison.recast:,} numbers are made in another way since: these were not compared.")
    if comparison.differences:
        _print_differences(comparison)
    else:
        same = "identical" if not tolerance.largest else f"the same within {tolerance}"
        echo_line(f"{same}: {comparison.numbers:,} numbers, {comparison.records:,} records")
    _print_new(comparison.new)
    return Exit.FAILED if comparison.differences else Exit.PASSED


def _print_differences(comparison: "Comparison") -> None:
    listed = [("where", "recorded", "replayed", "apart"), *comparison.differences[:_SHOWN]]
    rows = [tuple(escaped_line(shorten(cell, 300)) for cell in row) for row in listed]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        echo_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    count = len(comparison.differences)
    if count > _SHOWN:
        echo_line(f"... and {count - _SHOWN:,} more")
    compared = f"{comparison.numbers:,} numbers and {comparison.records:,} records"
    echo_line(f"different: {count:,} {'difference' if count == 1 else 'differences'} in {compared}")


def _print_new(new: Sequence[str]) -> None:
    for name in new[:_SHOWN]:
        echo_line(f"new, not in the bundle: {escaped_line(shorten(name, 300))}")
    if len(new) > _SHOWN:
        echo_line(f"... and {len(new) - _SHOWN:,} more")
