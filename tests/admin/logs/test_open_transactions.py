"""Open transactions, joined from the responses of leaders and transaction coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.admin.logs.open_transactions import (
    OpenTransaction,
    Producer,
    active_producers,
    survey_transactions,
)
from kcli.admin.transactions import describe_transactions, list_transactions
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import (
    describe_producers,
    find_coordinator,
)
from kcli.protocol.messages import (
    describe_transactions as described,
)
from kcli.protocol.messages import (
    list_transactions as listed,
)
from kcli.structs import TopicPartition
from tests.admin.test_topics import asking, code
from tests.cli.loopback import LoopbackBroker, loopback_broker

TP = TopicPartition("orders", 0)
Answers = dict[type, Callable[[Any], Any]]


def leaders(*producers: tuple[int, int], error: int = 0) -> Answers:
    """Return a leader's response with these producers: (id, start of the open transaction or -1)."""
    states = [
        describe_producers.ProducerState(
            producer_id=number, producer_epoch=2, last_timestamp=500, current_txn_start_offset=start
        )
        for number, start in producers
    ]
    partition = describe_producers.PartitionResponse(partition_index=0, error_code=error, active_producers=states)
    topic = describe_producers.TopicResponse(name="orders", partitions=[partition])
    response = describe_producers.DescribeProducersResponse(topics=[topic])
    return {describe_producers.DescribeProducersRequest: lambda _request: response}


def coordinators(ids: dict[int, str], error: int = 0, state: str = "Ongoing") -> Answers:
    """Return a coordinator's responses for transactional ids by producer id, each open in orders-0."""

    def find_coordinators(request: find_coordinator.FindCoordinatorRequest) -> find_coordinator.FindCoordinatorResponse:
        broker = {"node_id": 1, "host": "127.0.0.1", "port": PORT[0]}
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[find_coordinator.Coordinator(key=key, **broker) for key in request.coordinator_keys]
        )

    def list_states(request: listed.ListTransactionsRequest) -> listed.ListTransactionsResponse:
        known = [listed.TransactionState(transactional_id=name, producer_id=number) for number, name in ids.items()]
        wanted = [state for state in known if state.producer_id in request.producer_id_filters]
        return listed.ListTransactionsResponse(error_code=error, transaction_states=wanted)

    def describe(request: described.DescribeTransactionsRequest) -> described.DescribeTransactionsResponse:
        states = [
            described.TransactionState(
                transactional_id=name,
                transaction_state=state,
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=400,
                topics=[described.TopicData(topic="orders", partitions=[0])],
            )
            for name in request.transactional_ids
        ]
        return described.DescribeTransactionsResponse(transaction_states=states)

    return {
        find_coordinator.FindCoordinatorRequest: find_coordinators,
        listed.ListTransactionsRequest: list_states,
        described.DescribeTransactionsRequest: describe,
    }


PORT = [0]


def broker_of(*answers: Answers) -> Any:
    return loopback_broker({cls: answer for part in answers for cls, answer in part.items()}, topics={"orders": 1})


def find(broker: LoopbackBroker) -> tuple[OpenTransaction, ...]:
    PORT[0] = broker.port
    with asking(broker) as (client, deadline):
        client.topics_metadata(["orders"], deadline)
        return survey_transactions(client, [TP], deadline).transactions


def test_an_open_transaction_is_joined_from_leader_and_coordinator() -> None:
    with broker_of(leaders((7, 60), (8, -1)), coordinators({7: "payments", 8: "other"})) as broker:
        (found,) = find(broker)
    assert found == OpenTransaction(TP, 7, 2, 60, 500, "payments", "Ongoing", 400, 60_000)


def test_a_transaction_that_no_coordinator_knows_is_hanging() -> None:
    with broker_of(leaders((7, 60)), coordinators({})) as broker:
        (found,) = find(broker)
    assert found == OpenTransaction(TP, 7, 2, 60, 500, hanging=True)


def test_a_transaction_is_not_hanging_if_a_coordinator_returned_an_error() -> None:
    refused = coordinators({}, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with broker_of(leaders((7, 60)), refused) as broker:
        (found,) = find(broker)
    assert not found.hanging


def test_a_transaction_that_ended_between_the_requests_is_left_out() -> None:
    answers = leaders((7, 60))
    (still_open,) = answers.values()
    (ended,) = leaders((7, -1)).values()
    responses = iter([still_open, ended])
    answers[describe_producers.DescribeProducersRequest] = lambda request: next(responses)(request)
    with broker_of(answers, coordinators({7: "payments"}, state="CompleteCommit")) as broker:
        assert find(broker) == ()


def test_a_transaction_is_not_hanging_if_its_producer_began_another_one_between_the_requests() -> None:
    answers = leaders((7, 60))
    (first,) = answers.values()
    (second,) = leaders((7, 90)).values()
    responses = iter([first, second])
    answers[describe_producers.DescribeProducersRequest] = lambda request: next(responses)(request)
    with broker_of(answers, coordinators({7: "payments"}, state="CompleteCommit")) as broker:
        assert find(broker) == ()


def test_an_error_of_a_leader_belongs_to_its_partition_and_an_old_leader_has_no_transactions() -> None:
    refused = leaders(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with broker_of(refused) as broker, asking(broker) as (client, deadline):
        assert code(active_producers(client, [TP], deadline).errors[TP]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with broker_of() as broker:
        assert find(broker) == ()


def test_active_producers_include_those_without_a_transaction() -> None:
    with broker_of(leaders((7, -1))) as broker, asking(broker) as (client, deadline):
        assert active_producers(client, [TP], deadline).values == {TP: [Producer(7, 2, 500, -1, 0)]}


def test_transactions_are_listed_by_broker_and_described_by_id() -> None:
    with broker_of(coordinators({7: "payments"})) as broker, asking(broker) as (client, deadline):
        PORT[0] = broker.port
        (rows,) = list_transactions(client, deadline, producer_ids=[7]).values.values()
        assert [(it.producer_id, it.transactional_id) for it in rows] == [(7, "payments")]
        found = describe_transactions(client, ["payments"], deadline).values["payments"]
    assert (found.state, found.started_ms, found.partitions) == ("Ongoing", 400, frozenset({TP}))
