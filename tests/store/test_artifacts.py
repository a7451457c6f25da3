"""Files come back as they went in, wherever they are kept."""

import hashlib
import os
from pathlib import Path

import pytest

from seatrial.store.artifacts import (
    ArtifactDamagedError,
    ArtifactMissingError,
    ArtifactStore,
    LocalStore,
    RemoteStore,
    open_store,
)
from seatrial.store.settings import Settings

BYTES = b"weights" * 1000
DIGEST = "sha256:" + hashlib.sha256(BYTES).hexdigest()


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    if request.param == "local":
        return LocalStore(tmp_path / "artifacts")
    return RemoteStore(f"memory://{tmp_path.name}", tmp_path / "cache")


def left_in_staging(store: ArtifactStore) -> list[Path]:
    return list(store.staging().iterdir())


def test_bytes_come_back(store: ArtifactStore) -> None:
    assert store.put_bytes(BYTES) == DIGEST
    assert store.put_bytes(BYTES) == DIGEST
    assert store.local_path(DIGEST).read_bytes() == BYTES
    assert not left_in_staging(store)


def test_a_file_is_moved_in(store: ArtifactStore, tmp_path: Path) -> None:
    for _ in range(2):
        path = tmp_path / "upload"
        path.write_bytes(BYTES)
        store.prepare(path, DIGEST)
        assert path.exists()
        store.put_file(path, DIGEST)
        assert not path.exists()
    assert store.local_path(DIGEST).read_bytes() == BYTES


def test_who_brought_the_bytes_is_told(store: ArtifactStore, tmp_path: Path) -> None:
    brought = []
    for name in ("first", "second"):
        path = tmp_path / name
        path.write_bytes(BYTES)
        brought.append(store.prepare(path, DIGEST) | store.put_file(path, DIGEST))
    assert brought == [True, False]


def test_bytes_another_deleted_after_they_were_prepared_are_brought_again(store: ArtifactStore, tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(BYTES)
    store.prepare(path, DIGEST)
    store.delete(DIGEST)
    assert store.put_file(path, DIGEST)
    assert store.local_path(DIGEST).read_bytes() == BYTES


def test_what_is_deleted_is_missing(store: ArtifactStore) -> None:
    store.put_bytes(BYTES)
    store.delete(DIGEST)
    store.delete(DIGEST)
    with pytest.raises(ArtifactMissingError):
        store.local_path(DIGEST)


def test_a_digest_cannot_name_another_file(store: ArtifactStore) -> None:
    for hostile in ("sha256:../../etc/passwd", "sha256:" + "g" * 64, "md5:" + "0" * 64, ""):
        with pytest.raises(ValueError, match="not a digest"):
            store.local_path(hostile)


def test_another_machine_fetches_and_verifies(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}-shared"
    RemoteStore(url, tmp_path / "api").put_bytes(BYTES)
    worker = RemoteStore(url, tmp_path / "worker")
    assert worker.local_path(DIGEST).read_bytes() == BYTES
    key = f"{DIGEST[7:9]}/{DIGEST[7:]}"
    worker._fs.pipe_file(f"{worker._prefix}/{key}", b"tampered")
    with pytest.raises(ArtifactDamagedError, match="another digest"):
        RemoteStore(url, tmp_path / "second").local_path(DIGEST)


def test_the_settings_choose_the_store(tmp_path: Path) -> None:
    assert isinstance(open_store(Settings(home=tmp_path)), LocalStore)
    assert isinstance(open_store(Settings(home=tmp_path, artifacts_url="memory://bucket")), RemoteStore)


def test_passing_bytes_come_back_verified(store: ArtifactStore) -> None:
    store.put_passing(BYTES, DIGEST)
    assert store.read_passing(DIGEST) == BYTES
    assert not left_in_staging(store)
    store.delete(DIGEST)
    with pytest.raises(ArtifactMissingError):
        store.read_passing(DIGEST)
    other = "sha256:" + "0" * 64
    store.put_passing(BYTES, other)
    with pytest.raises(ArtifactDamagedError, match="another digest"):
        store.read_passing(other)


def test_passing_bytes_fill_no_cache(tmp_path: Path) -> None:
    store = RemoteStore(f"memory://{tmp_path.name}-passing", tmp_path / "cache")
    store.put_passing(BYTES, DIGEST)
    store.read_passing(DIGEST)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_bytes_a_killed_process_had_begun_to_write_are_deleted_by_their_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "artifacts")

    def die(path: Path, digest: str) -> bool:
        raise SystemExit

    monkeypatch.setattr(store, "prepare", die)
    with pytest.raises(SystemExit):
        store.put_passing(BYTES, DIGEST)
    assert left_in_staging(store)
    store.delete(DIGEST)
    assert not left_in_staging(store)


