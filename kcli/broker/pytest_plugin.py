"""A pytest plugin: the fixture `kafka_broker`, a Kafka of your test's own that starts in a blink.

pytest loads this module in every run of an environment that has kcli, so it imports nothing until a test asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcli.broker.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "kafka_broker(**settings): broker properties for the fixture kafka_broker, with underscores for dots"
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for this test alone, on loopback and with an empty temporary directory.

    `kafka_broker.address` (also `.bootstrap_servers`) is for clients. `create_topic(name, partitions)`, `topics`,
    `restart()`, `kill()` and then `start()`, `intercept(api, answer)`: see `kcli.broker.embedded.EmbeddedBroker`.
    Groups form without the usual delay of three seconds. `@pytest.mark.kafka_broker(num_partitions=3)` sets broker
    properties.
    """
    from kcli.broker.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    for mark in reversed(list(request.node.iter_markers("kafka_broker"))):
        settings.update(mark.kwargs)
    with EmbeddedBroker(**settings) as broker:
        yield broker
