"""MLflow: an audit's numbers and report on a run, and its verdict on a version in the model registry.

Example::

    from seatrial.client import Client
    from app.integrations.mlflow import log_audit, tag_by_verdict

    with Client("https://seatrial.example.org", key) as client, mlflow.start_run():
        audit = log_audit(client, "aud_...")
        if audit.judgement is not None:
            tag_by_verdict("digits", "3", audit.judgement)

or ``python -m app.integrations.mlflow AUDIT --run-id RUN --model digits --version 3``. It takes ``mlflow-skinny``,
which is imported when it is used and not before.
"""

import hashlib
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import click

from app.cli.exits import BadRequestError, CouldNotRunError, ending_as_documented
from app.cli.remote import with_client
from seatrial.client import Client, ReportFormat
from seatrial.contracts.audits import AuditRead, CheckRead
from seatrial.contracts.estimates import split_name
from seatrial.contracts.policies import Judgement
from seatrial.reporting.outcomes import policy_name

FOLDER = "seatrial"
"""Where a run's artifacts lie, and what its parameters about the whole audit begin with."""
FILES: dict[str, ReportFormat] = {"report.html": "html", "report.json": "json", "junit.xml": "junit"}
LONGEST_KEY = 250
"""Characters MLflow takes (``MAX_ENTITY_KEY_LENGTH``)."""

_ENDS = ("low", "high")
# MLflow takes letters, digits and _-./ everywhere. A dot stands between qualifiers, so in values only that of a number.
_SAFE = re.compile(r"[A-Za-z0-9_-]+|-?\d+\.\d+(e-\d+)?", re.ASCII)


class Run(Protocol):
    """An ``mlflow.entities.Run``, or an active one."""

    info: Any


def log_audit(client: Client, audit_id: str, run: str | Run | None = None) -> AuditRead:
    """Log an audit to a run: the same again leaves what is there, another is refused before anything of it is written.

    Waits until the audit has ended, and has been judged where it was submitted with a policy. Metrics are those of
    :func:`metrics_of`, parameters those of :func:`params_of`; the HTML and JSON reports and JUnit XML are artifacts
    under ``seatrial/``, and the tags ``seatrial.*`` say the verdict. What a failed audit has, is logged.

    Args:
        client: Of the service that has the audit.
        audit_id: Which audit.
        run: A run or its id; None for the active one.

    Returns:
        The audit.

    Raises:
        ValueError: No run is given and none is active.
        ModuleNotFoundError: MLflow is not installed.
        ClientError: The service refused or could not be reached.
        mlflow.MlflowException: MLflow refused, or the run holds another audit.
    """
    mlflow = _mlflow()
    run_id = _run_id(mlflow, run)
    audit = _ended(client, audit_id)
    tracking, entities = mlflow.MlflowClient(), mlflow.entities
    params = params_of(audit)
    # Parameters cannot be changed, so the audit's id, which goes first, keeps everything else of another one away.
    tracking.log_batch(run_id, params=[entities.Param(name, value) for name, value in params.items()])
    at_ms = int(audit.finished_at.timestamp() * 1000) if audit.finished_at is not None else 0
    metrics = [entities.Metric(name, value, at_ms, 0) for name, value in metrics_of(audit).items()]
    tags = tags_of(audit.judgement) if audit.judgement is not None else {}
    tracking.log_batch(run_id, metrics=metrics, tags=[entities.RunTag(name, value) for name, value in tags.items()])
    with TemporaryDirectory(prefix="seatrial-") as folder:
        for file, format in FILES.items():
            # Without a verdict there is no JUnit.
            if format != "junit" or audit.judgement is not None:
                Path(folder, file).write_bytes(client.report(audit.id, format))
        tracking.log_artifacts(run_id, folder, artifact_path=FOLDER)
    return audit


def tag_by_verdict(model_name: str, version: str | int, judgement: Judgement) -> None:
    """Say a verdict on a version in the model registry: tags ``seatrial.verdict``, ``.policy`` and ``.audit``.

    A later verdict takes the place of an earlier one. Deployments should ask for ``passed`` rather than against
    ``failed``: a model nobody knows about is ``inconclusive`` or ``errored``.

    Args:
        model_name: Name of the registered model.
        version: Its version.
        judgement: What a policy makes of an audit of it.

    Raises:
        ModuleNotFoundError: MLflow is not installed.
        mlflow.MlflowException: There is no such version.
    """
    registry = _mlflow().MlflowClient()
    for name, value in tags_of(judgement).items():
        registry.set_model_version_tag(model_name, str(version), name, value)


def metrics_of(audit: AuditRead) -> dict[str, float]:
    """Return the numbers of an audit by names MLflow takes, the ends of their intervals beside them.

    ``span.s_ece[arm=over]`` is ``span/s_ece.arm-over``, ``….low`` and ``….high``. No two
    numbers have one name, and a number has the same name in every audit; a number that is undefined has none.
    """
    metrics: dict[str, float] = {}
    for family, check in _named(audit):
        for name, estimate in check.result.estimates.items() if check.result is not None else ():
            key = metric_key(f"{family}.{name}")
            ends = dict(zip(_ENDS, (estimate.low, estimate.high), strict=True))
            values = {key: estimate.value} | {f"{key}.{end}": value for end, value in ends.items()}
            metrics |= {name: value for name, value in values.items() if value is not None}
    return metrics


