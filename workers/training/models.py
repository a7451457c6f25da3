"""Models as they are trained: logits that can be differentiated by weights and inputs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from inspect import signature
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from workers.data import Text
from workers.errors import PreflightError
from workers.models.exported_module import ExportedModule
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.image_classifier import ImageClassifier
from workers.models.tokenizing import encodable
from workers.training.data import Raw


class Trainable(Protocol):
    """A module with what turns raw inputs into its own."""

    module: nn.Module
    """What has the weights."""
    in_bfloat16: bool
    """Whether products are computed in bfloat16."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    @property
    def has_fixed_graph(self) -> bool:
        """Whether dropout and batch normalisation stay as in eval mode: the graph of an exported program does."""
        ...

    def logits(self, inputs: Raw) -> Tensor:
        """Return float32 logits (n, classes), differentiable by the weights."""
        ...


class TrainableImages:
    """An image classifier whose weights are trained: those of the classifier itself.

    Args:
        classifier: As loaded for audits; it stays usable, and shares the weights.
    """

    def __init__(self, classifier: ImageClassifier) -> None:
        self.classifier = classifier
        self.module = classifier.module
        self.in_bfloat16 = False
        self.has_fixed_graph = isinstance(self.module, ExportedModule)
        unfreeze(self.module)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.classifier.device

    def logits(self, inputs: Raw) -> Tensor:
        """Return logits of images in [0, 1], on any device, differentiable by them as well."""
        if not isinstance(inputs, Tensor):
            raise TypeError("the model takes images, and texts were given")
        with precision(self):
            return self.classifier.logits(inputs.to(self.device)).float()


class Encoded(NamedTuple):
    """Tokenized texts, padded to the longest of them.

    Attributes:
        ids: (n, tokens) int64.
        mask: (n, tokens) 1 for tokens, special ones included, 0 for padding.
        types: (n, tokens), or None.
    """

    ids: Tensor
    mask: Tensor
    types: Tensor | None


class TrainableTexts:
    """A Hugging Face text classifier whose weights are trained: those of the classifier itself.

    Args:
        classifier: As loaded for audits; it stays usable, and shares the weights.
    """

    has_fixed_graph = False

    def __init__(self, classifier: HuggingFaceTextClassifier) -> None:
        self.classifier = classifier
        self.module = classifier._module
        self.in_bfloat16 = False
        self.takes_embeddings = "inputs_embeds" in signature(self.module.forward).parameters
        unfreeze(self.module)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.classifier.device

    @property
    def words(self) -> nn.Embedding:
        """The table of word embeddings; positions, types and normalisation come after it."""
        table: nn.Embedding = self.module.get_input_embeddings()  # type: ignore[operator]
        return table

    def encode(self, texts: Sequence[Text]) -> Encoded:
        """Return texts as tokens; those longer than the model takes lose their end."""
        parts = [(text,) if isinstance(text, str) else text for text in texts]
        columns = [[encodable(text) for text in column] for column in zip(*parts, strict=True)]
        tokenizer = self.classifier._tokenizer
        read = tokenizer(*columns, truncation=True, max_length=self.classifier.longest, verbose=False)
        # Padded here: a tokenizer may have no token for it, or pad at the other end.
        longest = max(map(len, read["input_ids"]))
        pad: int = self.module.config.pad_token_id  # type: ignore[assignment, union-attr]
        ids = torch.full((len(texts), longest), pad, dtype=torch.int64)
        mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
        kinds = read.get("token_type_ids") if self.classifier._takes_types else None
        # XLNet and its kin judge by the last token.
        pads_left = getattr(self.module.config, "summary_type", None) == "last"
        for row, tokens in enumerate(read["input_ids"]):
            own = slice(longest - len(tokens), longest) if pads_left else slice(len(tokens))
            ids[row, own] = torch.as_tensor(tokens)
            mask[row, own] = 1
            if kinds is not None:
                types[row, own] = torch.as_tensor(kinds[row])
        device = self.device
        return Encoded(ids.to(device), mask.to(device), None if kinds is None else types.to(device))

    def logits_of(self, encoded: Encoded, embeddings: Tensor | None = None) -> Tensor:
        """Return logits (n, classes) of tokens, or of embeddings (n, tokens, dimensions) in their place."""
        how: dict[str, Any] = {"attention_mask": encoded.mask}
        if encoded.types is not None:
            how["token_type_ids"] = encoded.types
        how |= {"input_ids": encoded.ids} if embeddings is None else {"inputs_embeds": embeddings}
        with precision(self):
            logits: Tensor = self.module(**how).logits.float()
        return logits

    def logits(self, inputs: Raw) -> Tensor:
        """Return logits of texts."""
        if isinstance(inputs, Tensor):
            raise TypeError("the model takes texts, and images were given")
        return self.logits_of(self.encode(inputs))

    def require_embeddings(self) -> None:
        """Refuse a model that cannot be given word embeddings.

        Raises:
            PreflightError: It cannot.
        """
        if not self.takes_embeddings or not isinstance(self.words, nn.Embedding):
            raise PreflightError(
                "embeddings-needed",
                "The method perturbs word embeddings, and the model takes none",
                f"{type(self.module).__name__} has no inputs_embeds: use a method that works on texts",
                field="/method",
            )


def unfreeze(module: nn.Module) -> None:
    """Let every floating parameter be trained.

    Raises:
        PreflightError: There is none: all weights were exported as constants, say.
    """
    trained = [each.requires_grad_() for each in module.parameters() if each.is_floating_point()]
    if not trained:
        raise PreflightError(
            "no-weights", "The model has no weights to train", "it has no floating parameter", field="/model"
        )


@contextmanager
def evaluating(model: Trainable) -> Iterator[None]:
    """Put a model into eval mode for a while, as it is when it is attacked or measured; weights stay trainable."""
    was_training = model.module.training
    model.module.eval()
    try:
        yield
    finally:
        model.module.train(was_training)


@contextmanager
def frozen(model: Trainable) -> Iterator[None]:
    """Leave gradients of weights out of what is computed meanwhile: a backward pass to the inputs is then shorter."""
    parameters = [each for each in model.module.parameters() if each.requires_grad]
    for each in parameters:
        each.requires_grad_(False)
    try:
        yield
    finally:
        for each in parameters:
            each.requires_grad_(True)


def precision(model: Trainable) -> Any:
    """Return the context forward passes are run in."""
    return torch.autocast(model.device.type, torch.bfloat16) if model.in_bfloat16 else nullcontext()
