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
from seatrial.reporting.metric_labels import label_of
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


# By the first cell's beginning: what runs the row as it is written.
EXECUTED = {
    "a Hugging Face folder": ["tests/snippets/test_rows.py::hugging_face", "tests/e2e/test_text_jobs.py::test_"],
    "PyTorch weights": ["tests/snippets/test_rows.py::weights", "tests/client/test_gate_verdicts.py::test_"],
    "a `.pt`": [
        "tests/snippets/test_rows.py::convert",
        "tests/conversion/test_convert.py::test_an_architecture_is_told",
    ],
    "behind an HTTP API": [
        "tests/models/endpoint/test_documented.py::test_the_image_endpoint_is_ready",
        "tests/models/endpoint/test_documented.py::test_the_language_model_is_ready",
        "tests/snippets/test_pages.py::test_the_walk_through_over_rest_runs",
    ],
    "a classifier of torchvision or timm": [
        "tests/snippets/test_rows.py::torchvision",
        "tests/snippets/test_rows.py::timm",
        "tests/models/test_zoo.py::test_logits_are_those_of_the_package",
    ],
    "any other PyTorch image classifier, or ONNX": [
        "tests/snippets/test_rows.py::exported",
        "tests/snippets/test_rows.py::onnx",
        "tests/models/test_exported.py::test_the_lines_of_the_documentation_make_a_model",
        "tests/tables/test_audits.py::test_a_pipeline_of_scikit_learn_is_audited_as_onnx",
    ],
    "a classifier of table rows": [
        "tests/snippets/test_rows.py::table",
        "tests/tables/test_audits.py::test_a_linear_model_of_a_table_is_audited",
    ],
    "gradient-boosted trees": [
        "tests/client/test_gate_predictions.py::test_gradient_boosted_trees_are_judged",
        "tests/client/test_gate_predictions.py::test_two_tables_of_the_same_examples",
    ],
    "defended at test time": ["tests/e2e/test_defences.py::test_"],
    "trained, and I want noisy texts": ["tests/client/test_perturb_command.py::test_a_mixed_file_has_each_text_once"],
    "in CI": ["tests/snippets/test_running.py::test_"],
}


def test_each_kind_of_model_is_executed_by_a_test() -> None:
    table = README.partition("## My model is ...")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!my model|---)(.+?) \| ", table, re.MULTILINE)
    assert [next((known for known in EXECUTED if row.startswith(known)), row) for row in rows] == list(EXECUTED)
    for named in EXECUTED.values():
        for path, _, function in (one.partition("::") for one in named):
            assert re.search(rf"^def {function}", read(path), re.MULTILINE), (path, function)


def test_the_gate_gives_options_there_are() -> None:
    (shown,) = (block for block in blocks("README.md") if block.startswith("$ seatrial gate"))
    given = set(re.findall(r" (--[a-z-]+)", shown.splitlines()[0]))
    assert {"--model", "--data", "--policy"} <= given <= {name for option in gate.params for name in option.opts}


def test_the_gate_shows_the_rules_of_its_policy() -> None:
    (policy,) = (yaml.safe_load(block) for block in blocks("README.md", "yaml"))
    (shown,) = (block for block in blocks("README.md") if block.startswith("$ seatrial gate"))
    rows = [re.split(r"  +", line)[0] for line in shown.splitlines() if re.match(r"\S.*  \d\.\d{4} \[", line)]
    assert rows == [label_of(rule["metric"]) for rule in policy["rules"]]


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
    served = {"request": "{{text}}", "scores": "$"}
    language_model = {"model": "m", "template": "{{text}}", "labels": {"a": ["a"], "b": ["b"]}}
    more = {"endpoint": served, "chat": language_model, "completions": language_model}
    shown = {}
    for example in examples:
        text = example.replace(", ...]}", "]}").replace('"url": ...', '"url": "https://models.example.com/ask"')
        kind = json.loads(text)["kind"]
        shown[kind] = TypeAdapter(Architecture).validate_python(json.loads(text) | more.get(kind, {}))
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
