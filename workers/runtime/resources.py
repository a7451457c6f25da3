"""Models and datasets of a process: loaded once, kept while they are likely to be wanted again."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import torch

from seatrial.contracts.datasets import DatasetFacts, DatasetManifest
from seatrial.contracts.endpoints import EndpointArchitecture, ServedArchitecture
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.predictions.answers import Answers
from seatrial.ingest.predictions.truths import Truths
from seatrial.store.settings import MIB, Settings
from seatrial.store.tables import DatasetRow, ModelRow
from workers.attacks.text.scoring import ScoringService
from workers.data import ImageDataset, TaggedDataset, TextDataset
from workers.data.loading import (
    load_answers,
    load_image_dataset,
    load_table_dataset,
    load_tagged_dataset,
    load_text_dataset,
    load_truths,
)
from workers.data.tables import TableRows
from workers.models import TextClassifier
from workers.models.endpoint import EndpointClassifier
from workers.models.image_classifier import ImageClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.loading import load_image_classifier, load_text_classifier
from workers.runtime.executor import Files
from workers.runtime.jobs import parse_manifest
from workers.runtime.shared_work import SharedWork

T = TypeVar("T")

_CLEAN_BYTES = 64 * MIB
"""Room for the logits of clean images that the checks of an audit share: 16,000 images of 1,000 classes."""

_KEPT = 2
"""Models and datasets kept: the audited one and the one it is compared with. More would hold GPU memory for nothing."""

MOST_DRIVERS = 8
"""Processes that drive the attacks on one model, by themselves: each holds a cache of logits and its searches."""


class _Recent(Generic[T]):
    """The values used last.

    Args:
        let_go: Called with a value that is dropped.
    """

    def __init__(self, let_go: Callable[[T], None] = lambda dropped: None) -> None:
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._let_go = let_go

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._values:
            while len(self._values) >= _KEPT:
                _, dropped = self._values.popitem(last=False)
                self._let_go(dropped)
            self._values[key] = make()
        self._values.move_to_end(key)
        return self._values[key]


class Resources:
    """Loads what rows name, through the artifact store."""

    def __init__(self, store: Files, device: torch.device, settings: Settings) -> None:
        self.store = store
        self.device = device
        self.autocast = torch.bfloat16 if settings.autocast == "bfloat16" else None
        self.settings = settings
        self.shared = SharedWork(settings.shared_work_bytes)
        self.clean = SharedWork(_CLEAN_BYTES)
        self._models: _Recent[ImageClassifier] = _Recent(_let_go)
        self._manifests: WeakKeyDictionary[ModelRow, tuple[ModelManifest, str]] = WeakKeyDictionary()
        self._datasets: _Recent[ImageDataset] = _Recent()
        self._tables: _Recent[TableRows] = _Recent()
        self._services: _Recent[ScoringService] = _Recent(_disconnect)
        self._texts: _Recent[TextDataset] = _Recent()
        self._sentences: _Recent[TaggedDataset] = _Recent()
        self._truths: _Recent[Truths] = _Recent()
        self._answers: _Recent[Answers] = _Recent()

    def classifier(self, row: ModelRow) -> ImageClassifier:
        """Return the model of a row.

        Raises:
            TargetError: It cannot be loaded.
        """
        manifest, told = self._manifest(row)

        def make() -> ImageClassifier:
            if isinstance(manifest.architecture, EndpointArchitecture):
                asking = EndpointClassifier(manifest, self.settings, row.project_name)
                return ImageEndpoint(asking, manifest, self.device)
            loaded = load_image_classifier(manifest, self.store.local_path(row.digest), row.format, self.device)
            if self.settings.cuda_graphs and self.device.type == "cuda":
                loaded.replay()
            return loaded

        # By project: an endpoint's classifier holds secrets that are for its own only.
        project = row.project_id if isinstance(manifest.architecture, ServedArchitecture) else None
        return self._models.get((project, row.digest, told), make)

    def _manifest(self, row: ModelRow) -> tuple[ModelManifest, str]:
        # Searches ask for the classifier at every pass.
        if row not in self._manifests:
            manifest = parse_manifest(ModelManifest, row.manifest)
            self._manifests[row] = manifest, manifest.model_dump_json()
        return self._manifests[row]

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
                limits=self.settings,
            ),
        )

    def table(self, row: DatasetRow) -> TableRows:
        """Return the table of numbers of a row.

        Raises:
            DataError: It cannot be read.
        """
        return self._data(self._tables, row, partial(load_table_dataset, limits=self.settings))

    def scoring(self, row: ModelRow) -> ScoringService:
        """Return the scoring service of a text model; what it has answered once it answers from memory.

        Raises:
            TargetError: The model cannot be loaded.
        """
        manifest = parse_manifest(ModelManifest, row.manifest)

        def make() -> ScoringService:
            classifier = self._text_classifier(row, manifest)
            drivers = _drivers(classifier, self.settings)
            return ScoringService(classifier, max_bytes=self.settings.logit_cache_bytes, drivers=drivers)

        # By project: an endpoint's classifier holds secrets that are for its own only.
        return self._services.get((row.project_id, row.digest, manifest.model_dump_json()), make)

    def texts(self, row: DatasetRow) -> TextDataset:
        """Return the dataset of texts of a row.

        Raises:
            DataError: It cannot be read.
        """
        return self._data(self._texts, row, load_text_dataset)

    def sentences(self, row: DatasetRow) -> TaggedDataset:
        """Return the dataset of tagged sentences of a row.

        Raises:
            DataError: It cannot be read.
        """
        return self._data(self._sentences, row, load_tagged_dataset)

    def truths(self, row: DatasetRow) -> Truths:
        """Return what is true of the examples of a table of predictions.

        Raises:
            DataError: It cannot be read.
        """
        return self._data(
            self._truths, row, lambda manifest, _, path: load_truths(manifest, path, limits=self.settings)
        )

    def answers(self, row: ModelRow) -> Answers:
        """Return what the model of a table of predictions answered.

        Raises:
            TargetError: It cannot be read.
        """
        manifest = parse_manifest(ModelManifest, row.manifest)
        return self._answers.get(
            _key(row, manifest),
            lambda: load_answers(manifest, self.store.local_path(row.digest), limits=self.settings),
        )

    def _data(self, kept: _Recent[T], row: DatasetRow, load: Callable[[DatasetManifest, DatasetFacts, Path], T]) -> T:
        """Return a dataset of a row: the one that is kept, or what ``load`` makes of its file."""
        manifest = parse_manifest(DatasetManifest, row.manifest)
        facts = DatasetFacts.model_validate(row.facts)
        return kept.get(_key(row, manifest), lambda: load(manifest, facts, self.store.local_path(row.digest)))

    def _text_classifier(self, row: ModelRow, manifest: ModelManifest) -> TextClassifier:
        if isinstance(manifest.architecture, ServedArchitecture):
            return EndpointClassifier(manifest, self.settings, row.project_name)
        return load_text_classifier(manifest, self.store.local_path(row.digest), row.format, self.device)


def _key(row: DatasetRow | ModelRow, manifest: DatasetManifest | ModelManifest) -> tuple[str, str]:
    return row.digest, manifest.model_dump_json()


def _drivers(classifier: TextClassifier, settings: Settings) -> int:
    """Return how many processes attacks on a model are driven by."""
    if isinstance(classifier, EndpointClassifier):
        # It is asked in the order of one search after another, as it would be by anybody else.
        return 1
    helpful = max(1, min(MOST_DRIVERS, (os.cpu_count() or 1) // 2)) if classifier.device.type == "cuda" else 1
    return settings.text_drivers or helpful


def _let_go(classifier: ImageClassifier) -> None:
    if isinstance(classifier, ImageEndpoint):
        classifier.endpoint.close()


def _disconnect(service: ScoringService) -> None:
    if isinstance(service.classifier, EndpointClassifier):
        service.classifier.close()
