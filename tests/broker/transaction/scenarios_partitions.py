"""Stories of partitions of transactions, with the outcome of Apache Kafka 4.3.1. Numbers are Kafka's error codes."""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.broker.transaction.harness import Recorder
from tests.broker.transaction.requests import (
    ADD,
    ADD_OF_BROKER,
    END,
    END_WITH_EPOCH,
    PRODUCE,
    PRODUCE_THAT_ADDS,
    VERIFY_OF_BROKER,
    abort,
    add,
    add_offsets,
    commit,
    completed,
    describe,
    errors_of,
    new_producer,
    of_broker,
    produce,
    row,
)


def partitions_open_a_transaction(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(3)
    producer = new_producer(broker, name)
    broker.ask(describe(name), 0)
    assert errors_of(broker.ask(add(name, producer, (topic, 0), (topic, 2)), ADD)) == [0, 0]
    broker.ask(describe(name), 0)
    assert errors_of(broker.ask(add(name, producer, (topic, 1)), ADD)) == [0]
    found = broker.ask(describe(name), 0).transaction_states[0]
    assert found.transaction_state == "Ongoing"
    assert sorted(found.topics[0].partitions) == [0, 1, 2]


def all_versions_of_clients_add_partitions(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(4)
    producer = new_producer(broker, name)
    for version in range(4):
        assert errors_of(broker.ask(add(name, producer, (topic, version)), version)) == [0]
    broker.ask(describe(name), 0)


def partition_that_is_in_the_transaction_is_accepted_again(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name)
    for _ in range(3):
        assert errors_of(broker.ask(add(name, producer, (topic, 0), (topic, 1)), ADD)) == [0, 0]
    assert errors_of(broker.ask(add(name, producer), ADD)) == []


def unknown_partition_refuses_the_others(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name)
    assert errors_of(broker.ask(add(name, producer, (topic, 0), (topic, 7)), ADD)) == [55, 3]
    assert errors_of(broker.ask(add(name, producer, (topic, 0), ("no-such-topic", 0)), ADD)) == [3, 55]
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Empty"


def client_must_not_add_internal_topics(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    broker.new_group()
    producer = new_producer(broker, name)
    assert errors_of(broker.ask(add(name, producer, (topic, 0), ("__consumer_offsets", 0)), ADD)) == [29, 55]
    assert errors_of(broker.ask(add(name, producer, ("__transaction_state", 0)), ADD)) == [29]


def unknown_id_has_no_transaction(broker: Recorder) -> None:
    name, other, topic = broker.new_id(), broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    assert errors_of(broker.ask(add(other, producer, (topic, 0)), ADD)) == [49]
    assert errors_of(broker.ask(add("", producer, (topic, 0)), ADD)) == [42]
    assert broker.ask(commit(other, producer), END).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.ask(commit(other, producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.ask(commit("", producer), END).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(commit("", producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_REQUEST


def producer_id_of_another_transactional_id_is_refused(broker: Recorder) -> None:
    name, other, topic = broker.new_id(), broker.new_id(), broker.new_topic()
    new_producer(broker, name)
    stranger = new_producer(broker, other)
    assert errors_of(broker.ask(add(name, stranger, (topic, 0)), ADD)) == [49]


def fenced_producer_adds_nothing(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    new_producer(broker, name)
    assert errors_of(broker.ask(add(name, old, (topic, 0)), 3)) == [90]
    assert errors_of(broker.ask(add(name, old, (topic, 0)), 2)) == [90]
    assert errors_of(broker.ask(add(name, old, (topic, 0)), 1)) == [47]
    assert errors_of(broker.ask(add(name, old, (topic, 0)), 0)) == [47]
    assert errors_of(broker.ask(add(name, old, (topic, 0), epoch=9), 3)) == [90]


def offsets_of_a_group_open_a_transaction(broker: Recorder) -> None:
    name, group = broker.new_id(), broker.new_group()
    producer = new_producer(broker, name)
    for version in range(5):
        assert broker.ask(add_offsets(name, producer, group), version).error_code == 0
    (found,) = broker.harness.ask(describe(name), 0).transaction_states
    assert (found.transaction_state, [one.topic for one in found.topics]) == ("Ongoing", ["__consumer_offsets"])
    assert broker.ask(commit(name, producer), END).error_code == 0
    completed(broker, name)


def fenced_producer_adds_no_offsets(broker: Recorder) -> None:
    name, group = broker.new_id(), broker.new_group()
    old = new_producer(broker, name)
    new_producer(broker, name)
    assert [broker.ask(add_offsets(name, old, group), version).error_code for version in range(5)] == [
        47,
        47,
        90,
        90,
        90,
    ]
    assert broker.ask(add_offsets("", old, group), 4).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(add_offsets(broker.new_id(), old, group), 4).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def leader_adds_a_partition_for_a_client(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name)
    answer = broker.ask(of_broker(row(name, producer, (topic, 0), (topic, 1))), ADD_OF_BROKER)
    assert errors_of(answer) == [0, 0]
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Ongoing"
    answer = broker.ask(commit(name, producer), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    completed(broker, name)


def leader_verifies_partitions(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name)
    for version in (VERIFY_OF_BROKER, ADD_OF_BROKER):
        answer = broker.ask(of_broker(row(name, producer, (topic, 0), verify_only=True)), version)
        assert errors_of(answer) == [120]
    broker.ask(add(name, producer, (topic, 0)), ADD)
    for version in (VERIFY_OF_BROKER, ADD_OF_BROKER):
        answer = broker.ask(of_broker(row(name, producer, (topic, 0), (topic, 1), verify_only=True)), version)
        assert errors_of(answer) == [0, 120]
    broker.ask(abort(name, producer), END)
    completed(broker, name)
    assert errors_of(broker.ask(of_broker(row(name, producer, (topic, 0), verify_only=True)), VERIFY_OF_BROKER)) == [
        120
    ]


def verification_of_a_fenced_producer_fails(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    new = new_producer(broker, name)
    broker.ask(add(name, new, (topic, 0)), ADD)
    for version in (VERIFY_OF_BROKER, ADD_OF_BROKER):
        assert errors_of(broker.ask(of_broker(row(name, old, (topic, 0), verify_only=True)), version)) == [90]
        assert errors_of(broker.ask(of_broker(row(name, new, (topic, 0), verify_only=True, epoch=8)), version)) == [90]
    assert errors_of(broker.ask(of_broker(row("", new, (topic, 0), verify_only=True)), VERIFY_OF_BROKER)) == [42]


def verification_of_an_unknown_id_fails(broker: Recorder) -> None:
    name, other, topic = broker.new_id(), broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    answer = broker.ask(of_broker(row(other, producer, (topic, 0), verify_only=True)), VERIFY_OF_BROKER)
    assert errors_of(answer) == [49]
    stranger = new_producer(broker, broker.new_id())
    answer = broker.ask(of_broker(row(name, stranger, (topic, 0), verify_only=True)), VERIFY_OF_BROKER)
    assert errors_of(answer) == [49]


def leader_asks_about_several_transactions_at_once(broker: Recorder) -> None:
    one, two, topic = broker.new_id(), broker.new_id(), broker.new_topic(2)
    first, second = new_producer(broker, one), new_producer(broker, two)
    request = of_broker(
        row(one, first, (topic, 0)), row(two, second, (topic, 1)), row(broker.new_id(), second, (topic, 1))
    )
    broker.ask(request, ADD_OF_BROKER)
    assert [s.transaction_state for s in broker.ask(describe(one, two), 0).transaction_states] == ["Ongoing"] * 2


def leader_asks_about_an_unknown_partition(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    answer = broker.ask(of_broker(row(name, producer, (topic, 0), (topic, 5))), ADD_OF_BROKER)
    assert errors_of(answer) == [55, 3]
    answer = broker.ask(of_broker(row(name, producer, (topic, 5), verify_only=True)), VERIFY_OF_BROKER)
    assert errors_of(answer) == [3]


def leader_may_add_internal_topics(broker: Recorder) -> None:
    name, group = broker.new_id(), broker.new_group()
    producer = new_producer(broker, name)
    assert group
    assert errors_of(broker.ask(of_broker(row(name, producer, ("__consumer_offsets", 0))), ADD_OF_BROKER)) == [0]
    broker.ask(abort(name, producer), END_WITH_EPOCH)
    completed(broker, name)


def produce_of_an_old_client_needs_its_partition(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    answer = broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.TRANSACTION_ABORTABLE
    broker.ask(add(name, producer, (topic, 0)), ADD)
    answer = broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert broker.read_committed(topic) == []
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a"]


def produce_of_a_new_client_adds_its_partition(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    answer = broker.ask(produce(name, producer, topic, b"a", b"b"), PRODUCE_THAT_ADDS)
    assert answer.responses[0].partition_responses[0].error_code == 0
    broker.ask(describe(name), 0)
    broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a", b"b"]


def produce_of_a_fenced_client_is_refused(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    new_producer(broker, name)
    answer = broker.ask(produce(name, old, topic, b"a"), PRODUCE_THAT_ADDS)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    answer = broker.ask(produce(name, old, topic, b"a"), PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Empty"


def partitions_of_an_ended_transaction_do_not_belong_to_the_next(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name)
    broker.ask(add(name, producer, (topic, 0)), ADD)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    broker.settled(add(name, producer, (topic, 1)), ADD)
    found = broker.ask(describe(name), 0).transaction_states[0]
    assert found.topics[0].partitions == [1]


def request_without_transactions_has_no_results(broker: Recorder) -> None:
    broker.new_id()
    broker.ask(describe(), 0)
    assert AddPartitionsToTxnRequest().transactions == []


SCENARIOS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]
