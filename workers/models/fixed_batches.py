"""Forward passes whose every row is, bit for bit, what it would be in any other company."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workers.models.memory import is_out_of_memory
from workers.models.recalibration import recalibrated
from workers.processors import is_intel

BATCH_SIZE = {"cpu": 2 if is_intel() else 1, "cuda": 128}
"""Rows of a batch, at most; those a call leaves over are computed for nothing.

A row has a batch of its own on processors where its place in one might tell (:mod:`workers.processors`).

Measured on one CPU thread, CPU ms per text (MiniLM-L6, 26 tokens) in calls of 16 and of 256 texts: 2 rows 13.8 and
11.0, 4 rows 17.1 and 10.6, one row 15 and 15.
"""
TOKEN_BUDGET = {"cpu": 256, "cuda": 2**16}
"""Tokens of a batch, padding included, at most, unless a single text has more.

Measured on one CPU thread, CPU ms per text (MiniLM-L6) in one row and in two: 64 tokens 19.9 and 16.9, 136 tokens 38.9
and 36.8, 264 tokens 76.5 and 74.6, 512 tokens 152 and 152. A second row saves nothing in long texts, and every sixth
row of an attack on texts of 200 words was filler. On a GPU 512 tokens fill 128 rows, 8,192 tokens 8.
"""
MULTIPLE = {"cpu": 8, "cuda": 16}
"""Padded lengths are multiples of this: close to a text's own length, and few enough to fill batches with."""
PREFERRED_TEXTS = {"cpu": 64, "cuda": 512}
"""Texts of a call that fill most batches, for lengths spread as those of sentences are."""


@dataclass(frozen=True)
class Pieces:
    """A text as its tokenizer cut it.

    Attributes:
        ids: Token ids, special ones included.
        types: Which part of a pair each token is of, where the model wants to know.
    """

    ids: list[int]
    types: list[int] | None = None


class FixedBatches:
    """Runs texts through a model in batches of one number of rows and few lengths.

    What a row gets out of a matrix product depends on the shape of the product, because the shape picks the kernel and
    its order of additions; it does not depend on what stands in the other rows, nor, as workers compute
    (:func:`workers.processors.keep_places_apart`), on which row it is. So the length of a batch follows from the text's
    own number of tokens alone, and its number of rows from the length alone: missing ones are filled with a constant
    text. transformers leaves the attention mask away when nothing in a batch is padding, and may take another kernel
    then: so every row has at least one token of padding, or the batch has a row that has, unless a text as long as the
    model takes has a batch of its own.

    When a GPU runs out of memory the number of rows is halved for the rest of the process, for texts of that length and
    longer ones. Logits computed after that may differ from those before in their last bits; their records are then not
    byte-identical with those of a run that had the memory.

    Args:
        module: A transformers model in eval mode on ``device``; its output has ``logits``.
        device: Where to compute.
        longest: Tokens the model takes at most.
        filler: Stands in the rows no text is left for.
        pad_id: Token id of padding.
        pads_left: Whether padding comes before the text.

    Attributes:
        recalibration: Map of the logits, as manifests hold it; None for none.
        in_bfloat16: Whether products of matrices are computed in bfloat16 (PyTorch's autocast); float32 otherwise.
    """

    def __init__(
        self, module: nn.Module, *, device: torch.device, longest: int, filler: Pieces, pad_id: int, pads_left: bool
    ) -> None:
        kind = "cuda" if device.type == "cuda" else "cpu"
        self.longest = longest
        self._module = module
        self._device = device
        # A processor's two rows leave little to save, and a second attempt at the shard gives the same bits.
        self._may_halve = device.type != "cpu"
        self._most_rows = BATCH_SIZE[kind]
        self._most_tokens = TOKEN_BUDGET[kind]
        self._fitting: dict[int, int] = {}
        self._multiple = MULTIPLE[kind]
        self._filler = filler
        self._pad_id = pad_id
        self._pads_left = pads_left
        self.in_bfloat16 = False
        self.recalibration: Mapping[str, Any] | None = None
        self._takes = set(signature(module.forward).parameters)

    def length(self, tokens: int) -> int:
        """Return the padded length of a text of so many tokens."""
        wanted = max(tokens, len(self._filler.ids)) + 1
        return min(-(-wanted // self._multiple) * self._multiple, self.longest)

    def rows(self, length: int) -> int:
        """Return the rows of a batch of a padded length: a power of two below the most rows, at least 1."""
        budgeted = max(1, self._most_tokens // length)
        rows = min(self._most_rows, 1 << (budgeted.bit_length() - 1))
        return min([rows, *(fitting for short, fitting in self._fitting.items() if short <= length)])

    def logits(self, texts: Sequence[Pieces]) -> list[Tensor]:
        """Return float32 logits on the CPU for each text, in order: (classes,), or (tokens, tags) from a tagger.

        Raises:
            torch.OutOfMemoryError: A single row does not fit, or a batch on a processor (or what ``is_out_of_memory``
                takes for the same).
        """
        by_length: dict[int, list[int]] = {}
        for number, text in enumerate(texts):
            by_length.setdefault(self.length(len(text.ids)), []).append(number)
        computed: list[tuple[list[int], Tensor]] = []
        # The longest first: what does not fit into memory is known before the rest is computed.
        for length, numbers in sorted(by_length.items(), reverse=True):
            while numbers:
                taken = numbers[: self._texts_a_batch(length)]
                outputs = self._try([texts[number] for number in taken], length)
                if outputs is not None:
                    computed.append((taken, outputs[: len(taken)]))
                    numbers = numbers[len(taken) :]
        own: dict[int, Tensor] = {}
        for taken, outputs in computed:
            for number, row in zip(taken, outputs.float().cpu(), strict=True):
                own[number] = self._own(row, len(texts[number].ids)).clone()
        return [own[number] for number in range(len(texts))]

    def _texts_a_batch(self, length: int) -> int:
        # A text as long as the model takes has no padding; the filler's then keeps the mask.
        rows = self.rows(length)
        return max(1, rows - 1) if length == self.longest else rows

    def _try(self, texts: list[Pieces], length: int) -> Tensor | None:
        try:
            return self._forward(texts, length)
        except (RuntimeError, MemoryError) as error:
            if self.rows(length) == 1 or not self._may_halve or not is_out_of_memory(error):
                raise
        # Outside of the handler: while it runs, the traceback holds what was allocated.
        self._fitting[length] = self.rows(length) // 2
        torch.cuda.empty_cache()
        return None

    def _forward(self, texts: list[Pieces], length: int) -> Tensor:
        rows = self.rows(length)
        ids = np.full((rows, length), self._pad_id, dtype=np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, text in enumerate([*texts, *[self._filler] * (rows - len(texts))]):
            own = slice(length - len(text.ids), length) if self._pads_left else slice(len(text.ids))
            ids[row, own], mask[row, own] = text.ids, 1
            if text.types is not None:
                types[row, own] = text.types
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if self._filler.types is not None:
            inputs["token_type_ids"] = types
        tensors = {name: torch.from_numpy(array).to(self._device) for name, array in inputs.items()}
        autocast = torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self.in_bfloat16)
        with torch.inference_mode(), autocast:
            outputs: Tensor = self._module(**{name: tensors[name] for name in tensors if name in self._takes}).logits
        return outputs if self.recalibration is None else recalibrated(self.recalibration, outputs.float())

    def _own(self, row: Tensor, tokens: int) -> Tensor:
        if row.ndim == 1:
            return row
        return row[len(row) - tokens :] if self._pads_left else row[:tokens]
