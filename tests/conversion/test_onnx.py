"""``seatrial convert model.onnx``: checked as a worker does, and written beside its manifest."""

from pathlib import Path

import pytest

from app.cli.uploads import prepare_model
from app.models.inspection import inspect_model
from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from tests.ingest.onnx_files import linear
from workers.conversion.__main__ import main


def convert(tmp_path: Path, data: bytes, *options: str) -> int:
    (tmp_path / "graph.onnx").write_bytes(data)
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    arguments = [str(tmp_path / "graph.onnx"), "-o", str(tmp_path / "model"), "--labels", str(tmp_path / "labels.txt")]
    return main([*arguments, *options])


def test_what_it_writes_is_accepted(tmp_path: Path) -> None:
    assert convert(tmp_path, linear(), "--shape", "1,4,4") == 0
    prepared = prepare_model(tmp_path / "model", for_task=None, say=lambda line: None)
    assert isinstance(prepared.source, Path)
    manifest = ModelManifest.model_validate(prepared.manifest)
    assert manifest.architecture.kind == "onnx"
    assert inspect_model(prepared.source, prepared.source.name, manifest, Settings()) == "onnx"


def test_what_does_not_fit_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(tmp_path, linear(), "--shape", "3,4,4") == 2
    assert "takes images of shape [1, 4, 4]" in capsys.readouterr().err
    assert convert(tmp_path, linear()) == 2
    assert "give them: --shape (channels,height,width" in capsys.readouterr().err
    assert main([str(tmp_path / "graph.onnx"), "-o", str(tmp_path / "model")]) == 2
    told = capsys.readouterr().err
    assert "--shape (" in told
    assert "--labels (" in told
    assert not (tmp_path / "model").exists()
