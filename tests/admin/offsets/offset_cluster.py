"""A GroupCluster that stores what is committed and forgets what is deleted, and can fail at either."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kcli.admin.groups.group import CLASSIC
from kcli.network.memory import MemoryPeer
from kcli.protocol.messages import offset_commit, offset_delete, offset_fetch
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.admin.groups.group_cluster import FakeGroup, GroupCluster

GROUP_ID_NOT_FOUND, INVALID_COMMIT_OFFSET_SIZE = 69, 28

Committed = dict[TopicPartition, OffsetAndMetadata]


class OffsetCluster(GroupCluster):
    """`stored`: group -> what it has committed; a group is Empty and classic, and coordinated by `nodes_of` or node 1.

    `refusals`: the error code for a partition. `hiccups`: what happens to the next commits or deletions, one each:
    None for nothing, "lost" and "unheard" for a connection that breaks before and after the work is done, or a code
    for the whole. `largest`: the most partitions that a commit may have, else
    the code `too_large`. `pending`: offsets of open transactions.
    """

    def __init__(self, stored: dict[str, Committed], *, state: str = "Empty", kind: str = CLASSIC) -> None:
        groups = {name: FakeGroup(1 + n % 3, state=state, kind=kind) for n, name in enumerate(stored)}
        super().__init__(groups)
        self.stored = stored
        self.refusals: dict[TopicPartition, int] = {}
        self.hiccups: deque[int | str | None] = deque()
        self.largest = 1_000_000
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
        """Requests that were to change something."""
        return self.count(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE)

    def _fetched(self, peer: MemoryPeer, request: Any, _version: int) -> Message:
        groups = []
        for asked in request.groups:
            error = self._error(ApiKey.OFFSET_FETCH, peer, asked.group_id)
            topics = [
                offset_fetch.OffsetFetchResponseTopics(
                    name=tp.topic, partitions=[self._row(tp, it, request.require_stable)]
                )
                for tp, it in self.stored.get(asked.group_id, {}).items()
            ]
            groups.append(
                offset_fetch.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error, topics=topics)
            )
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _row(self, tp: TopicPartition, it: OffsetAndMetadata, stable: bool) -> Any:
        if stable and tp in self.pending:
            return offset_fetch.OffsetFetchResponsePartitions(
                partition_index=tp.partition, committed_offset=-1, error_code=88
            )
        return offset_fetch.OffsetFetchResponsePartitions(
            partition_index=tp.partition,
            committed_offset=it.offset,
            committed_leader_epoch=it.leader_epoch,
            metadata=it.metadata,
        )

    def _commit(self, peer: MemoryPeer, request: Any, _version: int) -> Message | None:
        asked = [(TopicPartition(t.name, p.partition_index), p) for t in request.topics for p in t.partitions]
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")

        def store(tp: TopicPartition, told: Any) -> None:
            offset = OffsetAndMetadata(told.committed_offset, told.committed_leader_epoch, told.committed_metadata)
            self.stored.setdefault(request.group_id, {})[tp] = offset

        codes = self._write(peer, request.group_id, asked, store)
        if codes is None:
            return None
        topics: dict[str, Any] = {}
        for tp, code in codes.items():
            topic = topics.setdefault(tp.topic, offset_commit.OffsetCommitResponseTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(
                offset_commit.OffsetCommitResponsePartition(partition_index=tp.partition, error_code=code)
            )
        return offset_commit.OffsetCommitResponse(topics=list(topics.values()))

    def _delete(self, peer: MemoryPeer, request: Any, _version: int) -> Message | None:
        asked = [(TopicPartition(t.name, p.partition_index), p) for t in request.topics for p in t.partitions]
        if request.group_id not in self.stored:
            return offset_delete.OffsetDeleteResponse(error_code=GROUP_ID_NOT_FOUND)
        codes = self._write(peer, request.group_id, asked, lambda tp, _: self.stored[request.group_id].pop(tp, None))
        if not self.stored[request.group_id]:
            del self.stored[request.group_id]
        if codes is None:
            return None
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
    ) -> dict[TopicPartition, int] | None:
        self.before_write()
        hiccup = self.hiccups.popleft() if self.hiccups else None
        whole = self._error(ApiKey.OFFSET_COMMIT, peer, group) or (hiccup if isinstance(hiccup, int) else 0)
        if len(asked) > self.largest:
            whole = self.too_large
        codes = {tp: whole or self.refusals.get(tp, 0) for tp, _ in asked}
        if hiccup != "lost":
            for tp, told in asked:
                if not codes[tp]:
                    store(tp, told)
        if hiccup in ("lost", "unheard"):
            peer.reset()
            return None
        return codes
