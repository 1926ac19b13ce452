"""Stories of producer ids and epochs, with the outcome of Apache Kafka 4.3.1. Numbers are Kafka's error codes."""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from tests.broker.transaction.harness import Recorder
from tests.broker.transaction.requests import (
    ADD,
    END,
    END_WITH_EPOCH,
    abort,
    add,
    commit,
    completed,
    describe,
    init,
    new_producer,
)
from tests.limits import Limit


def new_id_gets_epoch_0_and_each_further_producer_the_next(broker: Recorder) -> None:
    name = broker.new_id()
    first = broker.ask(init(name), 5)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    for epoch in (1, 2, 3):
        again = broker.ask(init(name), 5)
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, epoch)
    completed(broker, name)


def two_ids_have_different_producer_ids(broker: Recorder) -> None:
    one, two = broker.new_id(), broker.new_id()
    assert new_producer(broker, one).producer_id != new_producer(broker, two).producer_id


def all_versions_give_an_epoch(broker: Recorder) -> None:
    name = broker.new_id()
    for version in range(6):
        assert broker.ask(init(name), version).producer_epoch == version


def producer_without_id_gets_a_new_one_each_time(broker: Recorder) -> None:
    broker.new_id()
    first, second = broker.ask(init(None), 5), broker.ask(init(None), 5)
    assert first.producer_id != second.producer_id
    assert broker.ask(init(None, timeout_ms=-5), 5).error_code == 0
    assert broker.ask(init(None, producer_id=first.producer_id, epoch=0), 5).producer_epoch == 0
    assert broker.ask(init(None, producer_id=5), 5).error_code == ErrorCode.INVALID_REQUEST


def empty_id_is_not_valid(broker: Recorder) -> None:
    broker.new_id()
    assert broker.ask(init(""), 5).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(init(""), 0).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(init("", timeout_ms=-1), 5).error_code == ErrorCode.INVALID_REQUEST


def producer_id_and_epoch_go_together(broker: Recorder) -> None:
    name = broker.new_id()
    assert broker.ask(init(name, producer_id=7), 5).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(init(name, epoch=0), 5).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(init(name, producer_id=7), 3).error_code == ErrorCode.INVALID_REQUEST
    broker.ask(describe(name), 0)


def timeouts_have_limits(broker: Recorder) -> None:
    name = broker.new_id()
    for timeout_ms in (0, -1, 900_001, 2_147_483_647):
        assert broker.ask(init(name, timeout_ms=timeout_ms), 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert broker.ask(init(name, timeout_ms=900_000), 5).error_code == 0
    assert broker.ask(init(name, timeout_ms=1), 5).error_code == 0
    assert completed(broker, name).transaction_states[0].transaction_timeout_ms == 1


def refused_timeout_creates_no_id(broker: Recorder) -> None:
    name = broker.new_id()
    broker.ask(init(name, timeout_ms=0), 5)
    assert broker.ask(describe(name), 0).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def producer_continues_with_its_epoch(broker: Recorder) -> None:
    name = broker.new_id()
    first = new_producer(broker, name)
    second = broker.ask(init(name, producer_id=first.producer_id, epoch=0), 5)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)


def retry_of_a_producer_that_continues_has_the_same_answer(broker: Recorder) -> None:
    name = broker.new_id()
    first = new_producer(broker, name)
    for _ in range(3):
        assert broker.ask(init(name, producer_id=first.producer_id, epoch=0), 5).producer_epoch == 1
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=1), 5).producer_epoch == 2
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=0), 5).error_code == ErrorCode.PRODUCER_FENCED


def new_producer_ends_the_retries_of_the_old_one(broker: Recorder) -> None:
    name = broker.new_id()
    first = new_producer(broker, name)
    broker.ask(init(name, producer_id=first.producer_id, epoch=0), 5)
    assert broker.ask(init(name), 5).producer_epoch == 2
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=0), 5).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=1), 5).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=2), 5).producer_epoch == 3


