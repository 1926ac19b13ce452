"""What all groups have committed at one moment: to be kept as a file for offsets commands, and compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError, NotFound, Refused
from kcli.spark.pipelines.result import Result
from kcli.spark.pipelines.source import check_named, is_meant, load
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
_MEANT = "is_meant"

Entry = tuple[str, TopicPartition]


class Snapshot(NamedTuple):
    """`rows`: a dict of `LAG_COLUMNS` for each partition that a group has committed, sorted; `groups`: a row of
    `GROUP_COLUMNS` for each group that has: `lag` is a sum without the partitions whose lag is `unknown`. `left_out`:
    what is committed, or gone, and for which `where` does not hold.
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
    """Read the offsets of these groups, None: of all but share groups, which commit none; of `source.topics`, none: of
    all. Whole or an error, since what is missing in a snapshot would be believed not to be committed.

    `old` is what the snapshot will be compared with: `where` is then about what is gone since, too, as rows in which
    all but the place is null. NotFound for a group or topic that is named and not there, nor in `old`.
    """
    named = {} if groups is None else {"groups": ",".join(groups)}
    everywhere = source._replace(topics={}, start={}, until={}, where=None, more={**source.more, **named})
    told = load(spark, everywhere, "groups", ["group", "type", "state", "members", "error"]).collect()
    lags = _judged(load(spark, everywhere, "lag", LAG_COLUMNS), source.where).collect()
    found = snapshot_of(
        [row.asDict() for row in told], [row.asDict() for row in lags], source.topics, groups is not None
    )
    known = {*found.committed, *found.left_out}
    before = {} if old is None else offsets_before(old, source.topics, groups)
    check_named(spark, source, {(tp.topic, tp.partition) for _, tp in (*known, *before)})
    gone = sorted(before.keys() - known)
    if source.where is None or not gone:
        return found
    rows = [(group, *tp, *[None] * (len(LAG_COLUMNS) - 3)) for group, tp in gone]
    frame = spark.createDataFrame(
        rows, ", ".join(f"`{name}` {kind}" for name, kind in LAG.columns if name in LAG_COLUMNS)
    )
    judged = (row.asDict() for row in _judged(frame, source.where).collect())
    return found._replace(left_out=found.left_out | {_entry(row) for row in judged if not row[_MEANT]})


def _judged(frame: DataFrame, where: str | None) -> DataFrame:
    """The rows with one column more: whether `where` holds."""
    from pyspark.sql import functions as f

    return frame.withColumn(_MEANT, f.lit(True) if where is None else f.coalesce(f.expr(where), f.lit(False)))


def snapshot_of(
    groups: Sequence[dict[str, Any]], lags: Sequence[dict[str, Any]], topics: Topics, are_named: bool
) -> Snapshot:
    """Out of rows of the views `groups` and `lag`, the latter judged. Pure.

    KcliError where a group, or an offset that is committed for these topics, cannot be read. What else may be wrong
    with a partition only makes its lag unknown.
    """
    shares = {row["group"] for row in groups if row["type"] == "share"}
    if are_named and shares:
        raise Refused(f"{', '.join(sorted(shares))}: a share group has no committed offsets")
    lags = [row for row in lags if row["group"] not in shares]
    meant = [row for row in lags if row["topic"] is None or is_meant(row["topic"], row["partition"], topics)]
    for row in (*groups, *filter(_is_unread, meant)):
        if row["error"] is not None:
            kind = NotFound if row["error"].startswith("GROUP_ID_NOT_FOUND") else KcliError
            raise kind(f"not all offsets can be read: {row['error']}")
    committed = [row for row in meant if row["committed"] is not None]
    rows = sorted(({name: row[name] for name in LAG_COLUMNS} for row in committed if row[_MEANT]), key=_entry)
    left_out = frozenset(_entry(row) for row in committed if not row[_MEANT])
    return Snapshot(rows, _by_group(rows, {row["group"]: row for row in groups}), left_out)


def _is_unread(row: Mapping[str, Any]) -> bool:
    """Whether a row tells of offsets that cannot be read: of a group, or of a partition. A partition that a member owns
    may tell instead what is wrong with its log.
    """
    return row["topic"] is None or (row["committed"] is None and "api=OffsetFetch" in (row["error"] or ""))


def _entry(row: Mapping[str, Any]) -> Entry:
    return row["group"], TopicPartition(row["topic"], row["partition"])


def _by_group(rows: Sequence[dict[str, Any]], groups: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = groups.get(row["group"], {})
        first = {name: known.get(name) for name in GROUP_COLUMNS} | {"group": row["group"]}
        first |= {"partitions": 0, "lag": 0, "unknown": 0}
        item = found.setdefault(row["group"], first)
        item["partitions"] += 1
        item["lag"] += row["lag"] or 0
        item["unknown"] += row["lag"] is None
    return list(found.values())


def positions_of(snapshot: Snapshot, cluster_id: str | None, made_ms: int) -> Positions:
    """As files have them: see kcli.admin.offsets.plan_files."""
    from kcli.admin.offsets.plan_files import Positions

    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        entry: OffsetAndMetadata(row["committed"], _epoch(row["committed_epoch"]), row["metadata"] or "")
        for entry, row in snapshot.committed.items()
    }
    return Positions(offsets, True, cluster_id, made_ms)


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def shown(snapshot: Snapshot) -> Result:
    """A row for each partition."""
    return Result(COLUMNS, snapshot.rows)


def offsets_before(old: Positions, topics: Topics, groups: Sequence[str] | None) -> dict[Entry, int]:
    """The old snapshot's, of these topics and groups."""
    return {
        (group, tp): at.offset
        for (group, tp), at in old.offsets.items()
        if group is not None and (groups is None or group in groups) and is_meant(*tp, topics)
    }


def difference(old: Positions, now: Snapshot, now_ms: int, topics: Topics, groups: Sequence[str] | None) -> Result:
    """What became of each position of the old snapshot, and those that are new, of these topics and groups. Pure. What
    `now` has left out is in neither.

    `moved` is how many offsets, below 0 when it went back; `per_s` that over the time between the two, where the old
    one says when it was made.
    """
    before = offsets_before(old, topics, groups)
    for entry in now.left_out:
        before.pop(entry, None)
    rows = now.committed
    seconds = (now_ms - old.made_ms) / 1000 if 0 < old.made_ms < now_ms else None
    return Result(DIFF_COLUMNS, [_changed(it, before.get(it), rows.get(it), seconds) for it in sorted(before | rows)])


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
