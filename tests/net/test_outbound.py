"""The guarded client against real servers and resolvers that lie."""

import errno
import gzip
import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.net import (
    AddressRefusedError,
    AnswerTimeoutError,
    AnswerUnusableError,
    ConnectionBrokenError,
    NameUnknownError,
    NotConnectedError,
    Outbound,
    OutboundError,
    RequestRefusedError,
    TlsFailedError,
    check_host,
)
from seatrial.net.addresses import Network, refusal, system_addresses
from tests.scripted import Scripted, answering, dripping, dropping, flooding, serving
from tests.servers import free_port

LOCAL: list[Network] = [ipaddress.ip_network("127.0.0.0/8")]
PUBLIC = "93.184.216.34"


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving(answering({"ok": True})) as running:
        yield running


def knowing(*answers: list[str]) -> Callable[[str, int], list[str]]:
    """Return a resolver that gives these answers in turn, the last for ever."""
    waiting = list(answers)
    return lambda host, port: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def post(url: str, *, timeout_s: float = 5.0, allowed: list[Network] = LOCAL, **options) -> object:
    with Outbound(allowed, **options) as outbound:
        return outbound.post(url, b"{}", {"Content-Type": "application/json"}, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("127.8.8.8", "loopback"),
        ("168.63.129.16", "cloud metadata"),
        ("169.254.169.254", "link-local"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("224.0.0.251", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fd00:ec2::254", "private"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "reserved"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b:1::1", "reserved"),
        ("2002:a9fe:a9fe::1", "link-local"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"),
        ("2001:db8::1", "documentation"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str, kind: str) -> None:
    assert refusal(ipaddress.ip_address(address), []) == kind
    with pytest.raises(AddressRefusedError, match="no public address"):
        post("http://models.example.com/", resolve=knowing([address]), allowed=[])


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_public_addresses_are_not_refused(address: str) -> None:
    assert refusal(ipaddress.ip_address(address), []) is None
    assert refusal(ipaddress.ip_address(address), LOCAL, allowed_only=True) == "not allowed"


@given(st.ip_addresses())
def test_nothing_python_calls_private_is_let_through(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if refusal(address, []) is None:
        assert not address.is_loopback
        assert not address.is_link_local
        assert not address.is_multicast
        assert not address.is_unspecified
        assert address.is_global or address in ipaddress.ip_network("64:ff9b::/96")


@given(st.ip_addresses(v=4))
def test_a_translated_address_is_judged_as_what_it_is_translated_to(address: ipaddress.IPv4Address) -> None:
    wanted = refusal(address, LOCAL)
    high, low = int(address) >> 16, int(address) & 0xFFFF
    for form in (f"::ffff:{high:x}:{low:x}", f"64:ff9b::{high:x}:{low:x}", f"2002:{high:x}:{low:x}::1"):
        assert refusal(ipaddress.ip_address(form), LOCAL) == wanted


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "models.localhost",
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "[::1]",
        "::ffff:127.0.0.1",
        "0:0:0:0:0:ffff:7f00:1",
        "169.254.169.254",
        "2852039166",
    ],
)
def test_private_hosts_in_any_spelling_are_refused_at_once_and_when_connected_to(host: str) -> None:
    with pytest.raises(AddressRefusedError, match="SEATRIAL_ENDPOINT_ALLOWED_NETWORKS"):
        check_host(host, [])
    literal = f"[{host}]" if ":" in host and "[" not in host else host
    # The machine's own resolver reads these, without a network.
    with pytest.raises((AddressRefusedError, NameUnknownError, RequestRefusedError)):
        post(f"http://{literal}:9/", allowed=[])


@pytest.mark.parametrize(
    "url", ["http://127%2e0.0.1/", "http://①②⑦.0.0.1/", "http://ⓛocalhost/", "http:///x", "http://xn--/"]
)
def test_hosts_written_to_mislead_a_parser_lead_nowhere(url: str) -> None:
    with pytest.raises((RequestRefusedError, NameUnknownError)):
        post(url, allowed=[], resolve=knowing([]))


@pytest.mark.parametrize("host", ["models.example.com", "8.8.8.8", "localhost.example.com", "134744072"])
def test_other_hosts_are_left_to_be_looked_up(host: str) -> None:
    check_host(host, [])


def test_allowed_networks_may_be_asked(server: Scripted) -> None:
    check_host("127.0.0.1", LOCAL)
    check_host("localhost", LOCAL)
    answer = post(server.url)
    assert (answer.status, answer.body) == (200, b'{"ok": true}')
    assert post(f"http://[::ffff:127.0.0.1]:{server.port}/").status == 200
    with pytest.raises(AddressRefusedError):
        post(server.url, allowed=[ipaddress.ip_network("10.0.0.0/8")])


def test_the_name_goes_into_the_host_header_and_the_address_is_connected_to(server: Scripted) -> None:
    post(f"http://models.example.com:{server.port}/a?b=c", resolve=knowing(["127.0.0.1"]))
    asked = server.asked[0]
    assert asked.headers["host"] == f"models.example.com:{server.port}"
    assert asked.path == "/a?b=c"
    post(f"http://[::ffff:127.0.0.1]:{server.port}/")
    assert server.asked[1].headers["host"] == f"[::ffff:127.0.0.1]:{server.port}"


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    for addresses in ([PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, "::1"]):
        with pytest.raises(AddressRefusedError) as caught:
            post("http://models.example.com/", resolve=knowing(addresses), allowed=[])
        assert "10.0.0.1" not in str(caught.value)


def test_what_was_checked_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    def connect(sock, address):
        connected.append(address[0])
        return errno.ECONNREFUSED

    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    # A name server that answers the check with a public address and a second look-up with a private one.
    resolve = knowing([PUBLIC], ["127.0.0.1"])
    with Outbound([], resolve=resolve) as outbound:
        with pytest.raises(NotConnectedError, match="Connection refused"):
            outbound.post("http://rebound.example.com/", b"", {}, timeout_s=5)
        with pytest.raises(AddressRefusedError):
            outbound.post("http://rebound.example.com/", b"", {}, timeout_s=5)
    assert connected == [PUBLIC]


def test_a_kept_connection_stays_with_the_address_that_was_checked(server: Scripted) -> None:
    with Outbound(LOCAL, resolve=knowing(["127.0.0.1"], ["10.0.0.1"])) as outbound:
        for _ in range(3):
            assert outbound.post(f"http://m.example.com:{server.port}/", b"", {}, timeout_s=5).status == 200
    assert len({asked.client for asked in server.asked}) == 1


def test_the_next_address_is_tried_when_one_does_not_accept(server: Scripted) -> None:
    resolve = knowing(["127.0.0.77", "127.0.0.1"])
    assert post(f"http://m.example.com:{server.port}/", resolve=resolve).status == 200


def test_a_redirect_is_an_answer_and_not_followed(server: Scripted) -> None:
    with serving(answering(b"", 307, Location=server.url)) as redirecting:
        answer = post(redirecting.url)
    assert (answer.status, answer.headers["location"]) == (307, server.url)
    assert server.asked == []


def test_proxies_passwords_and_cookies_are_not_used(
    server: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server.script = [answering({}, Set_Cookie="a=b")]
    with Outbound(LOCAL) as outbound:
        for _ in range(2):
            assert outbound.post(server.url, b"", {}, timeout_s=5).status == 200
    for asked in server.asked:
        assert {"authorization", "cookie"}.isdisjoint(asked.headers)


def test_an_endless_answer_is_cut_off(server: Scripted) -> None:
    server.script = [flooding]
    with pytest.raises(AnswerUnusableError, match="1,000,000 bytes"):
        post(server.url, max_bytes=1_000_000)


def test_a_large_answer_is_refused_by_its_announcement(server: Scripted) -> None:
    server.script = [answering(b"x" * 1001)]
    with pytest.raises(AnswerUnusableError, match="more than 1,000"):
        post(server.url, max_bytes=1000)
    server.script = [answering(b"x" * 1000)]
    assert len(post(server.url, max_bytes=1000).body) == 1000


def test_gzip_is_unpacked_within_the_bound_and_nothing_else_is(server: Scripted) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 100_000
    server.script = [
        answering(gzip.compress(b'{"a": 1}'), Content_Encoding="gzip"),
        answering(bomb, Content_Encoding="gzip"),
        answering(bomb[:-20], Content_Encoding="gzip"),
        answering(b"{}", Content_Encoding="gzip"),
        answering(b"{}", Content_Encoding="br"),
    ]
    assert post(server.url).body == b'{"a": 1}'
    assert server.asked[0].headers["accept-encoding"] == "identity"
    with pytest.raises(AnswerUnusableError, match="more than"):
        post(server.url, max_bytes=100_000)
    for reason in ("cut short", "is not", "compressed"):
        with pytest.raises(AnswerUnusableError, match=reason):
            post(server.url, max_bytes=100_000_000)


@pytest.mark.parametrize("slow", [dripping, lambda handler, asked: time.sleep(3)])
def test_the_deadline_holds_for_the_whole_answer(server: Scripted, slow) -> None:
    server.script = [slow]
    began = time.monotonic()
    with pytest.raises(AnswerTimeoutError, match=r"0\.3 s"):
        post(server.url, timeout_s=0.3)
    assert time.monotonic() - began < 2


def test_a_caller_may_give_up_while_it_waits(server: Scripted) -> None:
    class GivenUpError(Exception):
        pass

    given_up = threading.Event()

    def check_cancelled() -> None:
        if given_up.is_set():
            raise GivenUpError

    server.script = [lambda handler, asked: (given_up.set(), time.sleep(5))]
    began = time.monotonic()
    with pytest.raises(GivenUpError):
        post(server.url, timeout_s=60, check_cancelled=check_cancelled)
    assert time.monotonic() - began < 3


def test_a_connection_that_ends_in_mid_answer_is_broken_and_the_next_is_new(server: Scripted) -> None:
    server.script = [dropping, lambda handler, asked: handler.connection.shutdown(socket.SHUT_RDWR)]
    with Outbound(LOCAL) as outbound:
        for _ in range(2):
            with pytest.raises(ConnectionBrokenError):
                outbound.post(server.url, b"", {}, timeout_s=5)
        assert outbound.post(server.url, b"", {}, timeout_s=5).status == 200


def test_what_is_no_http_is_not_quoted(server: Scripted) -> None:
    server.script = [lambda handler, asked: handler.wfile.write(b"SSH-2.0-secret-banner\r\n\r\n")]
    with pytest.raises(ConnectionBrokenError) as caught:
        post(server.url)
    assert "banner" not in "".join(traceback.format_exception(caught.value))


def test_nobody_there() -> None:
    with pytest.raises(NotConnectedError, match="accepts no connection"):
        post(f"http://127.0.0.1:{free_port()}/")


def test_names_that_are_none_have_an_end() -> None:
    for host in ("a." + "x" * 300 + ".example", "..", "a..b"):
        with pytest.raises(NameUnknownError):
            system_addresses(host, 80)
    with pytest.raises(NameUnknownError, match="no address"):
        post("http://m.example.com/", resolve=knowing([]))
    with pytest.raises(NameUnknownError, match="no address"):
        post("http://m.example.com/", resolve=knowing(["not an address"]))


@pytest.mark.parametrize("value", ["to\nken", "tökén", "to\x00ken"])
def test_a_header_that_cannot_be_sent_is_not_shown(server: Scripted, value: str) -> None:
    with Outbound(LOCAL) as outbound, pytest.raises(RequestRefusedError) as caught:
        outbound.post(server.url, b"", {"Authorization": value}, timeout_s=5)
    assert "ken" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert server.asked == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "file:///etc/passwd", "http://", "//127.0.0.1/", "http://a:b/"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(RequestRefusedError):
        post(url)


def test_allowed_only_keeps_plain_secrets_off_the_internet(server: Scripted) -> None:
    assert post(server.url, allowed_only=True).status == 200
    with pytest.raises(AddressRefusedError, match="outside of the allowed networks"):
        post("http://m.example.com/", allowed_only=True, resolve=knowing([PUBLIC]))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a server called models.example.com, and of clients that trust it alone."""
    folder = tmp_path_factory.mktemp("tls")
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the openssl command makes the certificate")
    made = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    said = ["-subj", "/CN=models.example.com", "-addext", "subjectAltName=DNS:models.example.com"]
    kept = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(made + said + kept, cwd=folder, check=True, capture_output=True)
    serving_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving_side.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return serving_side, ssl.create_default_context(cafile=str(folder / "cert.pem"))


def test_the_certificate_is_verified_for_the_name_not_the_address(
    authority: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    serving_side, trusting = authority
    named: list[str | None] = []
    serving_side.sni_callback = lambda sock, name, context: named.append(name)
    resolve = knowing(["127.0.0.1"])
    with serving(answering({}), tls=serving_side) as server:
        url = f"https://models.example.com:{server.port}/"
        assert post(url, resolve=resolve, ssl_context=trusting).status == 200
        assert named == ["models.example.com"]
        with pytest.raises(TlsFailedError, match="mismatch"):
            post(url.replace("models", "other"), resolve=resolve, ssl_context=trusting)
        with pytest.raises(TlsFailedError, match="mismatch"):
            post(server.url, ssl_context=trusting)
        with pytest.raises(TlsFailedError, match="self-signed"):
            post(url, resolve=resolve)
    assert len(server.asked) == 1


def test_a_server_without_tls_is_told_so(server: Scripted) -> None:
    with pytest.raises(OutboundError) as caught:
        post(server.url.replace("http:", "https:"))
    assert isinstance(caught.value, TlsFailedError | NotConnectedError)


def test_a_large_body_is_sent_whole_over_tls(authority: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    serving_side, trusting = authority
    body = bytes(range(256)) * 8192
    with serving(answering({}), tls=serving_side) as server:
        url = f"https://models.example.com:{server.port}/"
        with Outbound(LOCAL, resolve=knowing(["127.0.0.1"]), ssl_context=trusting) as outbound:
            for _ in range(2):
                assert outbound.post(url, body, {}, timeout_s=10).status == 200
    assert [asked.body == body for asked in server.asked] == [True, True]
    assert len({asked.client for asked in server.asked}) == 1
