"""Grammar of members, topics and owned partitions on the command line. Pure.

    MEMBER       a   a=orders,payments   a=orders@rack-1   a=orders:instance-1   a=@rack-1:instance-1
    TOPIC        orders   orders=6   orders=4@a+b,b+c
    OWNED        a=orders:0-2,5;payments:1   a=orders:0@7

A member without topics subscribes to all topics that are given. `orders=4@a+b,b+c`: the replicas of partition 0 are in
the racks a and b, those of 1 in b and c, those of 2 in a and b again. `@7`: owned since generation 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kcli.assignors.lookup import NAMES, assignor_name
from kcli.assignors.model import Member, Topic
from kcli.errors import ConfigError
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_partitions, is_topic_name, parse_topics

MAX_PARTITIONS = 1_000_000
GENERATION = 1

_SUBSCRIPTION = re.compile(r"(?P<topics>[^@:]*)(?:@(?P<rack>[^:]*))?(?::(?P<instance>.*))?")
_OWNED = re.compile(r"(?P<partitions>[^@]*)(?:@(?P<generation>[0-9]{1,9}))?")
_COUNT = re.compile(r"[0-9]{1,7}")

Owned = dict[str, tuple[tuple[TopicPartition, ...], int]]


def parse_members(option: str, texts: Iterable[str]) -> list[Member]:
    """Parse the values of `--member` or `--add`. A member without topics has an empty subscription."""
    members: dict[str, Member] = {}
    for text in texts:
        member = _member(option, text)
        if member.id in members:
            raise ConfigError(f"{option} {text}: member {member.id} is given twice")
        members[member.id] = member
    return list(members.values())


def _member(option: str, text: str) -> Member:
    name, equals, subscription = text.partition("=")
    match = _SUBSCRIPTION.fullmatch(subscription)
    if not name or not match or "" in (match["rack"], match["instance"]) or (equals and not subscription):
        raise ConfigError(f"{option}: '{text}' is not valid; write NAME[=TOPIC,TOPIC...[@RACK][:INSTANCE]]")
    topics = frozenset(_topic_name(option, topic) for topic in match["topics"].split(",")) if match["topics"] else ()
    return Member(name, frozenset(topics), rack=match["rack"], instance_id=match["instance"])


def parse_described_topics(texts: Iterable[str]) -> dict[str, Topic | None]:
    """Parse the values of `--topic`; None: the number of partitions must come from the cluster."""
    topics: dict[str, Topic | None] = {}
    for text in texts:
        name, equals, description = text.partition("=")
        count, _, racks = description.partition("@")
        name = _topic_name("--topic", name)
        if name in topics:
            raise ConfigError(f"--topic {text}: topic {name} is given twice")
        if not equals:
            topics[name] = None
            continue
        partitions = parse_count("--topic", text, count)
        topics[name] = Topic(partitions, _racks(racks.split(","), partitions) if "@" in description else ())
    return topics


def _racks(texts: Sequence[str], partitions: int) -> tuple[frozenset[str], ...]:
    racks = [frozenset(filter(None, text.split("+"))) for text in texts]
    return tuple(racks[number % len(racks)] for number in range(partitions))


def parse_counts(option: str, texts: Iterable[str]) -> dict[str, int]:
    """Parse the values of `--partitions`: TOPIC=N."""
    counts = {}
    for text in texts:
        name, _, count = text.partition("=")
        counts[_topic_name(option, name)] = parse_count(option, text, count)
    return counts


def parse_count(option: str, text: str, count: str) -> int:
    """Return a number of partitions. `ConfigError` shows the whole `text` of the option."""
    if not _COUNT.fullmatch(count) or int(count) > MAX_PARTITIONS:
        raise ConfigError(f"{option}: '{text}' is not valid; write TOPIC=N with 0 to {MAX_PARTITIONS} partitions")
    return int(count)


def parse_owned(texts: Iterable[str], members: Sequence[Member]) -> list[Member]:
    """Return the members with the owned partitions of the `--owned` values; several for one member add up."""
    owned: Owned = {}
    known = {member.id for member in members}
    for text in texts:
        name, equals, claim = text.partition("=")
        match = _OWNED.fullmatch(claim)
        if not name or not equals or not match:
            raise ConfigError(f"--owned: '{text}' is not valid; write NAME=TOPIC:0,1,2[;TOPIC:3...][@GENERATION]")
        if name not in known:
            raise ConfigError(f"--owned {text}: member {name} is not given; add --member {name}")
        before, _ = owned.get(name, ((), GENERATION))
        owned[name] = (*before, *_partitions(text, match["partitions"])), int(match["generation"] or GENERATION)
    return [
        member if member.id not in owned else member._replace(owned=owned[member.id][0], generation=owned[member.id][1])
        for member in members
    ]


def _partitions(text: str, claim: str) -> Iterable[TopicPartition]:
    for topic, numbers in parse_topics(part for part in claim.split(";") if part).items():
        if numbers is None:
            raise ConfigError(f"--owned {text}: the partitions of {topic} are missing; write {topic}:0,1")
        for number in numbers:
            yield TopicPartition(_topic_name("--owned", topic), number)


def _topic_name(option: str, name: str) -> str:
    if not is_topic_name(name):
        raise ConfigError(f"{option}: '{name}' is not a valid topic name; use letters, digits, '.', '_' and '-'")
    return name


def format_assignment(partitions: Iterable[TopicPartition]) -> str | None:
    """Return partitions in the form of `--owned`: `orders:0-3,7;payments:1`. None for no partitions."""
    topics = numbers_by_topic(partitions)
    return ";".join(f"{topic}:{format_partitions(numbers)}" for topic, numbers in topics.items()) or None


def parse_assignors(option: str, name: str | None, compared: Sequence[str]) -> list[str]:
    """Return the assignor of an option, and those of --compare, separated by commas; each once.

    `ConfigError` for an unknown assignor.
    """
    first = [] if name is None else [assignor_name(name, option=option)]
    names = [name.strip() for text in compared for name in text.split(",")]
    if "" in names:
        raise ConfigError(
            f"--compare: '{','.join(compared)}' has an empty name; write NAME,NAME with names of {', '.join(NAMES)}"
        )
    return list(dict.fromkeys([*first, *(assignor_name(name, option="--compare") for name in names)]))