def flip(path: Path, *, keep_time: bool = False) -> None:
    """Turn one bit of a file over."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        # The clock of a file system may be coarser than this test.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


def stored_at(root: Path, digest: str) -> Path:
    return root / digest[7:9] / digest[7:]


def test_a_flipped_bit_is_noticed_when_a_process_first_opens_the_file(tmp_path: Path) -> None:
    LocalStore(tmp_path).put_bytes(BYTES)
    flip(stored_at(tmp_path, DIGEST), keep_time=True)
    with pytest.raises(ArtifactDamagedError):
        LocalStore(tmp_path).local_path(DIGEST)


def test_a_file_is_verified_again_once_its_time_or_size_has_changed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes(BYTES)
    path = store.local_path(DIGEST)
    flip(path)
    for _ in range(2):
        with pytest.raises(ArtifactDamagedError):
            store.local_path(DIGEST)
    store.put_bytes(BYTES)
    times = store.local_path(DIGEST).stat()
    path.write_bytes(BYTES[:-1])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ArtifactDamagedError):
        store.local_path(DIGEST)


def test_a_file_that_has_not_changed_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes(BYTES)
    read: list[str] = []
    verify = store.verify
    monkeypatch.setattr(store, "verify", lambda digest: (read.append(digest), verify(digest)))
    for _ in range(3):
        path = store.local_path(DIGEST)
        # As a child process is given it.
        os.link(path, tmp_path / f"given-{len(list(tmp_path.iterdir()))}")
    assert read == [DIGEST]


def test_bytes_are_verified_each_time_they_are_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_bytes(BYTES)
    assert store.read_bytes(DIGEST) == BYTES
    flip(store.local_path(DIGEST), keep_time=True)
    with pytest.raises(ArtifactDamagedError):
        store.read_bytes(DIGEST)


@pytest.mark.parametrize("by", ["put_bytes", "put_file"])
def test_the_true_bytes_mend_a_damaged_file(store: ArtifactStore, tmp_path: Path, by: str) -> None:
    store.put_bytes(BYTES)
    if isinstance(store, RemoteStore):
        store._fs.pipe_file(store._remote(DIGEST), b"rotten")
    else:
        flip(store.local_path(DIGEST))
    with pytest.raises(ArtifactDamagedError):
        store.verify(DIGEST)
    if by == "put_bytes":
        store.put_bytes(BYTES)
    else:
        upload = tmp_path / "upload"
        upload.write_bytes(BYTES)
        assert not store.prepare(upload, DIGEST) | store.put_file(upload, DIGEST)
    store.verify(DIGEST)
    assert store.read_bytes(DIGEST) == BYTES


def test_a_damaged_copy_is_fetched_again(tmp_path: Path) -> None:
    store = RemoteStore(f"memory://{tmp_path.name}-copies", tmp_path / "cache")
    store.put_bytes(BYTES)
    flip(store.local_path(DIGEST))
    assert store.local_path(DIGEST).read_bytes() == BYTES
    flip(store.local_path(DIGEST), keep_time=True)
    assert store.read_bytes(DIGEST) == BYTES


def test_a_store_tells_what_it_holds(store: ArtifactStore) -> None:
    stored = {store.put_bytes(str(n).encode()) for n in range(5)}
    assert set(store.digests()) == stored
    with pytest.raises(ArtifactMissingError):
        store.verify(DIGEST)
