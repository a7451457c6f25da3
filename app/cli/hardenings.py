"""``seatrial harden``: train a model, make the next version of it, and prove what that was worth."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import click

from app.cli.choices import Choice
from app.cli.deletions import delete_hardening
from app.cli.exits import OF_VERDICT, Exit, ending_as_documented, exit_table
from app.cli.gate_files import is_file, read_gate_file
from app.cli.progress import say
from app.cli.remote import with_client
from app.cli.showing import echo_line, put_report
from app.cli.uploads import read_object
from seatrial.client import Client, WaitTimeoutError
from seatrial.contracts.hardenings import HardeningEstimate, HardeningRead
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.reporting.durations import duration
from seatrial.reporting.numbers import format_interval, format_value
from seatrial.reporting.sizes import size
from seatrial.terminals import escaped_line

_GOES_ON = "it keeps running: seatrial harden status {0}, or seatrial harden cancel {0}"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
REPORT_FORMATS = ("html", "json", "markdown")


def spec_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the file a hardening is described by, and options that override it."""
    for option in (
        click.option("--promote", help="Name of the baseline the new version's audit becomes where it passes."),
        click.option("--policy", help="Policy to judge the new version by: a file or a name."),
        click.option("--seed", type=click.IntRange(min=0), help="Seed."),
        click.option("--method", help="Training method."),
        click.option("--data", help="Id of the dataset to train on."),
        click.option("--model", help="Model id."),
        click.argument("spec", type=_FILE),
    ):
        command = option(command)
    return command


@click.group()
def harden() -> None:
    """Train a model, audit both versions, and compare them in pairs."""


@harden.command()
@spec_options
@with_client
def estimate(client: Client, /, **options: Any) -> None:
    """Tell what the hardening described in SPEC would cost: passes, seconds, memory."""
    for line in estimated(client.estimate_hardening(**described(options))):
        echo_line(line)


@harden.command()
@spec_options
@with_client
def submit(client: Client, /, **options: Any) -> None:
    """Submit the hardening described in SPEC, JSON as POST /v1/hardenings takes it, and print its id."""
    echo_line(client.harden(**described(options)).id)


@harden.command(epilog=exit_table())
@spec_options
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait.  [default: until it ends]")
@click.option("--weights", type=click.Path(dir_okay=False, path_type=Path), help="Write the new weights here.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML report here.")
@with_client
def run(client: Client, /, timeout: float | None, weights: Path | None, report: Path | None, **options: Any) -> None:
    """Submit the hardening described in SPEC, follow it to its end and print what it was worth.

    With a policy the verdict decides the exit status; without one, that is 0 where it succeeded.
    """
    with ending_as_documented():
        made = client.harden(**described(options))
        echo_line(made.id, err=True)
        try:
            ended = client.wait_hardening(made.id, timeout_s=timeout, progress=_progress())
        except WaitTimeoutError as error:
            echo_line(f"{error}; {_GOES_ON.format(made.id)}", err=True)
            sys.exit(Exit.TIMED_OUT)
        except KeyboardInterrupt:
            echo_line(f"No longer waited for; {_GOES_ON.format(made.id)}", err=True)
            raise
        if weights is not None and ended.hardened is not None:
            client.weights(ended.hardened, weights)
        if report is not None and ended.result is not None:
            report.write_bytes(client.hardening_report(ended.id))
        print_hardening(ended)
        if ended.state != RunState.SUCCEEDED:
            sys.exit(Exit.COULD_NOT_RUN)
        sys.exit(Exit.PASSED if ended.verdict is None else OF_VERDICT[ended.verdict])


@harden.command("list")
@click.option("--model", help="List only hardenings of this model id, or that made it.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def list_hardenings(client: Client, /, model: str | None, limit: int) -> None:
    """List the project's hardenings, newest first."""
    for _, one in zip(range(limit), client.hardenings(model=model), strict=False):
        verdict = one.verdict or "-"
        echo_line(
            f"{one.id}  {one.created_at:%Y-%m-%d %H:%M}  {one.state:<10}  {verdict:<12}  {one.method}  "
            f"{one.model} -> {one.hardened or '-'}"
        )


@harden.command()
@click.argument("hardening_id")
@with_client
def status(client: Client, hardening_id: str) -> None:
    """Print a hardening's state, its curves, and what it was worth once that is known."""
    print_hardening(client.hardening(hardening_id))


@harden.command()
@click.argument("hardening_id")
@click.option("--format", "wanted", type=Choice(REPORT_FORMATS), default="html", show_default=True)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File.  [default: standard output]"
)
@with_client
def report(
    client: Client, /, hardening_id: str, wanted: Literal["html", "json", "markdown"], output: Path | None
) -> None:
    """Fetch the report of a hardening: both versions side by side, their paired differences and the verdict."""
    put_report(client.hardening_report(hardening_id, wanted), output)


