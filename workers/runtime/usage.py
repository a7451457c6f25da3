"""What this worker and the processes it runs models in use of the machine.

From Linux's ``/proc`` and the driver's library (NVML), which is there wherever a GPU is: asking torch would open a
context on the GPU in a process that computes nothing, some 300 MB of its memory.
"""

import ctypes
import os
import resource
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from seatrial.store.worker_usage import GpuUsage, WorkerUsage

_TICKS = os.sysconf("SC_CLK_TCK")
_LIBRARY = "libnvidia-ml.so.1"


def measure(name: str, home: Path, device: str) -> WorkerUsage:
    """Return what this process, its descendants and its GPU use now.

    Args:
        name: The worker's, for people.
        home: A folder on the disk it keeps files on.
        device: What the worker computes on; ``cpu`` asks no GPU.
    """
    own = os.getpid()
    children = _descendants(own)
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(home).free
    return WorkerUsage(
        name=name,
        memory_bytes=_resident_bytes(own),
        models_memory_bytes=sum(map(_resident_bytes, children)),
        cpu_s=round(_cpu_s(own) + sum(map(_cpu_s, children)), 2),
        processes=1 + len(children),
        disk_free_bytes=free,
        gpu=None if device == "cpu" else read_gpu(),
    )


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        # One that has ended meanwhile has no children that are ours.
        with suppress(OSError):
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                with suppress(OSError):
                    born = [int(word) for word in (task / "children").read_text().split()]
                    found += born
                    waiting += born
    return found


def _resident_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _cpu_s(pid: int) -> float:
    """Return what a process and its children that have ended used."""
    with suppress(OSError, ValueError, IndexError):
        # The name of the program stands in brackets and may hold blanks and brackets itself.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


class _Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilisation(ctypes.Structure):
    """``nvmlUtilization_t``: percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NvmlError(RuntimeError):
    """The driver's library does not tell what it was asked."""


@dataclass(frozen=True)
class Nvml:
    """The driver's library, opened.

    Attributes:
        library: Its functions; each returns 0 when it went well.
    """

    library: Any

    def _call(self, function: str, *arguments: object) -> None:
        if (status := getattr(self.library, function)(*arguments)) != 0:
            raise NvmlError(f"{function} returned {status}")

    def read(self, visible: str) -> GpuUsage:
        """Return what is in use of the first visible GPU, by all its users.

        Args:
            visible: As ``CUDA_VISIBLE_DEVICES``: numbers in the order of the bus, which is CUDA's own where all GPUs
                are of one type, or names as ``GPU-...``; the first counts, nothing is number 0.

        Raises:
            NvmlError: There is no such GPU, or it does not tell.
        """
        self._call("nvmlInit_v2")
        handle = ctypes.c_void_p()
        first = visible.partition(",")[0].strip() or "0"
        if first.isdecimal():
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(first)), ctypes.byref(handle))
        else:
            self._call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(first.encode()), ctypes.byref(handle))
        name = ctypes.create_string_buffer(96)
        self._call("nvmlDeviceGetName", handle, name, ctypes.c_uint(len(name)))
        memory, utilisation = _Memory(), _Utilisation()
        self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(utilisation))
        return GpuUsage(
            name=name.value.decode(errors="replace"),
            memory_used_bytes=memory.used,
            memory_total_bytes=memory.total,
            utilisation=utilisation.gpu / 100,
        )


@lru_cache(maxsize=1)
def _nvml() -> Nvml | None:
    try:
        return Nvml(ctypes.CDLL(_LIBRARY))
    except OSError:
        return None


def read_gpu() -> GpuUsage | None:
    """Return what is in use of the GPU this process sees first; None where none can be asked."""
    nvml = _nvml()
    if nvml is None:
        return None
    try:
        return nvml.read(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    except (NvmlError, AttributeError):
        # Of a slice of a GPU (MIG) the driver tells no utilisation.
        return None
