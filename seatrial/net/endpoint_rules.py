"""What an endpoint's manifest must keep to beyond its schema; the API and the workers hold it to the same."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.filter import (
    BaseExpression,
    FilterExpression,
    FilterExpressionLiteral,
    InfixExpression,
    PrefixExpression,
    RelativeFilterQuery,
)
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter

from seatrial.contracts.endpoints import (
    EACH,
    SECRET,
    SINGLE,
    WITHIN,
    EndpointArchitecture,
    EndpointSecret,
    ServedArchitecture,
    embedded,
    placeholders,
    single_example,
)
from seatrial.net import AddressRefusedError, RequestRefusedError, check_host, host_of, origin_of
from seatrial.net.addresses import Network

_RFC_9535 = JSONPathEnvironment(strict=True)


class EndpointRuleError(ValueError):
    """An endpoint's manifest breaks a rule.

    Attributes:
        field: JSON pointer into the request that stored it.
        detail: What is wrong and what would be right.
    """

    def __init__(self, member: str, detail: str) -> None:
        super().__init__(detail)
        self.field = f"/manifest/architecture/{member}"
        self.detail = detail


class ScorePath:
    """A JSONPath whose evaluation takes time linear in the answer, whoever wrote the path and the answer.

    RFC 9535 as a whole allows ``$..*..*..*`` and patterns without bound, each of which can hold a worker for ever.

    Raises:
        EndpointRuleError: It is no JSONPath, or uses more than names, indexes, slices, wildcards, one ``..`` and
            filters that compare members with literals.
    """

    def __init__(self, path: str) -> None:
        try:
            compiled = _RFC_9535.compile(path)
        # Its parser fails in other ways too: `$[?1e999` with an OverflowError (python-jsonpath 2.2.2).
        except Exception as error:
            message = error.message if isinstance(error, JSONPathError) else "it cannot be parsed"
            raise EndpointRuleError("scores", f"scores is no JSONPath (RFC 9535): {message}") from error
        if not isinstance(compiled, JSONPath):
            raise EndpointRuleError("scores", "scores must be one JSONPath")
        _check_linear(compiled)
        self._path = compiled

    def find(self, answer: Any, most: int) -> list[Any]:
        """Return the nodes of a parsed answer, in its order, at most ``most + 1`` of them."""
        # A string would be parsed as JSON a second time; it holds nothing to be found.
        if not isinstance(answer, dict | list):
            return []
        try:
            return [match.obj for match in islice(self._path.finditer(answer), most + 1)]
        # Nested more deeply than the library descends, or a filter that compares what cannot be compared.
        except JSONPathError:
            return []


MOST_REQUEST_S = 1800.0
"""Most seconds of waiting for one request, all its retries together."""
SLOWEST_PER_S = 0.01
"""Fewest requests a second: less is a worker that sleeps for the other projects."""


def check_endpoint(architecture: ServedArchitecture, allowed: Sequence[Network]) -> None:
    """Raise for a manifest that could never be asked.

    Args:
        architecture: As uploaded.
        allowed: Networks the operator allows.

    Raises:
        EndpointRuleError: The URL's host is a private address, the template contradicts itself, the path is none.
    """
    try:
        check_host(host_of(architecture.url), allowed)
    except (AddressRefusedError, RequestRefusedError) as error:
        raise EndpointRuleError("url", str(error)) from error
    waited_s = architecture.timeout_s * (architecture.retries + 1)
    if waited_s > MOST_REQUEST_S:
        raise EndpointRuleError(
            "timeout_s",
            f"timeout_s {architecture.timeout_s:g} with {architecture.retries} retries waits {waited_s:,.0f} s for one "
            f"request; at most {MOST_REQUEST_S:,.0f} s: timeout_s times (retries + 1) must stay within",
        )
    if architecture.requests_per_second is not None and architecture.requests_per_second < SLOWEST_PER_S:
        raise EndpointRuleError(
            "requests_per_second",
            f"requests_per_second {architecture.requests_per_second:g} is less than {SLOWEST_PER_S:g}: send more "
            "per request (batch_size) in place of fewer requests",
        )
    for name, value in architecture.headers.items():
        if "{{secret" in SECRET.sub("", value):
            pointer = f"headers/{name.replace('~', '~0')}"
            raise EndpointRuleError(pointer, "a secret is written {{secret:NAME}}, NAME of letters, digits, _ and -")
    if isinstance(architecture, EndpointArchitecture):
        check_template(architecture.request, architecture.batch_size)
        compiled_path(architecture.scores)


def filled_headers(
    architecture: ServedArchitecture,
    secrets: Mapping[str, EndpointSecret],
    project: str,
    *,
    are_all_known: bool = True,
) -> tuple[dict[str, str], set[str]]:
    """Return the headers with their secrets filled in, and the secrets, which must not be shown.

    Args:
        architecture: As uploaded.
        secrets: The operator's, by name.
        project: Name of the project whose model it is.
        are_all_known: Whether a secret that is not among them is an error; the API may have none of those the workers
            have.

    Raises:
        EndpointRuleError: A secret is not for this project, server or header, or cannot stand in a header. The detail
            says what an entry for it would be, and nothing of what the entry there is holds.
    """
    origin = origin_of(architecture.url)
    used: set[str] = set()

    def reveal(header: str, match: re.Match[str]) -> str:
        secret = secrets.get(match[1])
        if secret is None and not are_all_known:
            return match[0]
        pointer = f"headers/{header.replace('~', '~0')}"
        is_bound = (
            secret is not None
            and secret.origin == origin
            and project in secret.projects
            and header.lower() in map(str.lower, secret.headers)
        )
        if secret is None or not is_bound:
            scheme, host, port = origin
            entry = {"host": host, "scheme": scheme, "port": port, "projects": [project], "headers": [header]}
            raise EndpointRuleError(
                pointer,
                f"there is no secret {match[1]} for project {project} to send to {scheme}://{host}:{port} in {header}: "
                f"the operator keeps them in SEATRIAL_ENDPOINT_SECRETS, for this with {json.dumps(entry)}",
            )
        value = secret.value.get_secret_value()
        if not value.isascii() or not value.isprintable():
            raise EndpointRuleError(pointer, f"the secret {match[1]} holds characters that no header can carry")
        used.add(value)
        return value

    filled = {
        name: SECRET.sub(lambda match, name=name: reveal(name, match), value)  # type: ignore[misc]
        for name, value in architecture.headers.items()
    }
    return filled, used


def check_template(request: Any, batch_size: int) -> None:
    """Raise for a request template that cannot be filled in one way only.

    Raises:
        EndpointRuleError: ``$each`` has neighbours or stands inside another, a single example is wanted of several, a
            list stands inside of a string, or a number is none.

    >>> check_template({"a": {"$each": {"t": "{{text}}"}, "b": 1}}, 16)
    Traceback (most recent call last):
    seatrial.net.endpoint_rules.EndpointRuleError: $each must be the only member of its object
    """
    try:
        json.dumps(request, allow_nan=False)
    except ValueError as error:
        raise EndpointRuleError("request", "the template holds NaN or Infinity, which JSON does not know") from error
    _check_each(request, is_inside=False)
    if lists := sorted(set(embedded(request)) - set(WITHIN)):
        raise EndpointRuleError("request", f"{lists[0]} becomes a list, which cannot stand inside of a longer string")
    outside = set(placeholders(request, inside=False))
    if batch_size > 1 and (single := sorted(outside & set(SINGLE))):
        raise EndpointRuleError("batch_size", single_example(single[0]))


def _check_each(template: Any, *, is_inside: bool) -> None:
    if isinstance(template, list):
        for value in template:
            _check_each(value, is_inside=is_inside)
    elif isinstance(template, dict):
        if EACH in template and len(template) > 1:
            raise EndpointRuleError("request", f"{EACH} must be the only member of its object")
        if EACH in template and is_inside:
            raise EndpointRuleError("request", f"{EACH} cannot stand inside another")
        for name, value in template.items():
            _check_each(value, is_inside=is_inside or name == EACH)


@lru_cache(maxsize=64)
def compiled_path(path: str) -> ScorePath:
    """Return the path to the scores.

    Raises:
        EndpointRuleError: It is none, or not one of those accepted.

    >>> compiled_path("$.outputs[?@.name == 'probs'].data").find({"outputs": [{"name": "probs", "data": [1]}]}, 1)
    [[1]]
    """
    return ScorePath(path)


def _check_linear(path: JSONPath) -> None:
    descents = 0
    for segment in path.segments:
        descents += isinstance(segment, JSONPathRecursiveDescentSegment)
        if len(segment.selectors) > 1:
            raise EndpointRuleError("scores", "scores: brackets hold one selector here, not a list of them")
        if descents and any(isinstance(selector, Filter) for selector in segment.selectors):
            raise EndpointRuleError("scores", "scores: a filter cannot follow `..` here")
        for selector in segment.selectors:
            if isinstance(selector, Filter) and not _is_plain(selector.expression):
                raise EndpointRuleError(
                    "scores", "scores: a filter may compare members of an item with literals, and nothing else"
                )
    if descents > 1:
        raise EndpointRuleError("scores", "scores: `..` may stand once")


def _is_plain(expression: BaseExpression) -> bool:
    if isinstance(expression, FilterExpression):
        return _is_plain(expression.expression)
    if isinstance(expression, InfixExpression):
        return _is_plain(expression.left) and _is_plain(expression.right)
    if isinstance(expression, PrefixExpression):
        return _is_plain(expression.right)
    if isinstance(expression, RelativeFilterQuery):
        return expression.path.singular_query()
    return isinstance(expression, FilterExpressionLiteral)
