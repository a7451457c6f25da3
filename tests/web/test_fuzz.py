"""schemathesis against a live server: whatever the schema allows or forbids, the service makes no mistake.

Not among its checks: that whatever the schema allows is accepted. Rules between fields, and the bytes of an upload, are
more than a schema can say.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import hypothesis
import pytest
import uvicorn

from app.main import create_app
from app.web.services import Services
from seatrial.store.settings import Settings
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.uploads import submission, upload_both

# The values at every bound of every field take most of the time: with test-all.
PHASES = "examples,coverage,fuzzing,stateful" if os.environ.get("SEATRIAL_HYPOTHESIS") == "searching" else "fuzzing"


def known_ids(base: str, services: Services) -> str:
    """Finish an audit and return a configuration naming what is there, so that requests get beyond a 404."""
    with httpx.Client(base_url=base) as client:
        model, dataset = upload_both(client)
        make_ready(services)
        policy = {"name": "release", "rules": [{"metric": "uncertainty_span.mus", "max": 0.6}]}
        policy_id = client.post("/v1/policies", json=policy).json()["id"]
        audit = client.post("/v1/audits", json=submission(model, dataset, policy="release")).json()["id"]
        # A name that never leads anywhere (RFC 2606).
        webhook = client.post("/v1/webhooks", json={"url": "https://hooks.invalid/"}).json()["id"]
        delivery = client.post(f"/v1/webhooks/{webhook}/ping").json()["id"]
    check = first_check(services, audit)
    open_stage(services, check, "attack", [(0, 20)])
    run_shard(services)
    end_check(services)
    known = {
        "model_id": model,
        "dataset_id": dataset,
        "audit_id": audit,
        "check": check,
        "name": "span",
        "webhook_id": webhook,
        "delivery_id": delivery,
        "reference": policy_id,
    }
    return "[parameters]\n" + "".join(f'"path.{name}" = "{value}"\n' for name, value in known.items())


@pytest.mark.slow
def test_generated_requests_find_no_server_error(settings: Settings, tmp_path: Path) -> None:
    # Too many rules or columns are refused for their number, not for their size.
    app = create_app(settings.model_copy(update={"max_json_bytes": 1_000_000}))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        base = f"http://127.0.0.1:{port}"
        (tmp_path / "schemathesis.toml").write_text(known_ids(base, app.state.services))
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "run",
                f"{base}/openapi.json",
                f"--max-examples={hypothesis.settings().max_examples // 5}",
                f"--phases={PHASES}",
                "--generation-deterministic",
                "--checks=not_a_server_error,status_code_conformance,content_type_conformance,"
                "response_schema_conformance,response_headers_conformance,negative_data_rejection,unsupported_method",
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
