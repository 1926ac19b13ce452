"""HTTP requests against servers that answer, and that stall, flood and lie."""

import ssl

import pytest

from kcli.security.http_request import MAX_BODY_BYTES, HttpAnswer, HttpError, address_of, parse_url, send_request
from tests.security.http_servers import Handler, answer, document, drip, flood, http_server, read_request, stall

HEAD = b"HTTP/1.1 200 OK\r\n"


def get(
    port: int, *, body: bytes | None = None, scheme: str = "http", tls=None, timeout_ms: float = 5000
) -> HttpAnswer:
    parts = parse_url(f"{scheme}://127.0.0.1:{port}/path/x?a=b")
    assert parts is not None
    headers = {"Accept": "application/json"}
    return send_request(parts, headers, body, connect_timeout_ms=timeout_ms, read_timeout_ms=timeout_ms, tls=tls)


def test_get_and_post():
    requests = []

    def handle(sock, _):
        requests.append(read_request(sock))
        sock.sendall(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

    with http_server(handle) as port:
        assert get(port) == (404, b"abc")
        assert get(port, body=b"x=y") == (404, b"abc")
    assert requests[0].startswith(b"GET /path/x?a=b HTTP/1.1\r\n")
    assert requests[1].startswith(b"POST /path/x?a=b HTTP/1.1\r\n")
    assert requests[1].endswith(b"Content-Length: 3\r\nAccept: application/json\r\n\r\nx=y")


@pytest.mark.parametrize(
    ("handle", "problem"),
    [
        (stall, "no complete answer in 300 ms"),
        (drip(b""), "no complete answer in 300 ms"),
        (drip(HEAD + b"X-Header: "), "no complete answer in 300 ms"),
        (drip(HEAD + b"Content-Length: 100000\r\n\r\n"), "no complete answer in 300 ms"),
        (drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n"), "no complete answer in 300 ms"),
    ],
)
def test_slow_server_ends_with_the_timeout(handle: Handler, problem: str):
    with http_server(handle) as port, pytest.raises(HttpError, match=f"^{problem}$") as failed:
        get(port, timeout_ms=300)
    assert failed.value.retriable


@pytest.mark.parametrize(
    ("handle", "problem", "retriable"),
    [
        (answer(b""), "the connection closed before the answer", True),
        (answer(b"swordfish\r\n\r\n"), "the answer is not valid HTTP", False),
        (answer(b"\x15\x03\x03\x00\x02\x02\x46"), "the answer is not valid HTTP", False),
        (answer(HEAD + b"Content-Length: 10\r\n\r\nabc"), "the connection closed before the end", True),
        (answer(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "the answer is not valid HTTP", False),
        (flood(HEAD + b"X: "), "the answer is not valid HTTP", False),
        (flood(HEAD + b"\r\n"), f"the answer has more than {MAX_BODY_BYTES} bytes", False),
        (flood(HEAD + b"Content-Length: 99999999999999999999\r\n\r\n"), "the answer has more than", False),
        (document("", "302 Found", "Location: http://127.0.0.1:1/swordfish"), r"it redirects \(status 302\)", False),
    ],
)
def test_unusable_answer(handle: Handler, problem: str, retriable: bool):
    with http_server(handle) as port, pytest.raises(HttpError, match=f"^{problem}") as failed:
        get(port)
    assert failed.value.retriable == retriable
    assert "swordfish" not in str(failed.value)


def test_refused_connection():
    with http_server(stall) as port:
        pass
    with pytest.raises(HttpError, match=r"^connection refused$"):
        get(port)


@pytest.mark.parametrize("name", ["name.invalid", "a..b", "a" * 64])
def test_unknown_name(name: str):
    parts = parse_url(f"http://{name}/x")
    assert parts is not None
    with pytest.raises(HttpError, match=r"^its name cannot be resolved: "):
        send_request(parts, {}, None, connect_timeout_ms=5000, read_timeout_ms=5000)


def plain_answer(sock, _):
    sock.recv(65536)
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_tls(certificates):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.pem("server"))
    with http_server(document("ok"), server) as port:
        trusting = ssl.create_default_context(cafile=str(certificates.authority()))
        assert get(port, scheme="https", tls=lambda: trusting).body == b"ok"
        strict = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(HttpError, match=r"^its certificate is not trusted: unable to get local issuer"):
            get(port, scheme="https", tls=lambda: strict)
    with http_server(plain_answer) as port, pytest.raises(HttpError, match=r"^TLS failed: wrong version number$"):
        get(port, scheme="https", tls=lambda: strict)
    with http_server(stall) as port, pytest.raises(HttpError, match=r"^the TLS handshake is not complete after 300 ms"):
        get(port, scheme="https", tls=lambda: strict, timeout_ms=300)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h/x", "h:80"),
        ("https://h/x", "h:443"),
        ("HTTPS://h:8/", "h:8"),
        ("http://[::1]/x", "[::1]:80"),
    ],
)
def test_address_of_a_url(url: str, address: str):
    parts = parse_url(url)
    assert parts is not None
    assert address_of(parts) == address


@pytest.mark.parametrize(
    "url",
    ["", "h", "ftp://h/", "file:///x", "http://", "http://h:x/", "http://h:99999/", "http://u:p@h/", "http://h/a b"],
)
def test_text_that_is_not_a_url(url: str):
    assert parse_url(url) is None
