"""Noise without a model: what is asked of the perturber, and what it answers."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from seatrial.contracts.base import Read, Real
from seatrial.contracts.noise import ATTACKERS, COMBINED, NOT_OF_TOKENS, Attacker, Noise, check_levels, in_a_list
from seatrial.contracts.rules import all_different

Noisemaker = Attacker | Literal["combined"]
"""An attacker, or the one that draws among several."""

NOISEMAKERS: tuple[Noisemaker, ...] = (*ATTACKERS, "combined")

MOST_COPIES = 2_000
"""Perturbed copies of texts in one answer."""

MOST_CHARACTERS = 200_000
"""Characters of the texts of one request, each counted as often as it is perturbed: at most a second of a core."""

MOST_TOKENS = 15_000
"""Tokens of the sentences of one request, counted in the same way: the form of each may have to be drawn, 50 µs."""

MOST_TEXT_CHARACTERS = 20_000
"""Characters of one text or sentence. Counting edits takes time with their square: 0.05 s at most, all to itself."""

Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class Cell(NamedTuple):
    """One way a text is perturbed.

    Attributes:
        attacker: By whom.
        level: How much.
        draw: Which of the random draws, from 0.
    """

    attacker: str
    level: float
    draw: int


def drawn_among(attackers: tuple[Noisemaker, ...], *, is_tagged: bool = False) -> tuple[Attacker, ...]:
    """Return what ``combined`` draws among: the others named, in their order; all of them where it is named alone.

    >>> drawn_among(("visual", "combined", "truncate"))
    ('visual', 'truncate')
    >>> len(drawn_among(("combined",))), len(drawn_among(("combined",), is_tagged=True))
    (10, 9)
    """
    others = tuple(name for name in attackers if name != "combined") or ATTACKERS
    return tuple(name for name in others if not (is_tagged and name in NOT_OF_TOKENS))


class PerturbRequest(Noise):
    """Texts to perturb, and how."""

    texts: list[str | Pair] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_COPIES,
        description="Texts, or pairs of premise and hypothesis. Either these or `sentences`.",
        examples=[["A gripping film.", "Not for me."], [["A man sleeps.", "Nobody is awake."]]],
    )
    sentences: list[Annotated[list[str], Field(min_length=1)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_COPIES,
        description="Sentences as lists of tokens, none of them empty, whose number stays, for taggers: a word has one "
        "form in all of them, and `segment` is not among `all`.",
        examples=[[["The", "ship", "may", "leave", "."]]],
    )
    attackers: Literal["all"] | list[Noisemaker] = Field(
        default="all",
        description="`all`, or names. `combined` meets each word by one of the others named, drawn anew; named alone, "
        "by one of all; it is not among `all`.",
        examples=["all", ["visual", "keyboard_typo"], ["combined"]],
    )
    levels: list[Real] = Field(
        default=[0.2, 0.5, 0.8],
        min_length=1,
        max_length=10,
        description="Shares of the words that are attacked, 0.000001 to 1.",
    )
    draws: int = Field(default=1, ge=1, le=100, description="Random draws of each text at each level.")
    seed: int = Field(
        default=0,
        ge=0,
        le=2**53 - 1,
        description="Everything random follows from it: a text gets the noise that an audit of this seed gives the "
        "example of its number in the dataset.",
    )
    first: int = Field(
        default=0, ge=0, le=2**53 - 1, description="Number of the first text; those after it are counted on."
    )

    @field_validator("texts", mode="before")
    @classmethod
    def _texts_are_strings_or_pairs(cls, texts: object) -> object:
        for position, text in enumerate(texts if isinstance(texts, list) else ()):
            is_pair = isinstance(text, list) and len(text) == 2 and all(isinstance(part, str) for part in text)
            if not isinstance(text, str) and not is_pair:
                raise PydanticCustomError(
                    "no_text",
                    "a text is a string, or a list of two: premise and hypothesis",
                    # `path` leads to the member at fault; see app.web.bodies.
                    {"path": [position]},
                )
        return texts

    @field_validator("sentences")
    @classmethod
    def _tokens_show(cls, sentences: list[list[str]] | None) -> list[list[str]] | None:
        for position, tokens in enumerate(sentences or ()):
            for place, token in enumerate(tokens):
                # As in a dataset: there would be nothing to tag.
                if not token or token.isspace():
                    raise PydanticCustomError(
                        "empty_token", "the token is empty: leave it out", {"path": [position, place]}
                    )
        return sentences

    @field_validator("attackers", mode="before")
    @classmethod
    def _attackers_are_listed(cls, attackers: object) -> object:
        return in_a_list(attackers, NOISEMAKERS)

    @field_validator("attackers", mode="after")
    @classmethod
    def _attackers_differ(
        cls, attackers: Literal["all"] | list[Noisemaker], info: ValidationInfo
    ) -> Literal["all"] | list[Noisemaker]:
        if attackers == []:
            raise ValueError("attackers must name one at least, or be `all`")
        if COMBINED in attackers and len(attackers) == 2:
            raise ValueError("combined draws among several attackers: name it alone, or with two others at least")
        return attackers if attackers == "all" else all_different(attackers, info)

    @field_validator("levels")
    @classmethod
    def _levels_are_fractions(cls, levels: list[float]) -> list[float]:
        return check_levels(levels, at_zero="a text stays as it is there")

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        if (self.texts is None) == (self.sentences is None):
            raise ValueError("give texts or sentences: exactly one of the two")
        for position, name in enumerate(self.attackers if self.attackers != "all" and self.sentences else ()):
            if name in NOT_OF_TOKENS:
                raise PydanticCustomError(
                    "not_of_tokens",
                    "{name} joins words, which leaves no tag for each: it is not for sentences",
                    {"name": name, "path": ["attackers", position]},
                )
        return self

    @property
    def names(self) -> tuple[Noisemaker, ...]:
        """The attackers asked for, in the paper's order where all are."""
        everything = tuple(name for name in ATTACKERS if not (self.sentences and name in NOT_OF_TOKENS))
        return everything if self.attackers == "all" else tuple(self.attackers)

    def cells(self) -> Iterator[Cell]:
        """Yield every way each text is perturbed."""
        for attacker in self.names:
            for level in self.levels:
                yield from (Cell(attacker, level, draw) for draw in range(self.draws))

    @property
    def copies(self) -> int:
        """How often each text is perturbed."""
        return len(self.names) * len(self.levels) * self.draws


class PerturbedRead(Read):
    """One text perturbed in one way."""

    index: int = Field(description="Number of the text: `first` of the request, plus its place.")
    attacker: str = Field(description="Who perturbed it.", examples=["visual"])
    level: float = Field(description="Share of the words that were to be attacked.")
    draw: int = Field(description="Which of the random draws, from 0.")
    perturbed: str | list[str] = Field(
        description="What became of it, as it was given: a text, a pair, or the tokens of a sentence."
    )
    tokens: int = Field(description="Words and punctuation marks of the text as it was, both parts of a pair together.")
    changed: int = Field(description="How many of them changed.")
    characters: int = Field(
        description="Characters of the text as it was, a letter with its accents as one; between tokens of a sentence, "
        "one space."
    )
    edits: int = Field(description="Levenshtein distance: characters, as counted there, put in, left out or replaced.")
    edits_per_character: float = Field(description="`edits` over `characters`; 0 of an empty text.")


class PerturbationsRead(Read):
    """Perturbed texts."""

    items: list[PerturbedRead] = Field(description="By text, then attacker, level and draw.")
