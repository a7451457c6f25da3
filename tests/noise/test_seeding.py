from hypothesis import given
from hypothesis import strategies as st

from seatrial.noise.seeding import audit_seeds, noise_generator, word_purpose


def test_the_seed_of_a_word_does_not_depend_on_what_python_can_print() -> None:
    # U+1E4D0 is a letter from Unicode 15 on, which Python 3.11 does not have and 3.12 has.
    assert word_purpose("visual", 0.2, 0, "na\u00efve\U0001e4d0").isascii()
    assert word_purpose("visual", 0.2, 0, "\ud800").isascii()


@given(st.text(max_size=5), st.text(max_size=5))
def test_every_word_has_a_purpose_of_its_own(one: str, other: str) -> None:
    assert (word_purpose("visual", 0.2, 0, one) == word_purpose("visual", 0.2, 0, other)) == (one == other)


def test_attackers_levels_draws_and_examples_have_noise_of_their_own() -> None:
    asked = [("visual", 0.2, 0, 7), ("intrude", 0.2, 0, 7), ("visual", 0.5, 0, 7), ("visual", 0.2, 1, 7)]
    asked += [("visual", 0.2, 0, 8)]
    streams = {noise_generator(audit_seeds(seed), *cell).random() for cell in asked for seed in (0, 1)}
    assert len(streams) == 10
