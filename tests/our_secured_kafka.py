"""Our broker with the listeners of the secured Kafka, except Kerberos: fixture `our_secured`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.oauth_provider import OAuthKeys, OAuthProvider
from tests.real_kafka import SETTINGS, free_ports
from tests.secured_kafka import LISTENERS, SCRAM_MODULE, USERS, SecuredKafka, jaas, make_files, secured_settings

OURS = tuple(name for name in LISTENERS if name != "KRB")


@contextlib.contextmanager
def our_secured_broker(folder: Path) -> Iterator[SecuredKafka]:
    """Run the broker in a thread of this process."""
    certificates = make_files(folder)
    provider = OAuthProvider(OAuthKeys(folder / "oauth"), USERS)
    names = ("PLAINTEXT", *OURS)
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
        "num.partitions": SETTINGS["num.partitions"],
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        **secured_settings(certificates, provider.keys.key_set_file.as_uri()),
    }
    del settings["broker.session.timeout.ms"]
    users = {f"user_{name}": password for name, password in USERS.items()}
    for name in settings:
        if ".scram-sha-" in name and name.endswith(".sasl.jaas.config"):
            settings[name] = jaas(SCRAM_MODULE, **users)
    try:
        with EmbeddedBroker(**settings):
            yield SecuredKafka(str(folder), ports, provider.token_url, None)
    finally:
        provider.close()
