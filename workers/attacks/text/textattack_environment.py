"""TextAttack on a machine that may write nowhere and reach nobody.

On import TextAttack asks the network for six lexicons, writes into a cache folder, redirects other libraries' caches,
disables every logger there is and needs NLTK's stopwords on disk. ``prepare`` gives it what it asks for, takes the
downloads away and puts the loggers back.
"""

import importlib
import logging
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from seatrial.store.settings import get_settings
from workers.resources.stopwords import ShippedStopwords

ASKED_FOR_IN_VAIN = "omw-1.4"
"""What WordSwapWordNet downloads whenever it is built: other languages than the one it is built for."""

_lock = threading.RLock()
_textattack: ModuleType | None = None


class DownloadRefusedError(RuntimeError):
    """A library asked for a download at run time. Resources are installed before, by ``seatrial resources``."""


def prepare() -> ModuleType:
    """Return the module ``textattack``, imported without network and without a trace on disk.

    May be called any number of times, from any thread and in any number of processes. The first call of a process
    takes some 5 s and 600 MB.

    Raises:
        ModuleNotFoundError: The package's extra ``text`` is not installed.
    """
    global _textattack
    with _lock:
        if _textattack is None:
            with quiet(), _loggers_kept():
                _textattack = _imported()
        return _textattack


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the warnings of TextAttack's own code to itself, one thread at a time: the filters are the process's."""
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _imported() -> ModuleType:
    nltk = importlib.import_module("nltk")
    corpora = importlib.import_module("nltk.corpus")
    # Nothing else that may lie on the machine: a stopword list of another year gives other attacks.
    nltk.data.path[:] = []
    corpora.__dict__["stopwords"] = ShippedStopwords()
    nltk.__dict__["download"] = _refuse_nltk
    importlib.import_module("nltk.downloader").Downloader.download = _refuse_nltk

    # These read HF_HOME and XDG_CACHE_HOME when first imported, so before TextAttack changes them.
    for reader in ("huggingface_hub.constants", "transformers", "datasets", "flair"):
        importlib.import_module(reader)
    logging.getLogger("flair").setLevel(logging.ERROR)

    # TextAttack sets variables for itself and so for everybody: caches of three libraries, two switches.
    before = dict(os.environ)
    # Only the flag that its downloads are done is ever read from this folder, and only during the import.
    with tempfile.TemporaryDirectory(prefix="seatrial-textattack-") as folder:
        (Path(folder) / "post_install_check_3").touch()
        os.environ["TA_CACHE_DIR"] = folder
        if (device := get_settings().device) != "auto":
            os.environ["TA_DEVICE"] = device
        try:
            textattack = importlib.import_module("textattack")
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)

    install = importlib.import_module("textattack.shared.utils.install")
    utils = importlib.import_module("textattack.shared.utils")
    for name in ("http_get", "download_from_s3", "download_from_url"):
        for module in (install, utils):
            module.__dict__[name] = _refuse
    install.logger.setLevel(logging.CRITICAL)
    return textattack


@contextmanager
def _loggers_kept() -> Iterator[None]:
    """Let the process log as before: TextAttack, configuring its own logger, disables all others; flair enables all."""
    disabled = {logger for logger in _loggers() if logger.disabled}
    try:
        yield
    finally:
        for logger in _loggers():
            logger.disabled = logger in disabled


def _loggers() -> set[logging.Logger]:
    known = list(logging.root.manager.loggerDict.values())
    return {logger for logger in known if isinstance(logger, logging.Logger)}


def _refuse(asked_for: object, *_: Any, **__: Any) -> NoReturn:
    raise DownloadRefusedError(
        f"TextAttack asked to download {asked_for!r}. Nothing is downloaded at run time: `seatrial resources list` "
        "says which resources are missing and how to get them."
    )


def _refuse_nltk(*asked_for: Any, **_: Any) -> bool:
    if ASKED_FOR_IN_VAIN in asked_for:
        return False
    return _refuse(asked_for)
