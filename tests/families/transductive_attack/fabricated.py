"""Records of games nobody played: examples of shared difficulty, answered rightly at rates that are asked for."""

import zlib

import numpy as np
import pyarrow as pa

from seatrial.families.transductive_attack.params import MODEL_SPACE, TransductiveAttackParams, game_of

CLASSES = 10

RATES = {
    "clean": 0.95,
    "transfer_autoattack": 0.7,
    "brightness": 0.9,
    "transfer_pgd": 0.65,
    "transfer_confidence": 0.62,
    "transfer_cw": 0.3,
    "defence_autoattack": 0.6,
    "fpa": 0.5,
    "gmsa_avg": 0.45,
    "gmsa_min": 0.4,
}
"""Of any defence, under each attack."""


def parameters(**changes: object) -> TransductiveAttackParams:
    """Parameters of a check; ``defences`` may be names."""
    given = {"kind": "transductive_attack", "defences": ["dent", "tent"], "iterations": 3} | changes
    given["defences"] = [{"name": name} for name in given["defences"]]
    if any(one["name"] in ("rmc", "dann", "tadv", "urejectron") for one in given["defences"]):
        given["training_dataset"] = "dat_train"
    return TransductiveAttackParams.model_validate(given)


def records(
    params: TransductiveAttackParams,
    *,
    n: int = 120,
    seed: int = 0,
    rates: dict[str, float] | None = None,
    static: tuple[float, float, float] = (0.95, 0.42, 0.46),
    failed: dict[str, str] | None = None,
    errored: dict[str, set[int]] | None = None,
    luck: float = 0.3,
    fallback: float = 0.0,
    rejecting: frozenset[str] = frozenset({"urejectron"}),
    adapted: bool = True,
) -> dict[str, pa.Table]:
    """Return the records of every stage; rows of games are shuffled.

    Args:
        params: Of the check.
        n: Examples.
        seed: Of everything drawn.
        rates: By ``defence:attack`` or by attack; what is not named is as in ``RATES``.
        static: Accuracy, robustness under AutoAttack and under PGD of the static model.
        failed: Why a game failed, by stage.
        errored: Positions of examples that errored, by stage.
        luck: Share of an answer's variance that is drawn anew in each repeat.
        fallback: Share of examples that were sent the clean batch.
        rejecting: Defences that reject what the model finds hard.
        adapted: Whether what attacks simulated had something of the defence to attack.
    """
    rng = np.random.default_rng(seed)
    ids, label = 1000 + np.arange(n), rng.integers(0, CLASSES, n)
    difficulty = rng.random(n)
    given = RATES | (rates or {})
    done = {"static": _static(params, ids, label, difficulty, static, _missing(errored, "static", n))}
    for defence in (one.name for one in params.defences):
        for attack in ("clean", *params.corruptions, *params.attacks):
            for repeat in range(params.repeats):
                stage = game_of(defence, attack, repeat)
                # Of its own, so that a game is the same whatever became of the others.
                rng = np.random.default_rng([seed, zlib.crc32(f"{defence} {attack} {repeat}".encode())])
                drawn = np.where(rng.random(n) < luck, rng.random(n), difficulty)
                table = _game(
                    rng,
                    ids,
                    label,
                    drawn,
                    given.get(f"{defence}:{attack}", given[attack]),
                    iterations=params.iterations if attack in MODEL_SPACE else None,
                    fallback=fallback,
                    rejects=defence in rejecting,
                    has_twins=attack != "clean",
                    is_attack=attack in params.attacks,
                    adapted=adapted,
                    missing=_missing(errored, stage, n),
                    failed=(failed or {}).get(stage),
                )
                done[stage] = table.take(rng.permutation(n))
    return done


def replaced(table: pa.Table, **columns: pa.Array) -> pa.Table:
    return pa.table({name: columns.get(name, table[name]) for name in table.column_names})


def right(table: pa.Table) -> dict[int, bool]:
    """Who answered rightly, by example, of those that did not error: read row by row."""
    rows = table.select(["example_id", "errored", "correct"]).to_pylist()
    return {row["example_id"]: row["correct"] for row in rows if not row["errored"]}


def _missing(errored: dict[str, set[int]] | None, stage: str, n: int) -> np.ndarray:
    return np.isin(np.arange(n), list((errored or {}).get(stage, ())))


