import os
import random
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.attacks.text.classifiers import LetterCounter
from tests.resources.making import (
    write_encoder,
    write_library,
    write_masked_lm,
    write_text_vectors,
    write_ud_tagger,
    write_upos_model,
    write_wordnet,
)
from tests.texts import NEGATIVE, POSITIVE, sentences
from workers.attacks.text.attacking import Job, attack_all
from workers.attacks.text.recipes import RECIPES, Recipe, ResourceMissingError, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.substitutes import building, substitute
from workers.attacks.text.textattack_environment import DownloadRefusedError, prepare, quiet
from workers.data import Text
from workers.resources import requirements
from workers.resources.library import Found, Library

TEXTS = [
    "the charming film is wonderful and the story is clever .",
    "it makes a dull picture and the awful plot is boring .",
    "of course the long movie is superb , but it tells a boring story from the island .",
    "a charming actor in a dull film , and the clever picture is wonderful of course in the end .",
]


class Counts:
    """A model that counts words of praise and blame it knows in this very spelling, and every letter a little."""

    model = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[Any]) -> Tensor:
        self.asked += texts
        logits = torch.tensor([self._logits(text) for text in texts], dtype=torch.float64)
        return logits.softmax(1)

    def _logits(self, text: Any) -> list[float]:
        words = (text if isinstance(text, str) else " ".join(text)).split()
        opinion = sum(word in POSITIVE for word in words) - sum(word in NEGATIVE for word in words)
        # Letters break ties, so that which candidate is best does not hang on the order they are tried in.
        return [0.0, opinion + 1e-4 * sum(map(ord, "".join(words))) / len("".join(words))]


def label_of(text: Any) -> int:
    return int(Counts()([text]).argmax())


