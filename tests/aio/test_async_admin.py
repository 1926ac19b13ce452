"""`AsyncAdmin` on both brokers, and that it has every method of `Admin`."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

import pytest

from kcli import Admin, AsyncAdmin
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.log_place import LOG_START
from tests.real_kafka import Kafka
from tests.test_public_api import public_members


def admin_of(kafka: Kafka) -> AsyncAdmin:
    return AsyncAdmin(kafka.bootstrap_servers)


def test_every_public_method_of_admin_is_a_coroutine_function_with_its_parameters_and_docstring() -> None:
    missing = []
    for name, member in public_members(Admin):
        if name == "foresee":  # deprecated
            continue
        of_async = inspect.getattr_static(AsyncAdmin, name, None)
        if name == "metrics":
            assert not inspect.iscoroutinefunction(of_async)  # it does not wait
        elif of_async is None or not inspect.iscoroutinefunction(of_async):
            missing.append(name)
        elif name != "close":
            assert inspect.signature(of_async) == inspect.signature(member)
            assert inspect.getdoc(of_async) == inspect.getdoc(member)
    assert missing == []


def test_topics_are_created_described_and_deleted(any_kafka: Kafka) -> None:
    async def use(name: str) -> None:
        async with admin_of(any_kafka) as admin:
            assert (await admin.create_topic(name, 3)).name == name
            with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
                await admin.create_topic(name)
            while name not in (described := await admin.describe_topics(name, "absent")).values:
                await asyncio.sleep(0)  # the brokers learn of a topic a little after its creation
            assert len(described.values[name].partitions) == 3
            assert isinstance(described.errors["absent"], BrokerError)
            assert described.errors["absent"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            deleted = await admin.delete_topics(await admin.plan_topic_deletion(name))
            assert deleted.errors == {}

    asyncio.run(use(any_kafka.new_name()))


def test_the_calls_of_many_tasks_are_answered(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(2)

    async def use() -> None:
        async with admin_of(any_kafka) as admin:
            results = await asyncio.gather(*(admin.describe_topics(topic) for _ in range(20)), admin.list_topics())
            assert [len(result.values[topic].partitions) for result in results[:-1]] == [2] * 20
            assert topic in {info.name for info in results[-1]}

    asyncio.run(use())


def test_the_loop_runs_while_a_call_waits_and_a_cancellation_ends_the_call(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()

    async def use() -> float:
        async with admin_of(any_kafka) as admin:
            begun = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(admin.wait_for_group("absent", "stable"), 0.2)
            assert (await admin.describe_topics(topic)).errors == {}
            return time.monotonic() - begun

    assert asyncio.run(use()) < 20  # of the 30 s that wait_for_group may take


def test_a_plan_of_a_reset_is_applied_and_undone(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")

    async def use() -> None:
        async with admin_of(any_kafka) as admin:
            plan = await admin.plan_reset([group], LOG_START, topics={topic: [0]})
            applied = await admin.apply(plan)
            assert applied.errors == {}
            positions = await admin.export_offsets(group)
            assert str(positions).count(topic) == 1
            undone = await admin.undo(applied.snapshot_id)
            assert undone.errors == {}

    asyncio.run(use())


def test_settings_are_checked_by_the_constructor() -> None:
    misspelt: Any = {"client_idd": "x"}
    with pytest.raises(ConfigError, match="did you mean"):
        AsyncAdmin("localhost:9092", **misspelt)


def test_a_closed_admin_refuses_calls(any_kafka: Kafka) -> None:
    async def use() -> None:
        admin = admin_of(any_kafka)
        await admin.list_topics()
        await admin.close()
        await admin.close()
        with pytest.raises(KcliError, match="AsyncAdmin is closed"):
            await admin.list_topics()

    asyncio.run(use())


def test_tasks_that_asyncio_run_cancels_close_their_admin(any_kafka: Kafka) -> None:
    closed: list[Any] = []

    async def watch() -> None:
        admin = admin_of(any_kafka)
        try:
            async with admin:
                await admin.wait_for_group("absent", "stable")
        finally:
            closed.append(admin._thread.is_closed)

    async def main() -> None:
        asyncio.ensure_future(watch())  # noqa: RUF006
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert closed == [True]
