"""What a Produce may append: each rule of Kafka's, and offsets assigned in place."""

from __future__ import annotations

from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.config import LogConfig
from kcli.errors import BrokerError


class RecordsRefused(BrokerError):
    """A batch that is not appended. `record_errors`: (index in the batch, why) of single records at fault."""

    record_errors: tuple[tuple[int, str], ...] = ()


def validate_and_assign(
    records: memoryview,
    *,
    base_offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_wall_ms: int,
    from_client: bool = True,
) -> BatchInfo:
    """Check the bytes of one partition of a Produce and give their records offsets from `base_offset` on.

    `records` is patched in place. `BatchInfo.records` is what to append: `records`, or a new buffer when the topic's
    `compression.type` is another one. `RecordsRefused` says why not.
    """
    raise NotImplementedError
