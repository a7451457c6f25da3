"""What a worker gives transformers of an archive: known files, known keys; and honest folders of every kind load."""

import base64
import json
import sys
from collections.abc import Callable
from inspect import signature
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from app.models.inspection import inspect_model
from seatrial.ingest.huggingface.folders import DOCUMENTS, VOCABULARIES
from seatrial.store.settings import Settings
from tests import texts
from tests.models import test_hf_image as images
from tests.models.builders import CPU, manifest
from workers.errors import TargetError
from workers.models import unpacking
from workers.models.hf_folders import check_size
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.loading import load_image_classifier, load_text_classifier
from workers.models.unpacking import PREFIX, unpacked_folder

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LIMITS = Settings()
DEADLINE_S = 60.0
CORPUS = ["a dull film", "it is late .", "wonderful acting and a wonderful film", "the plot is thin", "not a bad film"]


def _manifest(task: str = "text-classification") -> Any:
    return manifest({"kind": "huggingface"}, task=task, input=None, labels=None)


def _archive(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    path.write_bytes(texts.zip_folder(folder))
    return path


def _sentencepiece(folder: Path, name: str, kind: str = "unigram") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus").write_text("\n".join(CORPUS * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus"),
        model_prefix=str(folder / "spm"),
        vocab_size=40,
        model_type=kind,
        hard_vocab_limit=False,
        byte_fallback=False,
        pad_id=3,
        minloglevel=2,
    )
    (folder / "corpus").unlink()
    (folder / "spm.vocab").unlink()
    return (folder / "spm.model").rename(folder / name)


def _merges(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    letters = [
        *["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"],
        *map(chr, range(33, 127)),
        "\u0120",
        "fi",
        "fil",
    ]
    (folder / "vocab.json").write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\nf i\nfi l\n")


def _bert(folder: Path) -> PreTrainedModel:
    texts.review_tokenizer().save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(texts.vocabulary()), max_position_embeddings=40, **SIZES)
    return transformers.BertForSequenceClassification(config)


def _roberta(folder: Path) -> PreTrainedModel:
    _merges(folder)
    config = transformers.RobertaConfig(vocab_size=200, max_position_embeddings=42, **SIZES)
    return transformers.RobertaForSequenceClassification(config)


def _distilbert(folder: Path) -> PreTrainedModel:
    (folder).mkdir()
    (folder / "vocab.txt").write_text("\n".join(texts.vocabulary()))
    config = transformers.DistilBertConfig(
        vocab_size=len(texts.vocabulary()), dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=40
    )
    return transformers.DistilBertForSequenceClassification(config)


def _gpt2(folder: Path) -> PreTrainedModel:
    _merges(folder)
    config = transformers.GPT2Config(
        vocab_size=200, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=5, eos_token_id=5, pad_token_id=5
    )
    return transformers.GPT2ForSequenceClassification(config)


def _qwen2(folder: Path) -> PreTrainedModel:
    _merges(folder)
    config = transformers.Qwen2Config(
        vocab_size=200, max_position_embeddings=64, num_key_value_heads=2, pad_token_id=5, **SIZES
    )
    return transformers.Qwen2ForSequenceClassification(config)


def _llama(folder: Path) -> PreTrainedModel:
    _sentencepiece(folder, "tokenizer.model", "bpe")
    config = transformers.LlamaConfig(
        vocab_size=200, max_position_embeddings=64, num_key_value_heads=2, pad_token_id=3, **SIZES
    )
    return transformers.LlamaForSequenceClassification(config)


def _albert(folder: Path) -> PreTrainedModel:
    _sentencepiece(folder, "spiece.model")
    config = transformers.AlbertConfig(vocab_size=200, embedding_size=8, max_position_embeddings=40, **SIZES)
    return transformers.AlbertForSequenceClassification(config)


def _deberta(folder: Path) -> PreTrainedModel:
    _sentencepiece(folder, "spm.model")
    # What DeBERTa-v3 is: keys that its configuration class does not name.
    config = transformers.DebertaV2Config(
        vocab_size=200,
        max_position_embeddings=40,
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        conv_kernel_size=3,
        **SIZES,
    )
    return transformers.DebertaV2ForSequenceClassification(config)


