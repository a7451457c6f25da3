"""Where a check stands, in a line."""

from types import SimpleNamespace
from typing import Any

from app.cli.progress import progress_in_words


def check(state: str, stage: str | None = None, done: int = 0) -> Any:
    return SimpleNamespace(
        kind="uncertainty_span",
        state=state,
        progress=SimpleNamespace(stage=stage, done=done, total=40, look=None),
    )


def audit(share: float | None, left: float | None) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(share=share, remaining_s=left))


def test_a_check_that_is_measured_says_how_far_it_is() -> None:
    told = progress_in_words(audit(0.8174, 42.7), check("running", "attack", 31))
    assert told == "uncertainty_span: running attack 77 %, the whole audit 82 %, about 43 s left"


def test_what_waits_or_has_ended_says_no_more_than_that() -> None:
    for state in ("queued", "succeeded", "failed", "cancelled"):
        assert progress_in_words(audit(None, None), check(state, "attack", 31)) == f"uncertainty_span: {state}"
