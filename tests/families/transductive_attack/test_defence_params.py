"""What may be asked of a defence: the contract's hyper-parameters against those of the defences themselves."""

import types
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any, Literal, get_args, get_origin, get_type_hints

import httpx
import numpy as np
import pytest
from pydantic import ValidationError

from app.audits import compatibility
from seatrial.families.shared.defence_params import SHIPPED, Preset
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from tests.uploads import dataset_manifest, npz, submission, upload, upload_both
from tests.web.test_problems import assert_problem
from workers.defences.registry import SCALARS, find_plugin, make_defence
from workers.defences.registry import SHIPPED as PLUGINS


def changes_of(name: str) -> Any:
    return SHIPPED[name].model_fields["changes"].annotation


def without_none(hint: Any) -> Any:
    (kept,) = [one for one in get_args(hint) if one is not types.NoneType] if type(None) in get_args(hint) else [hint]
    return kept


def is_scalar(hint: Any) -> bool:
    return hint in SCALARS or get_origin(hint) is Literal


CANDIDATES = [False, True, -1, 0, 1, 2, 3, 10, 1000, 10_000, 10**5, 10**6, 1e-9, 0.3, 0.999999, 1.0, 1000.0, 1e9]
NAMES = ["official", "paper", "adam", "sgd", "small", "lenet", "resnet18", "resnet20", "convolutional", "x", ""]


def accepted(name: str, changes: dict[str, Any]) -> Any:
    try:
        return SHIPPED[name].model_validate({"name": name, "changes": changes})
    except ValidationError:
        return None


def test_the_shipped_defences_are_those_of_the_workers() -> None:
    assert list(SHIPPED) == list(PLUGINS)
    for name in SHIPPED:
        assert set(find_plugin(name).presets) == set(get_args(Preset))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_scalar_hyper_parameter_may_be_changed_and_has_the_same_type(name: str) -> None:
    theirs = get_type_hints(type(find_plugin(name).presets["small"]))
    ours = {field: without_none(hint) for field, hint in get_type_hints(changes_of(name)).items() if field in theirs}
    assert ours == {field: hint for field, hint in theirs.items() if is_scalar(hint)}
    assert set(changes_of(name).model_fields) == set(ours)


@pytest.mark.parametrize("preset", get_args(Preset))
@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_preset_has_may_be_asked_for(name: str, preset: str) -> None:
    known = vars(find_plugin(name).presets[preset])
    same = {field: known[field] for field in changes_of(name).model_fields}
    asked = SHIPPED[name].model_validate({"name": name, "preset": preset, "changes": same})
    assert asked.settings == same


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_contract_allows_no_defence_refuses(name: str) -> None:
    for field in changes_of(name).model_fields:
        asked = [accepted(name, {field: value}) for value in [*CANDIDATES, *NAMES]]
        allowed = [one for one in asked if one is not None]
        assert 2 <= len(allowed) < len(asked)
        for one in allowed:
            assert make_defence(name, "small", one.settings).batch_size >= 1


@pytest.mark.parametrize("preset", get_args(Preset))
@pytest.mark.parametrize(
    "changes",
    [{"neighbours": 9}, {"neighbours": 10}, {"nearest_share": 0.0019}, {"nearest_share": 0.011}],
    ids=["9", "10", "0.0019", "0.011"],
)
def test_the_nearest_of_rmc_are_counted_as_it_counts_them(preset: str, changes: dict[str, Any]) -> None:
    def is_refused(make: Callable[[], Any]) -> bool:
        try:
            make()
        except ValueError:
            return True
        return False

    params, asked = find_plugin("rmc").presets[preset], {"name": "rmc", "preset": preset, "changes": changes}
    theirs = is_refused(lambda: replace(params, **changes))
    assert is_refused(lambda: SHIPPED["rmc"].model_validate(asked)) == theirs == (min(changes.values()) in (9, 0.0019))


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("changes/steps", {"name": "dent", "changes": {"steps": "many"}}),
    ("changes/steps", {"name": "dent", "changes": {"steps": -1}}),
    ("changes/steps", {"name": "dent", "changes": {"steps": 1e30}}),
    ("changes/steps", {"name": "dent", "changes": {"steps": 1.5}}),
    ("changes/stepps", {"name": "dent", "changes": {"stepps": 3}}),
    ("changes/learning_rate", {"name": "dent", "changes": {"learning_rate": "nan"}}),
    ("changes/variant", {"name": "dent", "changes": {"variant": "x"}}),
    ("changes/is_episodic", {"name": "tent", "changes": {"is_episodic": "no"}}),
    ("changes/mean", {"name": "dann", "changes": {"mean": "0"}}),
    ("changes/neighbours", {"name": "rmc", "changes": {"neighbours": 5}}),
    ("preset", {"name": "dent", "preset": "imagenet"}),
    ("changes/layers", {"name": "mine", "changes": {"layers": [1]}}),
]


