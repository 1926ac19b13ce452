"""Arguments of public methods: one sentence for a wrong type, time or name. Pure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from kcli.arguments import check_duration, checked
from kcli.structs import OffsetAndMetadata, TopicPartition

TP = TopicPartition("orders", 0)


class NewTopic(NamedTuple):
    """As `kcli.admin.topics.NewTopic`; a class is known by its name."""

    name: str
    partitions: int = -1
    configs: Mapping[str, str] = {}
    kind: Kind = "any"  # type: ignore[name-defined]  # noqa: F821 (an alias that the check does not know)


@checked(Scope="Mapping[str, Sequence[int] | None] | None")
class Face:
    """Methods with the kinds of parameters that the public classes have; each returns what it got."""

    def poll(self, timeout_ms: float) -> Any:
        return timeout_ms

    def close(self, timeout_ms: float | None = None) -> Any:
        return timeout_ms

    def subscribe(self, topics: Iterable[str] = (), *, on_assigned: Callable[[], None] | None = None) -> Any:
        return topics

    def assign(self, partitions: Iterable[TopicPartition]) -> Any:
        return partitions

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> Any:
        return tp, offset, epoch

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> Any:
        return offsets

    def find(self, times_ms: Mapping[TopicPartition, int]) -> Any:
        return times_ms

    def describe(self, *names: str, dry_run: bool = False) -> Any:
        return names

    def reset(self, *, topics: Scope = None, otherwise: Literal["refuse", "end"] = "refuse") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return topics

    def plan(self, partitions: int, configs: Mapping[str, str] | None = None) -> Any:
        return partitions

    def create(self, topics: Iterable[NewTopic]) -> Any:
        return topics

    @classmethod
    def of(cls, name: str) -> Any:
        return name

    def _private(self, count: int) -> Any:
        return count


face: Any = Face()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: face.subscribe("orders"), 'subscribe: topics must be a list of str, such as ["orders"]; got a str'),
        (
            lambda: face.subscribe([b"a"]),
            'subscribe: topics must be a list of str, such as ["orders"]; got a list with a bytes',
        ),
        (lambda: face.subscribe(on_assigned="f"), "subscribe: on_assigned must be a function or None; got a str"),
        (
            lambda: face.assign(["orders"]),
            'assign: partitions must be a list of TopicPartition, such as [TopicPartition("orders", 0)]; '
            "got a list with a str",
        ),
        (
            lambda: face.assign([("orders", 0)]),
            'assign: partitions must be a list of TopicPartition, such as [TopicPartition("orders", 0)]; '
            "got a list with a tuple",
        ),
        (
            lambda: face.assign(TP),
            'assign: partitions must be a list of TopicPartition, such as [TopicPartition("orders", 0)]; '
            "got a TopicPartition",
        ),
        (
            lambda: face.assign([TopicPartition(0, "orders")]),  # type: ignore[arg-type]
            'assign: partitions must be a list of TopicPartition, such as [TopicPartition("orders", 0)]; '
            "got a list with a TopicPartition of an int and a str",
        ),
        (
            lambda: face.seek("orders", 0, 5),
            'seek: tp must be a TopicPartition, such as TopicPartition("orders", 0); got a str',
        ),
        (lambda: face.seek(TP, "5"), "seek: offset must be an int; got a str"),
        (lambda: face.seek(TP, 1.0), "seek: offset must be an int; got a float"),
        (lambda: face.seek(TP, True), "seek: offset must be an int; got a bool"),
        (lambda: face.seek(TP, offset=None), "seek: offset must be an int; got None"),
        (
            lambda: face.commit({TP: 5}),
            "commit: offsets must be a dict from a TopicPartition to an OffsetAndMetadata, or None, such as "
            '{TopicPartition("orders", 0): OffsetAndMetadata(100)}; got a dict with an int as a value',
        ),
        (
            lambda: face.commit({("orders", 0): OffsetAndMetadata(5)}),
            "commit: offsets must be a dict from a TopicPartition to an OffsetAndMetadata, or None, such as "
            '{TopicPartition("orders", 0): OffsetAndMetadata(100)}; got a dict with a tuple as a key',
        ),
        (
            lambda: face.find({TP: time.time()}),
            "find: times_ms must be a dict from a TopicPartition to an int of milliseconds, such as "
            '{TopicPartition("orders", 0): 0}; got a dict with a float as a value',
        ),
        (lambda: face.describe(["a", "b"]), "describe: names must be a str, such as describe(*names); got a list"),
        (lambda: face.describe("a", dry_run=1), "describe: dry_run must be True or False; got an int"),
        (
            lambda: face.reset(topics=["orders"]),
            'reset: topics must be a dict from a str to a list of int or None, or None, such as {"orders": [0]}; '
            "got a list",
        ),
        (lambda: face.reset(otherwise="start"), 'reset: otherwise must be "refuse" or "end"; got \'start\''),
        (lambda: face.plan("3"), "plan: partitions must be an int; got a str"),
        (
            lambda: face.plan(3, {"retention.ms": 5}),
            'plan: configs must be a dict from a str to a str, or None, such as {"name": "name"}; '
            "got a dict with an int as a value",
        ),
        (
            lambda: face.commit({TP: OffsetAndMetadata("5")}),  # type: ignore[arg-type]
            "commit: offsets must be a dict from a TopicPartition to an OffsetAndMetadata, or None, such as "
            '{TopicPartition("orders", 0): OffsetAndMetadata(100)}; '
            "got a dict with an OffsetAndMetadata with a str as offset as a value",
        ),
        (
            lambda: face.create([NewTopic("orders", 3, {"retention.ms": 5})]),  # type: ignore[dict-item]
            'create: topics must be a list of NewTopic, such as [NewTopic("orders", partitions=3)]; '
            "got a list with a NewTopic with a dict with an int as a value as configs",
        ),
        (lambda: face.poll("5"), "poll: timeout_ms must be a number of milliseconds; got a str"),
        (lambda: face.poll(None), "poll: timeout_ms must be a number of milliseconds; got None"),
        (lambda: face.poll(True), "poll: timeout_ms must be a number of milliseconds; got a bool"),
        (
            lambda: face.close(timedelta(1)),
            "close: timeout_ms must be a number of milliseconds or None; got a timedelta, which "
            "timedelta / timedelta(milliseconds=1) converts",
        ),
        (
            lambda: face.find({TP: datetime(2026, 11, 28)}),
            "find: times_ms must be a dict from a TopicPartition to an int of milliseconds, such as "
            '{TopicPartition("orders", 0): 0}; got a dict with a datetime as a value, which '
            "int(datetime.timestamp() * 1000) converts",
        ),
        (lambda: Face.of(5), "of: name must be a str; got an int"),  # type: ignore[arg-type]
        (lambda: face.poll(timeout=1.0), "poll has no parameter timeout; use timeout_ms, in milliseconds"),
        (lambda: face.close(timeout_s=1.0), "close has no parameter timeout_s; use timeout_ms, in milliseconds"),
        (lambda: face.close(deadline_ms=1.0), "close has no parameter deadline_ms; use timeout_ms, in milliseconds"),
        (lambda: face.poll(timeout_mss=1), "poll has no parameter timeout_mss; did you mean timeout_ms?"),
        (lambda: face.seek(TP, 0, when=1), "seek has no parameter when; it has tp, offset or epoch"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == f"Face.{sentence}"


@pytest.mark.parametrize("wait", [-1, -0.5, float("nan"), float("-inf")])
def test_a_negative_time_to_wait_is_refused(wait: float) -> None:
    for call in (lambda: face.poll(wait), lambda: face.close(timeout_ms=wait)):
        with pytest.raises(ValueError, match=r"^Face\.\w+: timeout_ms must not be negative; got "):
            call()


def test_valid_arguments_arrive_as_they_are() -> None:
    """Also those that are only like the type: subclasses, numpy's numbers, dict views, arrays of names."""

    class Topic(str):
        __slots__ = ()

    class Later(TopicPartition):
        __slots__ = ()

    assert (face.poll(5), face.poll(0.5), face.poll(float("inf")), face.close(), face.close(None)) == (
        *(5, 0.5, float("inf")),
        *(None, None),
    )
    assert face.poll(np.float32(2)) == face.poll(timeout_ms=np.int64(2)) == 2
    topics = [Topic("orders")]
    assert face.subscribe(topics) is topics
    assert face.subscribe({"orders": 1}.keys()) == {"orders"}
    assert face.assign([Later("orders", np.int64(1))]) == [("orders", 1)]
    assert face.assign(()) == ()
    assert face.seek(TP, np.int64(3)) == (TP, 3, -1)
    assert face.commit(None) is None
    assert face.commit({TP: OffsetAndMetadata(5)}) == {TP: OffsetAndMetadata(5)}
    assert face.reset(topics={"orders": None, "bills": [0, 1]}) == {"orders": None, "bills": [0, 1]}
    assert list(face.describe("a", "b", dry_run=True)) == ["a", "b"]
    assert face.create([NewTopic("orders", 3)]) == [("orders", 3, {}, "any")]
    assert Face.of("x") == "x"
    assert face._private("3") == "3"


