"""The embedded broker with a SASL_SSL, a SASL_PLAINTEXT and an SSL listener, and users of PLAIN."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from tests.certificates import Certificates

PASSWORD = "marked-secret-3"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLS": "SASL_SSL"}


class Secured(NamedTuple):
    """A running broker: the ports by listener, and the certificates."""

    broker: Broker
    ports: dict[str, int]
    certificates: Certificates

    def properties(self, listener: str, user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
        """Return the properties of a client."""
        protocol = LISTENERS[listener]
        found = {"bootstrap.servers": f"localhost:{self.ports[listener]}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.location": str(self.certificates.authority())}
        if protocol.startswith("SASL"):
            entry = f'{MODULE} required username="{user}" password="{password}";'
            found |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": entry}
        return found

    def file(self, folder: Path, properties: Mapping[str, str]) -> str:
        """Write the properties to a file; return its path."""
        path = folder / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return str(path)


@contextmanager
def secured_broker(folder: Path, certificates: Certificates, **settings: str) -> Iterator[Secured]:
    """Run a broker with an authorizer; alice and bob are its users, admin is a super user."""
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in ("admin", "alice", "bob"))
    properties = {
        "log.dirs": str(folder / "data"),
        "listeners": ",".join(f"{name}://localhost:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.pem("server")),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "connection.failed.authentication.delay.ms": "0",
        **{f"listener.name.{name}.plain.sasl.jaas.config": f"{MODULE} required {users};" for name in ("sasl", "sasls")},
        **settings,
    }
    broker = Broker(BrokerConfig.from_properties(properties), log=lambda _line: None)
    broker.start()
    stopping, running = threading.Event(), threading.Event()

    def run() -> None:
        broker.poll(0)
        running.set()
        broker.run(stopping.is_set)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    running.wait(10)
    try:
        yield Secured(broker, {endpoint.name: endpoint.port for endpoint in broker.endpoints}, certificates)
    finally:
        stopping.set()
        broker.wakeup()
        thread.join(10)
        broker.shutdown(clean=False)
