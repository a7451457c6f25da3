import os
import zipfile
from pathlib import Path

import httpx
import pytest

from app.web import references
from app.web.problems import InvalidRequestError, PayloadTooLargeError
from app.web.references import copy_reference
from seatrial.store.settings import Settings
from tests.uploads import model_manifest
from tests.web.test_problems import assert_problem


@pytest.fixture
def allowed(settings: Settings) -> Path:
    return settings.allowed_paths[0]


def _refuse(client: httpx.Client, path: Path, status: int = 422) -> str:
    problem = assert_problem(client.post("/v1/models", json={"manifest": model_manifest(), "path": str(path)}), status)
    assert problem.errors
    assert problem.errors[0].pointer == "/path"
    return problem.detail


def test_names_too_long_and_links_in_a_circle_are_refused(client: httpx.Client, allowed: Path) -> None:
    (allowed / "a").symlink_to(allowed / "b")
    (allowed / "b").symlink_to(allowed / "a")
    (allowed / "folder").mkdir()
    (allowed / "folder" / "c").symlink_to(allowed / "a")
    for path in (allowed / ("x" * 300), allowed / "a", allowed / "a" / "deeper", allowed / "folder"):
        _refuse(client, path)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file")])
def test_files_that_cannot_be_read_or_have_gone_are_refused(
    client: httpx.Client, allowed: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    (allowed / "folder").mkdir()
    file = allowed / "folder" / "file"
    file.write_bytes(b"x")
    opened = os.open

    def refuse(path, *rest, **more):
        if Path(path) == file:
            raise error
        return opened(path, *rest, **more)

    monkeypatch.setattr(references.os, "open", refuse)
    for path in (file, file.parent):
        assert str(error.strerror) in _refuse(client, path)


def test_a_folder_that_cannot_be_listed_is_refused_not_left_out(
    client: httpx.Client, allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (allowed / "folder" / "inner").mkdir(parents=True)
    (allowed / "folder" / "file").write_bytes(b"x")
    listed = os.scandir

    def refuse(path):
        if Path(path).name == "inner":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert "Permission denied" in _refuse(client, allowed / "folder")


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_that_grows_while_it_is_copied_is_cut_off(
    settings: Settings, allowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    (allowed / "folder").mkdir()
    file = allowed / "folder" / "file"
    file.write_bytes(b"x" * 10)
    opened = os.open

    def grow(path, *rest, **more):
        if Path(path) == file:
            file.write_bytes(b"x" * 5_000_000)
        return opened(path, *rest, **more)

    monkeypatch.setattr(references.os, "open", grow)
    target = tmp_path / "target"
    with pytest.raises(PayloadTooLargeError):
        copy_reference(str(file.parent if is_folder else file), target, settings, max_bytes=1_500_000)
    assert target.stat().st_size < 1_500_000


@pytest.mark.parametrize("make", [lambda file, other: file.symlink_to(other), lambda file, _: os.mkfifo(file)])
def test_a_file_that_became_something_else_is_not_followed(
    settings: Settings, allowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    file = allowed / "file"
    file.write_bytes(b"x")
    opened = os.open

    def swap(path, *rest, **more):
        if Path(path) == file:
            file.unlink()
            make(file, secret)
        return opened(path, *rest, **more)

    monkeypatch.setattr(references.os, "open", swap)
    target = tmp_path / "target"
    with pytest.raises(InvalidRequestError):
        copy_reference(str(file), target, settings, max_bytes=100)
    assert not target.read_bytes()


def test_the_total_of_a_folder_is_bounded_and_a_copy_is_whole(
    settings: Settings, allowed: Path, tmp_path: Path
) -> None:
    (allowed / "folder").mkdir()
    for name in "ab":
        (allowed / "folder" / name).write_bytes(name.encode() * 60)
    target = tmp_path / "target"
    with pytest.raises(PayloadTooLargeError):
        copy_reference(str(allowed / "folder"), target, settings, max_bytes=119)
    assert copy_reference(str(allowed / "folder"), target, settings, max_bytes=120) == "folder.zip"
    with zipfile.ZipFile(target) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"a": b"a" * 60, "b": b"b" * 60}
    assert copy_reference(str(allowed / "folder" / "a"), target, settings, max_bytes=60) == "a"
    assert target.read_bytes() == b"a" * 60


def test_a_full_disk_is_not_blamed_on_the_path(settings: Settings, allowed: Path, tmp_path: Path) -> None:
    (allowed / "file").write_bytes(b"x")
    with pytest.raises(IsADirectoryError):
        copy_reference(str(allowed / "file"), tmp_path, settings, max_bytes=100)
