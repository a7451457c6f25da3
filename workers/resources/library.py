"""Where the language resources of an installation are, and what each is: found by name, nothing loaded."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeAlias

from seatrial.noise.lexicons import CODESPELL, DEJAVU, INSTALLED, RESPELLINGS, STOPWORDS
from seatrial.store.settings import Settings, get_settings
from workers.resources.checksums import ENCODER_MODEL, sha256_of

WORDNET_NEEDS = tuple(f"{kind}.{part}" for part in ("noun", "verb", "adj", "adv") for kind in ("data", "index"))
WORDNET_ALSO_READS = (
    *("noun.exc", "verb.exc", "adj.exc", "adv.exc"),
    *("index.sense", "cntlist.rev", "lexnames", "LICENSE", "copyright"),
)
TEXTATTACK_VECTORS = ("paragram.npy", "wordlist.pickle", "nn.npy", "cos_sim.p", "mse_dist.p")
NLTK_TAGGER = tuple(f"averaged_perceptron_tagger_eng.{part}.json" for part in ("weights", "tagdict", "classes"))
UD_TAGGER = "tagger.json.gz"
COUNTER_FITTED = ("counter-fitted-vectors", 300)
"""Name and dimensions of the text file of counter-fitted vectors its authors publish."""

SHIPPED_FILES = {
    "stopwords": (STOPWORDS,),
    "typos-codespell": (CODESPELL,),
    "respellings": (RESPELLINGS,),
    "glyphs-dejavu": tuple(DEJAVU.values()),
}
"""Resources that come with the package."""


@dataclass(frozen=True)
class Found:
    """A resource that is there.

    Attributes:
        path: Its folder, or its file.
        form: Which of its forms it has: how it is read.
        files: What of it is read.
        stands_for: None where it is what the recipe was published with; else what to name in results
            (``encoder=minilm-l6``).
    """

    path: Path
    form: str
    files: tuple[Path, ...]
    stands_for: str | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def digest(self) -> str:
        """SHA-256 of its file; of several, that of their checksums and names, a line each, as ``sha256sum`` prints."""
        sums = {file.name: _checksum(file, file.stat().st_size, file.stat().st_mtime_ns) for file in self.files}
        if len(sums) == 1:
            return next(iter(sums.values()))
        lines = "".join(f"{checksum}  {name}\n" for name, checksum in sorted(sums.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


@dataclass(frozen=True)
class Absent:
    """A resource that is not there.

    Attributes:
        why: What was looked for, and where.
    """

    why: str


Finding: TypeAlias = Found | Absent


@dataclass(frozen=True)
class Library:
    """A folder of language resources; each resource is a folder in it.

    Attributes:
        folder: What ``SEATRIAL_RESOURCES`` names. It need not exist: what is shipped is always there.
    """

    folder: Path

    @classmethod
    def of(cls, settings: Settings | None = None) -> Self:
        """Return the library the settings name."""
        return cls((settings or get_settings()).resolved_resources)

    def wordnet(self) -> Finding:
        """Find WordNet's database files, as Princeton, Debian and NLTK have them."""
        for folder in (self.folder / "wordnet", self.folder / "corpora" / "wordnet"):
            if _has(folder, WORDNET_NEEDS):
                version = _wordnet_version(folder / "data.adj")
                has_exceptions = all((folder / f"{part}.exc").is_file() for part in ("noun", "verb", "adj", "adv"))
                edition = version if has_exceptions else f"{version} without exception lists"
                files = _files(folder, (*WORDNET_NEEDS, *WORDNET_ALSO_READS))
                return Found(folder, "wordnet", files, None if edition == "3.0" else f"wordnet={edition}")
        return Absent(_lacks(self.folder / "wordnet", WORDNET_NEEDS))

    def tagger(self) -> Finding:
        """Find a part-of-speech tagger: NLTK's perceptron, a Universal Dependencies perceptron or a model."""
        folders = [self.folder / "tagger", self.folder / "taggers" / "averaged_perceptron_tagger_eng"]
        for folder in folders:
            if _has(folder, NLTK_TAGGER):
                return Found(folder, "nltk", _files(folder, NLTK_TAGGER))
            if (folder / UD_TAGGER).is_file():
                return Found(folder, "ud-perceptron", (folder / UD_TAGGER,), "tagger=ud-perceptron")
            if (folder / "config.json").is_file():
                return _model(folder, "tagger=upos-")
        return Absent(f"neither {NLTK_TAGGER[0]} nor {UD_TAGGER} nor config.json in {folders[0]}")

    def word_vectors(self) -> Finding:
        """Find word vectors: TextAttack's counter-fitted ones, others as text, or those inside the sentence encoder."""
        cached = Path("word_embeddings") / "paragramcf"
        for folder in (self.folder / "counter-fitted", self.folder / "counter-fitted" / cached, self.folder / cached):
            if _has(folder, TEXTATTACK_VECTORS):
                return Found(folder, "textattack", _files(folder, TEXTATTACK_VECTORS))
        texts = sorted(path for kind in ("*.txt", "*.vec") for path in (self.folder / "word-vectors").glob(kind))
        if len(texts) > 1:
            return Absent(f"several files in {self.folder / 'word-vectors'}: leave one")
        if texts:
            is_original = (texts[0].stem, _dimensions(texts[0])) == COUNTER_FITTED
            return Found(texts[0], "text", (texts[0],), None if is_original else f"vectors={texts[0].stem}")
        encoder = self.sentence_encoder()
        if isinstance(encoder, Found) and _is_wordpiece(encoder.path):
            name = (encoder.stands_for or "").removeprefix("encoder=")
            return Found(encoder.path, "wordpiece", encoder.files, f"vectors={name}-wordpiece")
        return Absent(
            f"neither {TEXTATTACK_VECTORS[0]} in {self.folder / 'counter-fitted'} nor a .txt or .vec in "
            f"{self.folder / 'word-vectors'} nor a sentence encoder to take them from"
        )

    def sentence_encoder(self) -> Finding:
        """Find a sentence encoder: a Hugging Face folder, mean-pooled."""
        return _model(self.folder / "sentence-encoder", "encoder=")

    def masked_lm(self) -> Finding:
        """Find a masked language model: a Hugging Face folder, made for BERT's word pieces."""
        model = _model(self.folder / "masked-lm", "lm=")
        if isinstance(model, Absent) or not _is_bert_base(model.path):
            return model
        return Found(model.path, model.form, model.files)

    def find(self, resource: str) -> Finding:
        """Find a resource by its name.

        Raises:
            KeyError: There is no such resource.
        """
        if resource in SHIPPED_FILES:
            return Found(SHIPPED_FILES[resource][0], "shipped", SHIPPED_FILES[resource])
        if resource in INSTALLED:
            path = self.folder / INSTALLED[resource]
            return Found(path.parent, "table", (path,)) if path.is_file() else Absent(_lacks(path.parent, [path.name]))
        finders = {
            "wordnet": self.wordnet,
            "tagger": self.tagger,
            "word-vectors": self.word_vectors,
            "sentence-encoder": self.sentence_encoder,
            "masked-lm": self.masked_lm,
        }
        return finders[resource]()


