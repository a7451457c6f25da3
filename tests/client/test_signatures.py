"""What the clients offer is what a reader and an editor see, the same in both, and what the service takes."""

import importlib.util
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from app.main import create_app
from seatrial.client import AsyncClient, Client
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.perturb import PerturbRequest
from seatrial.store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    "models": "/v1/models",
    "datasets": "/v1/datasets",
    "audits": "/v1/audits",
    "policies": "/v1/policies",
    "baselines": "/v1/baselines",
    "plans": "/v1/plans",
    "hardenings": "/v1/hardenings",
    "search": "/v1/search",
}


def methods(client: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(client, inspect.isfunction) if name[0] != "_"}


def defaults(method: Any) -> dict[str, Any]:
    parameters = inspect.signature(method).parameters.values()
    return {one.name: one.default for one in parameters if one.name != "self" and one.kind is not one.VAR_KEYWORD}


def fields(contract: type[BaseModel]) -> dict[str, Any]:
    found = {name: field.default for name, field in contract.model_fields.items()}
    return {name: inspect.Parameter.empty if it is PydanticUndefined else it for name, it in found.items()}


def plainly(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_both_clients_offer_the_same_and_say_the_same_of_it() -> None:
    waiting, awaited = methods(Client), methods(AsyncClient)
    assert set(waiting) == set(awaited)
    assert len(waiting) > 25
    for name, method in waiting.items():
        signature = str(inspect.signature(awaited[name])).replace("AsyncIterator", "Iterator")
        assert str(inspect.signature(method)) == signature
        assert method.__doc__
        assert method.__doc__ == awaited[name].__doc__
    assert defaults(Client) == defaults(AsyncClient)


def test_what_must_be_awaited_says_so_and_the_other_client_never_does() -> None:
    listing = {*LISTS, "judgements", "events", "tombstones", "projects", "activity"}
    for name, method in methods(AsyncClient).items():
        assert inspect.iscoroutinefunction(method) == (name not in listing), name
    assert not any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in vars(Client).values())


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sync_client_script", ROOT / "scripts" / "sync_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_files_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/sync_client.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), f"run scripts/sync_client.py: {done.stdout}{done.stderr}"


def test_a_stale_file_is_told_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generator, folder = script(), tmp_path / "seatrial" / "client"
    source, target = folder / "async_session.py", folder / "sync_session.py"
    folder.mkdir(parents=True)
    for path in (source, target):
        shutil.copy(ROOT / path.relative_to(tmp_path), path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(generator, "FOLDER", folder)
    assert generator.main(["--check"]) == 0
    source.write_text(source.read_text() + "\n\nasync def more() -> None:\n    await anyio.sleep(1)\n")
    assert generator.main(["--check"]) == 1
    assert capsys.readouterr().out == "sync_session.py: is stale"
    assert generator.main([]) == 0
    assert target.read_text().endswith("\n\ndef more() -> None:\n    time.sleep(1)\n")
    assert generator.main(["--check"]) == 0


@pytest.mark.parametrize("name", ["submit", "estimate"])
def test_an_audit_takes_the_fields_of_the_wire_with_their_defaults(name: str) -> None:
    taken = defaults(getattr(Client, name))
    taken.pop("idempotency_key", None)
    assert taken == fields(AuditCreate)


def test_noise_takes_the_fields_of_the_wire_with_their_defaults() -> None:
    taken = {name: plainly(value) for name, value in defaults(Client.perturb).items()}
    assert taken == fields(PerturbRequest)


def test_lists_take_the_filters_of_the_service(tmp_path: Path) -> None:
    paths = create_app(Settings(home=tmp_path)).openapi()["paths"]
    for name, path in LISTS.items():
        asked = {one["name"] for one in paths[path]["get"]["parameters"] if one["in"] == "query"}
        assert set(defaults(getattr(Client, name))) == asked - {"cursor"}
