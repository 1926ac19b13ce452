"""Which partitions of which topics: `orders`, `orders:0,2,5-7`, and `--partition`. Pure, but for asking the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.cluster import TopicInfo
    from kcli.client.consumer_network_client import ConsumerNetworkClient

Wanted = dict[str, "list[int] | None"]
"""Topic to partitions; None: all there are."""

_MOST_PARTITIONS = 100_000


def parse_topics(texts: Iterable[str], partitions: Sequence[str] = ()) -> Wanted:
    """`TOPIC[:p,p..]` arguments; `partitions` (values of --partition) are for the topics that name none themselves."""
    general = sorted({p for text in partitions for p in parse_partitions(text)}) or None
    wanted: Wanted = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        if not name:
            raise ConfigError(f"'{text}' is not TOPIC or TOPIC:0,1,2")
        chosen = parse_partitions(numbers) if colon else general
        earlier = wanted.get(name, [])
        wanted[name] = None if chosen is None or earlier is None else sorted({*earlier, *chosen})
    return wanted


def parse_partitions(text: str) -> list[int]:
    """`0,2,5-7` as sorted numbers."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})(?:-([0-9]{1,10}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if last < first or last - first > _MOST_PARTITIONS:
            raise ConfigError(f"'{text}' is not a list of partitions like 0,2,5-7")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def find_partitions(
    client: ConsumerNetworkClient, wanted: Mapping[str, list[int] | None], deadline_ms: float
) -> list[TopicPartition]:
    """The partitions that are there, in order. A topic or partition that is not is an error; nothing is created."""
    topics = client.topics_metadata(list(wanted), deadline_ms).topics
    found: list[TopicPartition] = []
    for name, numbers in wanted.items():
        topic = topics[name]
        if topic.error:
            raise _no_topic(client, topic, deadline_ms)
        found += [TopicPartition(name, number) for number in _existing(topic, numbers)]
    return found


def _existing(topic: TopicInfo, numbers: list[int] | None) -> list[int]:
    there = sorted(topic.partitions)
    missing = [number for number in numbers or () if number not in topic.partitions]
    if missing:
        from kcli.error_codes import ErrorCode
        from kcli.errors import BrokerError

        text = f"topic {topic.name} has partitions 0 to {there[-1]}, but not {', '.join(map(str, missing))}"
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return there if numbers is None else numbers


def _no_topic(client: ConsumerNetworkClient, topic: TopicInfo, deadline_ms: float) -> Exception:
    from kcli.error_codes import ErrorCode
    from kcli.errors import BrokerError, KcliError

    if topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return BrokerError(topic.error, topic=topic.name)
    try:
        names = client.topics_metadata(None, deadline_ms).topics
    except KcliError:
        names = {}
    return BrokerError(topic.error, f"there is no topic {topic.name}{_nearest(topic.name, names)}")


def _nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean a, b?` for the existing names that look like `name`."""
    from difflib import get_close_matches

    lowered = {other.lower(): other for other in names if other != name}
    close = [lowered[near] for near in get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    return f"; did you mean {' or '.join(close)}?" if close else ""
