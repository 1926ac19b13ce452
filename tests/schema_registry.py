"""Schema registries that are not ours, and serialisers that are not ours.

Apicurio runs from its distribution on Maven Central (H2 in memory) and answers with Confluent's REST interface under
/apis/ccompat/v7. franz-go's srfake is the only one here that gives GUIDs, for ids in headers; it needs Go. Apicurio's
Java serialisers run in a JVM that lives as long as this process.

Apicurio's default is compatibility NONE; Confluent's is BACKWARD. The fixture sets BACKWARD.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.foreign import go_binary
from tests.java_driver import compiled
from tests.limits import read_line
from tests.maven import artifact, fetched

VERSION = "2.6.13.Final"
APP_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SERDE_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
START_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 60
SERDES_SOURCE = Path(__file__).parent / "interop" / "schemas" / "ApicurioSerdes.java"
_NUMBERS = itertools.count()
_LISTENING = re.compile(r"Listening on: (http://[\d.:]+)")


# Downloads


def fetch_apicurio() -> Path:
    """Return the folder with Apicurio's program; Maven fills it once. Safe for concurrent processes."""
    app = _coordinates("apicurio-registry-app", "<type>tar.gz</type><classifier>all</classifier>", transitive=False)
    return fetched("Apicurio", f"apicurio-{VERSION}", app)


def fetch_serdes() -> Path:
    """Return the folder with the jars of Apicurio's serialisers."""
    kinds = ("avro", "jsonschema", "protobuf")
    dependencies = "".join(_coordinates(f"apicurio-registry-serdes-{kind}-serde") for kind in kinds)
    return fetched("Apicurio", f"apicurio-serdes-{VERSION}", dependencies)


def _coordinates(name: str, more: str = "", *, transitive: bool = True) -> str:
    return artifact("io.apicurio", name, VERSION, more, transitive=transitive)


# Registries


class Registry(NamedTuple):
    """A running registry: the address for Confluent's clients, and that of Apicurio's own interface if it has one."""

    url: str
    native_url: str | None = None

    def topic(self, prefix: str = "registry") -> str:
        """Return a new name for a topic, whose subjects no other test has. `Kafka.new_topic` makes names with "t"."""
        return f"{prefix}-{os.getpid()}-{next(_NUMBERS):04}"

    def request(self, path: str, body: Mapping[str, Any] | None = None, method: str | None = None) -> Any:
        """Send a request of Confluent's REST interface and return the JSON answer. HTTPError for a refusal."""
        return _request(f"{self.url}{path}", body, method)

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: list[dict[str, Any]] = []) -> int:  # noqa: B006
        """Register a schema, a text or JSON, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": references}
        answer: int = self.request(f"/subjects/{subject}/versions", body)["id"]
        return answer


def _request(url: str, body: Mapping[str, Any] | None, method: str | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def start_apicurio(distribution: Path, folder: Path) -> tuple[str, Callable[[], None]]:
    """Start Apicurio in a folder; return its base address when it answers, and a function that ends it."""
    folder.mkdir(parents=True)
    (program,) = distribution.glob("apicurio-registry-app-*-runner.jar")
    words = ["java", *APP_JVM, "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0", "-jar", str(program)]
    log = folder / "apicurio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder)

    def stop() -> None:
        process.kill()
        process.wait()

    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := _LISTENING.search(log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            stop()
            raise AssertionError(f"Apicurio did not start:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.02)
    _request(f"{found[1]}/apis/ccompat/v7/config", {"compatibility": "BACKWARD"}, "PUT")
    return found[1], stop


def start_srfake() -> tuple[str, Callable[[], None]]:
    """Start franz-go's registry for tests; return its address, and a function that ends it."""
    process = subprocess.Popen([str(go_binary("srfake")), "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    address = read_line(process, "the address of srfake").strip()

    def stop() -> None:
        process.kill()
        process.communicate()

    return f"http://{address}", stop


# Apicurio's serialisers


class JavaSerdes:
    """A JVM with Apicurio's serialisers and deserialisers."""

    def __init__(self, jars: Path, registry: Registry) -> None:
        self._settings = {"apicurio.registry.url": registry.native_url, "apicurio.registry.auto-register": "true"}
        self._settings["apicurio.registry.auto-register.if-exists"] = "RETURN_OR_UPDATE"
        path = f"{jars}/*:{compiled(SERDES_SOURCE, jars)}"
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            ["java", *SERDE_JVM, "-cp", path, SERDES_SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
        )

    def write(self, form: str, topic: str, value: Any, schema: str = "", message: str = "", **config: str) -> bytes:
        """Serialise a value in the JSON of the format. `schema` is Avro's, or a FileDescriptorSet in base64."""
        return b64decode(
            self._ask("write", form, topic, config, value=json.dumps(value), schema=schema, message=message)["payload"]
        )

    def read(self, form: str, topic: str, payload: bytes, **config: str) -> Any:
        """Deserialise a payload and return the value in the JSON of the format."""
        return json.loads(self._ask("read", form, topic, config, payload=b64encode(payload).decode())["value"])

    def _ask(self, act: str, form: str, topic: str, config: Mapping[str, str], **more: str) -> dict[str, str]:
        named = {f"apicurio.registry.{name.replace('_', '-')}": value for name, value in config.items()}
        question = {"do": act, "format": form, "topic": topic, "config": {**self._settings, **named}, **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = read_line(self._process, f"the answer of the serialisers to {act} {form}")
        if not line:
            self._stderr.seek(0)
            raise AssertionError(f"the JVM of the serialisers ended:\n{self._stderr.read()[-4000:]}")
        answer: dict[str, str] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.communicate()
        self._stderr.close()


#: Settings of Apicurio's serialisers for Confluent's framing: four-byte ids, the same as those of the REST interface.
AS_CONFLUENT = {"id_handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler", "use_id": "contentId"}
