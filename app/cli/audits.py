"""``seatrial audit``: submit, follow, cancel and report audits over HTTP."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from app.cli.choices import Choice
from app.cli.deletions import deleting
from app.cli.exits import OF_VERDICT, CouldNotRunError, Exit, ending_as_documented, exit_table
from app.cli.gate_files import default_checks_of, is_file, read_checks, read_gate_file
from app.cli.outputs import FORMATS, Outputs, output_options
from app.cli.progress import progress_display, progress_in_words
from app.cli.remote import with_client
from app.cli.showing import echo_line, put_report
from app.cli.uploads import read_object
from app.cli.verdicts import print_judgement
from seatrial.client import (
    Client,
    NotJudgedError,
    ReportFormat,
    WaitTimeoutError,
)
from seatrial.client.deadlines import within
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.states import RunState
from seatrial.reporting.attacked import notes_of
from seatrial.reporting.numbers import format_interval, format_value
from seatrial.reporting.reuse import reused_in_words
from seatrial.terminals import escaped_line

_GOES_ON = "it keeps running: seatrial audit status {0}, or seatrial audit cancel {0}"

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


REUSE = click.option(
    "--reuse", is_flag=True, help="Take records of identical checks of the project over; measure only what is new."
)


def spec_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command what an audit can be described by: a file, and options that override it."""
    for option in (
        click.option("--baseline", help="Baseline to compare with: an audit id, or a name."),
        click.option("--policy", help="Policy to judge by: a file or a name."),
        REUSE,
        click.option("--seed", type=click.IntRange(min=0), help="Seed."),
        click.option("--samples", type=click.IntRange(min=2), help="Examples drawn."),
        click.option("--checks", type=_FILE, help="Checks to run, as a YAML or JSON file."),
        click.option("--data", help="Dataset id."),
        click.option("--model", help="Model id."),
        click.argument("spec", type=_FILE, required=False),
    ):
        command = option(command)
    return command


@click.group()
def audit() -> None:
    """Submit, follow, cancel and report audits."""


@audit.command()
@spec_options
@with_client
def submit(client: Client, /, **options: Any) -> None:
    """Submit the audit described in SPEC, a JSON file as POST /v1/audits takes it, and print its id.

    Without checks it is what `seatrial gate` runs by default.
    """
    submitted = client.submit(**_with_checks(client, described(options)))
    for note in submitted.notes:
        echo_line(note, err=True)
    echo_line(submitted.id)


@audit.command(epilog=exit_table())
@spec_options
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait.  [default: until it ends]")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML report here.")
@with_client
def run(client: Client, /, timeout: float | None, report: Path | None, **options: Any) -> None:
    """Submit the audit described in SPEC, follow it to its end and print its numbers.

    Without checks it is what `seatrial gate` runs by default. With a policy the verdict is printed and decides the exit
    status; without one, that is 0 when every check succeeded.
    """
    with ending_as_documented():
        with within(timeout):
            spec = _with_checks(client, described(options))
            submitted = client.submit(**spec)
        audit_id = submitted.id
        for note in submitted.notes:
            echo_line(note, err=True)
        echo_line(audit_id, err=True)
        is_judged = spec.get("policy") is not None
        try:
            with progress_display() as show:
                ended = client.wait(audit_id, timeout_s=timeout, progress=show, until_judged=is_judged)
        except NotJudgedError as error:
            raise CouldNotRunError(str(error)) from error
        except WaitTimeoutError as error:
            echo_line(f"{error}; {_GOES_ON.format(audit_id)}", err=True)
            sys.exit(Exit.TIMED_OUT)
        except KeyboardInterrupt:
            echo_line(f"No longer waited for; {_GOES_ON.format(audit_id)}", err=True)
            raise
        if report is not None:
            report.write_bytes(client.report(audit_id))
        print_results(ended)
        if ended.judgement is not None:
            echo_line()
            print_judgement(ended.judgement, notes=notes_of(ended, ended.judgement))
            sys.exit(OF_VERDICT[ended.judgement.verdict])
        if ended.state != RunState.SUCCEEDED:
            sys.exit(Exit.COULD_NOT_RUN)


@audit.command("list")
@click.option("--state", type=Choice([state.value for state in RunState]), help="List only audits in this state.")
@click.option("--model", help="List only audits of this model id.")
@click.option("--verdict", type=Choice(list(OF_VERDICT)), help="List only audits with this verdict.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def list_audits(client: Client, /, limit: int, **filters: Any) -> None:
    """List the project's audits, newest first."""
    for _, one in zip(range(limit), client.audits(**filters), strict=False):
        when, verdict = f"{one.created_at:%Y-%m-%d %H:%M}", one.verdict or "-"
        told = f"{one.id}  {when}  {one.state:<9}  {verdict:<12}  {one.subject}  {', '.join(one.kinds)}"
        echo_line(escaped_line(told))


@audit.command()
@click.argument("audit_id")
@with_client
def status(client: Client, audit_id: str) -> None:
    """Print an audit's state, and its numbers once it has any."""
    print_results(client.audit(audit_id))


@audit.command()
@click.argument("audit_id")
@with_client
def cancel(client: Client, audit_id: str) -> None:
    """Ask an audit to stop."""
    echo_line(client.cancel(audit_id).state)


@audit.command()
@click.argument("audit_id")
@with_client
def retry(client: Client, audit_id: str) -> None:
    """Run the failed parts of an audit again."""
    echo_line(client.retry(audit_id).state)


@audit.command()
@click.argument("audit_id")
@click.option("--format", "wanted", type=Choice(list(FORMATS)), default="html", show_default=True)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File.  [default: standard output]"
)
@click.option(
    "--policy",
    help="Policy whose verdict it prints: a name (standard, release@3), or a file (YAML, JSON), by which the audit is "
    "then judged.  [default: the audit's own]",
)
@with_client
def report(client: Client, audit_id: str, wanted: ReportFormat, output: Path | None, policy: str | None) -> None:
    """Fetch the report of an audit."""
    if policy is None or not is_file(policy):
        put_report(client.report(audit_id, wanted, policy=policy), output)
        return
    with ending_as_documented():
        judgement = client.judge(audit_id, read_gate_file(Path(policy)).policy())
        put_report(client.report(audit_id, wanted, judgement=judgement.id), output)


