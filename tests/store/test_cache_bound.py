"""A machine keeps as many copies of a bucket's files as it may, and those that were used last."""

import os
import time
from pathlib import Path

import pytest

from seatrial.store.artifacts import RemoteStore, open_store
from seatrial.store.cache_bound import KEPT_S
from seatrial.store.settings import Settings

SIZE = 1000


def copies(cache: Path) -> set[str]:
    return {f"sha256:{path.name}" for path in cache.glob("??/*")}


def age(cache: Path, digest: str, used_ago_s: float) -> None:
    """Let a copy have been used so long ago, and changed long before that."""
    path = cache / digest[7:9] / digest[7:]
    os.utime(path, (time.time() - used_ago_s, time.time() - 10 * used_ago_s))


@pytest.fixture
def bucket(tmp_path: Path) -> tuple[RemoteStore, list[str]]:
    """A bucket of ten files, and a machine that has room for four copies."""
    store = RemoteStore(f"memory://{tmp_path.name}-bound", tmp_path / "cache", 4 * SIZE)
    digests = []
    for n in range(10):
        digests.append(store.put_bytes(bytes([n]) * SIZE))
        age(tmp_path / "cache", digests[-1], KEPT_S + 100 - n)
    return store, digests


def test_the_copies_used_longest_ago_go_first_and_come_again(
    bucket: tuple[RemoteStore, list[str]], tmp_path: Path
) -> None:
    store, digests = bucket
    # The last one is beside them before anybody looks at how old the others are.
    assert copies(tmp_path / "cache") == set(digests[-4:])
    assert set(store.digests()) == set(digests)
    # Used, by its path or its bytes, the oldest becomes the newest.
    assert store.local_path(digests[6]).read_bytes() == bytes([6]) * SIZE
    assert store.read_bytes(digests[7]) == bytes([7]) * SIZE
    assert store.read_bytes(digests[0]) == bytes([0]) * SIZE
    assert copies(tmp_path / "cache") == {digests[0], digests[6], digests[7], digests[9]}
    for n, digest in enumerate(digests):
        assert store.read_bytes(digest) == bytes([n]) * SIZE


def test_what_is_in_use_stays_however_little_room_there_is(tmp_path: Path) -> None:
    store = RemoteStore(f"memory://{tmp_path.name}-use", tmp_path / "cache", 0)
    first = store.put_bytes(b"first" * SIZE)
    path = store.local_path(first)
    second = store.put_bytes(b"second" * SIZE)
    assert path.read_bytes() == b"first" * SIZE
    age(tmp_path / "cache", first, KEPT_S + 1)
    store.put_bytes(b"third" * SIZE)
    assert first not in copies(tmp_path / "cache")
    assert second in copies(tmp_path / "cache")
    assert store.local_path(first).read_bytes() == b"first" * SIZE


def test_a_copy_that_was_used_is_not_verified_anew(
    bucket: tuple[RemoteStore, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, digests = bucket
    store.local_path(digests[-1])
    monkeypatch.setattr(store._cache, "verify", lambda digest: pytest.fail(f"{digest} is read through again"))
    store.local_path(digests[-1])


def test_the_operator_says_how_much_is_kept(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, artifacts_url=f"memory://{tmp_path.name}-said", cache_bytes=0)
    store = open_store(settings)
    digest = store.put_bytes(b"one")
    age(tmp_path / "cache", digest, KEPT_S + 1)
    other = store.put_bytes(b"two")
    assert copies(tmp_path / "cache") == {other}
