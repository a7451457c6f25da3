"""``seatrial plan``: jobs that follow each other, as one."""

import sys
import time
from pathlib import Path

import click

from app.cli.exits import OF_VERDICT, Exit, ending_as_documented, exit_table
from app.cli.hardenings import estimated
from app.cli.remote import with_client
from app.cli.showing import echo_line
from app.cli.uploads import read_object
from seatrial.client import Client
from seatrial.contracts.audits import AuditEstimate
from seatrial.contracts.plans import PlanEstimate, PlanRead
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.reporting.durations import duration
from seatrial.terminals import escaped_line

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LOOK_S = 1.0


@click.group()
def plan() -> None:
    """Submit and follow chains of jobs: a hardening, an audit, a verdict on it, its attestation, a message."""


@plan.command(epilog=exit_table())
@click.argument("file", type=_FILE)
@click.option("--wait", is_flag=True, help="Wait for its end; the verdict decides the exit status.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait.  [default: until it ends]")
@with_client
def submit(client: Client, /, file: Path, wait: bool, timeout: float | None) -> None:
    """Submit the plan in FILE, JSON as POST /v1/plans takes it, and print its id."""
    with ending_as_documented():
        described = read_object(file)
        made = client.submit_plan(described.get("steps", []), name=str(described.get("name", "")))
        echo_line(made.id)
        if wait:
            sys.exit(_waited(client, made.id, timeout))


@plan.command()
@click.argument("file", type=_FILE)
@with_client
def estimate(client: Client, /, file: Path) -> None:
    """Tell what the plan in FILE would cost, and whether it would be refused; nothing is queued."""
    for line in estimated_plan(client.estimate_plan(read_object(file).get("steps", []))):
        echo_line(line)


def estimated_plan(told: PlanEstimate) -> list[str]:
    """Return what a plan would cost, line by line, safe for a terminal."""
    found = []
    for step in told.steps:
        lines = [] if step.hardening is None else estimated(step.hardening)
        if step.audit is not None:
            passes = f"{step.audit.forward_passes:,} forward, {step.audit.backward_passes:,} forward and backward"
            lines = [
                f"examples  {step.audit.examples:,}",
                f"passes    {passes}, at most",
                f"time      {_time(step.audit)}",
                *([] if step.audit.refused is None else [escaped_line(f"refused   now: {step.audit.refused}")]),
            ]
        found += [step.kind, *(f"  {line}" for line in lines)]
    return [*found, f"in all, on one worker: {_time(told)}"]


@plan.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number to list.")
@with_client
def list_plans(client: Client, /, limit: int) -> None:
    """List the project's plans, newest first."""
    for _, one in zip(range(limit), client.plans(), strict=False):
        told = f"{one.id}  {one.created_at:%Y-%m-%d %H:%M}  {one.state:<9}  {one.verdict or '-':<12}  {one.name}"
        echo_line(escaped_line(told).rstrip())


@plan.command()
@click.argument("plan_id")
@with_client
def status(client: Client, plan_id: str) -> None:
    """Print a plan's state, and that of each step."""
    _print(client.plan(plan_id))


@plan.command()
@click.argument("plan_id")
@with_client
def cancel(client: Client, plan_id: str) -> None:
    """End a plan, and the hardening or the audit it waits for."""
    echo_line(client.cancel_plan(plan_id).state)


@plan.command()
@click.argument("plan_id")
@with_client
def retry(client: Client, plan_id: str) -> None:
    """Continue from the step that failed; what succeeded is not done again."""
    echo_line(client.retry_plan(plan_id).state)


def _time(told: AuditEstimate | PlanEstimate) -> str:
    return "unknown until the model is checked" if told.seconds is None else duration(told.seconds)


def _waited(client: Client, plan_id: str, timeout_s: float | None) -> Exit:
    """Return how a plan ended: only one that succeeded is passed, whatever its verdict says."""
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while (made := client.plan(plan_id)).state not in TERMINAL:
        if end is not None and time.monotonic() > end:
            echo_line(f"it keeps running: seatrial plan status {plan_id}", err=True)
            return Exit.TIMED_OUT
        time.sleep(_LOOK_S)
    _print(made)
    if made.state == RunState.SUCCEEDED:
        return Exit.PASSED
    is_whole = all(step.state == RunState.SUCCEEDED for step in made.steps)
    return OF_VERDICT[made.verdict] if is_whole and made.verdict is not None else Exit.COULD_NOT_RUN


def _print(made: PlanRead) -> None:
    verdict = f", verdict {made.verdict}" if made.verdict else ""
    echo_line(f"{made.id}: {made.state}{verdict}")
    for step in made.steps:
        told = " ".join(f"{name}={value}" for name, value in (step.result or {}).items() if value is not None)
        waits = "" if step.state in TERMINAL else "it waits: "
        why = f"{waits}{step.error.title}: {step.error.detail}" if step.error else ""
        echo_line(escaped_line(f"  {step.kind:<7} {step.state:<9} {told or why or step.job or ''}").rstrip())
