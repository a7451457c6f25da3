"""Texts that were probed for a memory, beside those that nobody asked about."""

import pyarrow as pa
import pytest

from tests.families.temperature_attack.fabricated import parameters
from tests.families.temperature_attack.test_estimates import table
from tests.families.temperature_attack.test_near_flags import severity
from tests.families.temperature_attack.test_probe import SAMPLE, likely, probed, slope
from workers.families.contexts import Records

PARAMS = parameters(arms=[])


def done(held_probed: int, held_others: int, others: int = 86) -> dict[str, Records]:
    """Return an audit of 64 probed texts and others, of which as many withstand the search by labels."""
    outcomes = "+" * held_probed + "-" * (64 - held_probed) + "+" * held_others + "-" * (others - held_others)
    attacked = table("+" * (64 + others), as_served=outcomes, label_only=outcomes)
    probe = probed(lambda text: likely(1 / (1 + 2.718 ** -slope(text))), SAMPLE[:64])
    ids = attacked["example_id"].to_pylist()[:64]
    at = probe.column_names.index("example_id")
    return {"attack_deepwordbug": attacked, "probe": probe.set_column(at, "example_id", pa.array(ids, pa.int64()))}


@pytest.mark.parametrize(
    ("probed_held", "others_held", "others", "expected"),
    [
        (9, 60, 86, "error"),
        (40, 60, 86, None),
        # More of the probed ones is no memory of the others.
        (60, 20, 86, None),
        # Too few others to tell.
        (9, 19, 19, None),
        (9, 20, 20, "error"),
    ],
)
def test_texts_that_nobody_asked_about_withstand_as_the_others_do(
    probed_held: int, others_held: int, others: int, expected: str | None
) -> None:
    assert severity("answers_depend_on_history", PARAMS, done(probed_held, others_held, others)) == expected
