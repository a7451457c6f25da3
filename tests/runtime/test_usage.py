"""What a worker tells of memory, processors and its GPU."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.store.worker_usage import GpuUsage
from workers.runtime.usage import Nvml, NvmlError, measure

MIB = 2**20


def test_memory_and_time_of_child_processes_are_told_apart(tmp_path: Path) -> None:
    # In a process of its own: children that other tests have left end meanwhile.
    code = f"from tests.runtime.test_usage import told_apart; told_apart({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "told apart\n"), done.stderr


def told_apart(folder: str) -> None:
    """Start a child with one of its own, and compare what is told before, meanwhile and after."""
    home = Path(folder)
    before = measure("w", home, "cpu")
    assert before.memory_bytes > 10 * MIB
    # A child of a child, as models run in children of the process that forks them.
    grandchild = "x = b'x' * (64 << 20); sum(range(5_000_000)); print(1, flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        during = measure("w", home, "cpu")
        child.communicate(b"\n")
    assert during.processes - before.processes == 2
    assert 64 * MIB < during.models_memory_bytes - before.models_memory_bytes < 160 * MIB
    assert during.cpu_s - before.cpu_s > 0.05
    assert during.gpu is None
    assert during.disk_free_bytes is not None
    # What they used is this process's once they have ended.
    assert measure("w", home, "cpu").cpu_s >= during.cpu_s
    assert measure("w", home / "gone", "cpu").disk_free_bytes is None
    print("told apart")


class FakeDriver:
    """NVML's functions over two GPUs, as nvml.h describes them."""

    def __init__(self, *, refuses: str = "") -> None:
        self.refuses = refuses
        self.asked: list[object] = []

    def __getattr__(self, function: str) -> Any:
        def call(*arguments: Any) -> int:
            if function == self.refuses:
                return 3
            if function.startswith("nvmlDeviceGetHandle"):
                self.asked.append(arguments[0].value)
                arguments[1]._obj.value = 0xBEEF
            elif function == "nvmlDeviceGetName":
                assert arguments[0].value == 0xBEEF
                ctypes.memmove(arguments[1], b"NVIDIA H100\0", 12)
            elif function == "nvmlDeviceGetMemoryInfo":
                memory = arguments[1]._obj
                assert ctypes.sizeof(memory) == 24
                memory.total, memory.free, memory.used = 80 * MIB, 60 * MIB, 20 * MIB
            elif function == "nvmlDeviceGetUtilizationRates":
                arguments[1]._obj.gpu = 75
            return 0

        return call


def test_the_first_visible_gpu_is_asked_of_the_driver() -> None:
    driver = FakeDriver()
    told = GpuUsage(name="NVIDIA H100", memory_used_bytes=20 * MIB, memory_total_bytes=80 * MIB, utilisation=0.75)
    assert [Nvml(driver).read(visible) for visible in ("", "1,0", "GPU-12ab")] == [told] * 3
    assert driver.asked == [0, 1, b"GPU-12ab"]
    with pytest.raises(NvmlError, match="nvmlDeviceGetUtilizationRates returned 3"):
        Nvml(FakeDriver(refuses="nvmlDeviceGetUtilizationRates")).read("0")


def test_own_process_is_counted() -> None:
    assert measure("w", Path("/"), "cpu").cpu_s >= sum(os.times()[:2]) - 0.1
