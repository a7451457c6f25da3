"""What this machine's processor is, and how matrix products are computed on it."""

import os
import platform
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
WIDTHS = ("amx_tile", "avx512f", "avx2", "avx")
"""Flags that decide how sums are split, the first a processor has being the one."""


@lru_cache(maxsize=1)
def told() -> dict[str, str]:
    """Return what the system tells of the first processor, by name; empty where it tells nothing."""
    with suppress(OSError):
        first = CPUINFO.read_text(errors="replace").partition("\n\n")[0]
        pairs = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}
    return {}


def processor() -> str:
    """Return the type of this machine's processor: sums of floats are split by what it can do.

    Clouds give one name to several generations, so family, model and the widest vectors are part of it. A container may
    hide all of them; the architecture is then what is known.
    """
    name = told().get("model name")
    if name is None:
        return platform.machine()
    flags = set(told().get("flags", "").split())
    details = [f"{field.removeprefix('cpu ')} {told()[field]}" for field in ("cpu family", "model") if field in told()]
    details += [width for width in WIDTHS if width in flags][:1]
    return f"{name} ({', '.join(details)})" if details else name


def is_intel() -> bool:
    """Return whether Intel made the processor, for which alone MKL promises strict reproducibility."""
    return told().get("vendor_id") == "GenuineIntel"


def keep_places_apart() -> None:
    """Have a row of a matrix product come out the same wherever it stands; to be called before the first product.

    MKL adds up the rows at an edge of a product in another order, on some of Intel's processors already those of a
    product of two rows. Its strict mode ("Conditional Numerical Reproducibility" in its manual) does not, and cost
    nothing in forward passes of MiniLM-L6. What the operator chose stands. Elsewhere batches have one row.
    """
    if is_intel():
        os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
