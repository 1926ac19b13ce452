"""Output of a dry run: the offset ranges of a survey, with tasks, losses and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.cli.output.report import Item
    from kcli.cli.spark.options import Job
    from kcli.spark.pipelines.survey import Survey


COLUMNS = ["topic", "partition", "start", "end", "records_at_most", "tasks"]


def show_survey(job: Job, result: Survey, more: Mapping[str, str] | None = None) -> int:
    """Print ranges on standard output, tasks and options on standard error. `more`: further options of the command."""
    from kcli.cli import exit_status
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    print_report(job.env, Report("spark.dry-run", COLUMNS, range_items(result)), job.output)
    if job.output in (None, "table"):
        for line in survey_lines(result, more or {}):
            job.env.report(line)
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
    from kcli.client.config import is_secret_property, may_be_shown

    name = key.removeprefix("kafka.")
    may = not is_secret_property(key) if name == key else may_be_shown(name, value)
    return value if may else "[hidden]"
