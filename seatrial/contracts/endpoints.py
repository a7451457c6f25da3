"""A model behind somebody's HTTP endpoint: what is sent, where the scores stand in the answer, how fast to ask."""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, JsonValue, SecretStr, ValidationInfo, field_validator

from seatrial.contracts.base import Real, Request

ENDPOINT = "endpoint"
"""Format of a model behind a URL: its bytes are its manifest."""

IMAGE = "{{image}}"

EACH = "$each"
"""Key of a template object that stands for a list, an object per text: ``{"$each": {"text": "{{text}}"}}``."""

PARTS: dict[str, tuple[str, ...]] = {
    "text-classification": ("{{text}}",),
    "text-pair-classification": ("{{premise}}", "{{hypothesis}}"),
    "multi-label-classification": ("{{text}}",),
    "token-classification": ("{{tokens}}",),
    "image-classification": (IMAGE,),
}
"""Placeholders of what one example of a task is made of; ``{{tokens}}`` is the list of the tokens of a sentence."""

THINGS = {"token-classification": "sentence", "image-classification": "image"}
"""What one example of a task is called; of the others it is a text."""

PLURALS = {
    "{{text}}": "{{texts}}",
    "{{premise}}": "{{premises}}",
    "{{hypothesis}}": "{{hypotheses}}",
    "{{tokens}}": "{{sentences}}",
    IMAGE: "{{images}}",
}
"""Placeholder of the list of all examples of a request, by that of one."""

SINGLE = tuple(PLURALS)
"""Placeholders of one example; inside ``$each`` of every one in turn."""

PLURAL = tuple(PLURALS.values())
"""Placeholders of the list of all examples of a request."""

WITHIN = ("{{text}}", "{{premise}}", "{{hypothesis}}", IMAGE)
"""Placeholders of strings, which may stand inside of longer ones: ``"Review: {{text}}"``; an image only as PNG."""

_PLACE = re.compile("|".join(map(re.escape, (*SINGLE, *PLURAL))))

