"""How members, topics and what is owned are written on the command line. Pure.

    MEMBER       a   a=orders,payments   a=orders@rack-1   a=orders:instance-1   a=@rack-1:instance-1
    TOPIC        orders   orders=6   orders=4@a+b,b+c
    OWNED        a=orders:0-2,5;payments:1   a=orders:0@7

A member that names no topics wants all that the others can have. `orders=4@a+b,b+c`: the replicas of partition 0 are in
the racks a and b, those of 1 in b and c, those of 2 in a and b again. `@7`: of generation 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kcli.assignors.model import Member, Topic
from kcli.cli.topic_spec import can_be_topic, parse_topics
from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from kcli.text import format_partitions

MOST_PARTITIONS = 1_000_000
GENERATION = 1

_WISH = re.compile(r"(?P<topics>[^@:]*)(?:@(?P<rack>[^:]*))?(?::(?P<instance>.*))?")
_OWNED = re.compile(r"(?P<partitions>[^@]*)(?:@(?P<generation>[0-9]{1,9}))?")
_COUNT = re.compile(r"[0-9]{1,7}")

Owned = dict[str, tuple[tuple[TopicPartition, ...], int]]


def parse_members(option: str, texts: Iterable[str]) -> list[Member]:
    """Values of `--member` or `--add`. A member whose `topics` are empty named none."""
    members: dict[str, Member] = {}
    for text in texts:
        member = _member(option, text)
        if member.id in members:
            raise ConfigError(f"{option} {text}: there is a member {member.id} already")
        members[member.id] = member
    return list(members.values())


def _member(option: str, text: str) -> Member:
    name, equals, wish = text.partition("=")
    match = _WISH.fullmatch(wish)
    if not name or not match or "" in (match["rack"], match["instance"]) or (equals and not wish):
        raise ConfigError(f"{option} is NAME[=TOPIC,TOPIC...[@RACK][:INSTANCE]], not '{text}'")
    topics = frozenset(_topic_name(option, topic) for topic in match["topics"].split(",")) if match["topics"] else ()
    return Member(name, frozenset(topics), rack=match["rack"], instance_id=match["instance"])


def parse_topic_facts(texts: Iterable[str]) -> dict[str, Topic | None]:
    """Values of `--topic`; None: only the cluster knows how many partitions it has."""
    topics: dict[str, Topic | None] = {}
    for text in texts:
        name, equals, facts = text.partition("=")
        count, _, racks = facts.partition("@")
        name = _topic_name("--topic", name)
        if name in topics:
            raise ConfigError(f"--topic {text}: topic {name} was given before")
        if not equals:
            topics[name] = None
            continue
        partitions = parse_count("--topic", text, count)
        topics[name] = Topic(partitions, _racks(racks.split(","), partitions) if "@" in facts else ())
    return topics


def _racks(texts: Sequence[str], partitions: int) -> tuple[frozenset[str], ...]:
    racks = [frozenset(filter(None, text.split("+"))) for text in texts]
    return tuple(racks[number % len(racks)] for number in range(partitions))


def parse_counts(option: str, texts: Iterable[str]) -> dict[str, int]:
    """Values of `--partitions`: TOPIC=N."""
    counts = {}
    for text in texts:
        name, _, count = text.partition("=")
        counts[_topic_name(option, name)] = parse_count(option, text, count)
    return counts


def parse_count(option: str, text: str, count: str) -> int:
    """How many partitions; ConfigError with the whole `text` of an option if it is no number, or too large."""
    if not _COUNT.fullmatch(count) or int(count) > MOST_PARTITIONS:
        raise ConfigError(f"{option} is TOPIC=N, N partitions up to {MOST_PARTITIONS}, not '{text}'")
    return int(count)


def parse_owned(texts: Iterable[str], members: Sequence[Member]) -> list[Member]:
    """The members with what values of `--owned` say they own; several about one member add up."""
    owned: Owned = {}
    known = {member.id for member in members}
    for text in texts:
        name, equals, claim = text.partition("=")
        match = _OWNED.fullmatch(claim)
        if not name or not equals or not match:
            raise ConfigError(f"--owned is NAME=TOPIC:0,1,2[;TOPIC:3...][@GENERATION], not '{text}'")
        if name not in known:
            raise ConfigError(f"--owned {text}: there is no --member {name}")
        before, _ = owned.get(name, ((), GENERATION))
        owned[name] = (*before, *_partitions(text, match["partitions"])), int(match["generation"] or GENERATION)
    return [
        it if it.id not in owned else it._replace(owned=owned[it.id][0], generation=owned[it.id][1]) for it in members
    ]


def _partitions(text: str, claim: str) -> Iterable[TopicPartition]:
    for topic, numbers in parse_topics(part for part in claim.split(";") if part).items():
        if numbers is None:
            raise ConfigError(f"--owned {text}: say which partitions of {topic}, as {topic}:0,1")
        for number in numbers:
            yield TopicPartition(_topic_name("--owned", topic), number)


def _topic_name(option: str, name: str) -> str:
    if not can_be_topic(name):
        raise ConfigError(f"{option}: '{name}' cannot be the name of a topic")
    return name


def shown_partitions(partitions: Iterable[TopicPartition]) -> str | None:
    """`orders:0-3,7;payments:1`, as `--owned` reads it; None for none."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return ";".join(f"{topic}:{format_partitions(numbers)}" for topic, numbers in topics.items()) or None
