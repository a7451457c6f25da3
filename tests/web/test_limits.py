from collections.abc import Iterator

import httpx
import pytest

from app.web.services import Services
from tests.uploads import assert_nothing_stored, model_manifest, npz, upload, weights
from tests.web.test_problems import assert_problem


def test_a_declared_ten_gigabytes_are_refused_before_a_byte_is_read(client: httpx.Client, services: Services) -> None:
    read = 0

    def body() -> Iterator[bytes]:
        nonlocal read
        read += 1
        yield b"x"

    headers = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(10 * 2**30)}
    for path in ("/v1/models", "/v1/datasets"):
        answer = client.post(path, content=body(), headers=headers)
        problem = assert_problem(answer, 413, "payload-too-large")
        assert problem.errors
        assert (problem.errors[0].part, problem.errors[0].pointer) == ("form", "/file")
        assert answer.headers["connection"] == "close"
    assert_nothing_stored(services)


def test_chunks_are_counted(client: httpx.Client) -> None:
    chunks = (b" " * 1000 for _ in range(50))
    answer = client.post("/v1/keys", content=chunks, headers={"Content-Type": "application/json"})
    problem = assert_problem(answer, 413)
    assert problem.errors
    assert (problem.errors[0].part, problem.errors[0].pointer) == ("body", "")


def test_a_file_beyond_its_limit_is_refused_and_named(client: httpx.Client, services: Services) -> None:
    problem = assert_problem(upload(client, "models", model_manifest(), b"x" * 200_001), 413)
    assert problem.errors
    assert problem.errors[0].pointer == "/file"
    assert_problem(upload(client, "models", " " * 30_000, weights()), 413)
    assert_nothing_stored(services)


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"hello", 415),
        ("multipart/form-data", b"hello", 400),
        ("multipart/form-data; boundary=b", b"hello", 400),
        ("multipart/form-data; boundary=b", b"", 400),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="manifest"\r\n\r\n{}', 400),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="manifest"\r\n\r\n{}\r\n--b--\r\n',
            422,
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n{}\r\n--b--\r\n',
            422,
        ),
        ("multipart/form-data; boundary=" + "b" * 5000, b"x", 400),
    ],
)
def test_a_form_that_is_none_leaves_nothing(
    client: httpx.Client, services: Services, content_type: str, body: bytes, status: int
) -> None:
    for path in ("/v1/models", "/v1/datasets"):
        assert_problem(client.post(path, content=body, headers={"Content-Type": content_type}), status)
    assert_nothing_stored(services)


def test_without_keys_no_web_page_reaches_the_service(client: httpx.Client) -> None:
    assert_problem(client.get("/v1/audits", headers={"Host": "evil.example"}), 403)
    assert client.get("/v1/audits", headers={"Host": "localhost:8000"}).status_code == 200
    assert client.get("/v1/audits", headers={"Host": "[::1]:8000"}).status_code == 200
    body = {"name": "ci"}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert_problem(client.post("/v1/keys", json=body, headers=headers), 403)
    assert client.post("/v1/keys", json=body, headers={"Origin": "http://127.0.0.1"}).status_code == 201
    assert client.get("/v1/audits", headers={"Origin": "https://evil.example"}).status_code == 200


def test_with_keys_any_host_will_do(keyed: httpx.Client) -> None:
    assert_problem(keyed.get("/v1/audits", headers={"Host": "seatrial.internal"}), 401)


def test_an_upload_may_be_slow_and_in_pieces(client: httpx.Client) -> None:
    request = client.build_request(
        "POST",
        "/v1/datasets",
        data={"manifest": '{"name": "d", "version": "1", "task": "image-classification"}'},
        files={"file": ("d.npz", npz())},
    )
    whole = request.read()
    pieces = (whole[start : start + 7] for start in range(0, len(whole), 7))
    answer = client.post("/v1/datasets", content=pieces, headers={"Content-Type": request.headers["content-type"]})
    assert answer.status_code == 201, answer.text
