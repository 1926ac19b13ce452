"""RequestFuture: values and errors along a chain."""

import pytest

from kcli.client.request_future import RequestFuture
from kcli.errors import DisconnectedError, KcliError, ProtocolError


def test_a_value_passes_through_the_chain() -> None:
    source: RequestFuture[int] = RequestFuture("Fetch")
    doubled = source.then(lambda n: n * 2).then(str)
    assert not doubled.done
    source.complete(21)
    assert doubled.value() == "42"
    assert doubled.succeeded
    assert not doubled.failed


def test_an_error_skips_the_functions_up_to_recover() -> None:
    source: RequestFuture[int] = RequestFuture()
    seen: list[str] = []
    end = (
        source.then(lambda n: seen.append("then") or n).recover(lambda error: len(error.message)).then(lambda n: n + 1)
    )
    source.fail(DisconnectedError("four"))
    assert seen == []
    assert end.value() == 5
    assert source.retriable
    with pytest.raises(DisconnectedError, match="four"):
        source.value()


def test_recover_keeps_a_value_and_can_fail() -> None:
    assert RequestFuture.success(1).recover(lambda error: 2).value() == 1

    def give_up(error: KcliError) -> int:
        raise ProtocolError(f"worse than {error.message}")

    failed = RequestFuture[int].failure(DisconnectedError("lost")).recover(give_up)
    assert str(failed.error) == "worse than lost"
    assert not failed.retriable


def test_a_future_returned_by_a_function_is_awaited() -> None:
    first: RequestFuture[str] = RequestFuture()
    second: RequestFuture[int] = RequestFuture()
    both = first.then(lambda _: second)
    first.complete("coordinator found")
    assert not both.done
    second.complete(7)
    assert both.value() == 7


def test_a_kcli_error_fails_the_future_and_another_exception_propagates() -> None:
    def refuse(_: int) -> int:
        raise ProtocolError("no")

    source: RequestFuture[int] = RequestFuture()
    refused = source.then(refuse)
    source.complete(1)
    assert isinstance(refused.error, ProtocolError)
    buggy: RequestFuture[int] = RequestFuture()
    buggy.then(lambda n: n // 0)
    with pytest.raises(ZeroDivisionError):
        buggy.complete(1)


def test_chain_completes_another_future() -> None:
    for source in (RequestFuture[int].success(3), RequestFuture[int].failure(DisconnectedError("gone"))):
        other: RequestFuture[int] = RequestFuture()
        source.chain(other)
        assert (other.error, other.succeeded) == (source.error, source.succeeded)


def test_listeners_run_in_order_or_at_once_if_the_future_is_done() -> None:
    future, calls = RequestFuture[int](), list[str]()
    future.on_done(lambda f: calls.append("first"))
    future.on_done(lambda f: calls.append("second"))
    future.complete(0)
    future.on_done(lambda f: calls.append("late"))
    assert calls == ["first", "second", "late"]


def test_a_future_is_completed_once() -> None:
    future: RequestFuture[None] = RequestFuture("Metadata from b:9092 (node 2)")
    with pytest.raises(RuntimeError, match="has no value"):
        future.value()
    assert repr(future) == "<RequestFuture Metadata from b:9092 (node 2) pending>"
    future.complete(None)
    assert future.value() is None
    for again in (lambda: future.complete(None), lambda: future.fail(DisconnectedError("x"))):
        with pytest.raises(RuntimeError, match="already done"):
            again()
