"""How old the first record is that a group has not read, and what keeps that from being the truth. Pure."""

from __future__ import annotations

from kcli.admin.groups.batch_times import RecordTime
from kcli.admin.groups.lag import PartitionLag
from kcli.errors import KcliError

# What `PartitionLag.time_lag_note` is made of, joined by "; ".
CREATE_TIME = "create time"  # the producer's clock wrote it, or whatever the producer set
HOLE = "hole"  # the record at the committed offset is gone, or was none; the time is that of the next one
DELETED = "deleted"  # the committed offset lies below the log's start; the time is that of the first record left
PARTLY_DONE = "partly done"  # a share group has done with some of the records behind its start, perhaps with this one
NOTHING_THERE = "nothing there"  # though there is lag, there is no record: emptied by compaction, or markers only
NO_TIMESTAMP = "no timestamp"  # a record of a time before Kafka's records had one
FUTURE = "from the future"  # the time lies ahead of our clock; the time lag is shown as 0


def time_position(row: PartitionLag) -> int | None:
    """The offset whose record tells the time lag; None where there is no lag, or it is not known."""
    if not row.lag or row.committed is None:
        return None
    return max(row.committed.offset, row.start or 0)


def with_time_lag(row: PartitionLag, found: RecordTime | KcliError | None, wall_ms: float) -> PartitionLag:
    """The row with its time lag at this moment; `found` is the record at `time_position`.

    No lag is no time lag. Where the record's time cannot be had, the row keeps the first error it had.
    """
    if row.lag == 0:
        return row._replace(time_lag_ms=0)
    position = time_position(row)
    if position is None or found is None:
        return row
    if isinstance(found, KcliError):
        return row._replace(error=row.error or found)
    if found.offset < 0 or found.timestamp_ms < 0:
        return row._replace(time_lag_note=NOTHING_THERE if found.offset < 0 else NO_TIMESTAMP)
    age_ms = int(wall_ms) - found.timestamp_ms
    notes = []
    if row.committed is not None and position > row.committed.offset:
        notes.append(DELETED)
    if found.offset > position:
        notes.append(HOLE)
    if row.lag is not None and row.committed is not None and row.lag < (row.end or 0) - row.committed.offset:
        notes.append(PARTLY_DONE)
    if not found.append_time:
        notes.append(CREATE_TIME)
    if age_ms < 0:
        notes.append(FUTURE)
    return row._replace(time_lag_ms=max(0, age_ms), time_lag_note="; ".join(notes) or None)
