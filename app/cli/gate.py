"""``seatrial gate``: one question, may this model ship, and one answer a pipeline can trust."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from app.cli.audits import REUSE
from app.cli.embedded import embedded
from app.cli.exits import BadRequestError, Exit, ending_as_documented, exit_table
from app.cli.gate_files import is_file, read_checks, read_gate_file, unknown_policy
from app.cli.gate_judging import Ask, judged
from app.cli.outputs import Outputs, output_options
from app.cli.predictions import prepared_predictions
from app.cli.progress import say
from app.cli.remote import KEY, connected
from app.cli.serve import require_worker_extra
from app.cli.uploads import Prepared, data_task, prepare_data, prepare_model
from app.cli.verdicts import PROMOTE
from app.policies import presets
from seatrial.client import Client
from seatrial.contracts.audits import MOST_SAMPLES
from seatrial.contracts.policies import GateFile

OWN_OUTAGE_S = 5.0
"""A service of its own does not come back."""

_NOTHING_KEPT = "a gate that leaves nothing behind has none: give --home DIR, kept from run to run, or --server URL"
_PROMOTE_HOME = "while seatrial serve --home DIR runs, seatrial baselines promote AUDIT makes one"

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=exit_table())
@click.option("--model", help="Folder or file of the model, or with a service mdl_...")
@click.option("--data", help="File or folder of examples, or with a service dat_...")
@click.option(
    "--predictions",
    type=_FILE,
    help="In place of both: a table (CSV, JSON Lines, Parquet) of example_id, label and what a model answered.",
)
@click.option("--predictions-of", help="Whose answers to read, where PREDICTIONS has a column model.")
@click.option("--policy", required=True, help="Policy file (YAML, JSON), or the name of one: standard, release@3.")
@click.option(
    "--data-manifest",
    type=_FILE,
    help="JSON file that describes DATA.  [default: DATA.manifest.json, or inferred from DATA]",
)
@click.option("--model-version", help="Version of the model.  [default: its manifest's, or a digest of its content]")
@click.option("--checks", type=_FILE, help="What to run, YAML or JSON.  [default: the policy file's]")
@click.option(
    "--samples", type=click.IntRange(min=2), help="Examples drawn.  [default: the policy file's, or at most 500]"
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed.  [default: the policy file's, or 0]")
@click.option(
    "--no-stop",
    is_flag=True,
    help="Measure all SAMPLES, also by a shipped policy or where the file says stop.",
)
@REUSE
@click.option(
    "--baseline",
    help="Audit, or name of a baseline of the model, to compare with; an unknown name is refused.",
)
@click.option(
    "--promote-if-passed",
    is_flag=True,
    help="Make the audit the baseline if it passes and the model has none yet. For the main branch, not for proposals.",
)
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds in total.  [default: no limit]")
@click.option("--no-cancel", is_flag=True, help="Leave the audit running when it is no longer waited for.")
@click.option("--estimate-only", is_flag=True, help="Print what it would cost, and run nothing.")
@click.option(
    "--server", "--url", "server", envvar="SEATRIAL_URL", help="Service to use.  [env: SEATRIAL_URL; default: its own]"
)
@KEY
@click.option(
    "--home", type=click.Path(path_type=Path, file_okay=False), help="Keep what its own service writes in this folder."
)
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Worker processes of its own service."
)
@output_options
def gate(**options: Any) -> None:
    """Audit a model, judge it by a policy, print the verdict and exit with its status.

    Without --server it starts a service of its own and leaves nothing behind. MODEL is a folder with manifest.json
    beside one .safetensors or .pt2 (torch.export.save), or a Hugging Face folder with safetensors. DATA are an .npz
    of images, or a CSV or JSON Lines file with the columns text and label; a manifest says more. The policy file may
    hold what to run: checks, samples, seed. A table of predictions of any model is judged by --predictions FILE alone,
    all of it unless --samples says otherwise. Files are written for a failed verdict as well.
    """
    with ending_as_documented():
        status = _run(options)
    sys.exit(status)


def _run(options: dict[str, Any]) -> Exit:
    outputs = Outputs.from_options(options)
    ask = _asked(options)
    server: str | None = options["server"]
    if server is not None:
        if options["home"] is not None:
            raise BadRequestError("--home is for the embedded service: leave it out, or --server (SEATRIAL_URL)")
        with connected(server, options["key"]) as client, _prepared(ask, client) as prepared:
            return judged(ask, client, prepared, outputs, {})
    if options["home"] is None and (_is_stored(ask.model) or _is_stored(ask.data)):
        raise BadRequestError(f"{ask.model} and {ask.data} are ids on a service: give --server, or --home")
    # What is known to be wrong is refused before anything is started.
    if options["home"] is None and "baseline" in ask.options:
        raise BadRequestError(f"--baseline {ask.options['baseline']}: {_NOTHING_KEPT}")
    if options["home"] is None and ask.bootstraps:
        raise BadRequestError(f"--promote-if-passed: {_NOTHING_KEPT}")
    if options["home"] is None and isinstance(ask.policy, str) and ask.policy not in presets.POLICIES:
        raise unknown_policy(ask.policy)
    require_worker_extra()
    with (
        _prepared(ask, None) as prepared,
        embedded(options["home"], workers=options["workers"], say=say) as url,
        Client(url) as client,
    ):
        return judged(ask, client, prepared, outputs, {"outage_s": OWN_OUTAGE_S}, is_local=True)


def _asked(options: dict[str, Any]) -> Ask:
    if options["predictions"] is None and not (options["model"] and options["data"]):
        raise BadRequestError("give --model and --data, or --predictions")
    if options["predictions"] is not None and (options["model"] or options["data_manifest"]):
        raise BadRequestError("--predictions stands in place of --model; what its columns are says FILE.manifest.json")
    file = read_gate_file(Path(options["policy"])) if is_file(options["policy"]) else None
    timeout_s: float | None = options["timeout"]
    whole_table = None if options["predictions"] is None else MOST_SAMPLES  # It costs nothing.
    chosen = {
        "samples": options["samples"] or (file.samples if file else None) or whole_table,
        "seed": options["seed"] if options["seed"] is not None else file.seed if file else None,
        "baseline": options["baseline"],
        "stop": _stop(options, file),
        "reuse": options["reuse"] or None,
    }
    return Ask(
        model=options["model"] or "",
        data=options["data"] or "",
        predictions=options["predictions"],
        predictions_of=options["predictions_of"],
        policy=file.policy() if file else options["policy"],
        checks=_checks(options["checks"], file),
        options={name: value for name, value in chosen.items() if value is not None},
        data_manifest=options["data_manifest"],
        model_version=options["model_version"],
        timeout_s=timeout_s,
        deadline=None if timeout_s is None else time.monotonic() + timeout_s,
        cancels=not options["no_cancel"],
        estimates_only=options["estimate_only"],
        promote=_promote(options),
        bootstraps=options["promote_if_passed"],
    )


def _stop(options: dict[str, Any], file: GateFile | None) -> str | None:
    """Return when the audit may stop: by shipped policies once it is decided, by others where their file says so."""
    if options["no_stop"] or options["predictions"] is not None:
        # Of a table nothing is saved.
        return None
    return "decided" if options["policy"] in presets.POLICIES and file is None else file.stop if file else None


def _promote(options: dict[str, Any]) -> str:
    if options["server"] is not None:
        return PROMOTE
    return _NOTHING_KEPT if options["home"] is None else _PROMOTE_HOME


def _checks(path: Path | None, file: GateFile | None) -> list[BaseModel] | None:
    if path is not None:
        return read_checks(path)
    return list(file.checks) if file is not None and file.checks else None


def _is_stored(name: str) -> bool:
    return name.startswith(("mdl_", "dat_")) and not Path(name).exists()


@contextmanager
def _prepared(ask: Ask, client: Client | None) -> Iterator[tuple[Prepared | None, Prepared | None]]:
    """Give model and data as they are to be uploaded; None for what the service has."""
    if ask.predictions is None:
        yield _prepared_files(ask, client)
        return
    with prepared_predictions(ask.predictions, model=ask.predictions_of, version=ask.model_version) as (model, data):
        yield model, None if ask.data else data


def _prepared_files(ask: Ask, client: Client | None) -> tuple[Prepared | None, Prepared | None]:
    for name in (ask.model, ask.data):
        if not _is_stored(name) and not Path(name).exists():
            raise BadRequestError(f"{name}: there is no such file or folder")
    if not _is_stored(ask.data):
        task = data_task(Path(ask.data), ask.data_manifest)
    else:
        task = client.dataset(ask.data).task if client is not None else None
    if _is_stored(ask.model):
        model = None
    else:
        model = prepare_model(Path(ask.model), version=ask.model_version, for_task=task, say=say)
    if _is_stored(ask.data):
        return model, None
    return model, prepare_data(Path(ask.data), ask.data_manifest, model=model)
