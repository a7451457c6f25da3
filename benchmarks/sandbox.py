"""What a child process costs the check of a small model, beside the same check in the worker's own process.

    python -m benchmarks.sandbox

Both check the same models, in turns; a child is forked anew for every check, as for a new upload. Ends with status 1
when the median of the differences is beyond the target.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seatrial.store.artifacts import LocalStore
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from tests import assets, texts
from workers.runtime.inline import InlineExecutor
from workers.runtime.jobs import ModelJob
from workers.runtime.sandboxed import SandboxedExecutor

TARGET_S = 1.0
ROUNDS = 9


class Nobody:
    """Holds no claim: nothing is cancelled."""

    row_id = "benchmark"

    def check_cancelled(self) -> None:
        """Go on."""


def row(store: LocalStore, data: bytes, manifest: dict[str, Any], format: str) -> ModelRow:
    """Return a stored model as the database has it."""
    digest = store.put_bytes(data)
    return ModelRow(
        id="mdl_" + digest[-8:],
        project_id="prj_benchmark",
        name=manifest["name"],
        version="1",
        task=manifest["task"],
        manifest=manifest,
        digest=digest,
        size_bytes=len(data),
        format=format,
    )


def main() -> int:
    """Measure and print; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(home=home, device="cpu", torch_threads=1)
        store = LocalStore(home / "artifacts")
        models = {
            "small CNN": row(store, assets.weights(), assets.model_manifest(), "safetensors"),
            "tiny BERT": row(
                store, texts.zip_folder(texts.tiny_sentiment(home / "bert")), texts.model_manifest(), "archive"
            ),
        }
        sandboxed, is_met = SandboxedExecutor(store, settings), True
        sandboxed.device()
        for name, model in models.items():
            seconds: dict[str, list[float]] = {"inline": [], "sandboxed": []}
            for _ in range(ROUNDS):
                # A new executor has no model at hand, as a child has none.
                for kind, executor in (("inline", InlineExecutor(store, settings)), ("sandboxed", sandboxed)):
                    began = time.perf_counter()
                    executor.check(ModelJob(model), Nobody())  # type: ignore[arg-type]
                    seconds[kind].append(time.perf_counter() - began)
                sandboxed.forget()
            more = statistics.median(b - a for a, b in zip(seconds["inline"], seconds["sandboxed"], strict=True))
            inside, outside = (statistics.median(seconds[kind]) for kind in ("inline", "sandboxed"))
            print(f"{name}: {outside:.2f} s in a child, {inside:.2f} s inline, {outside / inside:.1f}x, {more:+.2f} s")
            is_met &= more <= TARGET_S
        sandboxed.close()
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
