"""Survey of a read, from brokers and the schema registry only: offset ranges, tasks, maximum number of records.

Without JVM and PySpark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.batch_plan import plan_batch
from kcli.spark.broker_lookup import Lookup
from kcli.spark.decoding.decode_plan import plan_decodings
from kcli.spark.options import parse_options
from kcli.spark.start_end import with_resolved_times
from kcli.spark.stream_plan import StreamPlanner
from kcli.spark.views.registry import VIEWS

if TYPE_CHECKING:
    from kcli.spark.batch_plan import OffsetMap, Plan
    from kcli.spark.options import SourceOptions
    from kcli.spark.pipelines.source import KafkaSource


class Survey(NamedTuple):
    """The plan, None for a view without ranges, and the source's options, with the times that they mean."""

    plan: Plan | None
    options: Mapping[str, str]

    @property
    def records(self) -> int:
        """The maximum number of records."""
        return 0 if self.plan is None else sum(task.size for task in self.plan.ranges)


def survey(
    source: KafkaSource,
    view: str = "records",
    columns: Sequence[str] | None = None,
    *,
    stream: bool = False,
    resumed: OffsetMap | None = None,
) -> Survey:
    """Plan a read as a batch does, or a stream: a new one, or one that continues at the offsets `resumed`.

    ConfigError, also for a schema that is missing or not valid; NotFound for a missing topic or subject; RegistryError.
    """
    source_options = source.options(view, columns, stream=stream)
    options = plan_decodings(parse_options(source_options, stream=stream))
    known = VIEWS.get(view)
    if known is not None and not known.ranged:
        return Survey(None, source_options)
    with Lookup(options) as lookup:
        plan = _plan_stream(options, lookup, resumed) if stream else plan_batch(options, lookup)
        return Survey(plan, with_resolved_times(source_options, lookup.now_ms()))


def _plan_stream(options: SourceOptions, lookup: Lookup, resumed: OffsetMap | None) -> Plan:
    """Plan from the start of a query to the present ends. The first batch of a new query is empty, so plan twice."""
    planner = StreamPlanner(options, lookup)
    start = planner.initial() if resumed is None else resumed
    planner.latest(start, None, lookup.now_ms())
    return planner.plan(start, planner.latest(start, None, lookup.now_ms()).end)
