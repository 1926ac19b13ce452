"""`TOPIC:0,1,2` as Apache's group tool reads it. Pure."""

from __future__ import annotations

import re

from kcli.cli.compat.problems import Misused
from kcli.structs import TopicPartition

_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def parse_partitions(text: str) -> list[TopicPartition]:
    """The partitions of a text with a colon, in its order."""
    topic, _, rest = text.partition(":")
    if not topic or not rest or ":" in rest.rstrip(":"):
        raise Misused(f"Invalid topic arg '{text}', expected topic name and partitions")
    numbers = rest.rstrip(":").rstrip(",").split(",")
    for number in numbers:
        if not _NUMBER.fullmatch(number):
            raise Misused(f"Invalid partition '{number}' specified in topic arg '{text}''")
    return [TopicPartition(topic, int(number)) for number in numbers]