@pytest.fixture(scope="module", autouse=True)
def _no_network() -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise AssertionError("a recipe reached for the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(write_library(tmp_path_factory.mktemp("resources") / "library"))


def run(attack: Any, text: str, seed: int) -> tuple[str, str, int]:
    """Attack one text with the process's generators seeded, as plain TextAttack is used."""
    random.seed(seed)
    np.random.seed(seed)
    result = attack.attack(text, label_of(text))
    return type(result).__name__, result.perturbed_result.attacked_text.text, result.num_queries


def found(library: Library, name: str) -> dict[str, Found]:
    findings = {need: library.find(need) for need in requirements.RECIPES[name]}
    return {need: finding for need, finding in findings.items() if isinstance(finding, Found)}


def plain(name: str, library: Library, model: Any) -> Any:
    """Build a recipe as TextAttack does; within ``building`` its resources are where it looks for them."""
    textattack = prepare()
    with quiet():
        return getattr(textattack.attack_recipes, RECIPES[name][1]).build(model)


# Slower than all others together.
EVERY = [pytest.param(name, marks=pytest.mark.drill) if name == "iga" else name for name in RECIPES]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_recipe_runs(library: Library, name: str) -> None:
    recipe = load_recipe(name, library)
    endings = [run(recipe.attack(Counts(), query_budget=400), text, seed) for seed, text in enumerate(TEXTS)]
    assert all(2 <= queries <= 400 for _, _, queries in endings)
    assert any(final != text for (_, final, _), text in zip(endings, TEXTS, strict=True))
    expected = (
        {"MaximizedAttackResult"} if name == "input_reduction" else {"SuccessfulAttackResult", "FailedAttackResult"}
    )
    assert {ending for ending, _, _ in endings} <= expected
    if name not in {"input_reduction", "bae"}:
        assert "SuccessfulAttackResult" in {ending for ending, _, _ in endings}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["deepwordbug", "pwws", "pruthi", "input_reduction", "iga", "textbugger", "textfooler", "bae"]
)
def test_results_are_those_of_plain_textattack(library: Library, name: str) -> None:
    resources = found(library, name)
    recipe = load_recipe(name, library)
    with building(resources):
        theirs = plain(name, library, Counts())
        if "sentence-encoder" in resources:
            # Its own cannot be had: everything else is as it built it.
            ours = plain(name, library, Counts())
            substitute(ours, resources)
            theirs.constraints = ours.constraints
        if name == "bae":
            theirs.transformation.max_length = 64
        for seed, text in enumerate(TEXTS):
            assert run(recipe.attack(Counts()), text, seed) == run(theirs, text, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_an_example_does_not_depend_on_its_neighbours(library: Library, name: str) -> None:
    recipe = load_recipe(name, library)
    alone = [run(recipe.attack(Counts(), query_budget=200), text, 7) for text in TEXTS]
    attacks = [recipe.attack(Counts(), query_budget=200) for _ in TEXTS]
    together = [run(attack, text, 7) for attack, text in reversed(list(zip(attacks, TEXTS, strict=True)))]
    assert together[::-1] == alone


def test_attacks_share_what_is_heavy_and_nothing_of_an_example(library: Library) -> None:
    recipe = load_recipe("textfooler", library)
    one, other = recipe.attack(Counts()), recipe.attack(Counts())
    assert one.transformation is other.transformation
    assert one.goal_function is not other.goal_function
    assert one.search_method is not other.search_method
    assert one.constraints_cache is not other.constraints_cache
    encoders = [each for attack in (one, other) for each in attack.constraints if "Encoder" in type(each).__name__]
    assert encoders[0] is encoders[1]


def test_a_query_budget_is_kept(library: Library) -> None:
    model = Counts()
    recipe = load_recipe("deepwordbug", library)
    _, _, queries = run(recipe.attack(model, query_budget=6), TEXTS[0], 0)
    assert queries == len(model.asked) == 6


@pytest.mark.parametrize("name", ["pwws", "pruthi", "input_reduction", pytest.param("iga", marks=pytest.mark.drill)])
def test_the_smallest_budget_ends_an_attack_without_an_error(library: Library, name: str) -> None:
    _, _, queries = run(load_recipe(name, library).attack(Counts(), query_budget=2), TEXTS[0], 0)
    assert queries == 2


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("text", ["!!!", ("?", "")])
def test_a_text_without_words_withstands_every_recipe(library: Library, name: str, text: Text) -> None:
    recipe, service = load_recipe(name, library), ScoringService(LetterCounter(), max_bytes=10**6)
    jobs = [Job(0, text, label, 0, lambda logits: logits.softmax(1), recipe) for label in (0, 1)]
    assert [(one.status, one.text, one.queries) for one in attack_all(jobs, service)] == [
        ("failed", text, 1),
        ("skipped", text, 1),
    ]


def test_probabilities_are_taken_as_they_are(library: Library) -> None:
    rows = torch.tensor([[0.25, 0.7501]])
    assert float((rows.sum() - 1).abs()) > 1e-6

    def model(texts: list[Any]) -> Tensor:
        return rows.expand(len(texts), 2)

    result = load_recipe("deepwordbug", library).attack(model, query_budget=5).attack(TEXTS[0], 1)
    assert result.original_result.raw_output.tolist() == rows[0].tolist()
    assert result.original_result.score == pytest.approx(1 - 0.7501, abs=1e-7)


def test_an_answer_of_another_shape_is_an_error(library: Library) -> None:
    attack = load_recipe("deepwordbug", library).attack(lambda texts: torch.zeros(1))
    with pytest.raises(ValueError, match=r"answered \(1,\) to 1 texts"):
        attack.attack(TEXTS[0], 1)


def test_pairs_keep_their_premise_in_textfooler(library: Library) -> None:
    from collections import OrderedDict

    pair = OrderedDict(premise="the charming film is wonderful .", hypothesis="the film is wonderful and superb .")
    result = load_recipe("textfooler", library).attack(Counts(), query_budget=100).attack(pair, 1)
    assert result.perturbed_result.attacked_text.tokenizer_input[0] == pair["premise"]


def test_substitutes_are_in_the_name(tmp_path: Path) -> None:
    write_text_vectors(tmp_path / "word-vectors" / "other.txt")
    write_upos_model(tmp_path / "tagger")
    write_encoder(tmp_path / "sentence-encoder")
    write_wordnet(tmp_path / "wordnet", version="3.1")
    library = Library(tmp_path)
    recipe = load_recipe("textfooler", library)
    assert recipe.label == "textfooler (variant: encoder=bert-l1-h16, tagger=upos-bert-l1-h16, vectors=other)"
    assert run(recipe.attack(Counts(), query_budget=50), TEXTS[0], 0)[2] > 1
    assert load_recipe("pwws", library).label == "pwws (variant: wordnet=3.1)"
    assert load_recipe("deepwordbug", library).label == "deepwordbug"
    write_masked_lm(tmp_path / "masked-lm")
    label = "bae (variant: encoder=bert-l1-h16, lm=bert-l1-h16, tagger=upos-bert-l1-h16)"
    assert load_recipe("bae", library).label == label


def test_an_encoders_own_vectors_let_textfooler_run(tmp_path: Path) -> None:
    write_encoder(tmp_path / "sentence-encoder")
    write_ud_tagger(tmp_path / "tagger")
    recipe = load_recipe("textfooler", Library(tmp_path))
    assert recipe.variant == "encoder=bert-l1-h16, tagger=ud-perceptron, vectors=bert-l1-h16-wordpiece"
    assert run(recipe.attack(Counts(), query_budget=50), TEXTS[0], 0)[2] > 1


def test_bae_without_a_masked_language_model_says_how_to_supply_one(tmp_path: Path) -> None:
    write_encoder(tmp_path / "sentence-encoder")
    write_ud_tagger(tmp_path / "tagger")
    with pytest.raises(ResourceMissingError, match=r"bae lacks masked-lm .*install masked-lm --from FOLDER") as caught:
        load_recipe("bae", Library(tmp_path))
    assert [each.resource for each in caught.value.missing] == ["masked-lm"]


@pytest.mark.slow
def test_a_masked_language_model_without_its_head_is_refused(tmp_path: Path) -> None:
    write_library(tmp_path / "library")
    write_encoder(tmp_path / "library" / "masked-lm")
    with pytest.raises(ValueError, match="is no ModelForMaskedLM"):
        load_recipe("bae", Library(tmp_path / "library"))


def test_bae_writes_what_the_masked_language_model_says(library: Library) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = library.folder / "masked-lm"
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    transformation = load_recipe("bae", library).attack(Counts()).transformation
    text = prepare().shared.AttackedText("the film is wonderful .")
    [replacements] = transformation._bae_replacement_words(text, [3])
    inputs = tokenizer("the film is [MASK] .", return_tensors="pt")
    place = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        best = model(**inputs).logits[0, place].argsort(descending=True)
    words = [tokenizer.convert_ids_to_tokens(int(each)).replace("##", "") for each in best]
    assert replacements[:5] == [word for word in words if word.isalnum()][:5]


def test_textbugger_swaps_look_alikes_without_the_list_its_wheel_lacks(library: Library) -> None:
    swaps = load_recipe("textbugger", library).attack(Counts()).transformation.transformations
    [look_alikes] = [each for each in swaps if type(each).__name__ == "WordSwapHomoglyphSwap"]
    assert look_alikes._get_replacement_words("dull") == ["\u0501ull", "d\u057dll", "du\u217cl", "dul\u217c"]


def test_pwws_looks_a_word_up_once(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.resources.wordnet import load_wordnet

    recipe = load_recipe("pwws", library)
    looked_up: list[str] = []
    reader = load_wordnet(library.folder / "wordnet")
    synsets = reader.synsets
    monkeypatch.setattr(reader, "synsets", lambda word, **more: looked_up.append(word) or synsets(word, **more))
    for seed in range(3):
        run(recipe.attack(Counts()), TEXTS[0], seed)
    assert "charming" in looked_up
    assert len(looked_up) == len(set(looked_up))


def test_texts_of_nothing_attackable_end_quietly(library: Library) -> None:
    for name in ("deepwordbug", "pwws", "pruthi", "input_reduction"):
        assert run(load_recipe(name, library).attack(Counts()), "of the a", 0)[2] >= 1


def test_preparing_again_changes_nothing() -> None:
    before = dict(os.environ)
    assert prepare() is prepare()
    assert dict(os.environ) == before


def test_downloads_are_refused_with_the_command_that_helps() -> None:
    import nltk

    textattack = prepare()
    for download in (
        textattack.shared.utils.download_from_s3,
        textattack.shared.utils.download_from_url,
        nltk.download,
    ):
        with pytest.raises(DownloadRefusedError, match="seatrial resources list"):
            download("anything")


@pytest.mark.drill
@pytest.mark.slow
def test_preparing_leaves_no_trace_and_redirects_nobody(tmp_path: Path) -> None:
    script = """
        import logging, os, socket, sys, warnings

        def refuse(*_):
            raise AssertionError("reached for the network")

        socket.socket.connect = refuse
        warnings.simplefilter("error")
        before = dict(os.environ)
        loggers = {name: logging.getLogger(name) for name in ("workers.ours", "switched.off")}
        loggers["switched.off"].disabled = True
        from concurrent.futures import ThreadPoolExecutor
        from workers.attacks.text.textattack_environment import prepare

        assert "textattack" not in sys.modules, "it is imported when asked for"
        with ThreadPoolExecutor(4) as pool:
            assert len({id(module) for module in pool.map(lambda _: prepare(), range(4))}) == 1
        assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
        assert [name for name, logger in loggers.items() if logger.disabled] == ["switched.off"], "loggers fell silent"
        from huggingface_hub import constants
        assert constants.HF_HOME.startswith(os.environ["HOME"]), constants.HF_HOME
    """
    home, scratch = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    scratch.mkdir()
    # These are set by libraries TextAttack imports, at the first import of a process, to what they are here.
    libraries = {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE", "TORCHINDUCTOR_CACHE_DIR": str(scratch)}
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "OMP_NUM_THREADS"}}
    environment = kept | libraries | {"HOME": str(home), "TMPDIR": str(scratch), "MPLCONFIGDIR": str(scratch / "mpl")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert list(home.rglob("*")) == []
    assert [path.name for path in scratch.iterdir() if path.name != "mpl"] == []


def test_real_reviews_are_attacked(library: Library) -> None:
    recipe: Recipe = load_recipe("deepwordbug", library)
    endings = [run(recipe.attack(Counts()), text, seed)[0] for seed, (text, _) in enumerate(sentences(10))]
    assert endings.count("SuccessfulAttackResult") >= 8
