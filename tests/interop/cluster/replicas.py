"""The replicas of a topic as files: their bytes, records, high watermarks, and what Apache's dump tool says of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.broker.log.logs import iter_records, whole_batches
from tests.interop.cluster.nodes import MixedCluster
from tests.interop.cluster.writers import Acked, Writer

PAYLOAD = re.compile(r"\| offset: (\d+) .* payload: (.*)$")


def log_bytes(folder: Path) -> bytes:
    """Return the segments of a partition, one after the other: replicas may roll them at different offsets."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def high_watermark(data: Path, topic: str, partition: int) -> int | None:
    """Return the high watermark in a broker's checkpoint file."""
    rows = (data / "replication-offset-checkpoint").read_text().splitlines()[2:]
    found = {(name, int(number)): int(offset) for name, number, offset in (row.rsplit(" ", 2) for row in rows)}
    return found.get((topic, partition))


def records_of(data: bytes) -> dict[int, bytes]:
    """Return the values by offset."""
    return {one.offset: one.value or b"" for batch in whole_batches(data) for one in iter_records(batch.records)}


def check_replicas(cluster: MixedCluster, topic: str, writers: Sequence[Writer], *, dump: bool = True) -> None:
    """Check all replicas while nothing is written: equal bytes, valid to Apache's tool, each acknowledged record once.

    No producer has begun a new epoch: it does that when a broker does not know its last sequence number. The high
    watermark of each replica is the end of its log. Without `dump`, Apache's tool is not run.
    """
    for writer in writers:
        writer.pause()
    try:
        acked = [one for writer in writers for one in writer.acked]
        for number, folders in await_equal_replicas(cluster, topic).items():
            content = log_bytes(next(iter(folders.values())))
            records = records_of(content)
            assert [*records] == [*range(len(records))]
            _check_account(content, [one for one in acked if one.partition == number])
            for folder in folders.values() if dump else ():
                assert _dumped(cluster, folder) == {offset: value.decode() for offset, value in records.items()}
    finally:
        for writer in writers:
            writer.resume()
    assert not [reason for writer in writers for reason in writer.failed]


def await_equal_replicas(cluster: MixedCluster, topic: str) -> dict[int, dict[int, Path]]:
    """Wait until all replicas have the same bytes and high watermarks; return their folders by partition and node."""
    cluster.until_in_sync(topic)
    found = {}
    for number, state in cluster.partitions(topic).items():
        folders = {node: cluster.nodes[node].data / f"{topic}-{number}" for node in state.replicas}
        is_settled = partial(_is_settled, cluster, topic, number, folders)
        cluster.until(is_settled, f"{topic}-{number} is equal on all replicas", 20)
        found[number] = folders
    return found


def _is_settled(cluster: MixedCluster, topic: str, number: int, folders: dict[int, Path]) -> bool:
    contents = {log_bytes(folder) for folder in folders.values()}
    if len(contents) != 1:
        return False
    end = max(records_of(contents.pop()), default=-1) + 1
    return all(high_watermark(cluster.nodes[node].data, topic, number) == end for node in folders)


def _check_account(content: bytes, acked: list[Acked]) -> None:
    records = records_of(content)
    values = set(records.values())
    lost = [one for one in acked if one.value not in values or (one.offset and records.get(one.offset) != one.value)]
    assert not lost, f"{len(lost)} acknowledged records are lost, the first is {lost[0]}"
    doubled = [value for value, count in Counter(records.values()).items() if count > 1]
    assert not doubled, (
        f"{len(doubled)} records are doubled, the first is {doubled[0]!r}: {_found(content, doubled[0])}"
    )
    later = [
        f"producer {one.producer_id} at {one.base_offset}" for one in whole_batches(content) if one.producer_epoch > 0
    ]
    assert not later, f"{len(later)} batches have a new producer epoch, the first is of {later[0]}"


def _found(content: bytes, value: bytes) -> list[str]:
    """Return the batches that have a record with this value: which producer wrote it, and in which leader epoch."""
    return [
        f"offset {one.base_offset} leader epoch {one.leader_epoch} producer {one.producer_id} "
        f"epoch {one.producer_epoch} sequence {one.base_sequence}"
        for one in whole_batches(content)
        if any(record.value == value for record in iter_records(one.records))
    ]


def _dumped(cluster: MixedCluster, folder: Path) -> dict[int, str]:
    """Return the values by offset that Apache's dump tool prints; it must find every batch valid."""
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    output = cluster.tool("DumpLogSegments", "--files", files, "--deep-iteration", "--print-data-log").stdout
    assert "isvalid: false" not in output
    found = (PAYLOAD.search(line) for line in output.splitlines())
    return {int(match[1]): match[2] for match in found if match}
