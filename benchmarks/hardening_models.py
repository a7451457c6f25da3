"""What the papers' training methods are tried on: small models of texts made of a pretrained one, CNNs for images."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertTokenizerFast,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.image_classifier import ImageClassifier
from workers.training.models import TrainableImages, TrainableTexts

CPU = torch.device("cpu")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WIDTHS, FILTERS = (1, 2, 3), 64
SPREAD = 0.25
"""Standard deviation of the embeddings of the CNN for texts."""
LONGEST = 128
PIECE = 2
"""Letters of the pieces that are kept whether or not the training texts have them: attacks make words of them."""


def first_layers(base: Path, folder: Path, layers: int, *, classes: int, seed: int) -> TrainableTexts:
    """Return a pretrained encoder's first layers with a classifier of random weights on top.

    Args:
        base: Hugging Face folder of an encoder.
        folder: Where the tokenizer is read from afterwards; made if missing.
        layers: How many of its layers are kept.
        classes: Outputs.
        seed: Of the weights on top.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((base / "config.json").read_text()) | {"num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config))
    for path in base.iterdir():
        if path.suffix in {".safetensors", ".txt", ".json"} and path.name != "config.json":
            shutil.copy(path, folder / path.name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = AutoModelForSequenceClassification.from_pretrained(
            folder, local_files_only=True, num_labels=classes, dtype=torch.float32
        )
    return _texts(module, AutoTokenizer.from_pretrained(folder, local_files_only=True), classes)


class TextCnn(PreTrainedModel):
    """Convolutions over word embeddings and their maxima over a text (Kim 2014); padding has no part in them."""

    config_class = BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        # All filters' columns in one product: on a CPU a third of the time of a convolution for each width.
        self.filters = nn.Linear(config.hidden_size, FILTERS * sum(WIDTHS))
        self.dropout = nn.Dropout(0.5)
        self.classifier = nn.Linear(FILTERS * len(WIDTHS), config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of word embeddings."""
        return self.words

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> SequenceClassifierOutput:
        """Return logits (n, classes)."""
        embedded = self.words(input_ids) if inputs_embeds is None else inputs_embeds
        mask = torch.ones(embedded.shape[:2]) if attention_mask is None else attention_mask.to(embedded.dtype)
        # Every filter sees nothing but zeros once, so that further padding changes no maximum.
        rows = F.pad(embedded * mask.unsqueeze(2), (0, 0, max(WIDTHS), max(WIDTHS)))
        parts = iter(self.filters(rows).split(FILTERS, 2))
        tops = []
        for width in WIDTHS:
            stop = rows.shape[1] - width + 1
            tops.append(F.relu(sum(next(parts)[:, at : at + stop] for at in range(width))).amax(1))  # type: ignore[arg-type]
        found = torch.cat(tops, 1)
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(found)))


def text_cnn(base: Path, texts: Sequence[str], *, hidden: int, classes: int, seed: int) -> TrainableTexts:
    """Return a CNN of random weights whose word embeddings are principal components of a pretrained encoder's.

    Its vocabulary is what the texts use at least twice, and all short pieces of the pretrained one's.

    Args:
        base: Hugging Face folder of an encoder with a WordPiece vocabulary, uncased.
        texts: Those trained on.
        hidden: Dimensions of the embeddings.
        classes: Outputs.
        seed: Of the random weights.
    """
    old: dict[str, int] = AutoTokenizer.from_pretrained(base, local_files_only=True).get_vocab()
    whole = _tokenizer(old)
    used = Counter(piece for text in texts for piece in whole.tokenize(text))
    short = (piece for piece in old if len(piece.removeprefix("##")) <= PIECE)
    common = (piece for piece, count in used.items() if count > 1)
    kept = dict.fromkeys([*SPECIAL, *sorted(short), *sorted(common)])
    vocabulary = {piece: number for number, piece in enumerate(kept)}
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=hidden, max_position_embeddings=LONGEST, num_labels=classes
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = TextCnn(config)
    table = _embeddings(base)[[old[piece] for piece in vocabulary]]
    _, _, directions = torch.pca_lowrank(table, q=hidden, niter=4)
    reduced = (table - table.mean(0)) @ directions
    module.words.weight.data.copy_(reduced / reduced.std() * SPREAD)
    return _texts(module, _tokenizer(vocabulary), classes)


def small_cnn(seed: int) -> TrainableImages:
    """Return a small CNN of random weights for 1x28x28 images of ten classes."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(
            *[nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()],
            *[nn.Flatten(), nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, 10)],
        )
    return as_trainable(module)


def as_trainable(module: nn.Module) -> TrainableImages:
    """Return a network of 1x28x28 images in [0, 1] as it is trained."""
    names = [str(number) for number in range(10)]
    return TrainableImages(
        ImageClassifier(module, labels=names, input_shape=(1, 28, 28), mean=[0.0], std=[1.0], device=CPU)
    )


def _embeddings(base: Path) -> Tensor:
    from safetensors import safe_open

    with safe_open(base / "model.safetensors", "pt") as weights:
        (name,) = [name for name in weights.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        table: Tensor = weights.get_tensor(name).float()
    return table


def _tokenizer(pieces: dict[str, int]) -> Any:
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    return BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST)


def _texts(module: Any, tokenizer: Any, classes: int) -> TrainableTexts:
    names = [str(number) for number in range(classes)]
    return TrainableTexts(HuggingFaceTextClassifier(module, tokenizer, labels=names, device=CPU))
