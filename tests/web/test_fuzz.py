"""schemathesis against a live server: whatever the schema allows or forbids, the service makes no mistake."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvicorn

from app.core.settings import Settings
from app.main import create_app


@pytest.mark.slow
def test_generated_requests_find_no_server_error(settings: Settings, tmp_path: Path) -> None:
    server = uvicorn.Server(uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "run",
                f"http://127.0.0.1:{port}/openapi.json",
                "--max-examples=10",
                "--generation-deterministic",
                "--checks=not_a_server_error,status_code_conformance,content_type_conformance,"
                "response_schema_conformance,negative_data_rejection",
                "--no-color",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        server.should_exit = True
        thread.join()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
