"""The thread of a client: order, cancellation, callbacks, loops, and its end. Without a network."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from kcli.aio.client_thread import ClientThread
from kcli.aio.threaded_client import ThreadedClient
from kcli.errors import ForkedClient, KcliError, WakeupError
from tests.children import in_child

R = TypeVar("R")
WAIT_S = 30.0


class Network:
    """A wait that only `wakeup` ends, as that of `ConsumerNetworkClient`: a wakeup without a wait ends the next one."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self.is_waiting = threading.Event()
        self.closed: list[object] = []

    def wakeup(self) -> None:
        self._woken.set()

    def forget_wakeup(self) -> None:
        self._woken.clear()

    def wait(self) -> None:
        self.is_waiting.set()
        assert self._woken.wait(WAIT_S), "nothing has ended this wait"
        self._woken.clear()
        raise WakeupError("woken")

    def close(self) -> None:
        self.closed.append(None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.closed.append(error)


class World:
    """A thread with its network, and one test in a loop."""

    def __init__(self) -> None:
        self.network = Network()
        self.thread = ClientThread("client", self.network.wakeup, self.network.forget_wakeup)
        self.log: list[object] = []

    def run(self, test: Callable[[], Coroutine[Any, Any, R]]) -> R:
        async def bounded() -> R:
            try:
                return await asyncio.wait_for(test(), WAIT_S)
            finally:
                await self.thread.close(self.network.close)

        return asyncio.run(bounded())

    async def until_waiting(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.network.is_waiting.wait, WAIT_S)

    def note(self, entry: object) -> Callable[[], None]:
        return lambda: self.log.append(entry)


@pytest.fixture
def world() -> World:
    return World()


def test_calls_run_in_one_thread_in_their_order(world: World) -> None:
    async def test() -> list[int]:
        calls = (
            world.thread.run(lambda number=number: (number, threading.current_thread().name)) for number in range(50)
        )  # type: ignore[misc]
        results = await asyncio.gather(*calls)
        assert {name for _, name in results} == {"client"}
        return [number for number, _ in results]

    assert world.run(test) == list(range(50))


def test_an_error_is_raised_by_the_task_of_its_call(world: World) -> None:
    async def test() -> None:
        with pytest.raises(ZeroDivisionError):
            await world.thread.run(lambda: 1 // 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await world.thread.run(lambda: next(iter(())))
        assert await world.thread.run(lambda: 1) == 1

    world.run(test)


def test_a_cancelled_call_that_has_not_begun_never_runs(world: World) -> None:
    async def test() -> None:
        running = asyncio.ensure_future(world.thread.run(world.network.wait, wakes=True))
        await world.until_waiting()
        queued = asyncio.ensure_future(world.thread.run(world.note("cancelled")))
        await asyncio.sleep(0)
        queued.cancel()
        running.cancel()
        await asyncio.wait([queued, running])
        await world.thread.run(world.note("next"))

    world.run(test)
    assert world.log == ["next"]


def test_a_cancellation_wakes_a_call_that_may_be_woken(world: World) -> None:
    async def test() -> None:
        task = asyncio.ensure_future(world.thread.run(world.network.wait, wakes=True))
        await world.until_waiting()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await world.thread.run(world.note("the thread is free"))

    world.run(test)
    assert world.log == ["the thread is free"]


def test_a_cancelled_call_that_may_not_be_woken_goes_on_before_the_next_one(world: World) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def change() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)
        world.log.append("changed")

    async def test() -> None:
        task = asyncio.ensure_future(world.thread.run(change))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        following = asyncio.ensure_future(world.thread.run(world.note("next")))
        await asyncio.sleep(0)
        assert world.log == []
        may_end.set()
        await following

    world.run(test)
    assert world.log == ["changed", "next"]


def test_a_call_gives_way_to_the_next_one(world: World) -> None:
    async def test() -> None:
        poll = asyncio.ensure_future(world.thread.run(world.network.wait, wakes=True, gives_way=True))
        await world.until_waiting()
        await world.thread.run(world.note("commit"))
        with pytest.raises(WakeupError):
            await poll

    world.run(test)
    assert world.log == ["commit"]


def test_a_call_gives_way_to_one_that_waits_since_before_it_began(world: World) -> None:
    async def test() -> None:
        calls = [
            world.thread.run(world.note("first")),
            world.thread.run(world.network.wait, wakes=True, gives_way=True),
            world.thread.run(world.note("last")),
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), WakeupError, type(None)]

    world.run(test)
    assert world.log == ["first", "last"]


def test_a_wakeup_that_ended_nothing_does_not_end_a_later_wait(world: World) -> None:
    """The call ended by itself at the moment in which it was woken."""

    def late() -> None:
        world.network.is_waiting.set()
        assert world.network._woken.wait(WAIT_S)  # and no WakeupError

    async def test() -> None:
        task = asyncio.ensure_future(world.thread.run(late, wakes=True))
        await world.until_waiting()
        task.cancel()
        await asyncio.wait([task])
        await world.thread.run(lambda: world.log.append(world.network._woken.is_set()))

    world.run(test)
    assert world.log == [False]


