"""Offset commits on both brokers with assigned partitions: what is stored, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import confluent_kafka
import pytest
from kafka.admin import KafkaAdminClient

from kcli.client.config import ConsumerConfig
from kcli.client.connect import connect
from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.offset_commits import OffsetCommits
from kcli.consumer.offset_fetcher import fetch_committed
from kcli.consumer.subscription import SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CommitFailed, KcliError, TimeoutExpired
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.limits import Limit
from tests.real_kafka import Kafka


class Committing:
    """The commits of a consumer that is not a member, over a real connection."""

    def __init__(self, kafka: Kafka) -> None:
        self.topic = kafka.new_topic(2, prefix="commits")
        self.group = f"g-{self.topic}"
        self.tp = TopicPartition(self.topic, 0)
        config = ConsumerConfig.from_properties(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": self.group, "enable.auto.commit": "false"}
        )
        self.client = connect(config)
        self.subscription = SubscriptionState()
        self.subscription.assign([self.tp])
        self.lookup = CoordinatorLookup(self.client, self.group)
        self.commits = OffsetCommits(self.client, self.lookup, lambda: None, self.subscription, config)

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: float = 10_000) -> None:
        self.commits.commit_sync(offsets, self.client.clock.now_ms() + timeout_ms)

    def refusal(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: float = 10_000) -> KcliError:
        with pytest.raises(KcliError) as caught:
            self.commit(offsets, timeout_ms)
        return caught.value

    def committed(self) -> dict[TopicPartition, OffsetAndMetadata | None]:
        deadline_ms = self.client.clock.now_ms() + 10_000
        both = [self.tp, TopicPartition(self.topic, 1)]
        return fetch_committed(self.client, self.lookup, self.group, both, deadline_ms)


@pytest.fixture
def committing(any_kafka: Kafka) -> Iterator[Committing]:
    made = Committing(any_kafka)
    yield made
    made.client.close()


def test_offset_epoch_and_metadata_are_stored_for_other_clients(committing: Committing, any_kafka: Kafka) -> None:
    stored = OffsetAndMetadata(5, 0, "by hand, ünïcode")
    committing.commit({committing.tp: stored})
    assert committing.committed() == {committing.tp: stored, TopicPartition(committing.topic, 1): None}
    with closing(KafkaAdminClient(bootstrap_servers=any_kafka.bootstrap_servers)) as other:
        [found] = other.list_group_offsets({committing.group: None})[committing.group].values()
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 0, "by hand, ünïcode")


def test_asynchronous_commits_arrive_in_order(committing: Committing) -> None:
    completed: list[int] = []
    for n in range(20):
        committing.commits.commit_async(
            {committing.tp: OffsetAndMetadata(n)},
            lambda offsets, error: completed.append(offsets[committing.tp].offset),
        )
    committing.commits.close(committing.client.clock.now_ms() + 10_000)
    assert completed == list(range(20))
    assert committing.committed()[committing.tp] == OffsetAndMetadata(19)


def test_metadata_that_is_too_large_is_refused(committing: Committing) -> None:
    error = committing.refusal({committing.tp: OffsetAndMetadata(5, -1, "x" * 5000)})
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert str(committing.tp) in str(error)


def test_a_commit_for_an_unknown_topic_is_retried_until_the_deadline(committing: Committing) -> None:
    absent = TopicPartition(f"{committing.topic}-absent", 0)
    error = committing.refusal({absent: OffsetAndMetadata(5)}, timeout_ms=500)
    assert isinstance(error, TimeoutExpired)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)


def test_a_commit_to_a_group_with_members_is_refused(committing: Committing, any_kafka: Kafka) -> None:
    member = confluent_kafka.Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": committing.group})
    member.subscribe([committing.topic])
    limit = Limit("the assignment of the member")
    while not member.assignment():
        limit.check()
        member.poll(0.1)
    error = committing.refusal({committing.tp: OffsetAndMetadata(5)})
    member.close()
    assert isinstance(error, CommitFailed)
    assert "only members may commit" in str(error)