SECRET = re.compile(r"\{\{secret:([A-Za-z0-9_-]{1,64})\}\}")
"""In a header: a value the operator keeps in ``SEATRIAL_ENDPOINT_SECRETS``; it is never stored nor shown."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Those that say where a message ends, who it is for and what becomes of the connection are the client's to set.
_REFUSED_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "te", "trailer", "connection", "keep-alive", "upgrade"),
        *("content-type", "content-encoding", "accept-encoding", "expect", "proxy-authorization", "proxy-connection"),
    }
)
MAX_TEMPLATE_BYTES = 65_536
SECRET_HEADERS = ("Authorization", "Api-Key", "X-Api-Key", "X-Auth-Token")
"""Headers that servers keep out of their logs."""
SERVED = ("endpoint", "chat", "completions")
"""Kinds of architectures that are asked over HTTP and have no file."""

DEFAULT_PORTS = {"https": 443, "http": 80}


class ServedArchitecture(Request):
    """What is asked over HTTP (POST, JSON), whatever it is sent: where, as whom, how often."""

    url: str = Field(
        min_length=8,
        max_length=2000,
        description="Where to send a POST. Private and local addresses are refused unless the operator allows them "
        "(SEATRIAL_ENDPOINT_ALLOWED_NETWORKS); redirects are not followed.",
        examples=["https://models.example.com/v1/classify"],
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        max_length=20,
        description="Further request headers. `{{secret:NAME}}` stands for a secret of the operator's, which is bound "
        "to projects, to scheme, host and port of the URL, and to some headers (Authorization and the like), which "
        "are refused without one.",
        examples=[{"Authorization": "Bearer {{secret:MODELS}}"}],
    )
    query_budget: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Most texts, sentences or images sent for one check; examples beyond it are errored.",
    )
    requests_per_second: Real | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="Most requests a second a worker sends, 0.01 at least; null: as fast as answered.",
    )
    timeout_s: Real = Field(
        default=30.0, gt=0, le=600, description="Seconds to wait for an answer; times (retries + 1) at most 1800."
    )
    retries: int = Field(
        default=5,
        ge=0,
        le=20,
        description="Times a request is sent again after 429, 502, 503, 504 or a broken connection, with growing "
        "pauses; Retry-After is kept to.",
    )

    @field_validator("url")
    @classmethod
    def _url_is_plain(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            has_port = parts.port is None or 0 < parts.port < 65536
        except ValueError as error:
            raise ValueError(f"not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
            raise ValueError("url must be http://host[:port]/path or https://...")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("url must hold no user, password or fragment: a token belongs into headers as a secret")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("url must be printable ASCII without spaces (percent-encode what is not)")
        return url

    @field_validator("headers")
    @classmethod
    def _headers_are_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or name.lower() in _REFUSED_HEADERS:
                raise ValueError(f"{name[:100]!r} cannot be set as a header")
            if len(value) > 2000 or not value.isascii() or not value.isprintable():
                raise ValueError(f"header {name}: a value is at most 2000 printable ASCII characters")
        return headers


class EndpointArchitecture(ServedArchitecture):
    """A model of texts or images asked over HTTP (POST, JSON); only for families that need no gradients."""

    kind: Literal["endpoint"] = Field(title="HTTP endpoint, no file", description="An HTTP endpoint.")
    request: JsonValue = Field(
        description="Template of the JSON body. The string `{{texts}}` becomes the list of texts (for pairs "
        "`{{premises}}` and `{{hypotheses}}`; for token-classification `{{sentences}}`, a list of tokens for each "
        "sentence; for images `{{images}}`). `{{text}}` becomes a single one (`{{premise}}`, `{{hypothesis}}`; "
        "`{{tokens}}`, the list of the tokens of one sentence; `{{image}}`): then batch_size is 1, or it stands in an "
        'object `{"$each": {...}}`, which becomes a list with one object per example. What is a string may stand '
        "inside of one: `Review: {{text}}`, `data:image/png;base64,{{image}}`.",
        examples=[{"inputs": "{{texts}}"}, {"sentences": {"$each": {"words": "{{tokens}}"}}}],
    )
    image_format: Literal["png", "floats"] = Field(
        default="png",
        description="How an image is written. `png`: base64 of an 8-bit PNG, grey (1 channel) or RGB (3); every image "
        "is rounded to its 256 levels before it is sent, and attacked on them. `floats`: nested lists, channels of "
        "rows of numbers, in [0, 1] but for the noise of certificates.",
    )
    scores: str = Field(
        default="$",
        min_length=1,
        max_length=500,
        description="JSONPath (RFC 9535; names, indices, slices, wildcards, plain comparisons) to the scores in the "
        "answer: one node per text, sentence or image, or one list of them. A text's or an image's "
        "scores are a list of numbers in the order of the labels, an object from label to number, or a list of objects "
        "with `label` and `score`. A sentence's are a list with such scores for each of its tokens, in order; `null` "
        "in it says that the model gives that token no tag.",
        examples=["$.predictions[*].scores"],
    )
    outputs: Literal["probabilities", "logits"] = Field(
        default="probabilities",
        description="What the scores are. Probabilities of an example's classes, or of a token's tags, sum to 1; of "
        "multi-label-classification each is for itself (a sigmoid's). From probabilities logits are recovered, as "
        "log p, or for multi-label-classification as log(p / (1 - p)); what is exactly 0 or 1 is lost, and said so.",
    )
    batch_size: int = Field(default=16, ge=1, le=1000, description="Texts, sentences or images per request.")

    @field_validator("request")
    @classmethod
    def _template_has_a_place(cls, request: JsonValue) -> JsonValue:
        if len(json.dumps(request)) > MAX_TEMPLATE_BYTES:
            raise ValueError(f"the template has more than {MAX_TEMPLATE_BYTES:,} bytes")
        named = set(placeholders(request))
        if not named & {*SINGLE, *PLURAL}:
            raise ValueError("the template has no place for an example: put the placeholder of the task where it goes")
        return request

    @field_validator("batch_size")
    @classmethod
    def _one_text_one_request(cls, batch_size: int, info: ValidationInfo) -> int:
        request = info.data.get("request")
        outside = set(placeholders(request, inside=False)) if request is not None else set()
        if batch_size > 1 and outside & set(SINGLE) and not outside & set(PLURAL):
            raise ValueError(single_example(next(one for one in SINGLE if one in outside)))
        return batch_size


def single_example(placeholder: str) -> str:
    """Return what a template is refused with that takes one example where several are sent.

    >>> single_example("{{text}}").partition(": ")[2]
    'put {{texts}}, the list of all, in its place, or set batch_size to 1'
    """
    plural = PLURALS[placeholder]
    return (
        f"{placeholder} is a single example outside of $each: put {plural}, the list of all, in its place, or set "
        "batch_size to 1"
    )


def placeholders(template: Any, *, inside: bool = True) -> Iterator[str]:
    """Yield the placeholders of a template, also inside of strings; without those inside ``$each`` if told so.

    >>> list(placeholders({"inputs": "{{texts}}", "n": "a {{text}}"}))
    ['{{texts}}', '{{text}}']
    """
    if isinstance(template, str):
        yield from _PLACE.findall(template)
    elif isinstance(template, dict):
        for key, value in template.items():
            if key != EACH or inside:
                yield from placeholders(value, inside=inside)
    elif isinstance(template, list):
        for value in template:
            yield from placeholders(value, inside=inside)


def fill_string(template: str, values: Mapping[str, Any]) -> Any:
    """Return what a string of a template becomes, every placeholder with a value once; values are not looked into.

    >>> fill_string("{{texts}}", {"{{texts}}": ["a"]}), fill_string("Say {{text}}!", {"{{text}}": "{{premise}}"})
    (['a'], 'Say {{premise}}!')
    """
    if template in values:
        return values[template]
    return _PLACE.sub(lambda match: str(values.get(match[0], match[0])), template)


def embedded(template: Any) -> Iterator[str]:
    """Yield the placeholders that stand inside of longer strings."""
    if isinstance(template, str) and template not in SINGLE and template not in PLURAL:
        yield from _PLACE.findall(template)
    elif isinstance(template, dict | list):
        for value in template.values() if isinstance(template, dict) else template:
            yield from embedded(value)


class EndpointSecret(Request):
    """A secret of the operator's: which projects may have it sent, to which server, in which headers.

    Whoever names the server, the header and the text around the secret is the sender of a manifest. So everything
    that could carry it elsewhere is bound here: by default to HTTPS on its usual port, to the project that is there
    when no other has been made, and to headers that servers keep out of their logs.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    host: str = Field(min_length=1, description="Host name it is sent to, as in the URL.")
    scheme: Literal["https", "http"] = Field(
        default="https", description="http only where the network between is trusted: the secret is sent as it is."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Port; null: the one of the scheme.")
    projects: list[str] = Field(
        default=["default"], min_length=1, description="Names of the projects whose models may name it."
    )
    headers: list[str] = Field(
        default=[*SECRET_HEADERS],
        min_length=1,
        description="Headers it may stand in, in any case.",
    )
    value: SecretStr = Field(min_length=1, description="What `{{secret:NAME}}` becomes.")

    @field_validator("host")
    @classmethod
    def _host_is_a_host(cls, host: str) -> str:
        if set("/@ ") & set(host):
            raise ValueError("a host alone: scheme and port are members of their own")
        return host

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host.strip("[]").lower(), self.port or DEFAULT_PORTS[self.scheme]


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return a network an operator allows, in CIDR notation.

    Raises:
        ValueError: It is none.

    >>> parse_network("10.0.0.0/8")
    IPv4Network('10.0.0.0/8')
    """
    return ipaddress.ip_network(text)
