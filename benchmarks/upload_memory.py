"""A 1 GB checkpoint goes up and comes back while the API process stays under 300 MB.

    python -m benchmarks.upload_memory

The checkpoint is made as it is sent and never lies in memory or in a file of ours. Linux only: the peak is the kernel's
own (VmHWM). Ends with status 1 when the peak is beyond the target or the bytes differ.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from seatrial.store.database import connect
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings

PORT = 8793
TARGET_MB = 300
BATCH_SIZE = 256 * 1024
SIZE = BATCH_SIZE * 1024 * 4
CHUNK = 2**20
BOUNDARY = "checkpoint"
MANIFEST = {
    "name": "large",
    "version": "1",
    "task": "image-classification",
    "architecture": {"kind": "layers", "layers": [["flatten"], ["linear", 1024, BATCH_SIZE]]},
    "input": {"shape": [1, 32, 32], "mean": [0.0], "std": [1.0]},
    "labels": ["a", "b"],
}
SERVE = f"""
import uvicorn
from app.main import create_app
uvicorn.run(create_app(), host="127.0.0.1", port={PORT}, log_level="error", access_log=False)
"""


def checkpoint() -> Iterator[bytes]:
    """Yield a safetensors file of one tensor of 1 GiB."""
    tensor = {"1.weight": {"dtype": "F32", "shape": [BATCH_SIZE, 1024], "data_offsets": [0, SIZE]}}
    header = json.dumps(tensor).encode()
    yield len(header).to_bytes(8, "little") + header
    block = bytes(n % 251 for n in range(CHUNK))
    for _ in range(SIZE // CHUNK):
        yield block


def form() -> Iterator[bytes]:
    """Yield the multipart body."""
    manifest = json.dumps(MANIFEST)
    yield f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="manifest"\r\n\r\n{manifest}\r\n'.encode()
    yield f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="m.safetensors"\r\n\r\n'.encode()
    yield from checkpoint()
    yield f"\r\n--{BOUNDARY}--\r\n".encode()


def peak_mb(pid: int) -> float:
    """Return the most memory a process ever held."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    if found is None:
        raise RuntimeError(f"no VmHWM of process {pid}")
    return int(found[1]) / 1024


def main() -> int:
    """Run it and tell whether the target is met."""
    sha = hashlib.sha256()
    for chunk in checkpoint():
        sha.update(chunk)
    with tempfile.TemporaryDirectory() as folder:
        database = connect(Settings(home=Path(folder)))
        upgrade(database)
        database.dispose()
        env = {**os.environ, "SEATRIAL_HOME": folder, "SEATRIAL_REQUIRE_KEYS": "false", "SEATRIAL_LOG_LEVEL": "warning"}
        server = subprocess.Popen([sys.executable, "-c", SERVE], env=env)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=300) as client:
                while True:
                    try:
                        client.get("/readyz").raise_for_status()
                        break
                    except httpx.TransportError:
                        time.sleep(0.05)
                idle = peak_mb(server.pid)
                began = time.perf_counter()
                headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
                answer = client.post("/v1/models", content=form(), headers=headers)
                if answer.status_code != 201:
                    raise RuntimeError(answer.text)
                up_s, up_mb = time.perf_counter() - began, peak_mb(server.pid)
                began, back = time.perf_counter(), hashlib.sha256()
                with client.stream("GET", f"/v1/models/{answer.json()['id']}/content") as content:
                    for chunk in content.iter_bytes(CHUNK):
                        back.update(chunk)
                down_s, down_mb = time.perf_counter() - began, peak_mb(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    is_same = back.hexdigest() == sha.hexdigest() == answer.json()["digest"].removeprefix("sha256:")
    print(f"idle {idle:.0f} MB; peak after a {SIZE / 2**30:g} GiB upload {up_mb:.0f} MB ({up_s:.1f} s)")
    print(
        f"peak after reading it back {down_mb:.0f} MB ({down_s:.1f} s); target {TARGET_MB} MB; bytes equal: {is_same}"
    )
    is_met = is_same and down_mb < TARGET_MB
    print(f"{down_mb / TARGET_MB:.2f}x the target" if is_met else "TARGET MISSED")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
