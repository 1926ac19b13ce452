"""Kafka's own assignor classes in one Java process that answers any number of questions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

from kcli.assignors.lookup import STRATEGIES, Strategy
from kcli.assignors.model import Assignment, Member, Topics
from kcli.protocol.consumer_protocol import Subscription, by_topic, encode_subscription
from kcli.structs import TopicPartition
from tests.java_driver import compiled
from tests.limits import join, read_line
from tests.real_kafka import TOOL_JVM

MEMBERS_CLASSES = Path(__file__).parent / "Assignors.java"
SERVERS_CLASSES = Path(__file__).parent / "ServerAssignors.java"
JARS = (
    "kafka-clients-*.jar",
    "kafka-group-coordinator-*.jar",
    "kafka-server-common-*.jar",
    "slf4j-api-*.jar",
    "jackson-*.jar",
)


class Oracle:
    """A running process. A thread writes the questions, so that there can be many."""

    def __init__(self, jars: Path, flags: Sequence[str] = TOOL_JVM, source: Path = MEMBERS_CLASSES) -> None:
        path = [compiled(source, jars), *(jar for pattern in JARS for jar in jars.glob(pattern))]
        command = ["java", *flags, "-cp", ":".join(map(str, path)), source.stem]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, questions: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Return the answers, in order."""
        lines = [json.dumps(question).encode() + b"\n" for question in questions]
        assert self.process.stdin
        writer = Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        for _ in lines:
            answer = read_line(self.process, "an answer of the judge")
            assert answer, f"the judge ended with {self.process.wait()}"
            yield json.loads(answer)
        join(writer)

    def _write(self, lines: list[bytes]) -> None:
        assert self.process.stdin
        self.process.stdin.writelines(lines)
        self.process.stdin.flush()


def question(topics: Topics, members: Iterable[Member], strategies: Sequence[str]) -> dict[str, Any]:
    """Return the question about the results of these strategies."""
    racks = {
        name: [sorted(topic.racks[p]) if p < len(topic.racks) else [] for p in range(topic.partitions)]
        for name, topic in topics.items()
    }
    joining = [
        {
            "id": member.id,
            "instance": member.instance_id,
            "blobs": _blobs(strategies, member),
        }
        for member in members
    ]
    return {"topics": racks, "members": joining, "strategies": strategies}


def server_question(topics: Topics, members: Iterable[Member], strategies: Sequence[str]) -> dict[str, Any]:
    """Return the question for the server assignors. All topics have ids; members own existing partitions, each once."""
    return {
        "topics": {name: {"id": str(topic.id), "partitions": topic.partitions} for name, topic in topics.items()},
        "members": [
            {"id": member.id, "instance": member.instance_id, "topics": sorted(member.topics), "owned": member.owned}
            for member in members
        ],
        "strategies": strategies,
    }


def _blobs(strategies: Sequence[str], member: Member) -> dict[str, str]:
    plain = blob(STRATEGIES["range"], member).hex()  # round robin says the same, and saying is what takes time
    return {
        name: plain if name in ("range", "roundrobin") else blob(STRATEGIES[name], member).hex() for name in strategies
    }


def blob(strategy: Strategy, member: Member) -> bytes:
    """Return the subscription of this member in JoinGroup; an eager member has revoked all partitions before."""
    return encode_subscription(
        Subscription(
            topics=sorted(member.topics),
            user_data=strategy.user_data(member.owned, member.generation),
            owned_partitions=by_topic(member.owned) if strategy.cooperative else [],
            generation_id=member.generation,
            rack_id=member.rack,
        )
    )


def assignment(answer: dict[str, Any]) -> Assignment | None:
    """Return the sorted assignment of one strategy; None where Kafka's class threw."""
    if "thrown" in answer:
        return None
    return {member: sorted(starmap(TopicPartition, partitions)) for member, partitions in answer["assignment"].items()}
