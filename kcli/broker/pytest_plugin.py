"""The pytest plugin of kcli: a fixture `kafka_broker` that starts an embedded broker for one test.

pytest loads this module in every run of an environment with kcli, so nothing else is imported until a test uses the
fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcli.broker.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka_broker(security=, users=, acls=, **settings): security and broker properties of the fixture "
        "kafka_broker, with underscores for dots",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for this test only, on loopback and with an empty temporary directory.

    Clients connect to `kafka_broker.address` (also `.bootstrap_servers`). Methods: `create_topic(name, partitions)`,
    `topics`, `restart()`, `kill()` and then `start()`, `intercept(api, hook)`; see
    `kcli.broker.embedded.EmbeddedBroker`. Groups form without the default delay of 3 s.
    `@pytest.mark.kafka_broker(num_partitions=3)` sets broker properties;
    `@pytest.mark.kafka_broker(security="SASL_SSL", users={"alice": "secret"})` secures it, and
    `kafka_broker.client_properties("librdkafka", user="alice")` returns the configuration of a client.
    """
    from kcli.broker.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    for mark in reversed(list(request.node.iter_markers("kafka_broker"))):
        settings.update(mark.kwargs)
    with EmbeddedBroker(**settings) as broker:
        yield broker
