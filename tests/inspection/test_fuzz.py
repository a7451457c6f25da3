"""Whatever bytes arrive, the answer is a fact or an ``InspectionError``."""

import contextlib
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.archives import check_archive
from app.core.inspection.errors import InspectionError
from app.core.inspection.pickles import HEAD_BYTES, looks_like_pickle
from app.core.settings import Settings
from app.datasets.inspection import inspect_dataset
from app.models.inspection import inspect_model
from tests.inspection.builders import (
    conllu,
    csv_table,
    dataset_manifest,
    folder_manifest,
    hf_files,
    images_npz,
    jsonl_table,
    model_manifest,
    parquet_table,
    png,
    safetensors,
    tarred,
    torch_zip,
    zipped,
)
from tests.inspection.test_datasets import parquet

LIMITS = Settings(max_archive_bytes=2**24)
SEEDS = [
    safetensors(),
    zipped(hf_files()),
    tarred({f"m/{name}": data for name, data in hf_files().items()}, "w:gz"),
    images_npz(),
    images_npz(images=np.zeros((20, 3, 4, 4), np.float16), class_names=np.array(list("abcd"))),
    zipped({"cat/1.png": png(), "dog/2.jpg": png(kind="JPEG")}),
    tarred({"cat/1.png": png(), "dog/2.bmp": png(kind="BMP")}),
    parquet(pa.table({"image": [png(), png()], "label": [0, 1]})),
    torch_zip(),
    pickle.dumps({"a": 1}, 0),
    csv_table(["text", "label"], [("a, b", 1), ('say "x"\n', 0)]),
    jsonl_table(["text", "label", "labels"], [("a", 1, [0, 1]), ("b", 0, [])]),
    parquet_table(["text", "labels", "label"], [("a", [0], "x"), ("b", [1], "y")]),
    parquet_table(["tokens", "tags"], [(["a", "b"], [0, 1]), (["c"], [1])]),
    conllu([(["a", "b"], ["X", "Y"])]),
]
TEXTS = ("text-classification", "multi-label-classification", "token-classification")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        if not data:
            break
        if draw(st.booleans()):
            data[at] = draw(st.integers(0, 255))
        elif draw(st.booleans()):
            data[at : at + draw(st.integers(1, 8))] = draw(
                st.sampled_from([b"", b"\xff" * 4, b"\x00" * 4, b"-1", b"9" * 12])
            )
        else:
            data = data[: max(at, 1)]
    return bytes(data)


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "upload"


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=2000), mutated()))
def test_bad_bytes_raise_only_inspection_errors(upload: Path, data: bytes) -> None:
    upload.write_bytes(data)
    for manifest in (model_manifest(), folder_manifest()):
        with contextlib.suppress(InspectionError):
            assert inspect_model(upload, "fuzz", manifest, LIMITS) in ("safetensors", "archive")
    with contextlib.suppress(InspectionError):
        inspect_dataset(upload, "fuzz", dataset_manifest(), LIMITS)
    for task in TEXTS:
        with contextlib.suppress(InspectionError):
            assert inspect_dataset(upload, "fuzz", dataset_manifest(task=task), LIMITS).examples
    with contextlib.suppress(InspectionError):
        check_archive(upload, LIMITS)


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(value=_plain, protocol=st.integers(0, 5))
def test_every_pickle_is_recognised(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert looks_like_pickle(data[:HEAD_BYTES], len(data))


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=12).filter(lambda text: " " in text.strip())
)
def test_sentences_are_no_pickles(text: str) -> None:
    data = b"# " + text.encode()
    assert not looks_like_pickle(data, len(data))