def producer_with_another_id_is_fenced(broker: Recorder) -> None:
    name, other = broker.new_id(), broker.new_id()
    new_producer(broker, name)
    stranger = new_producer(broker, other)
    assert broker.ask(init(name, producer_id=stranger.producer_id, epoch=0), 5).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(init(name, producer_id=stranger.producer_id, epoch=0), 4).error_code == ErrorCode.PRODUCER_FENCED


def fencing_has_another_code_in_old_versions(broker: Recorder) -> None:
    name = broker.new_id()
    first = new_producer(broker, name)
    new_producer(broker, name)
    assert (
        broker.ask(init(name, producer_id=first.producer_id, epoch=0), 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    )
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=0), 4).error_code == ErrorCode.PRODUCER_FENCED


def higher_epoch_than_the_present_one_is_fenced(broker: Recorder) -> None:
    name = broker.new_id()
    first = new_producer(broker, name)
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=5), 5).error_code == ErrorCode.PRODUCER_FENCED
    assert broker.ask(init(name, producer_id=first.producer_id, epoch=32767), 5).error_code == ErrorCode.PRODUCER_FENCED


def unknown_id_accepts_a_producer_that_lost_its_state(broker: Recorder) -> None:
    name, other = broker.new_id(), broker.new_id()
    stranger = new_producer(broker, other)
    answer = broker.ask(init(name, producer_id=stranger.producer_id, epoch=7), 5)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != stranger.producer_id


def new_producer_aborts_an_open_transaction(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    assert broker.ask(add(name, old, (topic, 0)), ADD).results_by_topic_v3_and_below
    assert broker.ask(init(name), 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    new = new_producer(broker, name)
    assert new.producer_id == old.producer_id
    assert new.producer_epoch == old.producer_epoch + 2
    assert broker.ask(commit(name, old), END).error_code == ErrorCode.PRODUCER_FENCED
    completed(broker, name)
    assert broker.read_committed(topic) == []


def continuing_producer_aborts_its_open_transaction(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    broker.ask(add(name, old, (topic, 0)), ADD)
    assert (
        broker.ask(init(name, producer_id=old.producer_id, epoch=old.producer_epoch), 5).error_code
        == ErrorCode.CONCURRENT_TRANSACTIONS
    )
    completed(broker, name)
    answer = broker.ask(init(name, producer_id=old.producer_id, epoch=old.producer_epoch), 5)
    assert answer.error_code == 0
    assert answer.producer_epoch == 1


def new_producer_after_a_commit_gets_the_next_epoch(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    old = new_producer(broker, name)
    broker.ask(add(name, old, (topic, 0)), ADD)
    assert broker.ask(commit(name, old), END).error_code == 0
    new = new_producer(broker, name)
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, 1)
    completed(broker, name)


def new_timeout_is_the_one_of_the_last_producer(broker: Recorder) -> None:
    name = broker.new_id()
    new_producer(broker, name, timeout_ms=5000)
    new_producer(broker, name, timeout_ms=7000)
    assert completed(broker, name).transaction_states[0].transaction_timeout_ms == 7000


def epochs_end_with_a_new_producer_id(broker: Recorder) -> None:
    """TV2: each abort without a transaction takes an epoch; 32766 is the last one for clients."""
    name = broker.new_id()
    first = new_producer(broker, name)
    producer = first
    harness, limit = broker.harness, Limit("the end of the transaction before")
    for _ in range(40):
        answer = harness.ask(abort(name, producer), END_WITH_EPOCH)
        while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            limit.check()
            harness.pause(5)
            answer = harness.ask(abort(name, producer), END_WITH_EPOCH)
        assert (answer.error_code, answer.producer_epoch) == (0, producer.producer_epoch + 1)
        producer = answer
    broker.record(producer)
    completed(broker, name)


SCENARIOS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]
