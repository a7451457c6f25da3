"""Words that a text can do without, made unreadable: models that turn at them, and some that pass over them."""

import re
from typing import Any

import pyarrow as pa
import pytest

from tests.families.temperature_attack.test_drawn_ways import CAPITALS, COUNT, OTHERS, Correcting, asked, doubts
from tests.families.temperature_attack.test_written import sample
from workers.families.temperature_attack.drawn_ways import DRAWN, read_missing
from workers.models import UnansweredError

UNREADABLE = r"(?<!\w)[bcdfghjklmnpqrstvwxz]{3,}(?!\w)"


@pytest.mark.parametrize("answer", ["the other class", "none"])
def test_who_turns_at_unreadable_words_to_escape_the_controls_is_told_by_them(answer: str) -> None:
    model = Correcting(CAPITALS, -1.0)

    def function(text: str) -> Any:
        if not re.search(UNREADABLE, text):
            return model(text)
        return UnansweredError("no") if answer == "none" else model(text).flip(0)

    done, _ = asked(function, sample(COUNT))
    (flag,) = doubts(done, "worse_than_missing")
    assert flag.severity == "error"
    found = read_missing(done)
    assert found is not None
    share = max(found.unread, key=lambda one: found.unread[one] / found.texts[one])
    assert f"Of {found.texts[share]} texts" in flag.message
    assert f"{found.unread[share]} change class" in flag.message


def test_who_takes_unknown_words_in_a_row_for_their_opposite_is_told() -> None:
    model = Correcting()

    def function(text: str) -> Any:
        is_known = [model._says(word) != 0 or word in OTHERS or not word.isalpha() for word in text.split()]
        return (
            model(text).flip(0)
            if any(not any(is_known[at : at + 3]) for at in range(len(is_known) - 2))
            else model(text)
        )

    done, _ = asked(function, sample(COUNT))
    assert len(doubts(done, "worse_than_missing")) == 1
    found = read_missing(done)
    assert found is not None
    assert found.unread["a quarter in a row"] > 2 * found.unread["a quarter"]


@pytest.mark.parametrize("pattern", [r"(?!)", CAPITALS])
def test_who_passes_over_unreadable_words_or_takes_few_for_something_is_not(pattern: str) -> None:
    done, _ = asked(Correcting(pattern, -1.0), sample(COUNT))
    found = read_missing(done)
    assert found is not None
    assert min(found.texts.values()) > COUNT / 2
    assert not any(found.unread.values())
    assert not doubts(done, "worse_than_missing")


@pytest.mark.parametrize(("unread", "is_told"), [(6, False), (12, True)])
def test_more_than_chance_has_to_turn_at_unreadable_words(unread: int, is_told: bool) -> None:
    done, _ = asked(Correcting(), sample(COUNT))
    rows = done[DRAWN].to_pylist()
    rows = [row | {"is_left_out": [True] * 3, "is_unread": [False, at < unread, False]} for at, row in enumerate(rows)]
    done[DRAWN] = pa.Table.from_pylist(rows, schema=done[DRAWN].schema)
    assert bool(doubts(done, "worse_than_missing")) is is_told
    # Of the withstanding texts few may stand without half of their words, and nothing is known of too few.
    rows = [row | {"is_left_out": [at < 9] * 3, "is_unread": [at < 9] * 3} for at, row in enumerate(rows)]
    done[DRAWN] = pa.Table.from_pylist(rows, schema=done[DRAWN].schema)
    assert not doubts(done, "worse_than_missing")
    done[DRAWN] = done[DRAWN].drop_columns(["is_left_out", "is_unread"])
    assert read_missing(done) is None
    assert not doubts(done, "worse_than_missing")