def _xlm_roberta(folder: Path) -> PreTrainedModel:
    _sentencepiece(folder, "sentencepiece.bpe.model")
    config = transformers.XLMRobertaConfig(vocab_size=200, max_position_embeddings=42, **SIZES)
    return transformers.XLMRobertaForSequenceClassification(config)


KINDS = [_bert, _roberta, _distilbert, _gpt2, _qwen2, _llama, _albert, _deberta, _xlm_roberta]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.parametrize("is_whole", [False, True], ids=["vocabulary only", "as saved"])
def test_honest_folders_of_every_kind_load_as_transformers_loads_them(
    tmp_path: Path, make: Callable[[Path], PreTrainedModel], is_whole: bool
) -> None:
    torch.manual_seed(0)
    folder = tmp_path / "model"
    model = make(folder).eval()
    model.save_pretrained(folder)
    if is_whole:
        AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
        assert (folder / "tokenizer.json").exists()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        # What older exports left behind.
        config = json.loads((folder / "tokenizer_config.json").read_text())
        old = {"name_or_path": "/root/x", "special_tokens_map_file": "/root/.cache/x.json", "tokenizer_file": None}
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, **old}))
    else:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    archive = _archive(folder)
    assert inspect_model(archive, "model.zip", _manifest(), LIMITS) == "archive"
    classifier = load_text_classifier(_manifest(), archive, "archive", CPU, scratch=tmp_path)
    assert isinstance(classifier, HuggingFaceTextClassifier)
    rows = classifier.logits(CORPUS)
    module = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    for text, row in zip(CORPUS, rows, strict=True):
        encoded = tokenizer(text, return_tensors="pt")
        taken = set(encoded) & set(signature(module.forward).parameters)
        with torch.no_grad():
            wanted = module(**{name: encoded[name] for name in taken}).logits[0]
        assert torch.allclose(row, wanted, atol=1e-5), text
    assert not list(tmp_path.glob(f"{PREFIX}*"))


