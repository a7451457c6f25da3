"""What shards share: made once, of one check, within its room, and never when making it failed."""

import pytest
import torch

from workers.runtime.shared_work import SharedWork, Tensors

MIB = 2**20


def test_what_is_kept_is_made_once_and_forgotten_with_its_check() -> None:
    made: list[str] = []

    def of(name: str, mib: int = 1) -> Tensors:
        made.append(name)
        return {"values": torch.full((mib * MIB // 4,), float(len(made)))}

    work = SharedWork(2 * MIB)
    first = work.get("chk_1", "a", lambda: of("a"))
    assert work.get("chk_1", "a", lambda: of("a")) is first
    # No room beside the first, and none is taken from it.
    assert len(work.get("chk_1", "b", lambda: of("b", 2))["values"]) == MIB // 2
    work.get("chk_1", "b", lambda: of("b", 2))
    assert work.get("chk_1", "a", lambda: of("a")) is first
    work.get("chk_2", "b", lambda: of("b", 2))
    work.get("chk_2", "b", lambda: of("b", 2))
    work.get("chk_1", "a", lambda: of("a"))
    assert made == ["a", "b", "b", "b", "a"]


def test_what_failed_is_tried_again() -> None:
    work = SharedWork(MIB)

    def fails() -> Tensors:
        raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        work.get("chk_1", "a", fails)
    assert torch.equal(work.get("chk_1", "a", lambda: {"one": torch.ones(1)})["one"], torch.ones(1))
