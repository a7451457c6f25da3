"""The files a verdict is written to."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import click

from app.cli.attest import SIGNING_KEY, attestation, read_key
from app.cli.exits import BadRequestError
from app.cli.progress import say_all
from app.policies.documents import MAX_YAML_BYTES, rule_lines
from seatrial.attestation.keys import SigningKey
from seatrial.client import Client, ClientError, ReportFormat

C = TypeVar("C", bound=Callable[..., Any])

FORMATS: dict[ReportFormat, str] = {
    "junit": "JUnit XML, one test case per rule, here.",
    "sarif": "SARIF 2.1.0 here.",
    "markdown": "Markdown for a pull-request comment here.",
    "html": "the report, one HTML file, here.",
    "json": "the report as JSON here.",
    "cyclonedx": "a bill of materials, CycloneDX 1.6 with every number's interval, here.",
    "model-index": "YAML for the head of a Hugging Face model card here.",
    "annex-iv": "an extract for Annex IV of the EU AI Act, a page to print, here.",
    "annex-iv-markdown": "the same extract as Markdown here.",
}
Output = ReportFormat | Literal["bundle", "attestation"]
BUNDLE: Literal["bundle"] = "bundle"
ATTESTATION: Literal["attestation"] = "attestation"
_PATH = click.Path(dir_okay=False, path_type=Path)


def output_options(command: C) -> C:
    """Give a command an option per file it can write."""
    command = SIGNING_KEY(command)
    command = click.option(
        f"--{ATTESTATION}", type=_PATH, help="Write the signed verdict, for `seatrial verify`, here."
    )(command)
    command = click.option(f"--{BUNDLE}", type=_PATH, help="Write the bundle that `seatrial replay` runs again here.")(
        command
    )
    for name, help_text in reversed(FORMATS.items()):
        command = click.option(f"--{name}", type=_PATH, help=f"Write {help_text}")(command)
    return command


@dataclass(frozen=True)
class Outputs:
    """Files to write, by format.

    Attributes:
        paths: Path of each.
        location: File that alerts are shown at, relative to the current folder; None where there is none.
        signing_key: What the verdict is signed with; None: the service's key.
        lines: Where in ``location`` each rule of the policy begins.
    """

    paths: dict[Output, Path]
    location: str | None = None
    signing_key: SigningKey | None = None
    lines: Sequence[int] = ()

    @property
    def needs_key(self) -> bool:
        """Whether the service must sign."""
        return ATTESTATION in self.paths and self.signing_key is None

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> "Outputs":
        """Take the options of :func:`output_options` out of a command's, and return them checked.

        What an earlier run left there goes: a pipeline that ends without a verdict must not publish the last one's.

        Raises:
            BadRequestError: A file could not be written: better known before hours of work than after.
        """
        names: tuple[Output, ...] = (*FORMATS, BUNDLE, ATTESTATION)
        key = read_key(options.pop("signing_key", None))
        given = {name: options.pop(name.replace("-", "_"), None) for name in names}
        paths = {name: path for name, path in given.items() if path is not None}
        for path in paths.values():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadRequestError(f"{path} cannot be written: {error.strerror}") from error
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise BadRequestError(f"{path} cannot be written: permission denied")
            _remove_earlier(path)
        return cls(paths, _location(options), key, _lines(options))

    def write(self, client: Client, audit_id: str, judgement: str | None = None) -> bool:
        """Write all there is, and return whether that is all; what is missing is reported.

        Args:
            client: Where it is.
            audit_id: Of which audit.
            judgement: Which of its judgements; by default that of its own policy.
        """
        is_whole = True
        # What is signed goes first: reports say what the signature covers.
        for name, path in sorted(self.paths.items(), key=lambda one: one[0] != ATTESTATION):
            try:
                if name == BUNDLE:
                    client.bundle(audit_id, path)
                elif name == ATTESTATION:
                    path.write_bytes(attestation(client, audit_id, judgement, self.signing_key))
                else:
                    report = client.report(audit_id, name, judgement=judgement)
                    if name == "sarif" and self.location:
                        report = _located(report, self.location, self.lines)
                    path.write_bytes(report)
            except (ClientError, OSError, _NotSarifError) as error:
                say_all(f"{path} could not be written: {error}")
                is_whole = False
        return is_whole


class _NotSarifError(Exception):
    pass


def _location(options: dict[str, Any]) -> str | None:
    """Return the policy's file, else the model's, as far as it is below the current folder."""
    policy, model = (Path(str(options.get(name) or "")) for name in ("policy", "model"))
    here = Path.cwd()
    for path in (policy, model / "manifest.json", model):
        if path.is_file() and path.resolve().is_relative_to(here):
            return quote(path.resolve().relative_to(here).as_posix())
    return None


def _lines(options: dict[str, Any]) -> list[int]:
    """Return where the rules stand in the policy's file; none where alerts are shown at another, or it has a name."""
    policy = Path(str(options.get("policy") or ""))
    if not policy.is_file() or not policy.resolve().is_relative_to(Path.cwd()):
        return []
    with policy.open("rb") as file:
        return rule_lines(file.read(MAX_YAML_BYTES))


def _located(sarif: bytes, uri: str, lines: Sequence[int]) -> bytes:
    """Return SARIF whose alerts are at a file that is there; the service knows a model's name only.

    Args:
        sarif: What the service answered.
        uri: The file.
        lines: Where in it each rule of the policy begins; none where it is no policy.
    """
    try:
        document = json.loads(sarif)
        for result in (result for run in document["runs"] for result in run["results"]):
            for location in result.get("locations", []):
                location["physicalLocation"]["artifactLocation"]["uri"] = uri
                index = result.get("ruleIndex", len(lines))
                line = lines[index] if 0 <= index < len(lines) else 1
                location["physicalLocation"]["region"] = {"startLine": line}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise _NotSarifError("the service answered with something that is not SARIF") from error
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def _remove_earlier(path: Path) -> None:
    # /dev/stdout is a link, and nothing that an earlier run wrote.
    if path.is_symlink() or not path.is_file():
        return
    try:
        path.unlink()
    except OSError as error:
        raise BadRequestError(f"{path} cannot be replaced: {error.strerror}") from error