def _has(folder: Path, names: Iterable[str]) -> bool:
    return all((folder / name).is_file() for name in names)


def _files(folder: Path, names: Iterable[str]) -> tuple[Path, ...]:
    return tuple(folder / name for name in names if (folder / name).is_file())


def _lacks(folder: Path, names: Iterable[str]) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return f"{folder} lacks {', '.join(name for name in names if not (folder / name).is_file())}"


def _model(folder: Path, kind: str) -> Finding:
    """Find a Hugging Face folder; pickled weights do not count."""
    if not (folder / "config.json").is_file():
        return Absent(_lacks(folder, ["config.json"]))
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        return Absent(f"{folder} has no *.safetensors; weights in other formats are not read")
    # The fast tokenizer is in one file or made of the vocabulary.
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        return Absent(f"{folder} has neither tokenizer.json nor vocab.txt")
    config = _json(folder / "config.json")
    if not isinstance(config, dict):
        return Absent(f"{folder / 'config.json'} is not a JSON object")
    beside = (path for path in folder.iterdir() if path.suffix in {".json", ".txt"} and path.is_file())
    return Found(folder, "model", (*weights, *sorted(beside)), f"{kind}{_model_name(weights, config)}")


def _model_name(weights: list[Path], config: dict[str, object]) -> str:
    if len(weights) == 1 and _is_minilm(weights[0]):
        return "minilm-l6"
    return f"{config.get('model_type')}-l{config.get('num_hidden_layers')}-h{config.get('hidden_size')}"


def _is_minilm(weights: Path) -> bool:
    checksum, size = ENCODER_MODEL
    status = weights.stat()
    return status.st_size == size and _checksum(weights, size, status.st_mtime_ns) == checksum


@lru_cache(maxsize=64)
def _checksum(path: Path, _size: int, _changed: int) -> str:
    return sha256_of(path)


def _dimensions(vectors: Path) -> int:
    """Return how many numbers the first line of a text file of vectors has after its word."""
    with vectors.open(encoding="utf-8", errors="replace") as file:
        return len(file.readline(100_000).split()) - 1


def _is_bert_base(folder: Path) -> bool:
    """Whether a masked LM has the shape of bert-base-uncased, which BAE was published with."""
    config = _json(folder / "config.json")
    shape = {"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "vocab_size": 30522}
    return isinstance(config, dict) and all(config.get(key) == value for key, value in shape.items())


def _is_wordpiece(folder: Path) -> bool:
    if (folder / "tokenizer.json").is_file():
        tokenizer = _json(folder / "tokenizer.json")
        model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
        return isinstance(model, dict) and model.get("type") == "WordPiece"
    return (folder / "vocab.txt").is_file()


def _json(path: Path) -> object:
    try:
        parsed: object = json.loads(path.read_bytes())
    except ValueError:
        return None
    return parsed


def _wordnet_version(data: Path) -> str:
    """Return the version in the licence at the head of a data file."""
    with data.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := re.search(r"Word[nN]et (\d+\.\d+) Copyright", line):
                return match[1]
            # The licence is indented; synsets are not.
            if not line.startswith("  "):
                break
    return "unknown"
