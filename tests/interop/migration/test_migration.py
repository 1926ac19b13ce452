"""The programs of a migration run at the first try, on both brokers; `tests/test_typing.py` checks their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.fake_registry import fake_registry
from tests.interop.migration import from_confluent, from_kafka_python
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

#: What each program must return; a function checks it.
EXPECTED: dict[str, Any] = {
    "send_and_wait": lambda seen: seen[1:] == (1, 0),
    "hundred_messages": 100,
    "json_messages": [("ping", 0), ("ping", 1), ("ping", 2)],
    "callbacks_of_sends": lambda seen: seen[0] == [0] and len(seen[1]) == 1,
    "headers_of_messages": [("content-encoding", b"base64"), ("empty", None)],
    "manual_assignment": [3, 4],
    "manual_commit": (4, 4),
    "topics_by_pattern": lambda seen: len(seen[0]) == 3 and seen[1] == ["assigned 3", "revoked 3"],
    "topics_and_settings": ("TOPIC_ALREADY_EXISTS", 3, "60000", False),
    "producer_and_consumer_threads": (True, True),
    "delivery_reports": (50, 0),
    "idempotent_producer": [b"0", b"1", b"2", b"3", b"4"],
    "synchronous_commits": (20, 0),
    "rebalance_callbacks": (["assigned 0 1 2", "revoked 3"], 6),
    "transactions": (11, 0),
    "watermarks_and_lag": [(0, 0, 0), (0, 2, 1), (0, 4, 3)],
    "seek_by_time": ([b"3", b"4"], True),
    "admin_day": lambda seen: seen[:2] == (["cleanup.policy: compact,delete"], 4) and len(seen[2]) == 1,
    "avro_with_registry": [{"name": "Ada", "favorite_number": 7}],
    "asyncio_day": (0, [b"0", b"1", b"2", b"3", b"4", b"first"]),
}


def programs(module: ModuleType) -> list[Callable[..., Any]]:
    return [
        value for value in vars(module).values() if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


ALL = programs(from_kafka_python) + programs(from_confluent)


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.__name__)
def test_a_program_of_another_client(
    program: Callable[..., Any], any_kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    topic = any_kafka.new_topic(3)
    if "registry_url" in inspect.signature(program).parameters:
        with fake_registry() as registry:
            seen = program(any_kafka.bootstrap_servers, topic, registry.url)
    else:
        seen = program(any_kafka.bootstrap_servers, topic)
    expected = EXPECTED[program.__name__]
    assert expected(seen) if callable(expected) else seen == expected, seen


def test_there_are_ten_of_each_client_with_their_origin() -> None:
    assert len(programs(from_kafka_python)) == len(programs(from_confluent)) == 10
    assert all(": " in inspect.getdoc(program) for program in ALL)  # type: ignore[operator]
