"""Stories of ListTransactions and DescribeTransactions, with the outcome of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.transaction.harness import TRANSACTION, Recorder
from tests.broker.transaction.requests import (
    ADD,
    END,
    abort,
    add,
    commit,
    completed,
    describe,
    listing,
    new_producer,
)


def ids_in_three_states(broker: Recorder) -> dict[str, tuple[str, Any]]:
    """Return the id and the producer for each state."""
    topic, found = broker.new_topic(), {}
    for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"):
        name = broker.new_id()
        producer = new_producer(broker, name)
        if state != "Empty":
            broker.ask(add(name, producer, (topic, 0)), ADD)
        if state.startswith("Complete"):
            broker.ask((commit if state == "CompleteCommit" else abort)(name, producer), END)
            completed(broker, name)
        found[state] = name, producer
    return found


def listed(answer: Any) -> dict[str, str]:
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


def list_of_all_states(broker: Recorder) -> None:
    ids = ids_in_three_states(broker)
    for version in range(3):
        answer = broker.ask(listing(), version)
        assert listed(answer) == {name: state for state, (name, _) in ids.items()}
    broker.ask(describe(*(name for name, _ in ids.values())), 0)


def list_by_state(broker: Recorder) -> None:
    ids = ids_in_three_states(broker)
    for states in (("Ongoing",), ("Empty", "CompleteAbort"), ("PrepareCommit",), ("Dead",), ("PrepareEpochFence",)):
        answer = broker.ask(listing(states), 2)
        assert sorted(listed(answer).values()) == sorted(state for state in ids if state in states)


def list_with_unknown_states(broker: Recorder) -> None:
    ids_in_three_states(broker)
    answer = broker.ask(listing(("Unheard", "ongoing", "")), 2)
    assert set(answer.unknown_state_filters) == {"Unheard", "ongoing", ""}
    broker.ask(listing(("Ongoing", "Unheard", "Unheard")), 2)


def list_by_producer_id(broker: Recorder) -> None:
    ids = ids_in_three_states(broker)
    name, producer = ids["Ongoing"]
    assert listed(broker.ask(listing(ids=(producer.producer_id,)), 2)) == {name: "Ongoing"}
    broker.ask(listing(ids=(producer.producer_id, ids["Empty"][1].producer_id)), 0)
    assert listed(broker.ask(listing(ids=(987_654_321_987,)), 2)) == {}
    assert listed(broker.ask(listing(("Empty",), ids=(producer.producer_id,)), 2)) == {}


def list_by_duration(broker: Recorder) -> None:
    ids_in_three_states(broker)
    broker.pause(30)
    broker.ask(listing(duration_ms=3_600_000), 1)
    broker.ask(listing(duration_ms=3_600_000), 2)
    broker.ask(listing(duration_ms=-1), 1)
    broker.ask(listing(duration_ms=-7), 1)
    broker.ask(listing(("Ongoing",), duration_ms=1), 1)
    broker.ask(listing(("Ongoing", "CompleteCommit"), duration_ms=0), 2)


def list_by_pattern(broker: Recorder) -> None:
    ids = ids_in_three_states(broker)
    name = ids["Ongoing"][0]
    everything = name.rpartition(".")[2]
    patterns = ("", ".*", "txn", f"txn.*{everything}", name, name[:-1], f"^{name}$", "(?i)TXN.*", "[a-z]+\\..*")
    for pattern in (None, *patterns):
        broker.ask(listing(pattern=pattern), 2)


def invalid_pattern_is_refused(broker: Recorder) -> None:
    broker.new_id()
    for pattern in ("[", "(", "a{2,1}", "*"):
        assert broker.ask(listing(pattern=pattern), 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def unknown_ids_are_described_with_an_error(broker: Recorder) -> None:
    name = broker.new_id()
    rows = broker.ask(describe(name, "", broker.new_id()), 0).transaction_states
    assert [one.error_code for one in rows] == [105, 42, 105]
    assert broker.ask(describe(), 0).transaction_states == []


def id_is_described_as_often_as_it_is_named(broker: Recorder) -> None:
    name = broker.new_id()
    new_producer(broker, name)
    assert len(broker.ask(describe(name, name), 0).transaction_states) == 2


def description_of_an_open_transaction(broker: Recorder) -> None:
    name, first, second = broker.new_id(), broker.new_topic(2), broker.new_topic()
    producer = new_producer(broker, name, timeout_ms=12_345)
    broker.ask(add(name, producer, (first, 1), (second, 0), (first, 0)), ADD)
    (found,) = broker.ask(describe(name), 0).transaction_states
    assert found.transaction_timeout_ms == 12_345
    assert found.transaction_start_time_ms > 0


def coordinator_of_an_id_is_found_in_all_versions(broker: Recorder) -> None:
    name = broker.new_id()
    for version in range(1, 7):
        request = FindCoordinatorRequest(key=name, key_type=TRANSACTION)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[name, "other", ""])
        answer = broker.harness.ask(request, version)
        rows = answer.coordinators or [answer]
        assert [one.error_code for one in rows] == [0] * len(rows)
        assert len({one.port for one in rows}) == 1


SCENARIOS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__ and name not in ("ids_in_three_states", "listed")
]
