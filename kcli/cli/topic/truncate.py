"""`kcli topic truncate`: delete the oldest records of topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.admin.topic_changes.truncation import PlannedTruncation, TruncationPlan
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError
    from kcli.log_place import Place

COLUMNS = ["topic", "status", "partition", "start_offset", "new_start", "end_offset", "records", "unread_by"]
TRUNCATION = Mutation("topic.truncate", COLUMNS, done="truncated")
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

        def apply(_names: list[str]) -> Mapping[str, KcliError]:
            if not plan.changes:
                return {}
            return {str(tp): error for tp, error in apply_truncation(client, plan, common.deadline_ms()).errors.items()}

        rows = [PlanRow(str(row.tp), lambda status, row=row: item(row, status), row.error) for row in plan.rows]  # type: ignore[misc]
        columns = [*COLUMNS, "why"] if cut.kind == "time" else COLUMNS
        return TRUNCATION._replace(columns=columns).run(env, common, rows, apply, execute=execute)


def parse_before(text: str, now_ms: int) -> Place:
    """Return the first record to keep. ConfigError for the log start, before which there is nothing to delete."""
    from kcli.log_place import parse_place_option

    shapes = "end, 100, +100, -100, @TIME"
    place = parse_place_option("--before", text.strip(), now_ms, shapes=shapes)
    if place.kind == "start":
        raise ConfigError(f"--before: '{text}' is not valid: it deletes nothing; use one of {shapes}")
    return place


def _report_loss(env: Environment, plan: TruncationPlan, cut: Place, note: str | None) -> None:
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
    if plan.group_errors:
        others = f" (and {len(plan.group_errors) - 1} more)" if len(plan.group_errors) > 1 else ""
        env.report(f"kcli: note: the offsets of some groups are not known: {plan.group_errors[0]}{others}")
    if note is not None:
        env.report(f"kcli: note: {note}, so they are not compared")


def item(row: PlannedTruncation, status: str) -> Item:
    """Return the row of a partition."""
    unchanged = row.error is None and not row.records
    return {
        "topic": row.tp.topic,
        "status": "unchanged" if unchanged else status,
        "partition": row.tp.partition,
        "start_offset": row.start,
        "new_start": row.start if unchanged else row.before,
        "end_offset": row.end,
        "records": row.records,
        "unread_by": None if row.unread is None else dict(row.unread),
        "why": row.why or None,
    }
