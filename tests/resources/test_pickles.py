import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from workers.resources.pickles import PickleRefusedError, read_plain_pickle


class Runs:
    """Runs code when unpickled the plain way."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_words_and_numbers_come_back(tmp_path: Path, protocol: int) -> None:
    content = defaultdict(dict, {0: {1: 0.5, 2: np.float32(0.25)}, "word": np.arange(3), "list": [1, "a"]})
    file = tmp_path / "plain.p"
    file.write_bytes(pickle.dumps(content, protocol=protocol))
    read = read_plain_pickle(file)
    assert read[0] == content[0]
    assert read["word"].tolist() == [0, 1, 2]
    assert read["list"] == [1, "a"]


def test_code_is_refused_and_does_not_run(tmp_path: Path) -> None:
    file, marker = tmp_path / "code.p", tmp_path / "ran"
    file.write_bytes(pickle.dumps({"a": Runs(marker)}))
    with pytest.raises(PickleRefusedError, match=r"code\.p is refused: it names pathlib"):
        read_plain_pickle(file)
    assert not marker.exists()
    pickle.loads(file.read_bytes())
    assert marker.exists(), "the pickle is a real one: the plain reader runs it"


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "open"])
def test_other_builtins_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "builtin.p"
    file.write_bytes(f"cbuiltins\n{name}\n.".encode())
    with pytest.raises(PickleRefusedError, match=name):
        read_plain_pickle(file)


def test_arrays_of_objects_hide_nothing(tmp_path: Path) -> None:
    file = tmp_path / "objects.p"
    file.write_bytes(pickle.dumps(np.array([Runs(tmp_path / "ran")], dtype=object)))
    with pytest.raises(PickleRefusedError):
        read_plain_pickle(file)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "half.p"
    file.write_bytes(pickle.dumps({"a": 1})[:-3])
    with pytest.raises(PickleRefusedError, match=r"half\.p is no readable pickle"):
        read_plain_pickle(file)
