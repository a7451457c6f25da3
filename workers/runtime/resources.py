"""Models and datasets of a process: loaded once, kept while they are likely to be wanted again."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import torch

from app.contracts.datasets import DatasetFacts, DatasetManifest
from app.contracts.targets import ModelManifest
from app.core.storage import ArtifactStore
from app.core.tables import DatasetRow, ModelRow
from workers.data import ImageDataset
from workers.data.loading import load_image_dataset
from workers.targets.image_classifier import ImageClassifier
from workers.targets.loading import load_image_classifier

T = TypeVar("T")

_KEPT = 2
"""Models and datasets kept: the audited one and the one it is compared with. More would hold GPU memory for nothing."""


class _Recent(Generic[T]):
    """The values used last."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._values:
            while len(self._values) >= _KEPT:
                self._values.popitem(last=False)
            self._values[key] = make()
        self._values.move_to_end(key)
        return self._values[key]


class Resources:
    """Loads what rows name, through the artifact store."""

    def __init__(self, store: ArtifactStore, device: torch.device) -> None:
        self.store = store
        self.device = device
        self._models: _Recent[ImageClassifier] = _Recent()
        self._datasets: _Recent[ImageDataset] = _Recent()

    def classifier(self, row: ModelRow) -> ImageClassifier:
        """Return the model of a row.

        Raises:
            TargetError: It cannot be loaded.
        """
        manifest = parse_manifest(ModelManifest, row.manifest)
        return self._models.get(
            (row.digest, manifest.model_dump_json()),
            lambda: load_image_classifier(manifest, self.store.local_path(row.digest), row.format, self.device),
        )

    def dataset(self, row: DatasetRow, channels: int | None = None) -> ImageDataset:
        """Return the dataset of a row, its images grey (1) or in colour (3) when ``channels`` says so.

        Raises:
            DataError: It cannot be read.
        """
        manifest = parse_manifest(DatasetManifest, row.manifest)
        return self._datasets.get(
            (row.digest, manifest.model_dump_json(), channels),
            lambda: load_image_dataset(
                manifest,
                DatasetFacts.model_validate(row.facts),
                self.store.local_path(row.digest),
                channels=channels,
            ),
        )


def parse_manifest(model: type[Any], stored: dict[str, Any]) -> Any:
    """Return a stored manifest or parameters as the contract they were accepted under."""
    return model.model_validate(stored, strict=False)
