"""The views beside `records`: what each is called, its columns, and who reads it.

`read` yields pyarrow RecordBatches with exactly `columns`, in their order; options name fewer by `columns`, then it
yields those, as named. Nothing of pyarrow is imported before the first batch is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow

    from kcli.spark.options import SourceOptions
    from kcli.spark.plan import TaskRange


class View(NamedTuple):
    """A view. `columns` are (name, type as Spark SQL writes it), all nullable.

    `ranged`: read by offset ranges of partitions, as records are, each range in a task; `topics` names the topics then
    if the options cannot (`commits` reads one topic only). Other views are one task, and their range is None.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    ranged: bool
    read: Callable[[SourceOptions, TaskRange | None], Iterator[pyarrow.RecordBatch]]
    topics: tuple[str, ...] | None = None


def _batches(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.batches import read

    return read(options, task)


def _gaps(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.gaps import read

    return read(options, task)


def _offsets(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.offsets import read

    return read(options)


def _groups(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.groups import read

    return read(options)


def _members(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.members import read

    return read(options)


def _lag(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.lag import read

    return read(options)


def _commits(options: SourceOptions, task: TaskRange | None) -> Iterator[pyarrow.RecordBatch]:
    from kcli.spark.views.commits import read

    return read(options, task)


_PLACE = (("topic", "string"), ("partition", "int"))

BATCHES = View(
    "batches",
    (
        *_PLACE,
        ("base_offset", "bigint"),
        ("last_offset", "bigint"),
        ("count", "int"),
        ("bytes", "int"),
        ("compression", "string"),
        ("producer_id", "bigint"),
        ("producer_epoch", "int"),
        ("base_sequence", "int"),
        ("first_timestamp", "timestamp"),
        ("max_timestamp", "timestamp"),
        ("timestamp_type", "int"),
        ("is_transactional", "boolean"),
        ("is_control", "boolean"),
        ("is_aborted", "boolean"),
        ("leader_epoch", "int"),
        ("magic", "int"),
    ),
    True,
    _batches,
)

GAPS = View(
    "gaps",
    (
        *_PLACE,
        ("first_offset", "bigint"),
        ("last_offset", "bigint"),
        ("offsets", "bigint"),
        ("kind", "string"),
    ),
    True,
    _gaps,
)

OFFSETS = View(
    "offsets",
    (
        *_PLACE,
        ("earliest", "bigint"),
        ("latest", "bigint"),
        ("last_stable_offset", "bigint"),
        ("leader", "int"),
        ("leader_epoch", "int"),
        ("replicas", "array<int>"),
        ("isr", "array<int>"),
        ("error", "string"),
    ),
    False,
    _offsets,
)

GROUPS = View(
    "groups",
    (
        ("group", "string"),
        ("type", "string"),
        ("state", "string"),
        ("protocol_type", "string"),
        ("assignor", "string"),
        ("epoch", "int"),
        ("target_epoch", "int"),
        ("members", "int"),
        ("coordinator", "int"),
        ("coordinator_host", "string"),
        ("coordinator_port", "int"),
        ("error", "string"),
    ),
    False,
    _groups,
)

_OWNER = (
    ("member", "string"),
    ("instance_id", "string"),
    ("client_id", "string"),
    ("host", "string"),
    ("rack", "string"),
)
_PARTITIONS = "array<struct<topic:string,partition:int>>"

MEMBERS = View(
    "members",
    (
        ("group", "string"),
        *_OWNER,
        ("member_type", "string"),
        ("epoch", "int"),
        ("subscribed", "array<string>"),
        ("pattern", "string"),
        ("assignment", _PARTITIONS),
        ("target", _PARTITIONS),
        ("error", "string"),
    ),
    False,
    _members,
)

LAG = View(
    "lag",
    (
        ("group", "string"),
        *_PLACE,
        ("committed", "bigint"),
        ("start", "bigint"),
        ("end", "bigint"),
        ("lag", "bigint"),
        ("committed_epoch", "int"),
        ("metadata", "string"),
        *_OWNER,
        ("error", "string"),
    ),
    False,
    _lag,
)

COMMITS = View(
    "commits",
    (
        ("group", "string"),
        *_PLACE,
        ("offset", "bigint"),
        ("leader_epoch", "int"),
        ("metadata", "string"),
        ("commit_timestamp", "timestamp"),
        ("expire_timestamp", "timestamp"),
        ("is_tombstone", "boolean"),
        ("log_partition", "int"),
        ("log_offset", "bigint"),
        ("log_timestamp", "timestamp"),
    ),
    True,
    _commits,
    ("__consumer_offsets",),
)

VIEWS = {view.name: view for view in (BATCHES, GAPS, OFFSETS, GROUPS, MEMBERS, LAG, COMMITS)}