@pytest.mark.parametrize("name", images.MODELS)
def test_honest_image_folders_pass_the_api_and_the_worker(tmp_path: Path, name: str) -> None:
    archive = images._archive(tmp_path, images.MODELS[name])
    stated = manifest({"kind": "huggingface"}, input=None, labels=None)
    assert inspect_model(archive, "model.zip", stated, LIMITS) == "archive"
    assert load_image_classifier(stated, archive, "archive", CPU, scratch=tmp_path).labels == images.LABELS
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_nothing_but_known_files_is_unpacked_and_nothing_stays(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    _bert(folder).save_pretrained(folder, max_shard_size="30KB")
    save_file({"w": torch.zeros(1)}, folder / "other.safetensors")
    for name in ("chat_template.jinja", "adapter_config.json", "generation_config.json", "notes/tokenizer.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    archive = _archive(folder)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with unpacked_folder(archive, _manifest(), LIMITS, scratch=scratch) as clean:
        assert clean.parent == scratch
        names = {path.name for path in clean.iterdir()}
        assert all(path.is_file() for path in clean.iterdir())
        assert {name for name in names if not name.endswith(".safetensors")} <= {*DOCUMENTS, *VOCABULARIES}
        assert {path.name for path in folder.glob("model*.safetensors")} <= names
        index = json.loads((clean / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"].values()) == {name for name in names if name.endswith(".safetensors")}
    assert not list(scratch.iterdir())
    (folder / "config.json").write_text("{}")
    with pytest.raises(TargetError), unpacked_folder(_archive(folder), _manifest(), LIMITS, scratch=scratch):
        pass
    assert not list(scratch.iterdir())


def _record(archives: list[Path], scratch: Path, answers: Connection) -> None:
    """Load archives that no inspection has seen, and send what was said and which files Python opened meanwhile."""
    opened: list[str] = []
    sys.addaudithook(lambda event, values: opened.append(str(values[0])) if event == "open" else None)
    for archive in archives:
        opened.clear()
        try:
            load_text_classifier(_manifest(), archive, "archive", CPU, scratch=scratch)
            said = ""
        except TargetError as error:
            said = f"{error.problem.title} {error.problem.detail}"
        answers.send((said, list(opened)))


_KERNEL = ("/proc/stat", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/kernel", "/proc/self/cgroup", "/proc/self/status")
"""What libraries ask the system about itself; /proc/self/environ is none of it."""


def _attacks(secret: Path) -> dict[str, dict[str, Any]]:
    token = {"tokenizer.json": None}
    return {
        "none": {},
        "merges_file": {**token, "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "merges_file": secret}},
        "vocab_file": {**token, "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "vocab_file": secret}},
        "tokenizer_file": {"tokenizer_config.json": {"tokenizer_file": secret}},
        "special_tokens_map": {
            **token,
            "tokenizer_config.json": {"tokenizer_class": "BertTokenizer"},
            "special_tokens_map.json": {"vocab_file": secret},
        },
        "init_inputs": {
            **token,
            "tokenizer_config.json": {"init_inputs": [secret], "tokenizer_class": "BertTokenizer"},
        },
        "configuration_files": {"config.json": {"configuration_files": [f"../{secret.name}"]}},
        "sp_model_kwargs": {
            **token,
            "tokenizer_config.json": {"tokenizer_class": "AlbertTokenizer", "sp_model_kwargs": {"model_file": secret}},
        },
        "dictionary": {
            **token,
            "tokenizer_config.json": {
                "tokenizer_class": "BertJapaneseTokenizer",
                "mecab_kwargs": {"mecab_option": f"-d {secret}"},
            },
        },
        "shard": {
            "model.safetensors.index.json": {"metadata": {}, "weight_map": {"classifier.bias": secret}},
            "model.safetensors": None,
        },
    }


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_file_outside_of_the_clean_folder_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "outside" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("canary-1f83 hunter2\n")
    archives = []
    for name, files in _attacks(secret).items():
        folder = tmp_path / name
        _bert(folder).save_pretrained(folder)
        (folder / "vocab.json").write_text("{}")
        (folder / "spiece.model").write_text("")
        for file, content in files.items():
            if content is None:
                (folder / file).unlink()
                continue
            old = json.loads((folder / file).read_text()) if file == "config.json" else {}
            (folder / file).write_text(json.dumps({**old, **content}, default=str))
        archives.append(_archive(folder))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # An audit hook stays until its process ends.
    receiving, sending = Pipe(duplex=False)
    child = get_context("fork").Process(target=_record, args=(archives, scratch, sending))
    child.start()
    sending.close()
    try:
        results = [receiving.recv() for _ in archives if receiving.poll(DEADLINE_S)]
        child.join(DEADLINE_S)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
    assert len(results) == len(archives)
    libraries = [*sys.path, sys.prefix, sys.base_prefix, "/usr", "/lib", "/sys", "/dev/null", *_KERNEL]
    allowed = [str(scratch), *(path for path in libraries if path)]
    for archive, (said, opened) in zip(archives, results, strict=True):
        odd = [
            path
            for path in opened
            if not path.isdecimal() and path != str(archive) and not any(path.startswith(place) for place in allowed)
        ]
        assert odd == [], archive.name
        assert (said == "") == (archive.stem == "none"), (archive.name, said)
        assert "canary" not in said
        assert "hunter2" not in said
    assert not list(scratch.glob(f"{PREFIX}*"))


def test_a_tokenizer_that_panics_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    _bert(folder).save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    # A character map that is well formed, and whose trie leads outside of itself.
    charsmap = base64.b64encode((4).to_bytes(4, "little") + bytes(4) + b"ab\0").decode()
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    archive = _archive(folder)
    assert inspect_model(archive, "model.zip", _manifest(), LIMITS) == "archive"
    with pytest.raises(TargetError, match="PanicException") as caught:
        load_text_classifier(_manifest(), archive, "archive", CPU, scratch=tmp_path)
    assert caught.value.problem.code == "huggingface-folder-unusable"
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_tables_that_no_file_bounds_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        config = transformers.GPT2Config(vocab_size=9, n_embd=2, n_layer=1, n_head=1, n_positions=2**20)
        empty = transformers.GPT2ForSequenceClassification(config)
    with pytest.raises(TargetError, match="tables") as caught:
        check_size(empty, tmp_path)
    assert caught.value.problem.code == "model-too-large"


def test_an_archive_without_its_weights_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    _bert(folder).save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(TargetError, match=r"model\.safetensors"):
        load_text_classifier(_manifest(), _archive(folder), "archive", CPU)
    assert unpacking.PREFIX == "seatrial-model-"
