"""The pytest plugin of kcli: the fixtures `kafka_broker` and `kafka_cluster`, embedded brokers for one test.

pytest loads this module in every run of an environment with kcli, so nothing else is imported until a test uses a
fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcli.broker.testing.embedded import EmbeddedBroker
    from kcli.broker.testing.embedded_cluster import EmbeddedCluster
    from kcli.broker.testing.process_cluster import ProcessCluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka_broker(security=, users=, acls=, **settings): security and broker properties of the fixture "
        "kafka_broker, with underscores for dots",
    )
    config.addinivalue_line(
        "markers",
        "kafka_cluster(nodes=3, processes=False, **settings): nodes and broker properties of the fixture "
        "kafka_cluster, with underscores for dots",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for this test only, on loopback and with an empty temporary directory.

    Clients connect to `kafka_broker.address` (also `.bootstrap_servers`). Methods: `create_topic(name, partitions)`,
    `topics`, `restart()`, `kill()` and then `start()`, `intercept(api, hook)`; see
    `kcli.broker.testing.embedded.EmbeddedBroker`. Groups form without the default delay of 3 s.
    `@pytest.mark.kafka_broker(num_partitions=3)` sets broker properties;
    `@pytest.mark.kafka_broker(security="SASL_SSL", users={"alice": "secret"})` secures it, and
    `kafka_broker.client_properties("librdkafka", user="alice")` returns the configuration of a client.
    """
    from kcli.broker.testing.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    for mark in reversed(list(request.node.iter_markers("kafka_broker"))):
        settings.update(mark.kwargs)
    with EmbeddedBroker(**settings) as broker:
        yield broker


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster | ProcessCluster]:
    """A cluster of three Kafka brokers and a controller for this test only, in threads, with empty directories.

    Clients connect to `kafka_cluster.bootstrap_servers`. Methods: `create_topic(name, partitions, replicas)`,
    `leader_of(topic, partition)`, `kill(2)`, `stop(2)`, `start(2)`, `pause(2)` and `resume(2)`, `isolate(2)` and
    `heal()`, `wait_until_in_sync()`, `kill_controller()` and `start_controller()`; `nodes[2]` is the broker with this
    id; see `kcli.broker.testing.embedded_cluster.EmbeddedCluster`.
    `@pytest.mark.kafka_cluster(nodes=5, min_insync_replicas=2)` sets the number of nodes and broker properties;
    `@pytest.mark.kafka_cluster(processes=True)` starts a process each:
    `kcli.broker.testing.process_cluster.ProcessCluster`.
    """
    settings: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("kafka_cluster"))):
        settings.update(mark.kwargs)
    if settings.pop("processes", False):
        from kcli.broker.testing.process_cluster import ProcessCluster

        with ProcessCluster(**settings) as processes:
            yield processes
        return
    from kcli.broker.testing.embedded_cluster import EmbeddedCluster

    with EmbeddedCluster(**settings) as cluster:
        yield cluster
