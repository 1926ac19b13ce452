"""The embedded broker with a SASL_SSL, a SASL_PLAINTEXT and an SSL listener, and users of PLAIN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.certificates import Certificates

PASSWORD = "marked-secret-3"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLS": "SASL_SSL"}


class Secured(NamedTuple):
    """A running broker: the ports by listener, and the certificates."""

    broker: EmbeddedBroker
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


@contextmanager
def secured_broker(folder: Path, certificates: Certificates, **settings: str) -> Iterator[Secured]:
    """Run a broker with an authorizer; alice and bob are its users, admin is a super user."""
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in ("admin", "alice", "bob"))
    properties = {
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
    with EmbeddedBroker(folder / "data", **properties) as broker:
        ports = {name: int(address.rpartition(":")[2]) for name, address in broker.addresses.items()}
        yield Secured(broker, ports, certificates)
