"""Seconds of the processor from the records of a certified audit of many examples to its numbers.

    python -m benchmarks.certified_reduce --examples 100000
    python -m benchmarks.certified_reduce --classes 10
    python -m benchmarks.certified_reduce --admm 20

Records are made up as the tests make theirs, 2,500 examples at a time; no model is asked. A process of its own reads
and reduces them. Prints seconds, the most memory that process had before and after, and a digest of the result: another
digest is another number. ``--classes`` asks for the block ``uncertainty`` too, of so many classes; ``--admm`` for the
solver of that name, cut short after so many steps of its 3,000 (none of them takes more memory than another).
"""

import argparse
import functools
import hashlib
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.large_audit import peak_mb
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.uncertainty import largest
from seatrial.store.records import to_parquet
from tests.families.certified_calibration import fabricated
from workers.certification import admm
from workers.families.certified_calibration import estimates
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import class_column, uncertainty_column, worst_column
from workers.runtime.stored import StoredRecords

PART = 2500
FILES = 400
"""Files the records of a stage are in."""


def records(params: CertifiedCalibrationParams, examples: int) -> dict[str, pa.Table]:
    """Return the records of every stage."""
    parts = [
        fabricated.records(params, n=min(PART, examples - start), seed=start) for start in range(0, examples, PART)
    ]
    done = {}
    for stage in parts[0]:
        table = pa.concat_tables([part[stage] for part in parts]).combine_chunks()
        at = table.column_names.index("example_id")
        done[stage] = table.set_column(at, "example_id", pa.array(np.arange(table.num_rows)))
    return done


def with_classes(params: CertifiedCalibrationParams, certify: pa.Table, classes: int) -> pa.Table:
    """Return certificates with the columns of the block ``uncertainty``, made up: scores drawn, ends around them."""
    asked, n = params.uncertainty, certify.num_rows
    if asked is None:
        return certify
    rng = np.random.default_rng(5)
    mean = rng.dirichlet(np.full(classes, 0.3), n)
    columns = {"class_ids": np.tile(np.arange(classes), (n, 1)), "class_mean": mean, "classes": np.full(n, classes)}
    for one in asked.asked:
        columns[f"uncertainty[uncertainty={one}]"] = rng.random(n) * largest(one, classes)
    for radius in params.radii:
        reach = (0.05 + radius) * rng.random((n, classes))
        columns[class_column("lower", radius)] = np.clip(mean - reach, 0, 1)
        columns[class_column("upper", radius)] = np.clip(mean + reach, 0, 1)
        for one in asked.asked:
            ends = np.sort(rng.random((n, 2)), axis=1) * largest(one, classes)
            columns[uncertainty_column("low", one, radius)] = ends[:, 0]
            columns[uncertainty_column("high", one, radius)] = ends[:, 1]
        columns[worst_column("log_loss", radius)] = rng.random(n)
        columns[worst_column("brier", radius)] = rng.random(n)
    for name, values in columns.items():
        flat = pa.array(values.ravel())
        column = flat if values.ndim == 1 else pa.ListArray.from_arrays(np.arange(0, len(flat) + 1, classes), flat)
        certify = certify.drop_columns([name]) if name in certify.column_names else certify
        certify = certify.append_column(name, column)
    return certify


class Folder:
    """Files of a folder by their names, as a store has them by their digests."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_bytes(self, digest: str) -> bytes:
        """Return the bytes of a file."""
        return (self._path / digest).read_bytes()


def reduced(folder: Path, params: CertifiedCalibrationParams, steps: int) -> None:
    """Read records and reduce them; print what it took."""
    if steps:
        estimates.admm_calibration_error = functools.partial(admm.admm_calibration_error, steps=steps)
    imported = peak_mb(os.getpid())
    stages = {one.name: sorted(str(file.relative_to(folder)) for file in one.iterdir()) for one in folder.iterdir()}
    done = StoredRecords(stages, Folder(folder))
    done.each_by_column()
    read = peak_mb(os.getpid())
    began = time.process_time()
    result = FAMILY.reduce(params, done, 3)
    seconds = time.process_time() - began
    digest = hashlib.sha256(result.model_dump_json().encode()).hexdigest()[:16]
    memory = f"{imported:.0f} MB of code, {read:.0f} MB to read, {peak_mb(os.getpid()):.0f} MB at most"
    print(f"{result.counts['n']:,} examples: {seconds:.1f} s of the processor, {memory}, {digest}")


def main() -> None:
    """Make records and reduce them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=0, help="0: without the block uncertainty")
    parser.add_argument("--admm", type=int, default=0, metavar="STEPS", help="0: without ADMM")
    parser.add_argument("--radii", type=int, default=8, help="how many of them")
    asked = parser.parse_args()
    params = fabricated.parameters(n=200)
    params = fabricated.parameters(
        n=200,
        radii=params.radii[: asked.radii],
        uncertainty={} if asked.classes else None,
        solvers=["exact", "admm"] if asked.admm else ["exact"],
    )
    with tempfile.TemporaryDirectory() as folder:
        for stage, table in records(params, asked.examples).items():
            whole = with_classes(params, table, asked.classes)
            path, rows = Path(folder) / stage, -(-whole.num_rows // FILES)
            path.mkdir()
            for number, start in enumerate(range(0, whole.num_rows, rows)):
                (path / f"{number:03}.parquet").write_bytes(to_parquet(whole.slice(start, rows)))
        process = multiprocessing.get_context("spawn").Process(target=reduced, args=(Path(folder), params, asked.admm))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
