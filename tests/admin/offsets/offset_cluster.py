"""A GroupCluster that stores and deletes committed offsets, with faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kcli.admin.groups.group import CLASSIC
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import offset_commit, offset_delete, offset_fetch
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.admin.groups.group_cluster import FakeGroup, GroupCluster
from tests.network.memory import MemoryPeer

GROUP_ID_NOT_FOUND, INVALID_COMMIT_OFFSET_SIZE = 69, 28

Committed = dict[TopicPartition, OffsetAndMetadata]


class OffsetCluster(GroupCluster):
    """`stored`: the committed offsets of each group; by default groups are Empty and classic.

    `refusals`: an error code by partition. `faults`: one for each of the next commits or deletions, then `last_fault`:
    None, an error code for the whole request, "lost" (the connection breaks before the offsets are stored), or, after
    they are stored, "unanswered" (the connection breaks), "silent" (it stays open, and there is no response), "garbage"
    (the response is malformed). A commit of more than `max_partitions` gets the error code `too_large`. `pending`:
    partitions with an offset in an open transaction.
    """

    def __init__(self, stored: dict[str, Committed], *, state: str = "Empty", kind: str = CLASSIC) -> None:
        groups = {name: FakeGroup(1 + n % 3, state=state, kind=kind) for n, name in enumerate(stored)}
        super().__init__(groups)
        self.stored = stored
        self.refusals: dict[TopicPartition, int] = {}
        self.faults: deque[int | str | None] = deque()
        self.last_fault: int | str | None = None
        self.max_partitions = 1_000_000
        self.too_large = INVALID_COMMIT_OFFSET_SIZE
        self.pending: set[TopicPartition] = set()
        self.before_write: Callable[[], None] = lambda: None
        self.answers |= {
            ApiKey.OFFSET_FETCH: self._fetched,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_DELETE: self._delete,
        }

    @property
    def writes(self) -> int:
        """Number of requests that change offsets."""
        return self.count(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE)

    def _fetched(self, peer: MemoryPeer, request: Any, _version: int) -> Message:
        groups = []
        for asked in request.groups:
            error = self._error(ApiKey.OFFSET_FETCH, peer, asked.group_id)
            topics = [
                offset_fetch.OffsetFetchResponseTopics(
                    name=tp.topic, partitions=[self._row(tp, committed, request.require_stable)]
                )
                for tp, committed in self.stored.get(asked.group_id, {}).items()
            ]
            groups.append(
                offset_fetch.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error, topics=topics)
            )
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _row(self, tp: TopicPartition, committed: OffsetAndMetadata, stable: bool) -> Any:
        if stable and tp in self.pending:
            return offset_fetch.OffsetFetchResponsePartitions(
                partition_index=tp.partition, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
            )
        return offset_fetch.OffsetFetchResponsePartitions(
            partition_index=tp.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    def _commit(self, peer: MemoryPeer, request: Any, _version: int) -> Message | bytes | None:
        asked = [(TopicPartition(t.name, p.partition_index), p) for t in request.topics for p in t.partitions]
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")

        def store(tp: TopicPartition, partition: Any) -> None:
            offset = OffsetAndMetadata(
                partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata
            )
            self.stored.setdefault(request.group_id, {})[tp] = offset

        codes = self._write(peer, request.group_id, asked, store)
        if not isinstance(codes, dict):
            return codes
        topics: dict[str, Any] = {}
        for tp, code in codes.items():
            topic = topics.setdefault(tp.topic, offset_commit.OffsetCommitResponseTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(
                offset_commit.OffsetCommitResponsePartition(partition_index=tp.partition, error_code=code)
            )
        return offset_commit.OffsetCommitResponse(topics=list(topics.values()))

    def _delete(self, peer: MemoryPeer, request: Any, _version: int) -> Message | bytes | None:
        asked = [(TopicPartition(t.name, p.partition_index), p) for t in request.topics for p in t.partitions]
        if request.group_id not in self.stored:
            return offset_delete.OffsetDeleteResponse(error_code=GROUP_ID_NOT_FOUND)
        codes = self._write(peer, request.group_id, asked, lambda tp, _: self.stored[request.group_id].pop(tp, None))
        if not self.stored[request.group_id]:
            del self.stored[request.group_id]
        if not isinstance(codes, dict):
            return codes
        partition = offset_delete.OffsetDeleteResponsePartition
        return offset_delete.OffsetDeleteResponse(
            topics=[
                offset_delete.OffsetDeleteResponseTopic(
                    name=tp.topic, partitions=[partition(partition_index=tp.partition, error_code=code)]
                )
                for tp, code in codes.items()
            ]
        )

    def _write(
        self, peer: MemoryPeer, group: str, asked: list[tuple[TopicPartition, Any]], store: Callable[..., object]
    ) -> dict[TopicPartition, int] | bytes | None:
        self.before_write()
        fault = self.faults.popleft() if self.faults else self.last_fault
        request_code = self._error(ApiKey.OFFSET_COMMIT, peer, group) or (fault if isinstance(fault, int) else 0)
        if len(asked) > self.max_partitions:
            request_code = self.too_large
        codes = {tp: request_code or self.refusals.get(tp, 0) for tp, _ in asked}
        if fault != "lost":
            for tp, partition in asked:
                if not codes[tp]:
                    store(tp, partition)
        if fault in ("lost", "unanswered"):
            peer.reset()
            return None
        if fault == "garbage":
            return bytes(7)
        return None if fault == "silent" else codes
