"""Which partitions of which topics: `orders`, `orders:0,2,5-7`, and `--partition`. Pure, but for asking the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from kcli.text import parse_partitions

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo

Wanted = dict[str, "list[int] | None"]
"""Topic to partitions; None: all there are."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def can_be_topic(name: str) -> bool:
    """Whether brokers let a topic be called so (`org.apache.kafka.common.internals.Topic`)."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


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


def find_partitions(
    client: ConsumerNetworkClient, wanted: Mapping[str, list[int] | None], deadline_ms: float
) -> list[TopicPartition]:
    """The partitions that are there, in order. A topic or partition that is not is an error; nothing is created."""
    from kcli.client.metadata import check_partitions

    topics = client.topics_metadata(list(wanted), deadline_ms).topics
    bad = [topics[name] for name in wanted if topics[name].error]
    if bad:
        raise _no_topics(client, bad, deadline_ms)
    found: list[TopicPartition] = []
    for name, numbers in wanted.items():
        check_partitions(topics[name], numbers or ())
        found += [TopicPartition(name, number) for number in numbers or sorted(topics[name].partitions)]
    return found


def _no_topics(client: ConsumerNetworkClient, bad: Sequence[TopicInfo], deadline_ms: float) -> Exception:
    """One error for topics that cannot be had: for the first that is more than mistyped, else for all of them."""
    from kcli.error_codes import ErrorCode
    from kcli.errors import BrokerError, KcliError

    for topic in bad:
        if topic.error not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return BrokerError(topic.error, topic=topic.name)
    try:
        names = client.topics_metadata(None, deadline_ms).topics
    except KcliError:
        names = {}
    there = [name for name, topic in names.items() if not topic.error]
    return BrokerError(bad[0].error, ", ".join(f"there is no topic {t.name}{_nearest(t.name, there)}" for t in bad))


def _nearest(name: str, names: Iterable[str]) -> str:
    """` (did you mean a or b?)` for the existing names that look like `name`."""
    from difflib import get_close_matches

    lowered = {other.lower(): other for other in names if other != name}
    close = [lowered[near] for near in get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    return f" (did you mean {' or '.join(close)}?)" if close else ""
