"""What the admin library makes of answers about transactions and sizes: values by key, failures as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.admin.logs.open_transactions import (
    OpenTransaction,
    Producer,
    describe_transactions,
    list_transactions,
    producers_of,
    transactions_holding_back,
)
from kcli.admin.logs.sizes import log_sizes
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import (
    describe_log_dirs,
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
    """The leader remembers these producers: (id, start of the open transaction, -1 none)."""
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
    """The broker coordinates these transactional ids, by producer id, each open in partition 0 of orders."""

    def find(request: find_coordinator.FindCoordinatorRequest) -> find_coordinator.FindCoordinatorResponse:
        broker = {"node_id": 1, "host": "127.0.0.1", "port": PORT[0]}
        return find_coordinator.FindCoordinatorResponse(
            coordinators=[find_coordinator.Coordinator(key=key, **broker) for key in request.coordinator_keys]
        )

    def tell(request: listed.ListTransactionsRequest) -> listed.ListTransactionsResponse:
        known = [listed.TransactionState(transactional_id=name, producer_id=number) for number, name in ids.items()]
        wanted = [it for it in known if it.producer_id in request.producer_id_filters]
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
        find_coordinator.FindCoordinatorRequest: find,
        listed.ListTransactionsRequest: tell,
        described.DescribeTransactionsRequest: describe,
    }


PORT = [0]


def broker_of(*answers: Answers) -> Any:
    return loopback_broker({cls: answer for part in answers for cls, answer in part.items()}, topics={"orders": 1})


def holding_back(broker: LoopbackBroker) -> tuple[OpenTransaction, ...]:
    PORT[0] = broker.port
    with asking(broker) as (client, deadline):
        client.topics_metadata(["orders"], deadline)
        return transactions_holding_back(client, [TP], deadline)


def test_a_producer_and_its_transaction_are_found_by_leader_and_coordinator() -> None:
    with broker_of(leaders((7, 60), (8, -1)), coordinators({7: "payments", 8: "other"})) as broker:
        (found,) = holding_back(broker)
    assert found == OpenTransaction(TP, 7, 2, 60, 500, "payments", "Ongoing", 400, 60_000)


def test_a_transaction_that_every_broker_denies_hangs() -> None:
    with broker_of(leaders((7, 60)), coordinators({})) as broker:
        (found,) = holding_back(broker)
    assert found == OpenTransaction(TP, 7, 2, 60, 500, hanging=True)


def test_a_broker_that_refuses_to_tell_is_no_proof_that_one_hangs() -> None:
    refused = coordinators({}, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with broker_of(leaders((7, 60)), refused) as broker:
        (found,) = holding_back(broker)
    assert not found.hanging


def test_a_transaction_that_ended_between_the_questions_is_left_out() -> None:
    answers = leaders((7, 60))
    (open_yet,) = answers.values()
    (ended,) = leaders((7, -1)).values()
    turns = iter([open_yet, ended])
    answers[describe_producers.DescribeProducersRequest] = lambda request: next(turns)(request)
    with broker_of(answers, coordinators({7: "payments"}, state="CompleteCommit")) as broker:
        assert holding_back(broker) == ()


def test_a_leader_that_refuses_and_one_that_is_too_old_are_errors_of_their_partitions() -> None:
    refused = leaders(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with broker_of(refused) as broker, asking(broker) as (client, deadline):
        assert code(producers_of(client, [TP], deadline).errors[TP]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with broker_of() as broker:
        assert holding_back(broker) == ()


def test_producers_without_a_transaction_are_told_too() -> None:
    with broker_of(leaders((7, -1))) as broker, asking(broker) as (client, deadline):
        assert producers_of(client, [TP], deadline).values == {TP: [Producer(7, 2, 500, -1)]}


def test_transactions_by_broker_and_by_id() -> None:
    with broker_of(coordinators({7: "payments"})) as broker, asking(broker) as (client, deadline):
        PORT[0] = broker.port
        (told,) = list_transactions(client, [7], deadline).values.values()
        assert told == {7: "payments"}
        found = describe_transactions(client, ["payments"], deadline).values["payments"]
    assert (found.state, found.started_ms, found.partitions) == ("Ongoing", 400, frozenset({TP}))


def test_sizes_are_those_of_the_log_not_of_a_copy_on_its_way() -> None:
    def answer(_request: Any) -> Any:
        def directory(size: int, is_copy: bool) -> Any:
            partition = describe_log_dirs.DescribeLogDirsPartition(
                partition_index=0, partition_size=size, is_future_key=is_copy
            )
            topic = describe_log_dirs.DescribeLogDirsTopic(name="orders", partitions=[partition])
            return describe_log_dirs.DescribeLogDirsResult(log_dir="/d", topics=[topic])

        return describe_log_dirs.DescribeLogDirsResponse(results=[directory(900, False), directory(5, True)])

    with broker_of({describe_log_dirs.DescribeLogDirsRequest: answer}) as broker, asking(broker) as (client, deadline):
        assert log_sizes(client, [TP], deadline).values == {TP: 900}
