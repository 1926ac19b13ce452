"""What a command would read, told by brokers alone: ranges, tasks, how many records at most. No JVM, no PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.cli.spark.options import Job
    from kcli.spark.batch_plan import OffsetMap, Plan
    from kcli.spark.lookup import Lookup
    from kcli.spark.options import SourceOptions
    from kcli.spark.pipelines.source import KafkaSource


class Survey(NamedTuple):
    """The plan, None for a view that has no ranges, and the source's options."""

    plan: Plan | None
    options: Mapping[str, str]

    @property
    def records(self) -> int:
        """The most that there can be."""
        return 0 if self.plan is None else sum(task.size for task in self.plan.ranges)


def survey(
    source: KafkaSource,
    view: str = "records",
    columns: Sequence[str] | None = None,
    *,
    stream: bool = False,
    resumed: OffsetMap | None = None,
) -> Survey:
    """Look at the topics as a batch does, or a stream: a new one, or one that goes on at the offsets `resumed`.

    ConfigError; NotFound for a topic that is not there.
    """
    from kcli.spark.batch_plan import plan_batch
    from kcli.spark.lookup import Lookup
    from kcli.spark.options import parse_options
    from kcli.spark.views.registry import VIEWS

    given = source.options(view, columns, stream=stream)
    options = parse_options(given, stream=stream)
    known = VIEWS.get(view)
    if known is not None and not known.ranged:
        return Survey(None, given)
    with Lookup(options) as lookup:
        return Survey(_plan_stream(options, lookup, resumed) if stream else plan_batch(options, lookup), given)


def _plan_stream(options: SourceOptions, lookup: Lookup, resumed: OffsetMap | None) -> Plan:
    """From where a query starts to the ends of now. The first batch of a new one is empty on purpose, so ask twice."""
    from kcli.spark.stream_plan import StreamPlanner

    planner = StreamPlanner(options, lookup)
    start = planner.initial() if resumed is None else resumed
    planner.latest(start, None, lookup.now_ms())
    return planner.plan(start, planner.latest(start, None, lookup.now_ms()).end)


COLUMNS = ["topic", "partition", "start", "end", "records_at_most", "tasks"]


def show_survey(job: Job, found: Survey, more: Mapping[str, str] | None = None) -> int:
    """Print ranges on standard output, tasks and options beside them. `more`: what else the command would do."""
    from kcli.cli import exit_status
    from kcli.cli.output.report import Report, show

    show(job.env, Report("spark.dry-run", COLUMNS, range_items(found)), job.output)
    if job.output in (None, "table"):
        for line in words(found, more or {}):
            job.env.say(line)
    return exit_status.DONE


def range_items(found: Survey) -> list[Item]:
    """A row of `COLUMNS` for each partition; none for a view that has no ranges."""
    plan = found.plan
    items: list[Item] = []
    if plan is not None:
        tasks: dict[tuple[str, int], int] = {}
        for task in plan.ranges:
            tasks[task.topic, task.partition] = tasks.get((task.topic, task.partition), 0) + 1
        for tp, start in sorted(plan.starts.items()):
            end = max(start, plan.ends[tp])
            place = {"topic": tp.topic, "partition": tp.partition, "start": start, "end": end}
            items.append({**place, "records_at_most": end - start, "tasks": tasks.get((tp.topic, tp.partition), 0)})
    return items


def words(found: Survey, more: Mapping[str, str]) -> list[str]:
    """How much work it is, what is lost, the options: for people."""
    lines = []
    if found.plan is None:
        lines.append("1 task; this view has no ranges")
    else:
        tasks, records = len(found.plan.ranges), found.records
        lines.append(f"{tasks:,} task{'s' * (tasks != 1)}, at most {records:,} records; nothing was read")
        lines += found.plan.reports
    lines += [f"  {key}={hidden(key, value)}" for key, value in {**found.options, **more}.items()]
    return lines


def hidden(key: str, value: str) -> str:
    """An option's value, unless it may be a secret."""
    from kcli.settings import is_secret

    return "[hidden]" if is_secret(key) else value
