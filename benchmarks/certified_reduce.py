"""Seconds of the processor from the records of a certified audit of many examples to its numbers.

    python -m benchmarks.certified_reduce --examples 100000

Records are made up as the tests make theirs, 2,500 examples at a time; no model is asked. Prints seconds, and a digest
of the result: another digest is another number.
"""

import argparse
import hashlib
import time

import numpy as np
import pyarrow as pa

from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
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


def main() -> None:
    """Make records and reduce them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000)
    params = fabricated.parameters(n=200)
    done = records(params, parser.parse_args().examples)
    began = time.process_time()
    result = FAMILY.reduce(params, done, 3)
    seconds = time.process_time() - began
    digest = hashlib.sha256(result.model_dump_json().encode()).hexdigest()[:16]
    print(f"{done['certify'].num_rows:,} examples: {seconds:.1f} s of the processor, {digest}")


if __name__ == "__main__":
    main()