@harden.command()
@click.argument("hardening_id")
@with_client
def cancel(client: Client, hardening_id: str) -> None:
    """Ask a hardening to stop."""
    echo_line(client.cancel_hardening(hardening_id).state)


@harden.command()
@click.argument("hardening_id")
@with_client
def retry(client: Client, hardening_id: str) -> None:
    """Retry what failed: the training, or the audits; no training that succeeded is repeated."""
    echo_line(client.retry_hardening(hardening_id).state)


harden.add_command(delete_hardening)


def described(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of POST /v1/hardenings; a missing field is reported by the service, with the others.

    Raises:
        BadRequestError: A file is not what it should be.
    """
    spec: dict[str, Any] = {"model": "", "dataset": "", "method": "", "audit": {}} | read_object(options["spec"])
    given = {"model": options["model"], "dataset": options["data"]}
    given |= {name: options[name] for name in ("method", "seed", "promote")}
    policy = options["policy"]
    if policy is not None:
        asked = read_gate_file(Path(policy)).policy() if is_file(policy) else policy
        spec["audit"] = {**spec["audit"], "policy": asked}
    return spec | {name: value for name, value in given.items() if value is not None}


def estimated(told: HardeningEstimate) -> list[str]:
    """Return an estimate as lines."""
    seconds = "unknown until the model is checked" if told.seconds is None else duration(told.seconds)
    audits = "unknown" if told.audit_seconds is None else duration(told.audit_seconds)
    memory = "unknown" if told.memory_bytes is None else size(told.memory_bytes)
    return [
        f"examples  {told.examples:,} trained on, {told.validation_examples:,} judged on",
        f"passes    {told.forward_passes:,} forward, {told.backward_passes:,} forward and backward, at most",
        f"training  {seconds}",
        f"audits    {audits}, both versions",
        f"memory    {memory}",
        *([] if told.refused is None else [escaped_line(f"refused   now: {told.refused}")]),
    ]


def print_hardening(made: HardeningRead) -> None:
    """Print state, curves, differences and verdict of a hardening."""
    echo_line(f"{made.id}: {_where(made)}{f'; it made {made.hardened}' if made.hardened else ''}")
    if made.error is not None:
        echo_line(escaped_line(f"  {_waits(made)}{made.error.title}: {made.error.detail}"))
    for note in made.notes:
        echo_line(escaped_line(f"  {note}"))
    for point in made.curves:
        attacked = "" if point.attacked_accuracy is None else f"  attacked {point.attacked_accuracy:.3f}"
        kept = "  kept" if point.epoch == made.kept_epoch else ""
        told = f"loss {point.train_loss:.4f}  accuracy {point.accuracy:.3f}{attacked}  ECE {point.ece:.3f}"
        echo_line(f"  epoch {point.epoch:>3}  {told}{kept}")
    if made.result is None:
        if made.state in (RunState.FAILED, RunState.CANCELLED):
            echo_line(f"The hardening {made.state}: the versions were not compared, and nothing was promoted.")
        return
    for one in made.result.shown:
        before, after, change = (format_value(each) for each in (one.before, one.after, one.change))
        better = "" if one.better is None else f" ({one.better} is better)"
        ends = format_interval(one.change)
        echo_line(
            escaped_line(f"  {one.metric}{better}: {before} -> {after}, a difference of {change} {ends}".rstrip())
        )
    echo_line(escaped_line(made.result.summary))


def _waits(made: HardeningRead) -> str:
    """Return what its error is told after: one that has not ended is put off, and goes on by itself."""
    return "" if made.state in TERMINAL else "it waits: "


def _where(made: HardeningRead) -> str:
    """Return what a hardening does, or how it ended."""
    if made.state == RunState.RUNNING:
        return made.stage
    if made.state in (RunState.FAILED, RunState.CANCELLED):
        return f"{made.state} while {made.stage}"
    return f"{made.state} for {made.stage}" if made.state == RunState.QUEUED else str(made.state.value)


def _progress() -> Callable[[HardeningRead], None]:
    told: list[str] = []

    def show(made: HardeningRead) -> None:
        at = made.progress
        epoch = "" if at is None or made.stage != "training" else f", epoch {at.epoch} of {at.epochs}"
        line = f"{_where(made)}{epoch if made.state == RunState.RUNNING else ''}"
        if made.error is not None and made.state not in TERMINAL:
            line += escaped_line(f"; {_waits(made)}{made.error.detail}")
        if told[-1:] != [line]:
            told.append(line)
            say(line)

    return show
