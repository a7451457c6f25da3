"""What the README and the pages it leads to say is so."""

import json
import re
from xml.etree import ElementTree

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from app.cli.gate import gate
from app.policies import presets
from seatrial.contracts.architectures import Architecture
from seatrial.contracts.models import ModelManifest
from seatrial.contracts.registry import families
from tests.packaging.pages import blocks, links, read

README = read("README.md")


def test_it_can_be_read_in_one_sitting() -> None:
    assert len(README.splitlines()) <= 140


def test_every_family_is_introduced() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \| .+\? \| .+ \|$", README, re.MULTILINE) == list(families())


def test_it_leads_to_every_page() -> None:
    led_to = {path for path, _ in links("README.md")}
    pages = {"cli", "compatibility", "deployment", "families", "flags", "gate", "measured", "metrics"}
    pages |= {"models-and-data", "perturb", "rest", "reverse-proxy", "security", "settings", "ci/README"}
    assert {f"docs/{page}.md" for page in pages} <= led_to
    assert {"ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CITATION.cff"} <= led_to


def test_the_gate_gives_options_there_are() -> None:
    (shown,) = (block for block in blocks("README.md") if block.startswith("$ seatrial gate"))
    given = set(re.findall(r" (--[a-z-]+)", shown.splitlines()[0]))
    assert {"--model", "--data", "--policy"} <= given <= {name for option in gate.params for name in option.opts}


def test_the_gate_shows_the_rules_of_its_policy() -> None:
    (policy,) = (yaml.safe_load(block) for block in blocks("README.md", "yaml"))
    (shown,) = (block for block in blocks("README.md") if block.startswith("$ seatrial gate"))
    rows = [line.split()[0] for line in shown.splitlines() if re.match(r"[a-z_]+\.[a-z_]+\S* ", line)]
    assert rows == [rule["metric"] for rule in policy["rules"]]


def test_the_picture_shows_numbers_of_the_table() -> None:
    (table,) = (block for block in blocks("docs/measured.md") if "as trained" in block)
    picture = ElementTree.fromstring(read("docs/images/illusion.svg"))
    texts = ["".join(element.itertext()) for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert len([text for text in texts if re.fullmatch(r"0\.\d{3}", text)]) == 6
    numbers = {number for text in texts for number in re.findall(r"-?\d\.\d{3}", text)}
    assert len(numbers) >= 8
    assert numbers <= set(re.findall(r"-?\d\.\d{3}", table))


def test_pictures_are_for_light_and_dark_pages_and_for_readers_who_see_none() -> None:
    for name in ("illusion", "floors"):
        text = read(f"docs/images/{name}.svg")
        assert "prefers-color-scheme: dark" in text
        ElementTree.fromstring(text)
        assert re.search(r"<title id=\"title\">.+</title>\n\s*<desc id=\"description\">.+</desc>", text)
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_every_measured_number_has_its_command() -> None:
    rows = re.findall(r"^\| (?!what|---)(.+) \| (.+) \| (.+) \|$", read("docs/measured.md"), re.MULTILINE)
    assert len(rows) > 15
    for what, measured, command in rows:
        assert command == "the same" or re.fullmatch(r"`(python -m benchmarks\.\w+.*|make [a-z-]+)`", command), what
        assert re.search(r"\d", measured), what


def test_the_shipped_policies_are_described_as_they_are() -> None:
    assert presets.describe().strip() in read("docs/gate.md")


def test_every_architecture_is_described_by_an_example_that_is_accepted() -> None:
    examples = re.findall(r"^\| `(\{\"kind\".*?\})` \| ", read("docs/models-and-data.md"), re.MULTILINE)
    filled = {"...": '"https://models.example.com/ask", "request": "{{text}}", "scores": "$"'}
    shown = {}
    for example in examples:
        text = example.replace(", ...]}", "]}").replace('"url": ...', f'"url": {filled["..."]}')
        shown[json.loads(text)["kind"]] = TypeAdapter(Architecture).validate_python(json.loads(text))
    known = TypeAdapter(Architecture).json_schema()["discriminator"]["mapping"]
    assert set(shown) == set(known)


def test_the_manifest_shown_is_accepted() -> None:
    shown = blocks("docs/models-and-data.md", "json")[0]
    assert ModelManifest.model_validate_json(shown).architecture.kind == "resnet_cifar"


def test_the_templates_of_endpoints_fit_the_tasks_said() -> None:
    (block,) = (block for block in blocks("docs/models-and-data.md", "json") if block.startswith('{"inputs"'))
    tasks = ["text-pair-classification"] * 2 + ["token-classification"] * 2
    for task, line in zip(tasks, block.splitlines(), strict=True):
        architecture = {"kind": "endpoint", "url": "https://models.example.com/ask", "request": json.loads(line)}
        said = {"name": "m", "version": "1", "task": task, "labels": ["a", "b"], "architecture": architecture}
        assert ModelManifest.model_validate(said).architecture is not None
        with pytest.raises(ValidationError):
            ModelManifest.model_validate({**said, "task": "text-classification"})
