"""__consumer_offsets as a log of keyed records: the partition of a group, and appends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.broker.coordinator_log import CoordinatorLog
from kcli.broker.group.group_records import KeyAndValue
from kcli.error_codes import ErrorCode
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.compression import CODEC_IDS
from kcli.protocol.records.record import NewRecords
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log.producer_checks import Verification
    from kcli.broker.replica_manager import ReplicaManager

_NO_PRODUCER = (-1, -1)
_CODECS = {number: name for name, number in CODEC_IDS.items()}


class GroupLog(CoordinatorLog):
    """Appends to __consumer_offsets and reads of it. An append is atomic; the first one creates the topic."""

    def __init__(self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterView) -> None:
        count = config.offsets_topic_num_partitions
        super().__init__(OFFSETS_TOPIC, replica_manager, cluster, default_count=count, content="groups and offsets")
        self._config = config

    def append(
        self,
        group_id: str,
        records: Sequence[KeyAndValue],
        now_wall_ms: int,
        *,
        producer: tuple[int, int] = _NO_PRODUCER,
        verification: Verification | None = None,
    ) -> ErrorCode:
        """Write the records as one batch to the group's partition; NONE once they are in the log.

        `producer`: the id and epoch of the producer in whose transaction they are; `verification`: that transaction's.
        """
        codec = _CODECS[self._config.offsets_topic_compression_codec]
        columns = NewRecords([value for _, value in records], now_wall_ms, [key for key, _ in records])
        id, epoch = producer
        # Kafka's coordinator sets base sequence 0 in all its batches, with and without a producer id.
        batch = build_batch(
            columns, compression=codec, producer_id=id, producer_epoch=epoch, base_sequence=0, transactional=id >= 0
        )
        return self.append_batch(group_id, batch, now_wall_ms, verification)