@pytest.mark.parametrize("path", ["/v1/audits", "/v1/audits/estimate"])
def test_a_refusal_points_at_the_hyper_parameter(client: httpx.Client, path: str) -> None:
    for pointer, defence in REFUSED:
        check = {"kind": "transductive_attack", "defences": [defence], "training_dataset": "dat_1"}
        answer = client.post(path, json=submission("mdl_1", "dat_2", checks=[check]))
        found = {error.pointer for error in assert_problem(answer, 422).errors}
        assert found == {f"/checks/0/defences/0/{pointer}"}


def test_an_operators_defence_is_asked_for_freely(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint("mine", "package:PLUGIN", "seatrial.defences")
    monkeypatch.setattr(compatibility, "entry_points", lambda group: [theirs] if group == theirs.group else [])
    changes = {"depth": 3, "rate": 0.5, "is_deep": True, "how": "so"}
    asked = {"name": "mine", "preset": "theirs", "changes": changes}
    check = {"kind": "transductive_attack", "defences": [asked]}
    answer = client.post("/v1/audits", json=submission(*upload_both(client), checks=[check]))
    assert answer.status_code == 202
    assert client.get(f"/v1/audits/{answer.json()['id']}").json()["checks"][0]["params"]["defences"] == [asked]


@pytest.mark.parametrize(
    ("defence", "least"),
    [
        ({"name": "rmc"}, 100),
        ({"name": "rmc", "preset": "cifar10"}, 205),
        ({"name": "rmc", "changes": {"adversarial_passes": 0}}, 200),
        ({"name": "rmc", "changes": {"neighbours": 30, "adversarial_passes": 2}}, 10),
        ({"name": "tadv"}, 2),
    ],
    ids=["rmc", "cifar10", "no copies", "thirty", "tadv"],
)
def test_a_defence_is_refused_where_there_is_too_little_to_learn_from(
    client: httpx.Client, defence: dict[str, Any], least: int
) -> None:
    model, dataset = upload_both(client)

    def submit(examples: int) -> httpx.Response:
        manifest = dataset_manifest(name=f"training-{examples}")
        training = upload(client, "datasets", manifest, npz(examples)).json()["id"]
        check = {"kind": "transductive_attack", "defences": [{"name": "identity"}, defence]}
        asked = submission(model, dataset, checks=[check | {"training_dataset": training}])
        return client.post("/v1/audits", json=asked)

    problem = assert_problem(submit(least - 1), 422)
    assert problem.errors[0].pointer == "/checks/0/defences/1"
    assert f"needs {least} training examples" in problem.detail
    assert submit(least).status_code == 202


def test_what_defences_learn_from_has_the_shape_of_the_models_images(client: httpx.Client) -> None:
    model, dataset = upload_both(client)
    for shape in [(1, 5, 5), (3, 4, 4)]:
        images = np.random.default_rng(0).integers(0, 256, (200, *shape), dtype=np.uint8)
        manifest = dataset_manifest(name=f"training-{shape[0]}")
        training = upload(client, "datasets", manifest, npz(200, images=images)).json()["id"]
        check = {"kind": "transductive_attack", "defences": [{"name": "tadv"}], "training_dataset": training}
        problem = assert_problem(client.post("/v1/audits", json=submission(model, dataset, checks=[check])), 422)
        assert (problem.code, problem.errors[0].pointer) == ("task-mismatch", "/checks/0/training_dataset")
        assert str(list(shape)) in problem.detail


def test_what_is_stored_is_what_was_asked() -> None:
    asked = {"name": "dent", "preset": "small", "changes": {"steps": 3, "learning_rate": 1}}
    left_out = {"name": "dent", "changes": {"steps": 3, "learning_rate": 1.0, "beta1": None}}
    for one in (asked, left_out):
        params = TransductiveAttackParams.model_validate({"kind": "transductive_attack", "defences": [one]})
        assert params.model_dump(mode="json")["defences"] == [asked]


def test_a_defence_is_an_object() -> None:
    with pytest.raises(ValidationError, match=r"defences\.0"):
        TransductiveAttackParams.model_validate({"kind": "transductive_attack", "defences": ["dent"]})
