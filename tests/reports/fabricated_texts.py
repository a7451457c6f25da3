"""A finished audit of a text classifier, written as a worker would have; no model is run."""

from typing import Any

from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow
from seatrial.store.tables.base import utc_now
from tests.reports import fabricated
from tests.rows import add_audit

LABELS = ["negative", "positive"]

REVIEW = "a wonderful film, and one that stays with you long after the lights have gone up"
ATTACKED = "a wnderful film, and one that stays with you long after the lihgts have gone up"
PAIR = ["A man plays a guitar on the stage.", "Somebody makes music."]


def share(value: float | None, n: int = 200, spread: float = 0.03) -> dict[str, Any]:
    """Return a share of n texts as it is stored."""
    low, high = (None, None) if value is None else (max(0.0, value - spread), min(1.0, value + spread))
    return {"value": value, "low": low, "high": high, "n": n, "method": "clopper-pearson"}


def gap(value: float | None, n: int = 200, spread: float = 0.03) -> dict[str, Any]:
    """Return a paired difference as it is stored."""
    low, high = (None, None) if value is None else (value - spread, value + spread)
    return {"value": value, "low": low, "high": high, "n": n, "method": "paired"}


def certain(value: float | None, n: int = 200) -> dict[str, Any]:
    """Return a number without an interval as it is stored."""
    return {"value": value, "low": None, "high": None, "n": n, "method": "none"}


def result(
    *,
    kept: dict[str, float | None] | None = None,
    recipes: tuple[str, ...] = ("deepwordbug",),
    clean: float | None = 0.84,
    n: int = 200,
    spread: float = 0.03,
    flags: Any = (),
    examples: Any = None,
    errored: int = 0,
) -> dict[str, Any]:
    """Return a result in which the model keeps ``kept`` accuracy in each arm, whatever the recipe."""
    kept = {"as_served": 0.70, "calibrated": 0.10, "optimized": 0.12} if kept is None else kept
    estimates: dict[str, Any] = {"clean_accuracy": share(clean, n)}
    for arm, value in kept.items():
        for recipe in recipes:
            estimates[f"adversarial_accuracy[arm={arm},recipe={recipe}]"] = share(value, n)
            success = None if value is None or not clean else 1 - value / clean
            estimates[f"attack_success_rate[arm={arm},recipe={recipe}]"] = share(success, n)
            estimates[f"mean_queries[arm={arm},recipe={recipe}]"] = fabricated.estimate(34.5, 3.0, n)
            estimates[f"mean_perturbed_share[arm={arm},recipe={recipe}]"] = fabricated.estimate(0.13, 0.02, n // 3)
        estimates[f"adversarial_accuracy[arm={arm}]"] = share(value, n)
        estimates[f"mean_confidence[arm={arm}]"] = fabricated.estimate(0.9999 if arm == "as_served" else 0.86, 0.0, n)
        estimates[f"ece[arm={arm}]"] = fabricated.estimate(0.16 if arm == "as_served" else 0.03, 0.02, n)
        estimates[f"temperature[arm={arm}]"] = certain(0.01 if arm == "as_served" else 97.5, n)
    others = [value for arm, value in kept.items() if arm != "as_served" and value is not None]
    served = kept["as_served"]
    between = None if served is None or not others else served - min(others)
    chance = None if between is None else 1e-9 if between > 0.05 else 1.0
    for recipe in recipes:
        estimates[f"illusion_gap[recipe={recipe}]"] = gap(between, n, spread)
        estimates[f"mcnemar_p[recipe={recipe}]"] = certain(chance, n)
    estimates |= {"illusion_gap": gap(between, n, spread), "mcnemar_p": certain(chance, n)}
    return {
        "estimates": estimates,
        "series": {
            "temperature_curve": {"temperature": [0.1, 1.0]},
            "examples": some() if examples is None else examples,
        },
        "flags": list(flags),
        "counts": {
            **{"n": n + errored, "errored": errored, "clean_n": n},
            **{f"robust[arm={arm},recipe={recipe}]": n // 3 for arm in kept for recipe in recipes},
            **{f"served_only[recipe={recipe}]": n // 4 for recipe in recipes},
        },
    }


def example(
    number: int = 17,
    *,
    original: list[str] | None = None,
    arms: dict[str, dict[str, Any]] | None = None,
    label: int = 1,
    prediction: int = 1,
    recipe: str = "deepwordbug",
) -> dict[str, Any]:
    """Return an example that holds as served and falls when calibrated."""
    held = {"text": [ATTACKED], "status": "failed", "prediction": 1, "confidence": 0.99998}
    fallen = {"text": [ATTACKED.replace("stays", "stas")], "status": "succeeded", "prediction": 0, "confidence": 0.61}
    return {
        "example_id": number,
        "label": label,
        "recipe": recipe,
        "original": original or [REVIEW],
        "prediction": prediction,
        "arms": arms or {"as_served": held, "calibrated": fallen},
    }


def some() -> list[dict[str, Any]]:
    """Return examples of every kind."""
    pair = [PAIR[0], PAIR[1].replace("Somebody", "Smebody")]
    fallen = {"text": pair, "status": "succeeded", "prediction": 0, "confidence": 0.7}
    wrong = {"text": [REVIEW], "status": "skipped", "prediction": 1, "confidence": 0.58}
    return [
        example(3, label=0, arms={"as_served": wrong, "calibrated": wrong}),
        example(17),
        example(21, original=PAIR, recipe="pwws", arms={"as_served": fallen, "calibrated": fallen}),
    ]


def finished(
    database: Database,
    store: ArtifactStore,
    *,
    params: dict[str, Any] | None = None,
    recipes: tuple[str, ...] = ("deepwordbug",),
    **measured: Any,
) -> str:
    """Store a finished audit of a text classifier and return its id."""
    audit_id = add_audit(database, started_at=utc_now(), finished_at=utc_now(), spec={"samples": 200})
    asked = {"kind": "temperature_attack", "recipes": list(recipes), "design_temperature": 0.01, **(params or {})}
    complete = TemperatureAttackParams.model_validate(asked)
    names = ("adversarial_accuracy", "temperature_curve", "reliability", "margins")
    fabricated.change(
        database,
        audit_id,
        check={
            "params": complete.model_dump(mode="json"),
            "result": result(recipes=recipes, **measured),
            "figures": {name: store.put_bytes(fabricated.SVG.encode()) for name in names},
            "started_at": utc_now(),
            "finished_at": utc_now(),
        },
        model={
            "name": "minilm-reviews",
            "version": "1",
            "task": "text-classification",
            "manifest": {"architecture": {"kind": "huggingface"}, "labels": LABELS},
            "facts": {"parameters": 22_700_000, "classes": 2, "device": "cpu", "forward_s": 0.005, "tokens": 32},
        },
        dataset={
            "name": "reviews-test",
            "version": "1",
            "task": "text-classification",
            "facts": {"examples": 1066, "classes": 2, "label_counts": {"0": 533, "1": 533}, "mean_words": 21.4},
        },
        state="succeeded",
    )
    with database.write() as session:
        session.query(CheckRow).filter_by(audit_id=audit_id).update({"kind": "temperature_attack"})
    return audit_id
