"""Survey of a read, from brokers only: offset ranges, tasks, maximum number of records. Without JVM and PySpark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.cli.spark.options import Job
    from kcli.spark.batch_plan import OffsetMap, Plan
    from kcli.spark.broker_lookup import Lookup
    from kcli.spark.options import SourceOptions
    from kcli.spark.pipelines.source import KafkaSource


class Survey(NamedTuple):
    """The plan, None for a view without ranges, and the source's options."""

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

    ConfigError; NotFound for a missing topic.
    """
    from kcli.spark.batch_plan import plan_batch
    from kcli.spark.broker_lookup import Lookup
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
    """Plan from the start of a query to the present ends. The first batch of a new query is empty, so plan twice."""
    from kcli.spark.stream_plan import StreamPlanner

    planner = StreamPlanner(options, lookup)
    start = planner.initial() if resumed is None else resumed
    planner.latest(start, None, lookup.now_ms())
    return planner.plan(start, planner.latest(start, None, lookup.now_ms()).end)


COLUMNS = ["topic", "partition", "start", "end", "records_at_most", "tasks"]


def show_survey(job: Job, result: Survey, more: Mapping[str, str] | None = None) -> int:
    """Print ranges on standard output, tasks and options on standard error. `more`: further options of the command."""
    from kcli.cli import exit_status
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    print_report(job.env, Report("spark.dry-run", COLUMNS, range_items(result)), job.output)
    if job.output in (None, "table"):
        for line in survey_lines(result, more or {}):
            job.env.say(line)
    return exit_status.DONE


def range_items(result: Survey) -> list[Item]:
    """Return a row of `COLUMNS` for each partition; none for a view without ranges."""
    plan = result.plan
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


def survey_lines(result: Survey, more: Mapping[str, str]) -> list[str]:
    """Return lines about tasks, losses and options."""
    lines = []
    if result.plan is None:
        lines.append("1 task; this view has no offset ranges")
    else:
        tasks, records = len(result.plan.ranges), result.records
        lines.append(f"{tasks:,} task{'s' * (tasks != 1)}, at most {records:,} records; nothing was read")
        lines += result.plan.reports
    lines += [f"  {key}={masked(key, value)}" for key, value in {**result.options, **more}.items()]
    return lines


def masked(key: str, value: str) -> str:
    """Return an option's value, masked if it may be a secret."""
    from kcli.settings import is_secret

    return "[hidden]" if is_secret(key) else value
