"""A language model as a classifier: which of a few words it would write next."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from seatrial.contracts.endpoints import SECRET, ServedArchitecture, placeholders

MOST_LISTED = 20
"""Tokens that OpenAI's protocol lists with their log probabilities at most."""

Reading = Literal["first_token", "continuation", "votes"]


class GenerativeArchitecture(ServedArchitecture):
    """A language model behind a server that speaks OpenAI's protocol; it classifies by what it would write."""

    model: str = Field(min_length=1, max_length=500, description="Name the server knows the model by.")
    template: str = Field(
        min_length=1,
        max_length=65_536,
        description="The prompt, with `{{text}}` (for pairs `{{premise}}` and `{{hypothesis}}`) where the text goes.",
        examples=["Review: {{text}}\nSentiment (positive or negative):"],
    )
    labels: dict[
        Annotated[str, Field(max_length=200)],
        Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=50)],
    ] = Field(
        min_length=2,
        max_length=1000,
        description="For each class, what the model writes for it, exactly and with its blank: tokens whose "
        "probabilities are added up. Read by continuation or by votes they may be longer than one token.",
        examples=[{"negative": [" negative", " Negative"], "positive": [" positive", " Positive"]}],
    )
    read: Reading = Field(
        default="first_token",
        description="`first_token`: the log probabilities of one token; a label that is not listed has the interval "
        "from 0 to the least that is. `continuation`: of the whole label after the prompt, from a server that echoes "
        "(completions, `echo`). `votes`: the shares of sampled answers, where there are no log probabilities.",
    )
    top_logprobs: int = Field(
        default=MOST_LISTED,
        ge=1,
        le=MOST_LISTED,
        description="Tokens to ask the log probabilities of; 5 at some servers.",
    )
    samples: int = Field(default=20, ge=2, le=128, description="Answers that are sampled for a text, read by votes.")
    max_tokens: int = Field(default=4, ge=1, le=64, description="Tokens of a sampled answer.")

    @field_validator("template")
    @classmethod
    def _template_has_a_place(cls, template: str) -> str:
        if "{{secret" in template:
            raise ValueError("a secret belongs into headers: nothing of it is filled in here")
        if not any(True for _ in placeholders(template)):
            raise ValueError("the template holds no {{text}}: put it where the text goes")
        return template

    @field_validator("labels")
    @classmethod
    def _words_differ(cls, labels: dict[str, list[str]]) -> dict[str, list[str]]:
        words = [word for several in labels.values() for word in several]
        if twice := sorted({word for word in words if words.count(word) > 1}):
            raise ValueError(f"{twice[0]!r} stands for two labels, or twice for one")
        return labels

    @field_validator("read")
    @classmethod
    def _chat_echoes_nothing(cls, read: Reading, info: ValidationInfo) -> Reading:
        if read == "continuation" and "system" in cls.model_fields:
            raise ValueError("a chat echoes no prompt: labels of several tokens are read by completions, or by votes")
        words = [word for several in info.data.get("labels", {}).values() for word in several]
        begun = next(((one, other) for one in words for other in words if one != other and other.startswith(one)), None)
        if read == "continuation" and begun is not None:
            raise ValueError(
                f"the label's word {begun[0]!r} begins {begun[1]!r}: whatever continues as the one counts for the other"
            )
        return read


class ChatArchitecture(GenerativeArchitecture):
    """A language model asked by chat completions."""

    kind: Literal["chat"] = Field(title="Language model, chat completions", description="Chat completions.")
    system: str | None = Field(default=None, max_length=65_536, description="A system message before the prompt.")

    @field_validator("system")
    @classmethod
    def _system_is_sent_as_it_is(cls, system: str | None) -> str | None:
        if system is not None and (found := [*placeholders(system), *SECRET.findall(system)]):
            raise ValueError(f"{found[0]} is not filled in here: texts go into the template, secrets into headers")
        return system


class CompletionsArchitecture(GenerativeArchitecture):
    """A language model asked by completions."""

    kind: Literal["completions"] = Field(title="Language model, completions", description="Completions.")
