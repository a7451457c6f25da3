"""Hostile ids, headers and forms on every route there is: never an error of the service's own."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.console import routes as console
from app.web.services import Services
from seatrial.store.settings import Settings
from tests.conftest import TestClient, key_for
from tests.console.conftest import HERE
from tests.uploads import assert_nothing_stored
from tests.web.test_problems import assert_problem

HOSTILE = ("aud_%00", "%ED%A0%80", "..%2F..", "9" * 40, "x" * 3000)
ASSETS = [("GET", "/console/{name}"), ("GET", "/docs/assets/{name}"), ("GET", "/{name}")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Those of other tests, without a line in the log for each of thousands of requests."""
    return settings.model_copy(update={"log_level": "error"})


def every_route(client: TestClient) -> list[tuple[str, str, list[str]]]:
    """Return method, path and names of query parameters of all that is answered."""
    document = client.get("/openapi.json").json()
    found = [
        (method.upper(), path, [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    for router in console.ROUTERS:
        for route in router.routes:
            names = [field.alias for field in route.dependant.query_params]  # type: ignore[attr-defined]
            found += [(method, route.path, names) for method in route.methods]  # type: ignore[attr-defined]
    return [*found, *((method, path, []) for method, path in ASSETS)]


def hostile_requests(client: TestClient) -> Iterator[tuple[str, str]]:
    """Yield method and target: every parameter of every route with every hostile text, the others harmless."""
    for method, path, queries in every_route(client):
        names = re.findall(r"{(\w+)}", path)
        plain = re.sub(r"{\w+}", "x_1", path)
        for text in HOSTILE:
            for name in names:
                yield method, re.sub(r"{\w+}", "x_1", path.replace(f"{{{name}}}", text))
            if len(names) > 1:
                yield method, re.sub(r"{\w+}", lambda _, text=text: text, path)
            if queries:
                # All at once: each is refused by itself, and the errors name them.
                yield method, plain + "?" + "&".join(f"{name}={text}" for name in queries)
                yield method, f"{plain}?{queries[-1]}={text}"


def walk(client: TestClient) -> None:
    """Send all of them and see that none is a mistake of ours."""
    count = 0
    for method, target in hostile_requests(client):
        body: dict[str, Any] = {"json": {}} if target.startswith("/v1/") else {"data": {"a": "1"}}
        sent = {} if method in ("GET", "DELETE") else body
        answer = client.request(method, target, headers=HERE, follow_redirects=False, **sent)
        assert answer.status_code < 500, (method, target, answer.text)
        if "%00" in target and target.startswith(("/v1/", "/audits", "/policies")) and "?" not in target:
            assert answer.status_code in (415, 422), (method, target, answer.status_code)
        count += 1
    assert count > 400


@pytest.mark.slow
def test_no_id_and_no_query_makes_a_mistake(client: TestClient) -> None:
    walk(client)


HEADERS = {
    "Host": ["[", "[::1", "a b", "a:99999", "a/b", "[::::]", "a@b", "ä"],
    "Origin": ["http://[", "null", "http://a:b", "//[", "\x00", "x" * 5000, "http://[v1.a]"],
    "Referer": ["http://["],
    "Authorization": ["Bearer", "Bearer \xff", "Basic x", "Bearer " + "x" * 50_000, "bearer  "],
    "Cookie": ["=", ";;;", 'a="', "seatrial=\xff", "seatrial=" + "x" * 50_000, "__Host-seatrial=%00", "a=1; " * 5000],
    "Content-Type": [
        "/",
        ";",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="',
        "a;b*=c''d",
        "\xff",
    ],
    "Content-Length": ["-1", "1e9", "٣", "9" * 400],
    "Accept": ["q=", "*/*;q=x", ";;;,,,", "text/html;q=" + "9" * 400, "\xff", ",".join("a/b" for _ in range(9000))],
    "Range": ["bytes=", "bytes=-", "bytes=9-1", "bytes=" + "0-1," * 2000, "bytes=" + "9" * 5000 + "-", "x"],
    "If-Range": ["\xff", "x"],
    "If-None-Match": ["W/", "*", ',"'],
    "Prefer": ["wait=", "wait=" + "9" * 5000, "wait=-1", "wait=1e9", "=;="],
    "Last-Event-ID": ["9" * 5000, "-1", "\x00", "²"],
    "Idempotency-Key": ["\x00", "x" * 300, "\xff"],
    "Sec-Fetch-Site": ["\xff"],
    "X-Request-ID": ["\x00", "x" * 5000],
    "X-Forwarded-Proto": ["\x00", "javascript", "https, http"],
    "X-Forwarded-For": ["[", "a:b:c", "::1%lo", "," * 5000],
}
TARGETS = [
    ("POST", "/v1/audits"),
    ("POST", "/v1/models"),
    ("GET", "/v1/audits/aud_1/events"),
    ("POST", "/login"),
    ("GET", "/console/console.js"),
]


@pytest.mark.slow
def test_no_header_makes_a_mistake(client: TestClient, keyed: TestClient) -> None:
    for which, known in ((client, {}), (keyed, key_for(keyed))):
        for name, values in HEADERS.items():
            for method, target in TARGETS:
                for value in values:
                    headers = {**known, name: value.encode()} if name not in known else {name: value.encode()}
                    answer = which.request(method, target, headers=headers, follow_redirects=False)
                    assert answer.status_code < 500, (method, target, name, value, answer.text)


def test_a_host_that_is_none_is_a_problem(keyed: TestClient) -> None:
    for host in HEADERS["Host"]:
        assert_problem(keyed.get("/v1/audits", headers={"Host": host.encode()}), 400, "malformed-request")
    for host in ("seatrial.example", "127.0.0.1:8000", "[::1]:80", "a_b"):
        assert_problem(keyed.get("/v1/audits", headers={"Host": host}), 401)


def test_an_origin_that_is_none_is_another_page(client: TestClient) -> None:
    for origin in HEADERS["Origin"]:
        assert_problem(client.post("/v1/keys", json={"name": "a"}, headers={"Origin": origin.encode()}), 403)
        assert client.post("/login", data={"key": "x"}, headers={"Origin": origin.encode()}).status_code == 403


def test_ten_thousand_unknown_parameters_are_not_told_one_by_one(keyed: TestClient) -> None:
    query = "&".join(f"{number:x}" for number in range(10_000))
    problem = assert_problem(keyed.get(f"/v1/audits?{query}"), 422)
    assert problem.errors is not None
    assert len(problem.errors) == 20


def form(part_headers: bytes, data: bytes = b"{}") -> bytes:
    return b"--b\r\n" + part_headers + b"\r\n\r\n" + data + b"\r\n"


MANIFEST = form(b'Content-Disposition: form-data; name="manifest"')
FORMS = {
    "a part header of megabytes": form(b"Content-Disposition: " + b"x" * 300_000),
    "a part header's name of megabytes": form(b"X" * 300_000 + b": y"),
    "thousands of part headers": form(b"X: y\r\n" * 30_000 + b"X: y"),
    "thousands of parts": MANIFEST * 5000,
    "thousands of fields": b"".join(
        form(b'Content-Disposition: form-data; name="f%d"' % number, b"") for number in range(3000)
    ),
}


@pytest.mark.parametrize("what", FORMS)
def test_a_form_is_refused_for_its_parts(client: TestClient, services: Services, what: str) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b", **HERE}
    for path in ("/v1/models", "/v1/datasets", "/models", "/datasets"):
        # Without an end: what is refused is refused before it.
        answer = client.post(path, content=FORMS[what], headers=headers)
        assert answer.status_code in (400, 422), (path, answer.status_code)
        assert "cut short" not in answer.text, "all of it was read"
    assert_nothing_stored(services)


def test_a_stranger_s_form_is_small(keyed: TestClient) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", **HERE}
    answer = keyed.post("/login", content=b"a=&" * 6000, headers=headers)
    assert answer.status_code == 413
    answer = keyed.post("/login", content=b"a=&" * 3000, headers=headers)
    assert answer.status_code == 422
    assert "1,000 fields" in answer.text


@pytest.mark.slow
def test_wrong_methods_are_told_the_right_ones_exactly(client: TestClient) -> None:
    answered: dict[str, set[str]] = {}
    for method, path, _ in every_route(client):
        # The last of the assets stands for paths that are not there.
        if path != "/{name}":
            answered.setdefault(re.sub(r"{\w+}", "standard", path), set()).add(method)
    answered["/console/console.js"] = answered.pop("/console/standard")
    del answered["/docs/assets/standard"]
    answered |= {"/docs": {"GET"}, "/openapi.json": {"GET"}, "/v1/audits/estimate": {"DELETE", "GET", "POST"}}
    answered |= {"/v1/hardenings/estimate": {"DELETE", "GET", "POST"}, "/v1/plans/estimate": {"GET", "POST"}}
    for path, methods in answered.items():
        right = sorted(methods | ({"HEAD"} if "GET" in methods else set()))
        for method in ("OPTIONS", next(iter({"DELETE", "PUT", "POST"} - methods))):
            problem = client.request(method, path, headers=HERE)
            assert problem.status_code == 405, (method, path)
            assert problem.headers["allow"].split(", ") == right, (method, path)
    assert client.options("/nowhere").status_code == 404