def params_of(audit: AuditRead) -> dict[str, str]:
    """Return what an audit was asked, by names MLflow takes; the audit's own id goes first."""
    told = {
        "audit": audit.id,
        "model": audit.model,
        "dataset": audit.dataset,
        "seed": audit.seed,
        "samples": audit.samples,
        "spec_digest": audit.spec_digest,
    }
    params = {f"{FOLDER}/{name}": _plain(value) for name, value in told.items()}
    for family, check in _named(audit):
        asked = {name: value for name, value in check.params.items() if name != "kind" and value is not None}
        params |= {f"{family}/{name}": _plain(value) for name, value in asked.items()}
    return params


def tags_of(judgement: Judgement) -> dict[str, str]:
    """Return a verdict as tags."""
    tags = {
        "verdict": judgement.verdict,
        "headline": judgement.headline,
        "policy": policy_name(judgement),
        "audit": judgement.audit,
    }
    return {f"seatrial.{name}": value for name, value in tags.items() if value is not None}


def metric_key(name: str) -> str:
    """Return the name MLflow has for a metric: one to one, and with room for ``.high``.

    A qualifier that MLflow would not take, or a name too long, ends in the beginning of its SHA-256.

    >>> metric_key("certificates.cce[radius=0.25]")
    'certificates/cce.radius-0.25'
    >>> metric_key("attacks.accuracy[recipe=textfooler (variant: a, b)]")
    'attacks/accuracy.recipe-textfooler_variant_a_b-80c5cb92'
    """
    family = name.partition(".")[0]
    base, qualifiers = split_name(name)
    # The file store keeps a metric as a file: a second slash would make a folder where `mus` itself is to lie.
    key = f"{family}/{base}" + "".join(f".{key}-{value}" for key, value in qualifiers.items())
    longest = LONGEST_KEY - len(".high")
    if all(_SAFE.fullmatch(value) for value in qualifiers.values()) and len(key) <= longest:
        return key
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    told = re.sub(r"[^A-Za-z0-9_.-]+", "_", key.partition("/")[2])
    return f"{f'{family}/{told}'[: longest - 9].strip('_')}-{digest}"


def _named(audit: AuditRead) -> Iterator[tuple[str, CheckRead]]:
    """Yield checks with a name each: the second of a family is ``family-2``."""
    seen: Counter[str] = Counter()
    for check in audit.checks:
        seen[check.kind] += 1
        yield check.kind if seen[check.kind] == 1 else f"{check.kind}-{seen[check.kind]}", check


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _ended(client: Client, audit_id: str) -> AuditRead:
    is_gated = client.audit(audit_id).spec.get("policy") is not None
    return client.wait(audit_id, until_judged=is_gated)


def _run_id(mlflow: Any, run: str | Run | None) -> str:
    run = run if run is not None else mlflow.active_run()
    if run is None:
        raise ValueError("there is no active run: give run=, or call mlflow.start_run() before")
    return run if isinstance(run, str) else str(run.info.run_id)


def _mlflow() -> Any:
    try:
        return importlib.import_module("mlflow")
    except ModuleNotFoundError as error:
        if error.name != "mlflow":
            raise
        message = "MLflow is not installed: `pip install mlflow-skinny`"
        raise ModuleNotFoundError(message, name="mlflow") from error


@click.command()
@click.argument("audit")
@click.option("--run-id", envvar="MLFLOW_RUN_ID", help="Run to log to.  [env: MLFLOW_RUN_ID]")
@click.option("--model", help="Registered model to tag with the verdict.")
@click.option("--version", help="Its version.")
@with_client
def main(client: Client, /, audit: str, run_id: str | None, model: str | None, version: str | None) -> None:
    """Log AUDIT, its id or its JSON report, to a run, and tag a version of a registered model with its verdict.

    MLFLOW_TRACKING_URI and MLFLOW_REGISTRY_URI say where these are. It ends with 0 whatever the verdict: the gate is
    what fails.
    """
    with ending_as_documented():
        if run_id is None and model is None:
            raise BadRequestError("nothing to do: give --run-id, or --model and --version, or all three")
        if (model is None) != (version is None):
            raise BadRequestError("--model and --version go together")
        with _telling_refusals():
            audit_id = _audit_id(audit)
            ended = _ended(client, audit_id) if run_id is None else log_audit(client, audit_id, run_id)
            if run_id is not None:
                click.echo(f"{audit_id} is logged to run {run_id}.")
            if model is not None and version is not None:
                if ended.judgement is None:
                    raise BadRequestError(f"{audit_id} has no verdict: it was submitted without a policy")
                tag_by_verdict(model, version, ended.judgement)
                click.echo(f"{model} {version} is tagged: seatrial.verdict = {ended.judgement.verdict}")


@contextmanager
def _telling_refusals() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise CouldNotRunError(str(error)) from error
    except Exception as error:
        # By name: where it is not installed there is no such class.
        if any(kind.__name__ == "MlflowException" for kind in type(error).__mro__):
            raise CouldNotRunError(f"MLflow: {error}") from error
        raise


def _audit_id(given: str) -> str:
    path = Path(given)
    if not path.is_file():
        return given
    try:
        return str(json.loads(path.read_bytes())["audit"])
    except (ValueError, TypeError, LookupError) as error:
        raise BadRequestError(f"{given} is not the JSON report of an audit") from error


if __name__ == "__main__":
    main()
