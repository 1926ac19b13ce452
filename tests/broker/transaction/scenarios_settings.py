"""Stories of time, on a broker with short intervals, with the outcome of Apache Kafka 4.3.1."""

from __future__ import annotations

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
    init,
    new_producer,
    produce,
)

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    "transactional.id.expiration.ms": "3000",
    "transaction.max.timeout.ms": "20000",
}
_UNKNOWN = 105


def overdue_transaction_is_aborted_and_its_producer_fenced(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic(2)
    producer = new_producer(broker, name, timeout_ms=500)
    broker.ask(add(name, producer, (topic, 0), (topic, 1)), ADD)
    broker.ask(produce(name, producer, topic, b"a"), PRODUCE)
    found = completed(broker, name).transaction_states[0]
    assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", 1)
    assert broker.ask(commit(name, producer), END).error_code == ErrorCode.PRODUCER_FENCED
    broker.read_committed(topic)


def overdue_transaction_of_a_client_with_epochs(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name, timeout_ms=500)
    broker.settled(produce(name, producer, topic, b"a"), PRODUCE_THAT_ADDS)
    assert completed(broker, name).transaction_states[0].transaction_state == "CompleteAbort"
    late = broker.settled(produce(name, producer, topic, b"late", sequence=1), PRODUCE_THAT_ADDS)
    assert late.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    # The abort of the coordinator looks to this client as its own one.
    assert broker.ask(abort(name, producer), END_WITH_EPOCH).error_code == 0
    assert broker.ask(commit(name, producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE
    broker.ask(init(name, producer_id=producer.producer_id, epoch=producer.producer_epoch, timeout_ms=500), 5)
    broker.read_committed(topic)


def transaction_in_time_is_not_aborted(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name, timeout_ms=19_000)
    broker.settled(produce(name, producer, topic, b"a"), PRODUCE_THAT_ADDS)
    broker.pause(400)
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Ongoing"
    broker.ask(commit(name, producer), END_WITH_EPOCH)
    completed(broker, name)


def largest_timeout_is_that_of_the_settings(broker: Recorder) -> None:
    name = broker.new_id()
    assert broker.ask(init(name, timeout_ms=20_001), 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert broker.ask(init(name, timeout_ms=20_000), 5).error_code == 0


def unused_id_expires_and_starts_again(broker: Recorder) -> None:
    name = broker.new_id()
    old = new_producer(broker, name, timeout_ms=500)
    broker.until(describe(name), 0, lambda answer: answer.transaction_states[0].error_code == _UNKNOWN)
    assert broker.ask(commit(name, old), END).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.ask(abort(name, old), END_WITH_EPOCH).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    new = broker.ask(init(name, producer_id=old.producer_id, epoch=old.producer_epoch, timeout_ms=500), 5)
    assert (new.error_code, new.producer_epoch) == (0, 0)
    assert new.producer_id != old.producer_id


def id_of_an_open_transaction_does_not_expire(broker: Recorder) -> None:
    name, topic = broker.new_id(), broker.new_topic()
    producer = new_producer(broker, name, timeout_ms=19_000)
    broker.settled(produce(name, producer, topic, b"a"), PRODUCE_THAT_ADDS)
    broker.pause(3600)
    assert broker.ask(describe(name), 0).transaction_states[0].transaction_state == "Ongoing"
    broker.ask(commit(name, producer), END_WITH_EPOCH)
    broker.until(describe(name), 0, lambda answer: answer.transaction_states[0].error_code == _UNKNOWN)
    assert broker.read_committed(topic) == [b"a"]


SCENARIOS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]
