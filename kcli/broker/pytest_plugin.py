"""The pytest plugin of kcli: brokers and clusters as fixtures, and refused connections in the reports of failed tests.

| fixture | scope |
|---|---|
| `kafka_broker`, `kafka_cluster` | one test |
| `kafka_shared_broker` | that of the ini option `kafka_broker_scope`: session (the default), package, module, class |
| `kafka_clean_broker` | the shared broker for one test; its topics and groups are deleted after the test |

pytest loads this module in every run of an environment with kcli, so nothing else is imported until a test uses a
fixture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcli.broker.testing.embedded import EmbeddedBroker
    from kcli.broker.testing.embedded_cluster import EmbeddedCluster
    from kcli.broker.testing.process_cluster import ProcessCluster

_SCOPES = ("session", "package", "module", "class")
#: The brokers of fixtures that are in use now.
_BROKERS: pytest.StashKey[list[EmbeddedBroker]] = pytest.StashKey()
_IS_REPORTED: pytest.StashKey[bool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kafka_broker_scope", f"scope of the fixture kafka_shared_broker: {', '.join(_SCOPES)}", default="session"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BROKERS] = []
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


# Refused connections


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget what shared brokers have refused during earlier tests."""
    for broker in item.config.stash[_BROKERS]:
        broker.forget_seen()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section with the connections that the brokers of a failed test have refused."""
    report = yield
    if report.failed and _IS_REPORTED not in item.stash:
        lines = [line for broker in item.config.stash[_BROKERS] for line in _refusals(broker)]
        if lines:
            item.stash[_IS_REPORTED] = True
            report.sections.append(("kcli broker", "\n".join(lines)))
    return report


def _refusals(broker: EmbeddedBroker) -> Iterator[str]:
    """Yield a line for each reason: a client that is refused tries again and again."""
    by_reason: dict[str, list[str]] = {}
    for refusal in broker.refusals:
        by_reason.setdefault(refusal.reason, []).append(str(refusal))
    for lines in by_reason.values():
        again = f" ({len(lines)} times)" if len(lines) > 1 else ""
        yield f"kcli broker: {lines[0]}{again}"


@contextmanager
def _reported(config: pytest.Config, brokers: Iterable[EmbeddedBroker]) -> Iterator[None]:
    """Have the refusals of these brokers reported until the fixture ends."""
    given = list(brokers)
    in_use = config.stash[_BROKERS]
    in_use += given
    try:
        yield
    finally:
        in_use[:] = [broker for broker in in_use if broker not in given]


# Fixtures


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A Kafka broker for this test only, on loopback and with an empty temporary directory.

    Clients connect to `kafka_broker.address` (also `.bootstrap_servers`). Methods: `create_topic(name, partitions)`,
    `topics`, `restart()`, `kill()` and then `start()`, `intercept(api, hook)`; see
    `kcli.broker.testing.embedded.EmbeddedBroker`. Groups form without the default delay of 3 s.
    `@pytest.mark.kafka_broker(num_partitions=3)` sets broker properties;
    `@pytest.mark.kafka_broker(security="SASL_SSL", users={"alice": "secret"})` secures it, and
    `kafka_broker.client_properties("kafka-python", user="alice")` returns the configuration of a client; also for
    confluent-kafka, aiokafka, java and kcli.
    """
    from kcli.broker.testing.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0}
    for mark in reversed(list(request.node.iter_markers("kafka_broker"))):
        settings.update(mark.kwargs)
    with EmbeddedBroker(**settings) as broker, _reported(request.config, [broker]):
        yield broker


def _shared_scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini("kafka_broker_scope")
    if scope not in _SCOPES:
        raise pytest.UsageError(f"kafka_broker_scope: {scope!r} is not valid; use {', '.join(_SCOPES)}")
    return scope


@pytest.fixture(scope=_shared_scope)
def kafka_broker_settings() -> Mapping[str, Any]:
    """Arguments of `EmbeddedBroker` for `kafka_shared_broker`: override it, as in `return {"num_partitions": 3}`."""
    return {}


@pytest.fixture(scope=_shared_scope)
def kafka_shared_broker(
    request: pytest.FixtureRequest, kafka_broker_settings: Mapping[str, Any]
) -> Iterator[EmbeddedBroker]:
    """One Kafka broker for many tests: for the session, or for what the ini option `kafka_broker_scope` names.

    Tests see each other's topics and groups, so each takes new names: `kafka_shared_broker.new_topic("orders")` and
    `.new_name("billing")`; or use `kafka_clean_broker`. Override the fixture `kafka_broker_settings` to set broker
    properties and security. With pytest-xdist each worker has a broker. Methods and properties are those of
    `kafka_broker`.
    """
    from kcli.broker.testing.embedded import EmbeddedBroker

    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, **kafka_broker_settings}
    with EmbeddedBroker(**settings) as broker, _reported(request.config, [broker]):
        yield broker


@pytest.fixture
def kafka_clean_broker(kafka_shared_broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """The broker of `kafka_shared_broker` without topics, groups and hooks, before the test and after it."""
    kafka_shared_broker.clear()
    yield kafka_shared_broker
    kafka_shared_broker.clear()


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

    with EmbeddedCluster(**settings) as cluster, _reported(request.config, cluster.nodes.values()):
        yield cluster