def _static(params, ids, label, difficulty, rates, missing) -> pa.Table:
    nothing = pa.nulls(len(ids), pa.bool_())
    flags = [pa.array(difficulty < rate, mask=missing) for rate in rates]
    columns = {
        "example_id": pa.array(ids),
        "label": pa.array(label),
        "errored": pa.array(missing),
        "correct": flags[0],
        "robust_autoattack": flags[1] if "transfer_autoattack" in params.attacks else nothing,
        "robust_pgd": flags[2] if "transfer_pgd" in params.attacks else nothing,
        "robust_confidence": flags[2] if "transfer_confidence" in params.attacks else nothing,
        "broken_by": pa.nulls(len(ids), pa.string()),
        "image_autoattack": pa.array([b"image"] * len(ids), pa.large_binary()),
        "image_pgd": pa.nulls(len(ids), pa.large_binary()),
        **_signs(params, len(ids), missing),
    }
    return pa.table(columns)


def _signs(params, n, missing) -> dict[str, pa.Array]:
    """A model without a sign that AutoAttack is weak on it."""
    sound = {
        "answers_right": np.full(n, 5),
        "answers_apart": np.zeros(n),
        "is_probability": np.zeros(n, dtype=bool),
        "runs_backward": np.zeros(n, dtype=bool),
        "zero_gradient": np.zeros(n, dtype=bool),
        "classes": np.full(n, CLASSES),
    }
    if "transfer_autoattack" not in params.attacks:
        return {name: pa.nulls(n, pa.array(values).type) for name, values in sound.items()}
    return {name: pa.array(values, mask=missing) for name, values in sound.items()}


def _game(
    rng, ids, label, difficulty, rate, *, iterations, fallback, rejects, has_twins, is_attack, adapted, missing, failed
) -> pa.Table:
    n = len(ids)
    correct = difficulty < rate
    prediction = np.where(correct, label, (label + 1) % CLASSES)
    score = (0.3 * difficulty + 0.7 * rng.random(n)).clip(0, 1)
    rejected = rejects & (score > 0.8)
    lost = missing | (failed is not None)
    scores = selected = None
    if iterations is not None and failed is None:
        scores = [(rate + 0.3 * rng.random(iterations + 1)).clip(0, 1).tolist() for _ in range(n)]
        selected = np.where(rng.random(n) < fallback, -1, [int(np.argmin(one)) for one in scores])
    twins = _twins(label, difficulty, has_scores=rejects and has_twins)
    robust = correct & ~rejected
    if rejects and is_attack:
        clean_right = (twins["clean_prediction"].to_numpy() == label) & ~twins["clean_rejected"].to_numpy(False)
        robust = (correct | rejected) & clean_right
    return pa.table(
        {
            "example_id": pa.array(ids),
            "label": pa.array(label),
            "errored": pa.array(missing),
            "robust": pa.array(robust, mask=lost),
            "correct": pa.array(correct & ~rejected, mask=lost),
            "prediction": pa.array(prediction, mask=lost),
            "rejected": pa.array(np.broadcast_to(rejected, n).copy(), mask=lost),
            "rejection_score": pa.array(score) if rejects else pa.nulls(n, pa.float64()),
            "selected": pa.nulls(n, pa.int64()) if selected is None else pa.array(selected),
            "scores": pa.nulls(n, pa.list_(pa.float64())) if scores is None else pa.array(scores),
            **twins,
            "adapted": pa.nulls(n, pa.bool_()) if selected is None else pa.array(np.full(n, adapted)),
            "clean_score": pa.nulls(n, pa.float64()),
            "failed": pa.array([failed] * n, pa.string()),
        }
    )


def _twins(label, difficulty, *, has_scores: bool) -> dict[str, pa.Array]:
    """What a defence that sees the clean points too says of them: it rejects few and answers most rightly."""
    if not has_scores:
        return {
            "clean_prediction": pa.nulls(len(label), pa.int64()),
            "clean_rejected": pa.nulls(len(label), pa.bool_()),
            "clean_rejection_score": pa.nulls(len(label)),
        }
    return {
        "clean_rejected": pa.array(difficulty / 2 > 0.48),
        "clean_prediction": pa.array(np.where(difficulty < 0.9, label, (label + 1) % CLASSES)),
        "clean_rejection_score": pa.array(difficulty / 2),
    }
