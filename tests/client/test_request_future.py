"""RequestFuture: values and errors along a chain."""

import asyncio
import threading

import pytest

from kcli.client.request_future import RequestFuture
from kcli.errors import DisconnectedError, KcliError, ProtocolError, TimeoutExpired


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


def test_callbacks_run_in_order_or_at_once_if_the_future_is_done() -> None:
    future, calls = RequestFuture[int](), list[str]()
    future.add_done_callback(lambda f: calls.append("first"))
    future.add_done_callback(lambda f: calls.append("second"))
    future.complete(0)
    future.add_done_callback(lambda f: calls.append("late"))
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


def test_result_waits_for_another_thread() -> None:
    future: RequestFuture[int] = RequestFuture("Fetch")
    thread = threading.Timer(0.01, future.complete, [3])
    thread.start()
    assert future.result(timeout_ms=10_000) == 3
    assert future.exception() is None
    thread.join()


def test_result_and_exception_of_a_failed_future() -> None:
    future: RequestFuture[int] = RequestFuture.failure(DisconnectedError("lost"))
    assert str(future.exception(timeout_ms=0)) == "lost"
    with pytest.raises(DisconnectedError, match="lost"):
        future.result()


def test_result_names_what_did_not_come_in_time() -> None:
    future: RequestFuture[int] = RequestFuture("Fetch from node 1")
    with pytest.raises(TimeoutExpired, match=r"no result in 1 ms .*Fetch from node 1"):
        future.result(timeout_ms=1)
    future.complete(1)  # still possible
    assert future.result() == 1


def test_a_task_awaits_a_future_of_another_thread() -> None:
    done, failing = RequestFuture[int](), RequestFuture[int]()

    async def wait() -> int:
        threading.Timer(0.01, failing.fail, [DisconnectedError("lost")]).start()
        threading.Timer(0.01, done.complete, [3]).start()
        with pytest.raises(DisconnectedError, match="lost"):
            await failing
        return await done

    assert asyncio.run(wait()) == 3


def test_a_cancelled_await_leaves_the_future_pending() -> None:
    future: RequestFuture[int] = RequestFuture()

    async def wait() -> int:
        return await future

    async def cancel() -> int:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)
        assert not future.done
        future.complete(3)
        return await wait()

    assert asyncio.run(cancel()) == 3


def test_a_loop_that_has_ended_does_not_disturb_the_polling_thread() -> None:
    future: RequestFuture[int] = RequestFuture()

    async def wait() -> None:
        await asyncio.wait([asyncio.ensure_future(_value(future))], timeout=0.01)

    asyncio.run(wait())
    future.complete(3)
    assert future.value() == 3


async def _value(future: RequestFuture[int]) -> int:
    return await future


def test_each_callback_runs_once_while_two_threads_race() -> None:
    for _ in range(300):
        future: RequestFuture[int] = RequestFuture()
        called: list[int] = []
        start = threading.Barrier(2)

        def complete(future: RequestFuture[int] = future, start: threading.Barrier = start) -> None:
            start.wait()
            future.complete(1)

        thread = threading.Thread(target=complete)
        thread.start()
        start.wait()
        for number in range(20):
            future.add_done_callback(lambda _, number=number, called=called: called.append(number))  # type: ignore[misc]
        thread.join()
        assert sorted(called) == list(range(20))