def test_an_iterator_is_checked_and_read_once() -> None:
    def partitions() -> Iterator[TopicPartition]:
        yield TP

    assert face.assign(partitions()) == [TP]
    assert list(face.subscribe(name for name in ("a", "b"))) == ["a", "b"]
    with pytest.raises(TypeError, match="got a list with a str"):
        face.assign(iter("ab"))


def test_too_many_and_missing_arguments_are_left_to_python() -> None:
    with pytest.raises(TypeError, match=r"seek\(\) takes from 3 to 4 positional arguments but 5 were given"):
        face.seek(TP, 1, 2, 3)
    with pytest.raises(TypeError, match=r"seek\(\) missing 1 required positional argument: 'offset'"):
        face.seek(TP)


def test_a_duration_outside_a_method() -> None:
    check_duration("timeout_ms", 5, owner="Admin")
    with pytest.raises(TypeError, match=r"^Admin: timeout_ms must be a number of milliseconds or None; got a str$"):
        check_duration("timeout_ms", "5", owner="Admin")
    with pytest.raises(ValueError, match=r"^timeout_ms must not be negative; got nan$"):
        check_duration("timeout_ms", float("nan"))


def test_a_checked_coroutine_is_awaited_as_before() -> None:
    @checked()
    class Waiting:
        async def poll(self, timeout_ms: float) -> float:
            return timeout_ms

    assert asyncio.run(Waiting().poll(5)) == 5
    with pytest.raises(TypeError, match="timeout_ms must be a number"):
        Waiting().poll("5")  # type: ignore[arg-type]
