"""`kcli topic truncate`: delete the oldest records of topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute, View, run_plan
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.plan import Plan
    from kcli.admin.topic_changes.truncation import Truncation
    from kcli.cli.output.report import Item
    from kcli.log_place import Place

COLUMNS = ["topic", "status", "partition", "start_offset", "new_start", "end_offset", "records", "unread_by"]
_FEW = 5  # groups in the line on stderr


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC[:P,P..]...", help="Topics, with partitions or all.")],
    before: Annotated[
        str | None,
        Option("--before", metavar="PLACE", help="Delete the records before this: end, 100, +100, -100, @TIME or -1h."),
    ] = None,
    allow_future: Annotated[
        bool, Option("--allow-future", help="Accept a @TIME after now, before which all present records may be.")
    ] = False,
    execute: Execute = False,
) -> int:
    """Delete the records of topics before an offset or a time. They cannot be restored.

    Without --execute the command only shows the plan: what each partition would lose (RECORDS counts offsets, an upper
    bound), and the groups that have not read all of it (UNREAD-BY, with the number of unread records). A line on stderr
    sums up, and says if the offsets of some groups are not known.

    PLACE is the first record to keep, as in `kcli consume topic`: `end` keeps none of the present ones, `100` is an
    offset, `+100` deletes the first hundred of each partition, `-100` keeps the last hundred, and `@TIME` keeps the
    records from the first one at or after that time, such as @-7d or 2024-01-31. The plan then has the time in UTC,
    and WHY says where it is in each log. A time after now is refused without --allow-future. Records that are written
    after the plan are kept. Brokers refuse internal topics and topics whose cleanup.policy lacks delete: such rows have
    an error, and nothing is deleted (status 4).
    """
    from kcli.admin.topic_changes.truncation import apply_truncation, plan_truncation
    from kcli.denials import not_listed
    from kcli.text import parse_topics

    if before is None:
        raise ConfigError("give --before, such as --before end or --before @-7d")
    cut = parse_before(before, env.clock.wall_ms())
    wanted = parse_topics(topic)
    with closing(common.connect()) as client:
        plan = plan_truncation(client, wanted, cut, common.deadline_ms(), allow_future=allow_future)
        _report_loss(env, plan, cut, not_listed("groups", client.principal))

        return run_plan(
            env,
            common,
            plan,
            View("topic.truncate", [*COLUMNS, "why"] if cut.kind == "time" else COLUMNS, "truncated", item),
            lambda _: plan.outcome(apply_truncation(client, plan, common.deadline_ms()).errors),
            execute=execute,
        )


def parse_before(text: str, now_ms: int) -> Place:
    """Return the first record to keep. ConfigError for the log start, before which there is nothing to delete."""
    from kcli.log_place import parse_place_option

    shapes = "end, 100, +100, -100, @TIME"
    place = parse_place_option("--before", text.strip(), now_ms, shapes=shapes)
    if place.kind == "start":
        raise ConfigError(f"--before: '{text}' is not valid: it deletes nothing; use one of {shapes}")
    return place


def _report_loss(env: Environment, plan: Plan[Truncation], cut: Place, note: str | None) -> None:
    """Report the number of records to delete, the groups that have not read them, and what is not known of groups."""
    from kcli.text import format_count, format_time

    records = sum(row.records or 0 for row in plan.rows if row.error is None)
    unread: dict[str, int] = {}
    for row in plan.rows:
        for group, count in (row.unread or {}).items():
            unread[group] = unread.get(group, 0) + count
    named = ", ".join(f"{group} ({count:,})" for group, count in list(unread.items())[:_FEW])
    more = f" and {len(unread) - _FEW} more" if len(unread) > _FEW else ""
    text = f"before {format_time(cut.n)}: " if cut.kind == "time" else ""
    text += f"{format_count(records, 'record')} of {format_count(len(plan.changes), 'partition')} to delete"
    env.report(text + (f"; not read by: {named}{more}" if unread else ""))
    if plan.unknown:
        others = f" (and {len(plan.unknown) - 1} more)" if len(plan.unknown) > 1 else ""
        env.report(f"kcli: note: the offsets of some groups are not known: {plan.unknown[0]}{others}")
    if note is not None:
        env.report(f"kcli: note: {note}, so they are not compared")


def item(row: Truncation, status: str) -> Item:
    """Return the row of a partition."""
    return {
        "topic": row.tp.topic,
        "status": status,
        "partition": row.tp.partition,
        "start_offset": row.old,
        "new_start": row.old if row.action == "keep" else row.new,
        "end_offset": row.end,
        "records": row.records,
        "unread_by": None if row.unread is None else dict(row.unread),
        "why": row.why or None,
    }
