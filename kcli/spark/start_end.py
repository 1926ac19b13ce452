"""Where a read starts and ends, as the options say it: the specs, and how they are read from text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcli.spark import offset_json
from kcli.structs import TopicPartition


class Everywhere(NamedTuple):
    """The start (-2) or the end (-1) of every log."""

    offset: int


class Offsets(NamedTuple):
    """An offset for each partition; -2 and -1 as in `Everywhere`."""

    offsets: Mapping[TopicPartition, int]


class Moment(NamedTuple):
    """The first record at or after this time, ms since the epoch, in every partition."""

    ms: int


class Moments(NamedTuple):
    """A time of its own for each partition, ms since the epoch."""

    times: Mapping[TopicPartition, int]


class Ago(NamedTuple):
    """So many ms before the moment of planning."""

    ms: int


class OfGroup(NamedTuple):
    """What a consumer group has committed."""

    group: str


Spec = Everywhere | Offsets | Moment | Moments | Ago | OfGroup

EARLIEST = Everywhere(offset_json.EARLIEST)
LATEST = Everywhere(offset_json.LATEST)


class Start(NamedTuple):
    """`no_match`: what if no record is as young as asked, `error` or `latest`; `uncommitted`: what if the group has
    committed nothing for a partition, `error`, `earliest` or `latest`."""

    at: Spec
    no_match: str = "error"
    uncommitted: str = "error"


class End(NamedTuple):
    """Where a batch ends, exclusive; never the logs' starts."""

    at: Spec = LATEST
