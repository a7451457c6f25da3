"""The file of ``seatrial gate``, or the name that stands in its place, and what is run for it."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from app.cli.exits import BadRequestError, CouldNotRunError
from app.cli.files import read_limited, shorten
from app.cli.progress import say
from app.policies import presets
from app.policies.documents import YamlError, yaml_to_json
from seatrial.client import Client
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.known_fields import pointer_of, refusal
from seatrial.contracts.near_names import instead
from seatrial.contracts.policies import GateFile, Policy, parse_metric
from seatrial.contracts.registry import families, family, params_contract
from seatrial.ingest.strict_json import strict_json
from seatrial.installed import how_to_install, missing_packages
from seatrial.reporting.balls import within_ball

T = TypeVar("T")

_CHECKS = TypeAdapter(list[CheckParams])
_FILES = (".yaml", ".yml", ".json")
_MAX_SHOWN = 20


def is_file(policy: str) -> bool:
    """Return whether a policy is given as a file, rather than by its name.

    A shipped policy's name is never a file: whoever adds one of that name to a repository changes no verdict.

    >>> is_file("release.yaml"), is_file("standard"), is_file("release@3"), is_file("./standard")
    (True, False, False, True)
    """
    if policy.endswith(_FILES) or "/" in policy:
        return True
    return policy.partition("@")[0] not in presets.RESERVED and Path(policy).is_file()


def unknown_policy(name: str) -> BadRequestError:
    """Return what a name that no policy has is refused with.

    >>> print(unknown_policy("stricct"))
    there is no policy 'stricct': did you mean 'strict'? There are lenient, standard, strict, and files (.yaml, .json)
    """
    return BadRequestError(f"there is no policy {name!r}{instead(name, presets.POLICIES)}, and files (.yaml, .json)")


def read_gate_file(path: Path) -> GateFile:
    """Return a policy file, YAML or JSON.

    Raises:
        BadRequestError: It is not one; names the line or the fields.
    """
    return _validated(path, lambda text: GateFile.model_validate_json(text))


def read_checks(path: Path) -> list[Any]:
    """Return the checks of a file: a list of them, or what else holds ``checks``.

    Raises:
        BadRequestError: There are none, or they are wrong.
    """

    def parse(text: str) -> list[Any]:
        value = strict_json(text)
        return _CHECKS.validate_json(json.dumps(value.get("checks", []) if isinstance(value, dict) else value))

    checks = _validated(path, parse)
    if not checks:
        raise BadRequestError(f"{path} holds no checks: write a list like [{{kind: {next(iter(families()))}}}]")
    return checks


def known_policy(policy: Policy | str, client: Client) -> Policy:
    """Return a policy that is given, or what a service has by its name.

    Raises:
        CouldNotRunError: This version does not know what it says.
    """
    if isinstance(policy, Policy):
        return policy
    try:
        return Policy.model_validate(client.policy(policy).document)
    except ValidationError as error:
        raise CouldNotRunError(
            f"the policy {policy} is not one this version knows: {error.error_count()} fields are wrong or missing"
        ) from error


def default_checks(
    policy: Policy | None,
    task: str,
    say: Callable[[str], None],
    *,
    examples: int | None = None,
    is_local: bool = False,
) -> list[BaseModel]:
    """Return the families a policy requires, as far as they audit such models and need no parameters, else one.

    Shipped policies require none, so that as little as possible is run where nobody has chosen a cost. A check sets
    apart at most half of the examples: with its own default it could leave none to be attacked.

    Args:
        policy: The policy, where it is known here.
        task: What the model does.
        say: Called with what is run.
        examples: What the dataset holds, where it is known.
        is_local: Whether it runs in this installation, so that what it lacks the packages for is no default.

    Raises:
        BadRequestError: Every family needs parameters, or packages that are not here.
    """
    rules = policy.rules if policy is not None else []
    named = dict.fromkeys(parse_metric(rule.metric).family for rule in rules if rule.required is True)
    lacking = {kind: spec.extra for kind, spec in families().items() if is_local and missing_packages(spec.extra)}
    others = [kind for kind in families() if kind not in lacking]
    checks = _defaults(named, task) or _defaults(others, task)[:1]
    left_out = [kind for kind in kinds_of(_defaults(lacking, task)) if kind not in named]
    for kind in left_out:
        say(f"{kind} is left out: its packages are not installed here ({how_to_install(lacking[kind])}).")
    if not checks:
        raise BadRequestError(
            f"no check audits models for {task} by default: give checks in the policy file or --checks"
        )
    told = ", ".join(map(_with_ball, checks))
    lacking_checks = "No checks are given" if policy is None else f"Policy {policy.name} names no checks"
    say(f"{lacking_checks}: running {told} with default parameters; --checks or `checks` of a policy file give others.")
    return [_within(check, examples, say) for check in checks] if examples is not None else checks


def default_checks_of(
    client: Client, policy: Policy | str | None, task: str, dataset_id: str, *, is_local: bool = False
) -> list[BaseModel]:
    """Return a policy's own checks, else :func:`default_checks`; an empty id is no dataset.

    Raises:
        BadRequestError: As :func:`default_checks`.
        CouldNotRunError: As :func:`known_policy`.
    """
    known = None if policy is None else known_policy(policy, client)
    if known is not None and known.checks:
        return list(known.checks)
    examples = client.dataset(dataset_id).facts.examples if dataset_id else None
    return default_checks(known, task, say, examples=examples, is_local=is_local)


def _within(check: BaseModel, examples: int, say: Callable[[str], None]) -> BaseModel:
    kind = str(getattr(check, "kind", ""))
    apart = family(kind).needs.held_out
    if apart is None or not isinstance(check, FamilyParams) or 2 * check.held_out() <= examples or examples < 4:
        return check
    say(f"{apart.number} of {kind} is {examples // 2:,}: half of the {examples:,} examples there are.")
    return params_contract(kind).model_validate({"kind": kind, apart.number: examples // 2})


def _defaults(kinds: Iterable[str], task: str) -> list[BaseModel]:
    checks: list[BaseModel] = []
    for kind in kinds:
        if task not in family(kind).tasks:
            continue
        try:
            checks.append(params_contract(kind).model_validate({"kind": kind}))
        except ValidationError:
            # It needs parameters, such as which defences to attack.
            continue
    return checks


def _with_ball(check: BaseModel) -> str:
    """Return the kind of a check, and how far an attack of it may go where that is one number."""
    ball = within_ball(check.model_dump(include={"norm", "epsilon"}))
    return f"{getattr(check, 'kind', '')}{f' ({ball})' if ball else ''}"


def kinds_of(checks: Iterable[BaseModel]) -> list[str]:
    """Return the families of checks."""
    return [str(getattr(check, "kind", "")) for check in checks]


def _message(error: ErrorDetails) -> str:
    """Return what is wrong with a field, in the words of its author."""
    if error["type"] == "too_short":
        return f"must hold at least {error['ctx']['min_length']}, holds {error['ctx']['actual_length']}"
    # A list of checks is counted, a policy file is not.
    body = list[CheckParams] if error["loc"] and isinstance(error["loc"][0], int) else GateFile
    return refusal(body, error, error["input"])


def _validated(path: Path, parse: Callable[[str], T]) -> T:
    try:
        raw = read_limited(path)
        # JSON as it is: it may hold escapes that YAML reads in another way.
        text = raw.decode("utf-8-sig") if path.suffix == ".json" else yaml_to_json(raw)
        return parse(text)
    except OSError as error:
        raise BadRequestError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise BadRequestError(f"{path}: it is nested too deeply") from error
    except ValidationError as error:
        errors = error.errors(include_url=False)
        body = None if any(one["type"] == "json_invalid" for one in errors) else json.loads(text)
        told = [f"  {shorten(pointer_of(body, one)[0])}: {shorten(_message(one))}" for one in errors[:_MAX_SHOWN]]
        told += [f"  and {len(errors) - _MAX_SHOWN:,} more"] if len(errors) > _MAX_SHOWN else []
        raise BadRequestError("\n".join([f"{path} is not valid:", *told])) from error
    except (YamlError, ValueError) as error:
        raise BadRequestError(f"{path}: {shorten(str(error))}") from error
