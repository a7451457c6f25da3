"""What a library's error says to people, and which errors are the model's fault."""

import logging
import re

import pytest

from workers.errors import TargetError
from workers.models.hf_folders import refusing


def test_a_librarys_text_goes_to_the_log_and_its_reference_to_people(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TargetError) as caught,
        refusing("The folder is unusable", "the tokenizer"),
    ):
        raise ValueError("cannot read line\n'hunter2'")
    detail = caught.value.problem.detail
    assert detail.startswith("the tokenizer cannot be used")
    assert "ValueError" in detail
    assert "hunter2" not in detail
    reference = re.search(r"reference ([0-9a-f]{8})", detail)
    assert reference is not None
    assert reference[1] in caplog.text
    # On one line: a line break would begin what looks like another entry.
    assert r"cannot read line\n'hunter2'" in caplog.text


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you ...")])
def test_a_model_that_is_too_large_for_the_worker_is_told_so(error: Exception) -> None:
    with pytest.raises(TargetError) as caught, refusing("The folder is unusable", "the model"):
        raise error
    assert caught.value.problem.code == "out-of-memory"


class PanicException(BaseException):
    """What PyO3 raises after a panic is named so, and is no ``Exception``."""


def test_a_panic_in_rust_is_the_models_fault_and_an_interruption_is_not() -> None:
    with pytest.raises(TargetError, match="PanicException"), refusing("The folder is unusable", "the tokenizer"):
        raise PanicException("called `Option::unwrap()` on a `None` value")
    for error in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(error), refusing("The folder is unusable", "the tokenizer"):
            raise error
