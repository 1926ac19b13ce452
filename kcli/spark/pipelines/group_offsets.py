"""Snapshot of the committed offsets of all groups, to be saved for `kcli offsets` and compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError, NotFound, Refused
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.result import Result
from kcli.spark.pipelines.source import check_topics_exist, is_selected, load
from kcli.spark.views.lag import LAG
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.admin.offsets.plan_files import Positions
    from kcli.spark.pipelines.source import KafkaSource, Topics

LAG_COLUMNS = ["group", "topic", "partition", "committed", "end", "lag", "committed_epoch", "metadata", "error"]
COLUMNS = ["group", "topic", "partition", "committed", "end", "lag"]
GROUP_COLUMNS = ["group", "type", "state", "members", "partitions", "lag", "unknown"]
DIFF_COLUMNS = ["group", "topic", "partition", "change", "old", "new", "moved", "per_s", "lag"]
SAME, FORWARD, BACK, NEW, GONE = "same", "forward", "back", "new", "gone"
_IS_SELECTED = "is_selected"

Entry = tuple[str, TopicPartition]


class Snapshot(NamedTuple):
    """Committed offsets at one moment.

    `rows` has a dict of `LAG_COLUMNS` for each committed partition, sorted. `groups` has a row of `GROUP_COLUMNS` for
    each group; its `lag` is the sum without the partitions of `unknown` lag. `left_out` are committed or deleted
    positions for which `where` is false.
    """

    rows: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    left_out: frozenset[Entry] = frozenset()

    @property
    def committed(self) -> dict[Entry, dict[str, Any]]:
        """The rows by group and partition."""
        return {_entry(row): row for row in self.rows}


def run(
    spark: SparkSession, source: KafkaSource, groups: Sequence[str] | None = None, old: Positions | None = None
) -> Snapshot:
    """Read the committed offsets of these groups and topics; all or an error, because a missing offset would look like
    no commit.

    `groups` None: all except share groups, which commit no offsets. No `source.topics`: all topics. `old` is the
    snapshot to compare with: `where` then applies to its deleted positions as well, as rows with group and partition
    only. NotFound for a named group or topic that neither exists nor is in `old`.
    """
    named = {} if groups is None else {"groups": ",".join(groups)}
    everywhere = source._replace(topics={}, start={}, until={}, where=None, more={**source.more, **named})
    group_rows = load(spark, everywhere, "groups", ["group", "type", "state", "members", "error"]).collect()
    lags = _with_condition(load(spark, everywhere, "lag", LAG_COLUMNS), source.where).collect()
    snapshot = snapshot_of(
        [row.asDict() for row in group_rows], [row.asDict() for row in lags], source.topics, groups is not None
    )
    known = {*snapshot.committed, *snapshot.left_out}
    before = {} if old is None else offsets_before(old, source.topics, groups)
    check_topics_exist(spark, source, {(tp.topic, tp.partition) for _, tp in (*known, *before)})
    gone = sorted(before.keys() - known)
    if source.where is None or not gone:
        return snapshot
    rows = [(group, *tp, *[None] * (len(LAG_COLUMNS) - 3)) for group, tp in gone]
    frame = spark.createDataFrame(
        rows, ", ".join(f"`{name}` {kind}" for name, kind in LAG.columns if name in LAG_COLUMNS)
    )
    judged = (row.asDict() for row in _with_condition(frame, source.where).collect())
    return snapshot._replace(left_out=snapshot.left_out | {_entry(row) for row in judged if not row[_IS_SELECTED]})


def _with_condition(frame: DataFrame, where: str | None) -> DataFrame:
    """Add a column with the value of `where`."""
    return frame.withColumn(_IS_SELECTED, f.lit(True) if where is None else f.coalesce(f.expr(where), f.lit(False)))


def snapshot_of(
    groups: Sequence[dict[str, Any]], lags: Sequence[dict[str, Any]], topics: Topics, are_named: bool
) -> Snapshot:
    """Build a snapshot from rows of the views `groups` and `lag`, the latter with the value of `where`. Pure.

    KcliError if a group, or a committed offset of these topics, cannot be read. Other errors of a partition only make
    its lag unknown.
    """
    shares = {row["group"] for row in groups if row["type"] == "share"}
    if are_named and shares:
        raise Refused(f"{', '.join(sorted(shares))}: a share group has no committed offsets")
    lags = [row for row in lags if row["group"] not in shares]
    selected = [row for row in lags if row["topic"] is None or is_selected(row["topic"], row["partition"], topics)]
    for row in (*groups, *filter(_has_unknown_offset, selected)):
        if row["error"] is not None:
            kind = NotFound if row["error"].startswith("GROUP_ID_NOT_FOUND") else KcliError
            raise kind(f"cannot read all offsets: {row['error']}")
    committed = [row for row in selected if row["committed"] is not None]
    rows = sorted(({name: row[name] for name in LAG_COLUMNS} for row in committed if row[_IS_SELECTED]), key=_entry)
    left_out = frozenset(_entry(row) for row in committed if not row[_IS_SELECTED])
    return Snapshot(rows, _by_group(rows, {row["group"]: row for row in groups}), left_out)


def _has_unknown_offset(row: Mapping[str, Any]) -> bool:
    """Return whether the row's error means that committed offsets are unknown, rather than the log of an owned
    partition.
    """
    return row["topic"] is None or (row["committed"] is None and "request OffsetFetch" in (row["error"] or ""))


def _entry(row: Mapping[str, Any]) -> Entry:
    return row["group"], TopicPartition(row["topic"], row["partition"])


def _by_group(rows: Sequence[dict[str, Any]], groups: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    by_group: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = groups.get(row["group"], {})
        first = {name: known.get(name) for name in GROUP_COLUMNS} | {"group": row["group"]}
        first |= {"partitions": 0, "lag": 0, "unknown": 0}
        item = by_group.setdefault(row["group"], first)
        item["partitions"] += 1
        item["lag"] += row["lag"] or 0
        item["unknown"] += row["lag"] is None
    return list(by_group.values())


def positions_of(snapshot: Snapshot, cluster_id: str | None, made_ms: int) -> Positions:
    """Return the snapshot in the type of offset files: see kcli.admin.offsets.plan_files."""
    from kcli.admin.offsets.plan_files import Positions

    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        entry: OffsetAndMetadata(row["committed"], _epoch(row["committed_epoch"]), row["metadata"] or "")
        for entry, row in snapshot.committed.items()
    }
    return Positions(offsets, True, cluster_id, made_ms)


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def snapshot_result(snapshot: Snapshot) -> Result:
    """Return a row for each partition."""
    return Result(COLUMNS, snapshot.rows)


def offsets_before(old: Positions, topics: Topics, groups: Sequence[str] | None) -> dict[Entry, int]:
    """Return the offsets of the old snapshot for these topics and groups."""
    return {
        (group, tp): at.offset
        for (group, tp), at in old.offsets.items()
        if group is not None and (groups is None or group in groups) and is_selected(*tp, topics)
    }


def difference(old: Positions, now: Snapshot, now_ms: int, topics: Topics, groups: Sequence[str] | None) -> Result:
    """Compare two snapshots for these topics and groups. Pure.

    Has a row for each position in either, except those that `now` left out. `moved` is the number of offsets, negative
    for backward moves; `per_s` is `moved` over the time between the snapshots, if the old one has a time.
    """
    before = offsets_before(old, topics, groups)
    for entry in now.left_out:
        before.pop(entry, None)
    rows = now.committed
    seconds = (now_ms - old.made_ms) / 1000 if 0 < old.made_ms < now_ms else None
    return Result(
        DIFF_COLUMNS, [_changed(entry, before.get(entry), rows.get(entry), seconds) for entry in sorted(before | rows)]
    )


def _changed(entry: Entry, old: int | None, row: dict[str, Any] | None, seconds: float | None) -> dict[str, Any]:
    group, (topic, partition) = entry
    new = None if row is None else row["committed"]
    moved = None if old is None or new is None else new - old
    if moved is None:
        change = GONE if new is None else NEW
    else:
        change = FORWARD if moved > 0 else BACK if moved < 0 else SAME
    per_s = None if moved is None or seconds is None else moved / seconds
    item = {"group": group, "topic": topic, "partition": partition, "change": change, "old": old, "new": new}
    return {**item, "moved": moved, "per_s": per_s, "lag": None if row is None else row["lag"]}
