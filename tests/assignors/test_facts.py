"""Assignments that Kafka 4.3.1's own classes computed, one case a line."""

from __future__ import annotations

import re

import pytest

from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Member, Topic
from kcli.structs import TopicPartition

# strategy | topics | members: topics, what they own @generation, /rack, !instance id | outcome
FACTS = """
range | topic1:3 topic2:2 | consumer1:topic1 consumer2:topic1,topic2 consumer3:topic1 | consumer1=topic1-0 consumer2=topic1-1,topic2-0,topic2-1 consumer3=topic1-2
range | topic1:3 topic2:3 | consumer1:topic1,topic2 consumer2:topic1,topic2 | consumer1=topic1-0,topic1-1,topic2-0,topic2-1 consumer2=topic1-2,topic2-2
range | topic1:3 topic2:3 | consumer-b:topic1,topic2!instance1 consumer-a:topic1,topic2 | consumer-a=topic1-2,topic2-2 consumer-b=topic1-0,topic1-1,topic2-0,topic2-1
range | t1:6 t2:7 t3:2 | c1:t1,t2,t3 c2:t1,t2,t3 c3:t1,t2,t3 | c1=t1-0,t1-1,t2-0,t2-1,t2-2,t3-0 c2=t1-2,t1-3,t2-3,t2-4,t3-1 c3=t1-4,t1-5,t2-5,t2-6
range | t1:4:ab | c1:t1/b c2:t1/a | c1=t1-0,t1-1 c2=t1-2,t1-3
range | t1:2 | c1:t1,ghost c2:ghost | c1=t1-0,t1-1 c2=
roundrobin | topic1:3 topic2:3 | consumer1:topic1,topic2 consumer2:topic1,topic2 | consumer1=topic1-0,topic1-2,topic2-1 consumer2=topic1-1,topic2-0,topic2-2
roundrobin | topic1:3 topic2:2 | consumer1:topic1 consumer2:topic1,topic2 consumer3:topic1 | consumer1=topic1-0 consumer2=topic1-1,topic2-0,topic2-1 consumer3=topic1-2
roundrobin | topic1:5 topic2:5 | z:topic1,topic2!instance1 y:topic1,topic2!instance2 x:topic1,topic2!instance3 | x=topic1-2,topic2-0,topic2-3 y=topic1-1,topic1-4,topic2-2 z=topic1-0,topic1-3,topic2-1,topic2-4
sticky | topic1:2 topic2:1 topic3:2 topic4:1 topic5:2 | consumer1:topic1,topic2,topic3,topic4,topic5 consumer2:topic1,topic3,topic5 consumer3:topic1,topic3,topic5 consumer4:topic1,topic2,topic3,topic4,topic5 | consumer1=topic2-0,topic3-0 consumer2=topic1-0,topic3-1 consumer3=topic1-1,topic5-0 consumer4=topic4-0,topic5-1
sticky | topic1:3 topic2:4 | consumer1:topic1,topic2 consumer2:topic1,topic2 | consumer1=topic1-0,topic1-2,topic2-1,topic2-3 consumer2=topic1-1,topic2-0,topic2-2
sticky | topic1:3 topic2:4 | consumer1:topic1,topic2+topic1-0,topic1-2,topic2-1,topic2-3@1 consumer2:topic1,topic2+topic1-1,topic2-0,topic2-2@1 consumer3:topic1,topic2@1 consumer4:topic1,topic2@1 | consumer1=topic1-0,topic2-1 consumer2=topic2-0,topic1-1 consumer3=topic1-2,topic2-3 consumer4=topic2-2
sticky | topic1:3 topic2:4 | consumer3:topic1,topic2+topic1-2,topic2-3@1 consumer4:topic1,topic2+topic2-2@1 | consumer3=topic1-2,topic2-3,topic1-0,topic2-1 consumer4=topic2-2,topic1-1,topic2-0
sticky | topic:3 | consumer1:topic+topic-0,topic-1@1 consumer2:topic+topic-0,topic-2@1 consumer3:topic@1 | consumer1=topic-1 consumer2=topic-2 consumer3=topic-0
sticky | topic:4 | consumer1:topic+topic-0,topic-1@1 consumer2:topic+topic-2@1 consumer3:topic@1 | consumer1=topic-0,topic-1 consumer2=topic-2 consumer3=topic-3
sticky | topic:2 | consumer1:topic+topic-0,topic-1,other-0,other-1@1 | consumer1=topic-0,topic-1
cooperative-sticky | topic:3 | consumer1:topic | consumer1=topic-0,topic-1,topic-2
cooperative-sticky | topic:3 | consumer1:topic+topic-0,topic-1,topic-2@1 consumer2:topic | consumer1=topic-0,topic-1 consumer2=
cooperative-sticky | topic:3 | consumer1:topic+topic-0,topic-1@2 consumer2:topic@2 | consumer1=topic-0,topic-1 consumer2=topic-2
cooperative-sticky | topic1:3 topic2:3 | consumer2:topic1,topic2+topic1-1,topic2-0,topic2-2@5 | consumer2=topic2-0,topic1-1,topic2-2,topic1-0,topic1-2,topic2-1
"""  # noqa: E501
MEMBER = re.compile(
    r"(?P<id>[^:]+):(?P<topics>[^+@/!]+)(\+(?P<owned>[^@]+))?(@(?P<generation>\d+))?(/(?P<rack>\w+))?(!(?P<instance>\w+))?"
)


@pytest.mark.parametrize("fact", FACTS.strip().splitlines())
def test_the_assignment_equals_kafkas(fact: str) -> None:
    name, topics, members, outcome = (part.strip() for part in fact.split("|"))
    found = STRATEGIES[name].assign(
        dict(topic_of(text) for text in topics.split()), [member_of(text) for text in members.split()]
    )
    expected = dict(text.split("=") for text in outcome.split())
    assert {member: set(partitions) for member, partitions in found.items()} == {
        member: set(partitions_of(text)) for member, text in expected.items()
    }


def topic_of(text: str) -> tuple[str, Topic]:
    """`name:partitions`, or `name:partitions:racks` where every partition is in all of them."""
    name, count, *racks = text.split(":")
    return name, Topic(int(count), tuple(frozenset(racks[0]) for _ in range(int(count))) if racks else ())


def member_of(text: str) -> Member:
    parts = MEMBER.fullmatch(text)
    assert parts, text
    return Member(
        parts["id"],
        frozenset(parts["topics"].split(",")),
        tuple(partitions_of(parts["owned"] or "")),
        int(parts["generation"] or -1),
        parts["rack"],
        parts["instance"],
    )


def partitions_of(text: str) -> list[TopicPartition]:
    return [TopicPartition(topic, int(p)) for topic, p in (each.rsplit("-", 1) for each in text.split(",") if each)]
