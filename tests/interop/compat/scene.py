"""A cluster with groups of every kind that Apache's tool treats differently, the same for both tools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.interop.clients.test_confluent_groups import fill
from tests.interop.groups.members import MAKERS
from tests.interop.groups.test_group_reads import commit
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

LONG = "a-topic-with-a-name-longer-than-columns"
FILES = {
    "plain.csv": "orders,0,3\norders,1,900\n",
    "grouped.csv": "stopped,orders,0,3\nsecond,orders,0,2\n",
    "dos.csv": "orders,0,3\r\norders,1,4\r\n",
    "below.csv": "orders,0,-7\n",
}


@contextlib.contextmanager
def scene(kafka: Kafka, folder: Path, *, next_generation: bool) -> Iterator[None]:
    """Create topics orders (3 partitions), stored (2) and a long name; groups stopped, second, long, and live with a
    member.

    `next_generation` adds group next with two members whose broker assigns partitions.
    """
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for topic, partitions in (("orders", 3), ("stored", 2), (LONG, 1)):
        kafka.create_topic(topic, partitions)
        fill(kafka, topic, range(10 * partitions), partitions)
    commit(kafka, "stopped", ("orders", 0, 4), ("orders", 1, 10), ("stored", 0, 0))
    commit(kafka, "second", ("orders", 0, 1))
    commit(kafka, "a group, with a name", (LONG, 0, 7))
    commit(kafka, "live", ("orders", 0, 4), ("orders", 1, 10), ("stored", 0, 0), ("stored", 1, 5))
    with contextlib.ExitStack() as stack:

        def member(group: str, client: str, protocol: str, instance: str | None = None) -> None:
            made = MAKERS["confluent"](
                kafka, group, "orders", client_id=client, instance_id=instance, protocol=protocol, commit="none"
            )
            members[client] = stack.enter_context(made)

        members: dict[str, object] = {}
        member("live", "one", "classic")
        if next_generation:
            member("next", "two", "consumer", "till-2")
            member("next", "three", "consumer")
        wanted = {"one": {3}} | ({"two": {1, 2}, "three": {1, 2}} if next_generation else {})
        wait_until(
            lambda: all(len(it.assigned()) in wanted[name] for name, it in members.items()), f"shares: {members}", 40
        )
        yield
