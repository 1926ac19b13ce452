"""Stories of the end of transactions, with the outcome of Apache Kafka 4.3.1. Numbers are Kafka's error codes."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from tests.broker.transaction.harness import Recorder
from tests.broker.transaction.requests import (
    ADD,
    END,
    END_WITH_EPOCH,
    PRODUCE,
    PRODUCE_THAT_ADDS,
    abort,
    add,
    commit,
    completed,
    describe,
    end,
    errors_of,
    init,
    new_producer,
    produce,
)


def open_transaction(broker: Recorder, topic: str = "", **options: Any) -> tuple[str, str, Any]:
    """Return the id, the topic and the producer of a transaction that is open."""
    name = broker.new_id()
    topic = topic or broker.new_topic()
    producer = new_producer(broker, name, **options)
    assert errors_of(broker.ask(add(name, producer, (topic, 0)), ADD)) == [0]
    return name, topic, producer


def transaction_with_a_record(broker: Recorder, *, epoch: int = 0) -> tuple[str, str, Any]:
    """Return the id, the topic and the producer of a transaction that began with the record a, in version 2."""
    name, topic = broker.new_id(), broker.new_topic()
    for _ in range(epoch + 1):
        producer = new_producer(broker, name)
    broker.settled(produce(name, producer, topic, b"a"), PRODUCE_THAT_ADDS)
    return name, topic, producer


# ---- clients with one epoch ----


def commit_ends_a_transaction(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(produce(name, producer, topic, b"a", b"b"), PRODUCE)
    answer = broker.ask(commit(name, producer), END)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, -1, -1)
    assert completed(broker, name).transaction_states[0].transaction_state == "CompleteCommit"
    assert broker.read_committed(topic) == [b"a", b"b"]


def abort_ends_a_transaction(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(produce(name, producer, topic, b"a", b"b"), PRODUCE)
    assert broker.ask(abort(name, producer), END).error_code == 0
    assert completed(broker, name).transaction_states[0].transaction_state == "CompleteAbort"
    broker.read_committed(topic)


def all_versions_end_a_transaction(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    for version in range(5):
        broker.settled(add(name, producer, (topic, 0)), ADD)
        assert broker.ask(commit(name, producer), version).error_code == 0
        completed(broker, name)


def repeated_commit_has_its_effect_once(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    for _ in range(3):
        assert broker.settled(commit(name, producer), END).error_code == 0
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a"]


def repeated_abort_has_its_effect_once(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    for _ in range(3):
        assert broker.settled(abort(name, producer), END).error_code == 0
    completed(broker, name)
    broker.read_committed(topic)


def committed_transaction_cannot_be_aborted(broker: Recorder) -> None:
    name, _, producer = open_transaction(broker)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    assert broker.settled(abort(name, producer), END).error_code == ErrorCode.INVALID_TXN_STATE
    completed(broker, name)


def aborted_transaction_cannot_be_committed(broker: Recorder) -> None:
    name, _, producer = open_transaction(broker)
    broker.ask(abort(name, producer), END)
    completed(broker, name)
    assert broker.settled(commit(name, producer), END).error_code == ErrorCode.INVALID_TXN_STATE
    completed(broker, name)


def nothing_to_end_in_the_state_empty(broker: Recorder) -> None:
    name = broker.new_id()
    producer = new_producer(broker, name)
    assert broker.ask(commit(name, producer), END).error_code == ErrorCode.INVALID_TXN_STATE
    assert broker.ask(abort(name, producer), END).error_code == ErrorCode.INVALID_TXN_STATE
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Empty"


def fenced_producer_ends_nothing(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    assert [broker.ask(commit(name, producer, epoch=7), version).error_code for version in range(6)] == [
        *(47, 47, 90, 90, 90),
        90,
    ]
    of_another = commit(name, producer, producer_id=producer.producer_id + 100_000)
    assert broker.ask(of_another, END).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.ask(of_another, END_WITH_EPOCH).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.ask(describe(name), 0).transaction_states[0].topics[0].topic == topic


def old_producer_ends_nothing_of_the_new_one(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    new = new_producer(broker, name)
    broker.ask(add(name, new, (topic, 0)), ADD)
    for request in (commit(name, old), abort(name, old)):
        assert broker.ask(request, END).error_code == ErrorCode.PRODUCER_FENCED
        assert broker.ask(request, END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Ongoing"


def next_transaction_of_the_same_epoch(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    for number in range(4):
        broker.settled(add(name, producer, (topic, 0)), ADD)
        broker.ask(produce(name, producer, topic, b"%d" % number, sequence=number), PRODUCE)
        broker.ask(end(name, producer, number % 2 == 0), END)
        completed(broker, name)
    broker.read_committed(topic)


def transaction_over_several_partitions(broker: Recorder) -> None:
    topic = broker.new_topic(3)
    name = broker.new_id()
    producer = new_producer(broker, name)
    broker.ask(add(name, producer, *((topic, number) for number in range(3))), ADD)
    for number in range(3):
        broker.ask(produce(name, producer, topic, b"%d" % number, partition=number), PRODUCE)
    for number in range(3):
        assert broker.read_committed(topic, number) == []
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    for number in range(3):
        assert broker.read_committed(topic, number) == [b"%d" % number]


def transaction_without_records_writes_its_marker(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    broker.read_committed(topic)


def two_producers_write_to_one_partition(broker: Recorder) -> None:
    topic = broker.new_topic()
    one, _, first = open_transaction(broker, topic)
    two, _, second = open_transaction(broker, topic)
    broker.ask(produce(one, first, topic, b"1"), PRODUCE)
    broker.ask(produce(two, second, topic, b"2"), PRODUCE)
    broker.ask(produce(one, first, topic, b"3", sequence=1), PRODUCE)
    broker.ask(commit(two, second), END)
    completed(broker, two)
    assert broker.read_committed(topic) == []
    broker.ask(abort(one, first), END)
    completed(broker, one)
    broker.read_committed(topic)


# ---- clients with an epoch per transaction ----


def commit_gives_the_next_epoch(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    for number in range(4):
        broker.settled(produce(name, producer, topic, b"%d" % number), PRODUCE_THAT_ADDS)
        answer = broker.ask(commit(name, producer), END_WITH_EPOCH)
        assert (answer.error_code, answer.producer_id) == (0, producer.producer_id)
        assert answer.producer_epoch == producer.producer_epoch + 1
        completed(broker, name)
        producer = answer
    assert broker.read_committed(topic) == [b"0", b"1", b"2", b"3"]


def abort_gives_the_next_epoch(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    for number in range(4):
        broker.settled(produce(name, producer, topic, b"%d" % number), PRODUCE_THAT_ADDS)
        answer = broker.ask(end(name, producer, number % 2 == 1), END_WITH_EPOCH)
        assert answer.producer_epoch == producer.producer_epoch + 1
        completed(broker, name)
        producer = answer
    broker.read_committed(topic)


def retry_of_a_commit_has_the_same_answer(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker)
    first = broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    again = broker.settled(commit(name, producer), END_WITH_EPOCH)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, first.producer_epoch)
    assert broker.settled(abort(name, producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE
    completed(broker, name)


def retry_of_an_abort_has_the_same_answer(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker)
    first = broker.ask(abort(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    again = broker.settled(abort(name, producer), END_WITH_EPOCH)
    assert (again.error_code, again.producer_epoch) == (0, first.producer_epoch)
    assert broker.settled(commit(name, producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE


def abort_without_a_transaction_gives_the_next_epoch(broker: Recorder) -> None:
    name = broker.new_id()
    producer = new_producer(broker, name)
    answer = broker.ask(abort(name, producer), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    assert completed(broker, name).transaction_states[0].transaction_state == "CompleteAbort"
    answer = broker.settled(abort(name, answer), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_epoch) == (0, 2)
    completed(broker, name)


def commit_without_a_transaction_is_refused(broker: Recorder) -> None:
    name = broker.new_id()
    producer = new_producer(broker, name)
    answer = broker.ask(commit(name, producer), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (48, -1, -1)
    completed(broker, name)


def epochs_of_ends_in_the_state_empty(broker: Recorder) -> None:
    name = broker.new_id()
    new_producer(broker, name)
    producer = new_producer(broker, name)
    for epoch in (0, 2, 3):
        assert broker.ask(abort(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        assert broker.ask(commit(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
    completed(broker, name)


def epochs_of_ends_after_a_commit(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker, epoch=1)
    after = broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    assert broker.settled(commit(name, after), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE
    for epoch in (0, 3, 4):
        assert (
            broker.settled(abort(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        )
        assert (
            broker.settled(commit(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        )
    answer = broker.settled(abort(name, after), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_epoch) == (0, 3)
    assert completed(broker, name).transaction_states[0].transaction_state == "CompleteAbort"


def epochs_of_ends_after_an_abort(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker, epoch=1)
    after = broker.ask(abort(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    assert broker.settled(commit(name, after), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE
    for epoch in (0, 3, 4):
        assert (
            broker.settled(abort(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        )
        assert (
            broker.settled(commit(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        )
    completed(broker, name)


def open_transaction_is_ended_with_its_epoch_only(broker: Recorder) -> None:
    name, topic, producer = transaction_with_a_record(broker, epoch=1)
    for epoch in (0, 2):
        assert broker.ask(commit(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
        assert broker.ask(abort(name, producer, epoch=epoch), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(commit(name, producer), END_WITH_EPOCH).error_code == 0
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a"]


def new_producer_after_an_end_with_epoch(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker)
    after = broker.ask(commit(name, producer), END_WITH_EPOCH)
    new = new_producer(broker, name)
    assert (new.producer_id, new.producer_epoch) == (producer.producer_id, after.producer_epoch + 1)
    assert broker.settled(commit(name, after), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
    completed(broker, name)


def continuing_producer_after_an_end_with_epoch(broker: Recorder) -> None:
    name, _, producer = transaction_with_a_record(broker)
    after = broker.ask(commit(name, producer), END_WITH_EPOCH)
    same = broker.settled(init(name, producer_id=after.producer_id, epoch=after.producer_epoch - 1), 5)
    assert same.error_code == 0
    after = broker.settled(init(name, producer_id=after.producer_id, epoch=after.producer_epoch), 5)
    completed(broker, name)


def late_records_of_an_ended_transaction_are_refused(broker: Recorder) -> None:
    name, topic, producer = transaction_with_a_record(broker)
    broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    late = broker.settled(produce(name, producer, topic, b"late", sequence=1), PRODUCE_THAT_ADDS)
    assert late.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.read_committed(topic) == [b"a"]


def fencing_takes_one_epoch_and_the_new_producer_another(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    broker.settled(produce(name, old, topic, b"a"), PRODUCE_THAT_ADDS)
    assert broker.ask(init(name), 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    completed(broker, name)
    new = new_producer(broker, name)
    assert new.producer_epoch == old.producer_epoch + 2
    assert broker.ask(commit(name, old), END_WITH_EPOCH).error_code == ErrorCode.PRODUCER_FENCED
    late = broker.settled(produce(name, old, topic, b"late", sequence=1), PRODUCE_THAT_ADDS)
    assert late.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    broker.settled(produce(name, new, topic, b"new"), PRODUCE_THAT_ADDS)
    broker.ask(commit(name, new), END_WITH_EPOCH)
    completed(broker, name)
    assert broker.read_committed(topic)[-1] == b"new"


def old_and_new_clients_take_turns_with_one_id(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name)
    broker.ask(add(name, producer, (topic, 0)), ADD)
    broker.ask(produce(name, producer, topic, b"old"), PRODUCE)
    broker.ask(commit(name, producer), END)
    completed(broker, name)
    broker.settled(produce(name, producer, topic, b"new", sequence=1), PRODUCE_THAT_ADDS)
    after = broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)
    broker.settled(add(name, after, (topic, 0)), ADD)
    broker.ask(produce(name, after, topic, b"older"), PRODUCE)
    broker.ask(abort(name, after), END)
    completed(broker, name)
    broker.read_committed(topic)


def transaction_of_an_old_client_is_ended_by_a_new_one(broker: Recorder) -> None:
    name, topic, producer = open_transaction(broker)
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    answer = broker.ask(commit(name, producer), END_WITH_EPOCH)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    completed(broker, name)
    assert broker.read_committed(topic) == [b"a"]


SCENARIOS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and name != "open_transaction"
]
