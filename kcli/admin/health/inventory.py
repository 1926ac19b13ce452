"""Facts about a cluster that the rules of `health` examine, and the requests for facts that failed. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.admin.cluster import Broker, NodeVersions
    from kcli.admin.configs import Setting
    from kcli.admin.logs.open_transactions import OpenTransaction
    from kcli.client.metadata import PartitionInfo, TopicInfo
    from kcli.errors import KcliError

# Names of facts, as failures and findings name them.
TOPICS = "topics"
BROKERS = "brokers"
TOPIC_SETTINGS = "topic settings"
BROKER_SETTINGS = "broker settings"
VERSIONS = "API versions"
DISKS = "log directories"
TRANSACTIONS = "transactions"
FACTS = (BROKERS, TOPICS, TOPIC_SETTINGS, BROKER_SETTINGS, VERSIONS, DISKS, TRANSACTIONS)

# Settings of topics that rules examine.
MIN_ISR, UNCLEAN_ELECTION = "min.insync.replicas", "unclean.leader.election.enable"


class Failure(NamedTuple):
    """A fact that could not be requested. `where` is a broker, a topic or a partition; "": the whole cluster."""

    fact: str
    where: str
    error: KcliError


class LogDir(NamedTuple):
    """A data directory of a broker. `log_bytes`: size of its logs; the volume's sizes are -1 before Kafka 3.3.

    With an `error` the directory is offline.
    """

    path: str
    log_bytes: int
    total_bytes: int = -1
    usable_bytes: int = -1
    error: KcliError | None = None


class Inventory:
    """All facts about a cluster. A fact that could not be requested is absent, and in `failures`.

    `brokers` has fenced brokers too, if the cluster returns them. `topic_settings` and `broker_settings` are by topic
    or broker and then by name. `unreachable` brokers are listed by the cluster but did not answer. `restricted`: an
    authorizer may hide topics and transactions. `wall_ms` is the time of day.
    """

    def __init__(
        self,
        wall_ms: int,
        brokers: tuple[Broker, ...],
        topics: Mapping[str, TopicInfo],
        *,
        topic_settings: Mapping[str, Mapping[str, str]] | None = None,
        broker_settings: Mapping[int, Mapping[str, Setting]] | None = None,
        versions: Mapping[int, NodeVersions] | None = None,
        log_dirs: Mapping[int, tuple[LogDir, ...]] | None = None,
        transactions: tuple[OpenTransaction, ...] = (),
        unreachable: Mapping[int, KcliError] | None = None,
        failures: tuple[Failure, ...] = (),
        restricted: bool = False,
    ) -> None:
        self.wall_ms = wall_ms
        self.brokers = brokers
        self.topics = topics
        self.topic_settings = topic_settings or {}
        self.broker_settings = broker_settings or {}
        self.versions = versions or {}
        self.log_dirs = log_dirs or {}
        self.transactions = transactions
        self.unreachable = unreachable or {}
        self.failures = failures
        self.restricted = restricted

    def __repr__(self) -> str:
        return f"<Inventory {len(self.brokers)} brokers, {len(self.topics)} topics, {len(self.failures)} failures>"

    @cached_property
    def live(self) -> frozenset[int]:
        """The brokers that serve clients."""
        return frozenset(broker.id for broker in self.brokers if not broker.fenced)

    @property
    def partitions(self) -> Iterator[PartitionInfo]:
        """All partitions, by topic and number."""
        for name in sorted(self.topics):
            yield from (info for _, info in sorted(self.topics[name].partitions.items()))

    @property
    def errors(self) -> list[KcliError]:
        """The errors of all requests for facts that failed."""
        return [*self.unreachable.values(), *(failure.error for failure in self.failures)]
