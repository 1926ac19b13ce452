"""A schema registry in this process: it keeps schemas as Confluent's does, gives GUIDs, and can misbehave.

It does not judge schemas: `verdict` says what it answers about compatibility.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    """A request that arrived. `path` has no query and is not decoded."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any


class Stall(NamedTuple):
    """Send these bytes, and then nothing until the registry is closed."""

    sent: bytes = b""


#: JSON with a status, a whole response as bytes, or a stall. None: the usual answer.
Answer = tuple[int, Any] | bytes | Stall | None


class FakeRegistry(ThreadingHTTPServer):
    """`fault` may replace the answer to a request. `requests` are those that arrived."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Answer] = lambda request: None
        self.verdict: Callable[[str, dict[str, Any], int], list[str]] = lambda subject, schema, version: []
        self.rule = "BACKWARD"
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.closing = threading.Event()
        self._lock = threading.Lock()

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """Add a schema, a text or JSON, to a subject and return its id; equal schemas have one id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        with self._lock:
            versions = self.subjects.setdefault(subject, [])
            known = [it for all_of in self.subjects.values() for it in all_of]
            same = next((it for it in known if (it["schema"], it["schemaType"]) == (text, kind)), None)
            id = same["id"] if same else 1 + len({it["id"] for it in known})
            if same is None or same not in versions:
                guid = str(uuid.UUID(int=0xABC << 100 | id))
                schema = {"schema": text, "schemaType": kind, "references": list(references), "id": id, "guid": guid}
                versions.append({"subject": subject, "version": len(versions) + 1, **schema})
        return id

    def answer(self, request: Request) -> Answer:
        """Return the answer of a registry without faults."""
        words = [unquote(word) for word in request.path.strip("/").split("/")]
        every = [it for versions in self.subjects.values() for it in versions]
        if words == ["subjects"]:
            return 200, list(self.subjects)
        if words[:2] == ["schemas", "ids"]:
            return self._first(it for it in every if str(it["id"]) == words[2])
        if words[:2] == ["schemas", "guids"]:
            return self._first(it for it in every if it["guid"] == words[2])
        if words[0] == "config":
            return 200, {"compatibilityLevel": self.rule}
        subject = words[2] if words[0] == "compatibility" else words[1]
        if request.method == "POST" and words[0] == "subjects" and words[2:] == ["versions"]:
            body = request.body
            id = self.register(subject, body["schema"], body.get("schemaType", "AVRO"), body.get("references", ()))
            return 200, {"id": id}
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if words[0] == "compatibility":
            reasons = self.verdict(subject, request.body, int(words[4]))
            return 200, {"is_compatible": not reasons, "messages": reasons}
        if request.method == "POST":
            found = next((it for it in versions if it["schema"] == request.body["schema"]), None)
            return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
        if words[2:] == ["versions"]:
            return 200, [it["version"] for it in versions]
        number = versions[-1]["version"] if words[3] == "latest" else int(words[3])
        found = next((it for it in versions if it["version"] == number), None)
        return (200, found) if found else (404, {"error_code": 40402, "message": f"Version {number} not found."})

    @staticmethod
    def _first(found: Iterator[dict[str, Any]]) -> Answer:
        schema = next(found, None)
        return (200, schema) if schema else (404, {"error_code": 40403, "message": "Schema not found"})


class _Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # a client that refuses the certificate
            super().handle()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        parts = urlsplit(self.path)
        request = Request(self.command, parts.path, parts.query, dict(self.headers.items()), body)
        self.server.requests.append(request)
        answer = self.server.fault(request)
        answer = self.server.answer(request) if answer is None else answer
        assert answer is not None
        with contextlib.suppress(ConnectionError):
            if isinstance(answer, Stall):
                self.wfile.write(answer.sent)
                self.server.closing.wait()
            elif isinstance(answer, bytes):
                self.wfile.write(answer)
            else:
                data = json.dumps(answer[1]).encode()
                head = f"HTTP/1.1 {answer[0]} Status\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data)
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def fake_registry(tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """Run a registry in a thread, with TLS if there is a context."""
    server = FakeRegistry()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.url = f"https://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