@audit.command()
@click.argument("audit_id")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File.  [default: AUDIT_ID.zip]")
@click.option("--inputs", is_flag=True, help="With the files of model and data, which `seatrial replay` needs.")
@with_client
def bundle(client: Client, audit_id: str, output: Path | None, *, inputs: bool) -> None:
    """Fetch the bundle that `seatrial replay` runs an audit again from."""
    echo_line(str(client.bundle(audit_id, output or Path(f"{audit_id}.zip"), inputs=inputs)))


@click.command(epilog=exit_table())
@click.argument("audit_id")
@click.option("--policy", required=True, help="Policy file (YAML, JSON), or the name of one: standard, release@3.")
@click.option("--baseline", help="Baseline to compare with: an audit id, or a name.")
@output_options
@with_client
def judge(client: Client, /, audit_id: str, policy: str, baseline: str | None, **options: Any) -> None:
    """Judge an audit that has ended by any policy; nothing is run again, and its own verdict stays as it is.

    Files are written for a failed verdict as well.
    """
    with ending_as_documented():
        outputs = Outputs.from_options({**options, "policy": policy})
        asked = read_gate_file(Path(policy)).policy() if is_file(policy) else policy
        judgement = client.judge(audit_id, asked, baseline=baseline)
        is_whole = outputs.write(client, audit_id, judgement.id)
        print_judgement(judgement, notes=notes_of(client.audit(audit_id), judgement))
        status = OF_VERDICT[judgement.verdict]
        sys.exit(status if is_whole or status != Exit.PASSED else Exit.COULD_NOT_RUN)


audit.add_command(deleting("an audit", "Delete it even if it is a baseline or its verdict is attested."))


def described(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of POST /v1/audits; a missing field is reported by the service, with the others.

    Raises:
        BadRequestError: A file is not what it should be.
    """
    spec: dict[str, Any] = {"model": "", "dataset": "", "checks": []}
    if options["spec"] is not None:
        spec |= read_object(options["spec"])
    if options["policy"] is not None and is_file(options["policy"]):
        file = read_gate_file(Path(options["policy"]))
        said = {"checks": file.checks, "samples": file.samples, "seed": file.seed}
        # No checks is what a file says that only judges; a seed of 0 is a seed.
        spec |= {name: value for name, value in said.items() if value not in (None, [])} | {"policy": file.policy()}
    elif options["policy"] is not None:
        spec["policy"] = options["policy"]
    if options["checks"] is not None:
        spec["checks"] = read_checks(options["checks"])
    given = {"model": options["model"], "dataset": options["data"]}
    given |= {name: options[name] for name in ("samples", "seed", "baseline")}
    given["reuse"] = options["reuse"] or None
    return spec | {name: value for name, value in given.items() if value is not None}


def _with_checks(client: Client, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a body with checks: where none are given, those that a gate runs of such a model."""
    if spec["checks"] or not spec["model"]:
        return spec
    task = client.model(spec["model"]).task
    checks = default_checks_of(client, spec.get("policy"), task, spec["dataset"])
    return spec | {"checks": checks}


def print_results(audit: AuditRead) -> None:
    """Print state, flags and numbers of an audit."""
    echo_line(f"{audit.id}: {audit.state}")
    if audit.error is not None:
        echo_line(f"  {audit.error.title}: {audit.error.detail}")
    for check in audit.checks:
        echo_line(progress_in_words(audit, check))
        if check.reused is not None:
            echo_line(f"  {reused_in_words(check.reused)}")
        if check.error is not None:
            echo_line(f"  {check.error.title}: {check.error.detail}")
        if check.result is None:
            continue
        for flag in check.result.flags:
            echo_line(f"  {flag.severity}: {flag.code}: {flag.message}")
        for line in _table(check.result.estimates):
            echo_line(f"  {line}")


def _table(estimates: Mapping[str, Estimate]) -> Iterator[str]:
    """Yield a line per estimate: name, value, interval where it has one, and the examples it rests on."""
    rows = [
        (name, format_value(one), format_interval(one), f"n={one.n}" if one.n or one.value is None else "as given")
        for name, one in estimates.items()
    ]
    names, values, intervals = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    for name, value, ends, basis in rows:
        yield f"{name:<{names}}  {value:>{values}}  {ends:<{intervals}}  {basis}".rstrip()
