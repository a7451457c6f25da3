"""Which recipe or attacker needs which resource, said before a job starts: nothing is loaded or imported for it."""

import importlib.util
from dataclasses import dataclass

from workers.resources.library import SHIPPED_FILES, Absent, Found, Library

RECIPES: dict[str, tuple[str, ...]] = {
    "deepwordbug": (),
    "pwws": ("wordnet",),
    "textfooler": ("word-vectors", "tagger", "sentence-encoder"),
    "bae": ("masked-lm", "tagger", "sentence-encoder"),
    "textbugger": ("word-vectors", "sentence-encoder"),
    "pruthi": (),
    "input_reduction": (),
    "iga": ("word-vectors",),
}
"""Resources of each recipe beside the stopwords, which all need and which are shipped."""


@dataclass(frozen=True)
class Resource:
    """What there is to know of a resource before one has it.

    Attributes:
        name: As on the command line; also its folder in the library.
        what: What it is, in the recipes' own words.
        licence: Of the edition ``install`` gets, or of the original.
        how_to_get_it: A command or a sentence.
        attackers: Attackers of the noise that cannot run without it, with the parameter that asks for it.
    """

    name: str
    what: str
    licence: str
    how_to_get_it: str
    attackers: tuple[str, ...] = ()

    @property
    def is_shipped(self) -> bool:
        """Whether it comes with the package."""
        return self.name in SHIPPED_FILES

    @property
    def needed_by(self) -> list[str]:
        """Recipes of text attacks, and attackers of the noise, that cannot run without it."""
        recipes = [name for name in RECIPES if self.name in ("stopwords", *RECIPES[name])]
        return [*recipes, *self.attackers]


RESOURCES: dict[str, Resource] = {
    resource.name: resource
    for resource in (
        Resource(
            "stopwords",
            "English words no attack touches (NLTK's list)",
            "none: a list of 198 words",
            "shipped",
            ("phonetic",),
        ),
        Resource(
            "typos-codespell",
            "misspellings by word: codespell's dictionary read backwards",
            "CC BY-SA 3.0 (codespell's dictionary, after English Wikipedia)",
            "shipped",
            ("natural_typo (typos: codespell)",),
        ),
        Resource(
            "respellings",
            "spellings of words that sound alike, made from CMUdict",
            "BSD-2-Clause (CMUdict)",
            "shipped",
            ("phonetic",),
        ),
        Resource(
            "glyphs-dejavu",
            "characters DejaVu Sans draws alike",
            "similarities only, of a font under the Bitstream Vera licence",
            "shipped",
            ("visual (glyphs: dejavu, dejavu_bmp)",),
        ),
        Resource(
            "typos-nlpaug",
            "misspellings by word: the table Zéroe's program has",
            "MIT (nlpaug); where the table is from is not documented",
            "seatrial resources install typos-nlpaug",
            ("natural_typo (typos: nlpaug)",),
        ),
        Resource(
            "confusables",
            "characters Unicode holds to be confusable (UTS #39)",
            "MIT (confusable-homoglyphs), Unicode licence (the list)",
            "seatrial resources install confusables",
            ("visual (glyphs: confusables)",),
        ),
        Resource(
            "wordnet",
            "WordNet 3.0: synonyms",
            "WordNet 3.0 licence (Princeton University)",
            "seatrial resources install wordnet",
        ),
        Resource(
            "tagger",
            "part-of-speech tagger: NLTK's averaged perceptron, or a substitute",
            "CC BY-SA 4.0 (the substitute that install gets); NLTK's own as nltk_data says",
            "seatrial resources install tagger, or for NLTK's own: "
            "seatrial resources install tagger --from FOLDER with averaged_perceptron_tagger_eng.*.json",
        ),
        Resource(
            "word-vectors",
            "counter-fitted word vectors, or others in their place; a sentence encoder's own will do",
            "as their author says",
            "seatrial resources install word-vectors --from PATH: counter-fitted-vectors.txt.zip of "
            "github.com/nmrksic/counter-fitting, TextAttack's cache folder with word_embeddings/paragramcf, or another "
            "text file of vectors; or: seatrial resources install sentence-encoder, whose own vectors stand in",
        ),
        Resource(
            "sentence-encoder",
            "sentence encoder in place of the Universal Sentence Encoder (which needs TensorFlow)",
            "Apache-2.0 (all-MiniLM-L6-v2)",
            "seatrial resources install sentence-encoder",
        ),
        Resource(
            "masked-lm",
            "masked language model: bert-base-uncased, or another in its place",
            "Apache-2.0 (bert-base-uncased)",
            "seatrial resources install masked-lm --from FOLDER: a Hugging Face folder of bert-base-uncased or another "
            "BertForMaskedLM with model.safetensors, as huggingface-cli download writes it",
        ),
    )
}


@dataclass(frozen=True)
class Missing:
    """A resource a recipe lacks.

    Attributes:
        resource: Its name; ``textattack`` for the package itself.
        why: What was looked for, and where.
        how_to_get_it: A command or a sentence.
    """

    resource: str
    why: str
    how_to_get_it: str


def missing(name: str, library: Library) -> list[Missing]:
    """Return what a recipe lacks to run; empty when it runs.

    Raises:
        KeyError: There is no such recipe.

    >>> from pathlib import Path
    >>> [each.resource for each in missing("pwws", Library(Path("/nowhere")))]
    ['wordnet']
    """
    lacks = []
    if importlib.util.find_spec("textattack") is None:
        lacks.append(Missing("textattack", "the package is not installed", "pip install 'seatrial[text]'"))
    for resource in RECIPES[name]:
        finding = library.find(resource)
        if isinstance(finding, Absent):
            lacks.append(Missing(resource, finding.why, RESOURCES[resource].how_to_get_it))
    return lacks


def variant(name: str, library: Library) -> str | None:
    """Return what stands in for what in a recipe (``encoder=minilm-l6``); None where nothing does."""
    findings = [library.find(resource) for resource in RECIPES[name]]
    stand_ins = [found.stands_for for found in findings if isinstance(found, Found) and found.stands_for]
    return ", ".join(sorted(stand_ins)) or None
