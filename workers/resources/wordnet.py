"""WordNet's database files, read by NLTK's reader from wherever they are."""

import io
import threading
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

from workers.resources.checksums import LEXICONS

LEXNAMES = LEXICONS / "wordnet-lexnames.txt"

_lock = threading.Lock()


def load_wordnet(folder: Path) -> Any:
    """Return NLTK's ``WordNetCorpusReader`` of a folder; the last one asked for is kept.

    Debian has no ``lexnames`` and npm no exception lists: the first is shipped, the second are then empty.
    """
    with _lock:
        return _load(folder)


@lru_cache(maxsize=1)
def _load(folder: Path) -> Any:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.data import PathPointer, SeekableUnicodeStreamReader

    class Files(PathPointer):  # type: ignore[misc]
        """Files of a folder that NLTK is not told to trust as a whole, whoever owns them or may write to them."""

        def __init__(self, path: Path) -> None:
            self._path = path

        def open(self, encoding: str | None = None) -> Any:
            # In memory, 22 MB for WordNet's data: NLTK's reader never closes what it opens.
            is_lacking = self._path.suffix == ".exc" and not self._path.is_file()
            stream = io.BytesIO(b"" if is_lacking else self._path.read_bytes())
            return stream if encoding is None else SeekableUnicodeStreamReader(stream, encoding)

        def file_size(self) -> int:
            return self._path.stat().st_size

        def join(self, fileid: str) -> PathPointer:
            return Files(LEXNAMES if fileid == "lexnames" else self._path / fileid)

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        def open(self, file: str) -> Any:
            return self._root.join(file).open(self._encoding)

        def map_wn(self, version: str = "wordnet") -> None:
            # Maps to other languages' wordnets, of which there are none.
            return None

    with warnings.catch_warnings():
        # That there are no other languages.
        warnings.simplefilter("ignore")
        return Reader(Files(folder), None)
