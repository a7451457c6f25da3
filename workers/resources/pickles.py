"""The pickles of TextAttack's word vectors, read without running what may be in them.

They hold dictionaries of words and numbers. A pickle is a program: the plain reader calls whatever it names.
"""

import collections
import importlib
import pickle
from pathlib import Path
from typing import Any

NUMPY = {
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
}
PLAIN = {"dict": dict, "int": int, "float": float, "str": str}


class PickleRefusedError(ValueError):
    """A pickle names something else than dictionaries, numbers, words and arrays, or is damaged."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in {"builtins", "__builtin__"} and name in PLAIN:
            return PLAIN[name]
        if (module, name) == ("collections", "defaultdict"):
            return collections.defaultdict
        if (module, name) == ("_codecs", "encode"):
            return _bytes_of
        # Before numpy 2 these modules had another name; what they hold is the same.
        module = module.replace("numpy._core.", "numpy.core.")
        if name in NUMPY.get(module, set()):
            return getattr(importlib.import_module(module.replace("numpy.core.", "numpy._core.")), name)
        raise PickleRefusedError(f"it names {module}.{name}")


def _bytes_of(text: str, encoding: str) -> bytes:
    """Return the bytes old protocols write as text; the function they name would take any codec."""
    if encoding != "latin1":
        raise PickleRefusedError(f"it names the codec {encoding}")
    return text.encode("latin1")


def read_plain_pickle(path: Path) -> Any:
    """Return dictionaries, words, numbers and arrays from a pickle.

    Raises:
        PickleRefusedError: It names anything else, or is damaged.
    """
    with path.open("rb") as file:
        try:
            return _PlainUnpickler(file).load()
        except PickleRefusedError as error:
            raise PickleRefusedError(f"{path} is refused: {error}; only dict, str, int, float and arrays are") from None
        except Exception as error:
            raise PickleRefusedError(f"{path} is no readable pickle ({type(error).__name__}: {error})") from error