def test_the_error_of_a_cancelled_call_is_kept_but_not_its_wakeup(world: World) -> None:
    def fail_late() -> None:
        world.network.is_waiting.set()
        assert world.network._woken.wait(WAIT_S)
        raise KcliError("late")

    async def cancelled(function: Callable[[], None]) -> None:
        world.network.is_waiting.clear()
        task = asyncio.ensure_future(world.thread.run(function, wakes=True, keep_error=world.log.append))
        await world.until_waiting()
        task.cancel()
        await asyncio.wait([task])

    async def test() -> None:
        await cancelled(world.network.wait)
        await cancelled(fail_late)

    world.run(test)
    assert [str(error) for error in world.log] == ["late"]


# --- callbacks


def call_back(world: World, function: Callable[[], Awaitable[object]]) -> Callable[[], None]:
    return lambda: world.thread.call_back(function)


def test_a_callback_runs_in_the_loop_and_its_calls_run_while_the_thread_waits(world: World) -> None:
    async def callback() -> None:
        assert threading.current_thread() is threading.main_thread()
        await world.thread.run(world.note("call of the callback"))
        await asyncio.gather(world.thread.run(world.note("of its tasks")), world.thread.run(world.note("of its tasks")))

    async def test() -> None:
        calls = [world.thread.run(call_back(world, callback)), world.thread.run(world.note("call of another task"))]
        await asyncio.gather(*calls)

    world.run(test)
    assert world.log == ["call of the callback", "of its tasks", "of its tasks", "call of another task"]


def test_a_task_that_a_callback_has_left_behind_calls_as_others_do(world: World) -> None:
    tasks: list[asyncio.Task[None]] = []
    is_over = asyncio.Event()

    async def later() -> None:
        await is_over.wait()
        await world.thread.run(world.note("later"))

    async def callback() -> None:
        tasks.append(asyncio.ensure_future(later()))

    async def test() -> None:
        await world.thread.run(call_back(world, callback))
        is_over.set()
        await tasks[0]

    world.run(test)
    assert world.log == ["later"]


def test_the_error_of_a_callback_is_raised_in_the_thread(world: World) -> None:
    async def callback() -> None:
        raise LookupError("callback")

    async def test() -> None:
        with pytest.raises(LookupError, match="callback"):
            await world.thread.run(call_back(world, callback))

    world.run(test)


def test_the_end_of_the_loop_ends_a_callback(world: World) -> None:
    async def callback() -> None:
        world.log.append("begun")
        await asyncio.sleep(WAIT_S)

    async def test() -> None:
        task = asyncio.ensure_future(world.thread.run(call_back(world, callback)))
        while not world.log:
            await asyncio.sleep(0)
        for other in asyncio.all_tasks() - {asyncio.current_task()}:  # as asyncio.run does
            if other.get_coro().__name__ == "run" and other is not task:  # type: ignore[union-attr]
                other.cancel()
        with pytest.raises(KcliError, match="cancelled"):
            await task

    world.run(test)


# --- the end


def test_close_runs_after_the_other_calls_and_once(world: World) -> None:
    async def test() -> None:
        calls = [world.thread.run(world.note(number)) for number in range(3)]
        others = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        await asyncio.gather(*(world.thread.close(world.note("closed")) for _ in range(2)), *others)
        with pytest.raises(KcliError, match="client is closed"):
            await world.thread.run(world.note("never"))

    world.run(test)
    assert world.log == [0, 1, 2, "closed"]


def test_a_cancellation_of_close_is_raised_after_its_end(world: World) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def close() -> None:
        begun.set()
        assert may_end.wait(WAIT_S)
        world.log.append("closed")

    async def test() -> None:
        task = asyncio.ensure_future(world.thread.close(close))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, WAIT_S)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.log == ["closed"]

    world.run(test)


def test_a_call_in_another_loop_is_an_error(world: World) -> None:
    async def call() -> None:
        await world.thread.run(world.note("call"))

    asyncio.run(call())
    with pytest.raises(KcliError, match="client belongs to the event loop of its first call; make one for each loop"):
        asyncio.run(call())
    assert world.log == ["call"]
    world.thread.abandon(world.network.close)


def test_a_forgotten_client_is_closed_with_a_warning() -> None:
    class Forgotten(ThreadedClient[Network]):
        pass

    network = Network()

    async def call(client: Forgotten) -> None:
        await client._thread.run(lambda: None)

    def forget(*, is_used: bool) -> list[warnings.WarningMessage]:
        client = Forgotten(network, network)  # type: ignore[arg-type]
        if is_used:
            asyncio.run(call(client))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del client
            gc.collect()
        return [entry for entry in caught if "unclosed <Forgotten of " in str(entry.message)]

    assert [entry.category for entry in forget(is_used=True)] == [ResourceWarning]
    for thread in threading.enumerate():
        if thread.name == "kcli-Forgotten":
            thread.join(WAIT_S)
    assert network.closed == [None]
    assert forget(is_used=False) == []
    assert network.closed == [None, None]


def test_a_forked_process_calls_nothing_and_closes_nothing() -> None:
    network = Network()

    class Forked(ThreadedClient[Network]):
        pass

    client = Forked(network, network)  # type: ignore[arg-type]

    async def call() -> None:
        await client._thread.run(lambda: None)

    async def exit_it() -> None:
        async with client:
            pass

    def use() -> list[object]:
        nonlocal client
        with pytest.raises(ForkedClient):
            asyncio.run(call())
        asyncio.run(client._thread.close(network.close))
        asyncio.run(exit_it())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del client
            gc.collect()
        return [*network.closed, *(str(entry.message) for entry in caught)]

    asyncio.run(call())
    assert in_child(use) == []
    client._thread.abandon(network.close)
