"""What all groups have committed at one moment: to be kept as a file for offsets commands, and compared later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import KcliError, Refused
from kcli.spark.pipelines.result import Result
from kcli.spark.pipelines.source import is_meant, load
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

Entry = tuple[str, TopicPartition]


class Snapshot(NamedTuple):
    """`rows`: a dict of `LAG_COLUMNS` for each partition that a group has committed, sorted; `groups`: a row of
    `GROUP_COLUMNS` for each group that has: `lag` is a sum without the partitions whose lag is `unknown`."""

    rows: list[dict[str, Any]]
    groups: list[dict[str, Any]]

    @property
    def committed(self) -> dict[Entry, dict[str, Any]]:
        """The rows by group and partition."""
        return {(row["group"], TopicPartition(row["topic"], row["partition"])): row for row in self.rows}


def run(spark: SparkSession, source: KafkaSource, groups: Sequence[str] | None = None) -> Snapshot:
    """Read the offsets of these groups, None: of all but share groups, which commit none; of `source.topics`, none: of
    all. Whole or an error, since what is missing in a snapshot would be believed not to be committed."""
    named = {} if groups is None else {"groups": ",".join(groups)}
    everywhere = source._replace(topics={}, start={}, until={}, where=None, more={**source.more, **named})
    told = load(spark, everywhere, "groups", ["group", "type", "state", "members", "error"]).collect()
    shares = {row["group"] for row in told if row["type"] == "share"}
    if groups is not None and shares:
        raise Refused(f"{', '.join(sorted(shares))}: a share group has no committed offsets")
    lags = _meant(load(spark, everywhere, "lag", LAG_COLUMNS), source.where).collect()
    for error in [row["error"] for row in told] + [row["error"] for row in lags if row["committed"] is None]:
        if error is not None:
            raise KcliError(f"not all offsets can be read: {error}")
    rows = [row.asDict() for row in lags if row["committed"] is not None and row["group"] not in shares]
    rows = [row for row in rows if is_meant(row["topic"], row["partition"], source.topics)]
    rows.sort(key=lambda row: (row["group"], row["topic"], row["partition"]))
    return Snapshot(rows, _by_group(rows, {row["group"]: row.asDict() for row in told}))


def _meant(frame: DataFrame, where: str | None) -> DataFrame:
    """Rows for which `where` holds, and those that tell of an error."""
    from pyspark.sql import functions as f

    if where is None:
        return frame
    return frame.where(f.coalesce(f.expr(where), f.lit(False)) | (f.col("topic").isNull() & f.col("error").isNotNull()))


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


def difference(old: Positions, now: Snapshot, now_ms: int, topics: Topics, groups: Sequence[str] | None) -> Result:
    """What became of each position of the old snapshot, and those that are new, of these topics and groups. Pure.

    `moved` is how many offsets, below 0 when it went back; `per_s` that over the time between the two, where the old
    one says when it was made.
    """
    before: dict[Entry, int] = {
        (group, tp): at.offset
        for (group, tp), at in old.offsets.items()
        if group is not None and (groups is None or group in groups) and is_meant(*tp, topics)
    }
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
    per_s = None if moved is None or seconds is None else round(moved / seconds, 3)
    item = {"group": group, "topic": topic, "partition": partition, "change": change, "old": old, "new": new}
    return {**item, "moved": moved, "per_s": per_s, "lag": None if row is None else row["lag"]}
