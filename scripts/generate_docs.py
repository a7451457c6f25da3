"""Write the pages of docs/ that are made from the code, or with ``--check`` say which of them are out of date.

A page is one function in ``PAGES``, from nothing to its text.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from app.cli import main as command
from scripts.family_pages import flags_page, metrics_page
from seatrial.store.settings import Settings

DOCS = Path(__file__).resolve().parents[1] / "docs"

SECTIONS = {
    "home": "Storage",
    "require_keys": "Access",
    "max_model_bytes": "Uploads and connections",
    "lease_s": "Jobs",
    "check_deadline_s": "Child processes",
    "inspections": "Inspection of uploads",
    "shard_s": "Workers",
    "resources": "Texts and endpoints",
    "perturb_deadline_s": "Noise and webhooks",
    "log_level": "Logs",
}
"""Heading before a setting; settings stand in the order of the class."""

OTHER_VARIABLES = {
    "SEATRIAL_URL": "The service `seatrial` asks, in place of `--url` or `--server`.",
    "SEATRIAL_KEY": "The API key it sends, in place of `--key`.",
    "SEATRIAL_SERVICE_ROLE_PASSWORD": "Password `seatrial migrate --service-role` gives the API's database role.",
    "SEATRIAL_WORKER_ROLE_PASSWORD": "Password `seatrial migrate --worker-role` gives the workers' database role.",
    "SEATRIAL_TORCH_INDEX_URL": "One more package index `scripts/setup` may take torch from.",
    "SEATRIAL_TEST_DATABASE_URL": "Postgres server the tests use; default: a private one.",
    "SEATRIAL_TEST_REDIS_URL": "Redis server the tests use; default: a private one.",
    "SEATRIAL_TEST_PROCESSES": "Processes the tests run in; default: 3 in `make test`, else 2.",
    "SEATRIAL_TEST_INTERPRETERS": "1: each worker of a test is a Python of its own, as in production; default: forked.",
    "SEATRIAL_HYPOTHESIS": "Profile of the property tests: `repeatable` (default) or `searching`.",
    "SEATRIAL_TAG": "Tag of the images in `docker-compose.yml`; default: `latest`.",
    "SEATRIAL_REGISTRY": "Where `scripts/release` pushes images.",
    "SEATRIAL_RELEASE": "Tag of the release it makes: `v` and the version of `pyproject.toml`.",
    "SEATRIAL_BIND": "Address `docker-compose.yml` publishes the API on; default: `127.0.0.1`.",
    "SEATRIAL_PORT": "Port it publishes it on; default: `8000`.",
    "SEATRIAL_GPU": "GPU of the worker in `docker-compose.yml`; default: `0`.",
    **{
        f"SEATRIAL_{container}_{limit}": f"{meaning} of {who} in `docker-compose.yml`."
        for container, who in (("API", "an API"), ("WORKER", "a worker"), ("SCHEDULER", "the scheduler's"))
        for limit, meaning in (
            ("MEMORY", "Memory"),
            ("PIDS", "Most processes"),
            ("TMP", "Size of /tmp"),
        )
        if (container, limit) != ("SCHEDULER", "TMP")
    },
}
"""Variables that are no setting of the service."""


def settings_page() -> str:
    """Return docs/settings.md: every environment variable with its default."""
    lines = [
        "# Settings",
        "",
        "All from the environment. Made from the code by `scripts/generate_docs.py`; what the limits protect is in",
        "[security.md](security.md).",
    ]
    for name, field in Settings.model_fields.items():
        if name in SECTIONS:
            lines += ["", f"## {SECTIONS[name]}", "", *_head("variable", "default", "what it does")]
        default = "" if field.default in ("", None, [], {}) else f"`{field.default}`"
        lines.append(_row(f"`SEATRIAL_{name.upper()}`", default, field.description or ""))
    lines += ["", "## Read by scripts, tests and containers", "", *_head("variable", "what it does")]
    lines += [_row(f"`{name}`", meaning) for name, meaning in OTHER_VARIABLES.items()]
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """Return docs/cli.md: every command with its arguments and options."""
    lines = [
        "# The `seatrial` command",
        "",
        "Made from the code by `scripts/generate_docs.py`; `seatrial COMMAND --help` says the same.",
        "",
        *_head("command", "what it does"),
    ]
    commands = list(_commands(command, ("seatrial",)))
    for names, one in commands:
        lines.append(_row(f"[`{' '.join(names)}`](#{'-'.join(names)})", _paragraphs(one.help)[0]))
    for names, one in commands:
        lines += ["", f"## {' '.join(names)}", "", f"`{_usage(names, one)}`"]
        for paragraph in _paragraphs(one.help):
            lines += ["", paragraph]
        if rows := [_option(parameter) for parameter in one.params if isinstance(parameter, click.Option)]:
            lines += ["", *_head("option", "meaning", "default"), *rows]
        if one.epilog:
            lines += ["", "```", one.epilog.replace("\b\n", "").strip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _commands(group: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield names, group
        return
    for name, one in sorted(group.commands.items()):
        yield from _commands(one, (*names, name))


def _usage(names: Sequence[str], one: click.Command) -> str:
    arguments = [parameter for parameter in one.params if isinstance(parameter, click.Argument)]
    shown = [
        (f"{name}..." if argument.nargs != 1 else name) if argument.required else f"[{name}]"
        for argument in arguments
        for name in [argument.metavar or (argument.name or "").upper()]
    ]
    return " ".join([*names, "[OPTIONS]", *shown])


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {option.metavar or _value(option.type)}"
    help_text = option.help or ""
    # What a callback or the service fills in is said in the help.
    said = re.search(r"\s*\[(?:env: \w+)?(?:; )?(?:default: (?P<default>.*))?\]$", help_text)
    told = said["default"] if said else None
    default = "required" if option.required else ", else ".join(filter(None, (_default(option), told)))
    return _row(f"{names}{value}", (help_text[: said.start()] if said else help_text).strip(), default)


def _value(kind: "click.ParamType[Any]") -> str:
    if isinstance(kind, click.Choice):
        return " \\| ".join(str(choice) for choice in kind.choices)
    if isinstance(kind, click.IntRange | click.FloatRange):
        name = kind.name.partition(" ")[0].upper()
        low = "" if kind.min is None else f"{'>' if kind.min_open else '>='} {kind.min}"
        high = "" if kind.max is None else f"{'<' if kind.max_open else '<='} {kind.max}"
        return f"{name} ({', '.join(filter(None, (low, high)))})"
    return kind.name.upper()


def _default(option: click.Option) -> str:
    if option.envvar and not option.required:
        return f"`{option.envvar}`"
    shown = option.show_default
    if isinstance(shown, str):
        return shown
    return f"`{option.default}`" if shown and option.default not in (None, (), []) else ""


def _paragraphs(help_text: str | None) -> list[str]:
    """Return the paragraphs of a docstring, each in one line."""
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", (help_text or "").strip())]


def _head(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "flags.md": flags_page,
}


def stale(folder: Path = DOCS) -> list[str]:
    """Return the pages that do not say what the code says."""
    return [
        name
        for name, make in PAGES.items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != make()
    ]


def run() -> int:
    """Write the pages, or look at them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where a page is out of date")
    if parser.parse_args().check:
        for name in (old := stale()):
            print(f"docs/{name} is out of date: run scripts/generate_docs.py")
        return 1 if old else 0
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
