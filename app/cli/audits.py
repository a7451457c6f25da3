"""``seatrial audit``: submit, follow, cancel and report audits over HTTP."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from app.cli.exits import Exit
from app.cli.remote import with_client
from app.cli.resources import read_json
from app.client import Client, WaitTimeoutError
from app.contracts.audits import AuditRead
from app.contracts.estimates import Estimate
from app.contracts.states import RunState
from app.reports.numbers import interval, told

SPEC = click.argument("spec", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group()
def audit() -> None:
    """Submit, follow, cancel and report audits."""


@audit.command()
@SPEC
@with_client
def submit(client: Client, spec: Path) -> None:
    """Submit the audit described in SPEC, a JSON file as POST /v1/audits takes it, and print its id."""
    click.echo(client.submit(**read_spec(spec)).id)


@audit.command()
@SPEC
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait.  [default: until it ends]")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML report here.")
@with_client
def run(client: Client, spec: Path, timeout: float | None, report: Path | None) -> None:
    """Submit the audit described in SPEC, follow it to its end and print its numbers.

    Ends with status 0 when every check succeeded, 4 when one did not, 5 when the time ran out.
    """
    audit_id = client.submit(**read_spec(spec)).id
    click.echo(audit_id, err=True)
    try:
        with progress_display() as show:
            ended = client.wait(audit_id, timeout_s=timeout, progress=show)
    except WaitTimeoutError as error:
        click.echo(f"{error}; it goes on: seatrial audit status {audit_id}", err=True)
        sys.exit(Exit.TIMED_OUT)
    if report is not None:
        report.write_bytes(client.report(audit_id))
    print_results(ended)
    if ended.state != RunState.SUCCEEDED:
        sys.exit(Exit.COULD_NOT_RUN)


@audit.command()
@click.argument("audit_id")
@with_client
def status(client: Client, audit_id: str) -> None:
    """Print how an audit stands, and its numbers when it has any."""
    print_results(client.audit(audit_id))


@audit.command()
@click.argument("audit_id")
@with_client
def cancel(client: Client, audit_id: str) -> None:
    """Ask an audit to stop."""
    click.echo(client.cancel(audit_id).state)


@audit.command()
@click.argument("audit_id")
@click.option("--format", "wanted", type=click.Choice(["html", "json"]), default="html", show_default=True)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File.  [default: standard output]"
)
@with_client
def report(client: Client, audit_id: str, wanted: str, output: Path | None) -> None:
    """Fetch the report of an audit."""
    content = client.report(audit_id, wanted)
    if output is not None:
        output.write_bytes(content)
    else:
        sys.stdout.buffer.write(content)


def read_spec(path: Path) -> dict[str, Any]:
    """Return the body of POST /v1/audits in a file; a missing field is told by the service, with the others."""
    spec = read_json(path)
    return {"model": "", "dataset": "", "checks": [], **spec}


@contextmanager
def progress_display() -> Iterator[Callable[[AuditRead], None]]:
    """Yield what :meth:`Client.wait` calls: live bars on a terminal, a line per change elsewhere."""
    if not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def show(audit: AuditRead) -> None:
            for check in audit.checks:
                if check.id not in tasks:
                    tasks[check.id] = bars.add_task(check.kind, total=None, left="")
                stage = check.progress.stage or check.state
                bars.update(
                    tasks[check.id],
                    description=f"{check.kind}: {stage if check.state == RunState.RUNNING else check.state}",
                    completed=check.progress.done,
                    total=check.progress.total or None,
                    left=_left(check.progress.remaining_s),
                )

        yield show


def _left(remaining_s: float | None) -> str:
    return f"about {remaining_s:.0f} s left" if remaining_s else ""


def _plain_lines() -> Callable[[AuditRead], None]:
    told: dict[str, str] = {}

    def show(audit: AuditRead) -> None:
        for check in audit.checks:
            # A line per state, stage and quarter of it: enough for a log.
            done, total = check.progress.done, check.progress.total
            quarter = 25 * (4 * done // total) if total else 0
            line = f"{check.kind}: {check.state} {check.progress.stage or ''} {quarter} %"
            if told.get(check.id) != line:
                told[check.id] = line
                click.echo(line, err=True)

    return show


def print_results(audit: AuditRead) -> None:
    """Print state, flags and numbers of an audit."""
    click.echo(f"{audit.id}: {audit.state}")
    if audit.error is not None:
        click.echo(f"  {audit.error.title}: {audit.error.detail}")
    for check in audit.checks:
        click.echo(f"{check.kind}: {check.state}")
        if check.error is not None:
            click.echo(f"  {check.error.title}: {check.error.detail}")
        if check.result is None:
            continue
        for flag in check.result.flags:
            click.echo(f"  {flag.severity}: {flag.code}: {flag.message}")
        for line in _table(check.result.estimates):
            click.echo(f"  {line}")


def _table(estimates: Mapping[str, Estimate]) -> Iterator[str]:
    """Yield a line per estimate: name, value, interval where it has one, and the examples it rests on."""
    rows = [
        (name, told(one), interval(one), f"n={one.n}" if one.n or one.value is None else "as given")
        for name, one in estimates.items()
    ]
    names, values, intervals = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    for name, value, ends, basis in rows:
        yield f"{name:<{names}}  {value:>{values}}  {ends:<{intervals}}  {basis}".rstrip()
