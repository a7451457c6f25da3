"""Seconds of the processor from the records of a certified audit of many examples to its numbers.

    python -m benchmarks.certified_reduce --examples 100000

Records are made up as the tests make theirs, 2,500 examples at a time; no model is asked. A process of its own reads
and reduces them. Prints seconds, the most memory that process had before and after, and a digest of the result: another
digest is another number.
"""

import argparse
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
from seatrial.store.records import read_records, to_parquet
from tests.families.certified_calibration import fabricated
from workers.families.certified_calibration.family import FAMILY

PART = 2500


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


class Folder:
    """Files of a folder by their names, as a store has them by their digests."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_bytes(self, digest: str) -> bytes:
        """Return the bytes of a file."""
        return (self._path / digest).read_bytes()


def reduced(folder: Path, params: CertifiedCalibrationParams) -> None:
    """Read records and reduce them; print what it took."""
    imported = peak_mb(os.getpid())
    done = {file.stem: read_records(Folder(folder), [file.name]) for file in folder.iterdir()}
    began = time.process_time()
    result = FAMILY.reduce(params, done, 3)
    seconds = time.process_time() - began
    digest = hashlib.sha256(result.model_dump_json().encode()).hexdigest()[:16]
    memory = f"{imported:.0f} MB of code, {peak_mb(os.getpid()):.0f} MB at most"
    print(f"{done['certify'].num_rows:,} examples: {seconds:.1f} s of the processor, {memory}, {digest}")


def main() -> None:
    """Make records and reduce them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000)
    params = fabricated.parameters(n=200)
    with tempfile.TemporaryDirectory() as folder:
        for stage, table in records(params, parser.parse_args().examples).items():
            (Path(folder) / f"{stage}.parquet").write_bytes(to_parquet(table))
        process = multiprocessing.get_context("spawn").Process(target=reduced, args=(Path(folder), params))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
