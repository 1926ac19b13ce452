"""What plans do to readers: the first record at each new offset, and the bytes read again or skipped, as estimates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.offsets.plan import Row
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class Preview(NamedTuple):
    """The rows with `first` and `bytes` where they could be had, and why they could not in some partitions."""

    rows: list[Row]
    errors: Mapping[TopicPartition, KcliError]


def preview(client: ConsumerNetworkClient, rows: Iterable[Row], deadline_ms: float) -> Preview:
    """Look at the logs behind these rows: one Fetch and one DescribeLogDirs per leader, a few more for large batches.

    Nothing here keeps a plan from being applied. `first` is None also where the new offset is the end of the log.
    """
    raise NotImplementedError
