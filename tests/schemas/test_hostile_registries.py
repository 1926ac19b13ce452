"""Registries that refuse, stall, redirect or answer with junk: each call ends, with one line about the registry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import KcliError, NotFound
from kcli.schemas.registry_client import RegistryError, RegistrySettings, SchemaRegistry
from kcli.schemas.schema import RegistryRefused, RegistryUnavailable, Schema
from kcli.schemas.serdes import DecodeError, make_decoder
from tests.fake_registry import Answer, FakeRegistry, Request, Stall, fake_registry

SECRET = "s3cret-of-the-registry"
NEW = Schema("AVRO", '"string"')
CALLS: dict[str, Callable[[SchemaRegistry], Any]] = {
    "schema": lambda it: it.schema(1),
    "by_guid": lambda it: it.by_guid("00000000-0000-0000-0000-000000000001"),
    "subjects": lambda it: it.subjects(),
    "versions": lambda it: it.versions("s"),
    "latest": lambda it: it.latest("s"),
    "lookup": lambda it: it.lookup("s", NEW),
    "register": lambda it: it.register("s", NEW),
    "compatibility": lambda it: it.compatibility("s", NEW),
    "config": lambda it: it.config("s"),
}
each_call = pytest.mark.parametrize("call", CALLS)


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        running.register("s", '"string"')
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


def _client(*urls: str, timeout_ms: float = 5000.0, **properties: str) -> SchemaRegistry:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    given = {"schema.registry.url": ",".join(urls), **named}
    return SchemaRegistry(RegistrySettings.from_properties(given), timeout_ms=timeout_ms)


def _always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda request: answer


def _failure(client: SchemaRegistry, call: str) -> KcliError:
    with pytest.raises((RegistryError, NotFound)) as raised:
        CALLS[call](client)
    text = str(raised.value)
    assert "\n" not in text
    assert SECRET not in text
    assert len(text) < 500
    return raised.value


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (401, RegistryRefused, "it refuses the credentials (status 401)"),
        (403, RegistryRefused, "it refuses the credentials (status 403)"),
        (404, NotFound, "no such thing"),
        (409, RegistryError, "no such thing (status 409)"),
        (422, RegistryError, "no such thing (status 422)"),
        (429, RegistryUnavailable, "no such thing (status 429)"),
        (500, RegistryUnavailable, "no such thing (status 500)"),
        (503, RegistryUnavailable, "no such thing (status 503)"),
    ],
)
def test_a_refusal_is_one_line_with_the_message_of_the_registry(
    server: FakeRegistry, status: int, error: type[KcliError], said: str
) -> None:
    server.fault = _always((status, {"error_code": status * 100 + 1, "message": "no such\n\x1b[31m thing"}))
    failure = _failure(_client(server.url, basic_auth_user_info=f"u:{SECRET}"), "config")
    assert isinstance(failure, error)
    assert isinstance(failure, RegistryUnavailable) == (error is RegistryUnavailable)
    assert said in str(failure).replace("[31m ", "")


def test_credentials_that_are_missing_are_asked_for(server: FakeRegistry) -> None:
    server.fault = _always((401, {"error_code": 401, "message": "Unauthorized"}))
    assert "it asks for credentials (status 401)" in str(_failure(_client(server.url), "subjects"))


@pytest.mark.parametrize("echo", [SECRET, f"user:{SECRET}", f"the header was Basic dXNlcjpz, {SECRET}"])
def test_a_message_that_repeats_the_password_is_not_shown(server: FakeRegistry, echo: str) -> None:
    server.fault = _always((422, {"error_code": 42201, "message": echo}))
    _failure(_client(server.url, basic_auth_user_info=f"user:{SECRET}"), "config")
    _failure(_client(server.url, bearer_auth_credentials_source="STATIC_TOKEN", bearer_auth_token=SECRET), "config")


@each_call
def test_a_page_of_another_server_is_not_an_answer_of_a_registry(server: FakeRegistry, call: str) -> None:
    page = b"<html>nothing here</html>"
    server.fault = _always(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))
    failure = _failure(_client(server.url), call)
    assert not isinstance(failure, NotFound)
    assert "there is no schema registry at the URL" in str(failure)


@each_call
@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 200 OK\r\nContent-", b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"schema":'],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_stalled_answer_ends_at_the_time_limit(server: FakeRegistry, call: str, sent: bytes) -> None:
    server.fault = _always(Stall(sent))
    assert isinstance(_failure(_client(server.url, timeout_ms=30.0), call), RegistryUnavailable)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"HTTP/1.1 999 What\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"9" * 20_000,
    ],
    ids=[
        "closed",
        "another protocol",
        "negative length",
        "cut off",
        "bad chunks",
        "no content",
        "not UTF-8",
        "unknown status",
        "long header",
        "many headers",
        "deep JSON",
        "long number",
    ],
)
def test_an_answer_that_is_not_http_or_json_is_an_error(server: FakeRegistry, answer: bytes) -> None:
    server.fault = _always(answer)
    for call in CALLS:
        _failure(_client(server.url), call)


def test_a_body_without_end_is_not_read_to_its_end(server: FakeRegistry) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 17000000\r\n\r\n"
    server.fault = _always(head + b"[" + b" " * 16_999_999)
    assert "16" in str(_failure(_client(server.url), "subjects"))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(server: FakeRegistry, status: int) -> None:
    with fake_registry() as other:
        where = f"HTTP/1.1 {status} Moved\r\nLocation: {other.url}/subjects\r\nContent-Length: 0\r\n\r\n"
        server.fault = _always(where.encode())
        _failure(_client(server.url, basic_auth_user_info=f"u:{SECRET}"), "subjects")
        assert other.requests == []


NAMES = (
    *("schema", "schemaType", "references", "id", "version", "subject", "guid", "name", "is_compatible"),
    *("message", "messages", "compatibilityLevel", "error_code"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from(NAMES), parts, max_size=5),
    max_leaves=8,
)


@settings(max_examples=150)
@given(call=st.sampled_from(sorted(CALLS)), body=JSON, status=st.sampled_from([200, 404, 409, 500]))
def test_json_of_another_shape_gives_a_value_or_an_error_of_ours(
    shared: FakeRegistry, call: str, body: Any, status: int
) -> None:
    shared.fault = _always((status, body))
    with contextlib.suppress(RegistryError, NotFound):
        CALLS[call](_client(shared.url))


@pytest.mark.parametrize("reasons", [3, "text", {"a": 1}, ["a", 5], None])
def test_reasons_of_any_shape_are_texts(server: FakeRegistry, reasons: Any) -> None:
    server.fault = _always((200, {"is_compatible": False, "messages": reasons}))
    assert all(isinstance(it, str) for it in _client(server.url).compatibility("s", NEW)[1])


# Several URLs


def test_the_next_url_is_asked_when_one_fails_and_remembered(server: FakeRegistry) -> None:
    with fake_registry() as broken:
        broken.fault = _always((503, {"error_code": 50301, "message": "no leader"}))
        client = _client("http://127.0.0.1:1", broken.url, server.url)
        assert client.subjects() == ["s"]
        asked = len(broken.requests)
        assert client.versions("s") == [1]
        assert len(broken.requests) == asked


def test_a_refusal_of_one_url_is_not_retried_at_the_next(server: FakeRegistry) -> None:
    with fake_registry() as strict:
        strict.fault = _always((403, {"error_code": 40301, "message": "no"}))
        _failure(_client(strict.url, server.url, basic_auth_user_info=f"u:{SECRET}"), "subjects")
    assert server.requests == []


def test_without_any_url_that_answers_the_first_failure_is_reported() -> None:
    text = str(_failure(_client("http://127.0.0.1:1", "http://localhost:1"), "subjects"))
    assert text.startswith("schema registry 127.0.0.1:1: ")


# References


def _refers(name: str, subject: str) -> list[dict[str, Any]]:
    return [{"name": name, "subject": subject, "version": 1}]


def test_references_in_a_circle_end(server: FakeRegistry) -> None:
    server.register(
        "a", '{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]}', references=_refers("B", "b")
    )
    id = server.register(
        "b", '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}', references=_refers("A", "a")
    )
    client = _client(server.url)
    assert len(client.closure(client.schema(id))) <= 2
    (value,) = make_decoder("avro", "value", registry=client).decode("s", [b"\0" + id.to_bytes(4, "big") + b"\x02"])
    assert isinstance(value, DecodeError)


def test_references_without_end_are_refused(server: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.schemas.registry_client._MAX_REFERENCES", 20)

    def endless(request: Request) -> Answer:
        parts = request.path.split("/")
        if parts[1] != "subjects":
            return None
        number = int(parts[2])
        return 200, {"schema": f'"N{number}"', "references": _refers(f"N{number}", str(number + 1)), "version": 1}

    id = server.register("a", '{"type":"record","name":"A","fields":[]}', references=_refers("N", "1"))
    server.fault = endless
    client = _client(server.url)
    with pytest.raises(RegistryError, match="refers to more than 20 others"):
        client.closure(client.schema(id))


def test_a_reference_that_is_missing_is_an_error_of_the_record(server: FakeRegistry) -> None:
    text = '{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]}'
    id = server.register("a", text, references=_refers("B", "gone"))
    payload = b"\0" + id.to_bytes(4, "big") + b"\x02"
    (value,) = make_decoder("avro", "value", registry=_client(server.url)).decode("s", [payload])
    assert isinstance(value, DecodeError)
    assert "gone" in str(value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"type":"record"}', '"Unknown"', "[" * 5000, '{"type":{}}'])
def test_a_schema_that_is_not_valid_is_an_error_of_the_record(server: FakeRegistry, text: str) -> None:
    id = server.register("bad", text)
    payload = b"\0" + id.to_bytes(4, "big") + b"\x02"
    (value,) = make_decoder("avro", "value", registry=_client(server.url)).decode("s", [payload])
    assert isinstance(value, DecodeError)
    assert "\n" not in str(value)


def test_unknown_ids_are_asked_for_once(server: FakeRegistry) -> None:
    decoder = make_decoder("avro", "value", registry=_client(server.url))
    payload = b"\0\0\0\x03\x09\x02"
    assert all(isinstance(it, DecodeError) for it in decoder.decode("s", [payload] * 50))
    assert len([it for it in server.requests if it.path == "/schemas/ids/777"]) <= 2
