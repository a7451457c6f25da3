"""A service that is none: it answers every request of the client as it is told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What terminals obey: a title, a cleared screen, a line begun anew, a direction, a line of its own, DEL and C1.
ESCAPES = "\x1b]0;owned\x07 \x1b[2J \r \u202e \u2028 \x7f \x9b31m \nPassed: every rule holds."
OBEYED = "\x1b\x07\r\u202e\u2028\x7f\x9b"

Answer = Callable[[BaseHTTPRequestHandler], None]


def body(content: bytes, *, status: int = 200, media_type: str = "application/json", **headers: str) -> Answer:
    """Return what answers with these bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", media_type)
        handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def told(value: Any, *, status: int = 200) -> Answer:
    """Return what answers with JSON."""
    return body(json.dumps(value).encode(), status=status)


def endless(chunk: bytes) -> Answer:
    """Return what never ends its body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        while True:
            handler.wfile.write(chunk)

    return answer


@contextmanager
def hostile_service(answers: Answer | dict[str, Answer]) -> Iterator[str]:
    """Serve on a free port: one answer for everything, or by the beginning of ``METHOD path``, longest first."""
    by_request = answers if isinstance(answers, dict) else {"": answers}

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked = f"{self.command} {self.path}"
            found = max((one for one in by_request if asked.startswith(one)), key=len)
            try:
                by_request[found](self)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


NOW = "2026-11-22T00:00:00Z"
ESTIMATE = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10, "method": "exact"}


def model(name: str = "m") -> dict[str, Any]:
    """Return a model as a service tells it."""
    facts = {"parameters": 1, "classes": 2, "device": "cpu", "forward_s": 1.0}
    return {
        **{"id": f"mdl_{name}", "name": name, "version": name, "task": "image-classification", "digest": "sha256:0"},
        **{"size_bytes": 1, "state": "ready", "facts": facts, "architecture": name, "url": name},
        **{"manifest": {}, "created_at": NOW},
    }


def dataset(name: str = "d") -> dict[str, Any]:
    """Return a dataset as a service tells it."""
    facts = {"format": "npz", "examples": 3, "classes": 2, "label_counts": {}}
    return {
        **{"id": f"dat_{name}", "name": name, "version": name, "task": "image-classification", "split": name},
        **{"digest": "sha256:0", "size_bytes": 1, "facts": facts, "url": name, "manifest": {}, "created_at": NOW},
    }


def judgement(name: str = "x") -> dict[str, Any]:
    """Return a failed verdict as a service tells it."""
    rule = {
        **{"label": name, "metric": f"f.{name}", "requirement": name, "severity": "block", "outcome": "failed"},
        **{"rule": 0, "bound": 0.5, "counts_as": "failed", "reason": name, "estimate": ESTIMATE, "judged": ESTIMATE},
    }
    return {
        **{"id": "jdg_1", "audit": "aud_1", "verdict": "failed", "headline": name, "rules": [rule]},
        **{"judged_at": NOW, "policy": {"name": name, "digest": name, "id": name, "version": 1}},
    }


def audit(name: str = "x", **more: Any) -> dict[str, Any]:
    """Return an audit that has ended as a service tells it."""
    flag = {"code": name, "severity": "info", "message": name}
    check = {
        **{"id": name, "kind": name, "params": {}, "state": "failed", "stages": [name], "figures": [name]},
        "progress": {"stage": name, "done": 0, "total": 1, "remaining_s": None},
        "error": {"code": name, "title": name, "detail": name},
        "result": {"estimates": {name: ESTIMATE}, "flags": [flag], "counts": {}},
    }
    return {
        **{"id": "aud_1", "state": "failed", "verdict": "failed", "model": name, "dataset": name, "seed": 0},
        **{"samples": 2, "kinds": [name], "created_at": NOW, "checks": [check], "judgement": judgement(name)},
        **{"spec": {}, "spec_digest": name, "error": {"code": name, "title": name, "detail": name}, **more},
    }


def answers(name: str) -> dict[str, Answer]:
    """Return a service that works, all of whose texts are ``name``."""
    policy = {
        **{"id": "pol_1", "name": name, "version": 1, "digest": name, "created_at": NOW},
        "document": {"name": name, "description": name, "rules": []},
    }
    baseline = {
        **{"id": "bas_1", "name": name, "model": name, "audit": name, "note": name, "is_current": True},
        "created_at": NOW,
    }

    def page(item: Any) -> Answer:
        return told({"items": [item], "next": None})

    refusal = told({"title": name, "detail": name, "errors": [{"pointer": name, "detail": name}]}, status=404)
    return {
        "": refusal,
        "POST /v1/audits/aud_2": refusal,
        "GET /v1/models": page(model(name)),
        "GET /v1/datasets": page(dataset(name)),
        "GET /v1/datasets/": told(dataset(name)),
        "GET /v1/policies": page(policy),
        "GET /v1/policies/": told(policy),
        "GET /v1/baselines": page(baseline),
        "GET /v1/audits": page(audit(name)),
        "GET /v1/audits/": told(audit(name)),
        "POST /v1/audits": told(audit(name), status=202),
        "POST /v1/audits/estimate": told(
            {"examples": 1, "forward_passes": 1, "backward_passes": 0, "queries": 0, "seconds": None, "checks": []}
        ),
        "POST /v1/audits/aud_1/judge": told(judgement(name)),
        "POST /v1/models": told(model(name), status=201),
        "POST /v1/datasets": told(dataset(name), status=201),
    }
