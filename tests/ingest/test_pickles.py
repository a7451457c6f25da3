"""Pickles are recognised whatever they hold, and what people write is not taken for one."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.ingest.inspection.pickles import HEAD_BYTES, looks_like_pickle

_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(value=_plain, protocol=st.integers(0, 5))
def test_every_pickle_is_recognised(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert looks_like_pickle(data[:HEAD_BYTES], len(data))


@pytest.mark.slow
@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=12).filter(lambda text: " " in text.strip())
)
def test_sentences_are_no_pickles(text: str) -> None:
    data = b"# " + text.encode()
    assert not looks_like_pickle(data, len(data))
