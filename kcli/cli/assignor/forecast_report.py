"""Forecasts as the items, rows and summary lines of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.assignments import RATE_WINDOW_MS
from kcli.admin.groups.group import CONSUMER
from kcli.assignors.forecast import (
    NEW_MEMBER_PREFIX,
    Changes,
    Comparison,
    Move,
    Share,
    change,
    compare,
    forecast_assignment,
    load_of,
    skew,
)
from kcli.assignors.lookup import SERVER_ASSIGNORS
from kcli.cli.assignor.grammar import format_assignment
from kcli.cli.output.report import Report
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.assignments import LiveGroup
    from kcli.assignors.model import Member
    from kcli.cli.assignor.situation import Situation
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Item

SHOW_COLUMNS = ["member", "instance_id", "rack", "count", "partitions"]
OWNED_COLUMNS = ["kept", "gained", "lost"]
DIFF_COLUMNS = [
    *("member", "client_id", "instance_id", "rack", "change", "before", "after", "kept", "gained", "lost"),
    *("lag_before", "lag_after", "rate_before", "rate_after"),
]
COMPARE_COLUMNS = [
    *("assignor", "members", "partitions", "most", "fewest", "skew", "lag_skew", "rate_skew"),
    *("moved", "kept", "idle", "stopped_eager", "stopped_cooperative", "rebalances"),
]
OPTIONAL = {"client_id", "instance_id", "rack", "lag_before", "lag_after", "rate_before", "rate_after"} | {
    "lag_skew",
    "rate_skew",
}
TODAY = "today"

Assigned = Mapping[str, Sequence[TopicPartition]]


def forecast_item(
    situation: Situation, members: Iterable[Member], comparison: Comparison, *, with_before: bool
) -> Item:
    """Return one assignor's forecast. `members` are the future ones; `with_before` adds the current state."""
    forecast = comparison.forecast
    known = {member.id: member for member in (*situation.members, *members)}
    item: Item = {
        "group": None if situation.live is None else situation.live.group.group,
        "assignor": forecast.assignor,
        "today": situation.assignor or None,
        "members": [
            _member_item(situation, known[share.member], share, with_before=with_before) for share in comparison.shares
        ],
        "idle": comparison.idle,
        "rebalances": len(forecast.rebalances),
        "settled": forecast.settled,
        "withheld": numbers_by_topic(forecast.withheld),
    }
    if with_before:
        item |= {
            "moved": len(comparison.moved),
            "kept": comparison.kept,
            "taken_up": len(comparison.newly_assigned),
            "given_up": len(comparison.unassigned),
            "stopped": {"eager": comparison.stopped_eager, "cooperative": comparison.stopped_cooperative},
            "moves": [_move_item(move) for move in comparison.moves],
        }
    after = skews(situation, forecast.final)
    item["skew"] = {"before": skews(situation, situation.before), "after": after} if with_before else after
    if situation.live is not None:
        item["rate_window_ms"] = RATE_WINDOW_MS
        item["unknown_lags"] = numbers_by_topic(situation.live.unknown_lags)
        item["missing_topics"] = situation.live.missing
    return item


def _member_item(situation: Situation, member: Member, share: Share, *, with_before: bool) -> Item:
    described = situation.described.get(member.id)
    item: Item = {
        "member": member.id,
        "client_id": described.client_id if described else None,
        "host": described.host if described else None,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "subscribed": sorted(member.topics),
        "change": "new" if share.before is None else "gone" if share.after is None else "stays",
        "partition_count": len(share.after or ()),
        "assignment": None if share.after is None else numbers_by_topic(share.after),
    }
    if with_before:
        item |= {
            "assignment_before": None if share.before is None else numbers_by_topic(share.before),
            "kept": len(share.kept),
            "gained": numbers_by_topic(share.gained),
            "lost": numbers_by_topic(share.lost),
        }
    for name, loads in _loads(situation).items():
        item |= {
            f"{name}_before": _rounded(load_of(share.before, loads)) if share.before is not None else None,
            f"{name}_after": _rounded(load_of(share.after, loads)) if share.after is not None else None,
        }
    return item


def _move_item(move: Move) -> Item:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": move.source,
        "to": move.target,
    }


def skews(situation: Situation, assignment: Assigned) -> Item:
    """Return the largest share, the mean and their ratio: of partitions, and of a live group's lag and rate."""
    measures = {"partitions": skew(assignment)}
    measures |= {name: skew(assignment, loads) for name, loads in _loads(situation).items()}
    return {
        name: {"most": _rounded(measure.most), "mean": _rounded(measure.mean), "ratio": _rounded(measure.ratio)}
        for name, measure in measures.items()
    }


def _loads(situation: Situation) -> dict[str, Mapping[TopicPartition, float]]:
    return {} if situation.live is None else {"lag": situation.live.lags, "rate": situation.live.rates}


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    return int(value) if value == int(value) else round(value, 3)


def show_rows(comparison: Comparison, item: Item) -> list[Item]:
    """Return one row per future member."""
    return [_row(member, share) for member, share in zip(item["members"], comparison.shares, strict=True)]


def _row(item: Item, share: Share) -> Item:
    return {
        **item,
        "count": len(share.after or ()),
        "partitions": format_assignment(share.after or ()),
        "before": None if share.before is None else len(share.before),
        "after": None if share.after is None else len(share.after),
        "kept": len(share.kept),
        "gained": format_assignment(share.gained),
        "lost": format_assignment(share.lost),
    }


def compare_rows(situation: Situation, comparisons: Sequence[Comparison], *, with_before: bool) -> list[Item]:
    """Return one row per assignor, after one for today if there is a current assignment."""
    rows = [_summary(situation, situation.before, {"assignor": TODAY})] if with_before else []
    for each in comparisons:
        final = each.forecast.final
        moves: dict[str, Any] = {
            "moved": len(each.moved),
            "kept": each.kept,
            "stopped_eager": each.stopped_eager,
            "stopped_cooperative": each.stopped_cooperative,
        }
        own = {"assignor": each.forecast.assignor, "rebalances": len(each.forecast.rebalances)}
        rows.append(_summary(situation, final, {**own, **(moves if with_before else {})}))
    return rows


def _summary(situation: Situation, assignment: Assigned, own: Item) -> Item:
    counts = [len(partitions) for partitions in assignment.values()]
    ratios = {name: measure["ratio"] for name, measure in skews(situation, assignment).items()}
    return {
        "members": len(counts),
        "partitions": sum(counts),
        "most": max(counts, default=0),
        "fewest": min(counts, default=0),
        "skew": ratios["partitions"],
        "lag_skew": ratios.get("lag"),
        "rate_skew": ratios.get("rate"),
        "idle": counts.count(0),
        **own,
    }


def used_columns(columns: Sequence[str], rows: Sequence[Item], *, for_programs: bool) -> list[str]:
    """Return the columns that have values; programs always get all of them."""
    if for_programs:
        return list(columns)
    return [name for name in columns if name not in OPTIONAL or any(row.get(name) is not None for row in rows)]


NO_CHANGES = Changes()
SHOW, DIFF = "assignor.show", "assignor.diff"


class Forecasts(NamedTuple):
    """The group, its future members, and the comparison of each assignor with today."""

    situation: Situation
    members: Sequence[Member]
    comparisons: Sequence[Comparison]


def make_forecasts(situation: Situation, assignors: Sequence[str], changes: Changes = NO_CHANGES) -> Forecasts:
    """Forecast the assignment of each assignor after the changes. `ConfigError` or `NotFound` for invalid changes."""
    topics, members = change(situation.topics, situation.members, changes)
    before = situation.before
    return Forecasts(
        situation, members, [compare(before, forecast_assignment(name, topics, members)) for name in assignors]
    )


def show_forecasts(env: Environment, kind: str, forecasts: Forecasts, output: str | None, *, compared: bool) -> None:
    """Print the table or document of `kind`; `compared`: one row per assignor instead of one per member."""
    from kcli.cli.output.printer import print_report

    with_before = kind == DIFF or any(member.owned for member in forecasts.situation.members)
    items: list[Item] = []
    if not compared or output in ("json", "jsonl"):
        items = [
            forecast_item(forecasts.situation, forecasts.members, each, with_before=with_before)
            for each in forecasts.comparisons
        ]
    if compared:
        rows, columns = (
            compare_rows(forecasts.situation, forecasts.comparisons, with_before=with_before),
            COMPARE_COLUMNS,
        )
    else:
        rows = show_rows(forecasts.comparisons[0], items[0])
        columns = DIFF_COLUMNS if kind == DIFF else SHOW_COLUMNS + (OWNED_COLUMNS if with_before else [])
    report = Report(kind, used_columns(columns, rows, for_programs=output in ("csv", "tsv")), items, rows)
    print_report(env, report, output)
    if output in (None, "table"):
        for line in summary_lines(forecasts, with_before=with_before, compared=compared):
            env.report(line)


# Assignors whose result depends on the order of member ids.
_DEPENDS_ON_ORDER = ("range", "roundrobin", "server-range")
_STATELESS = ("range", "roundrobin")
_MAX_LISTED = 20  # partitions that a sentence may list


def summary_lines(forecasts: Forecasts, *, with_before: bool, compared: bool) -> Iterator[str]:
    """Yield the summary of a single forecast, then the assumptions it depends on."""
    if not compared:
        yield from _forecast_lines(forecasts.situation, forecasts.comparisons[0], with_before=with_before)
    yield from _assumption_lines(forecasts)
    if forecasts.situation.live is not None:
        yield from _live_group_lines(forecasts.situation.live)
        yield from _leader_lines(forecasts.situation)


def _forecast_lines(situation: Situation, comparison: Comparison, *, with_before: bool) -> Iterator[str]:
    forecast = comparison.forecast
    assignor = forecast.assignor
    if with_before:
        change = (
            f"{situation.assignor} today, then {assignor}" if situation.assignor not in ("", assignor) else assignor
        )
        moved = [format_count(len(comparison.moved), "partition") + " moved", f"{comparison.kept} kept"]
        moved += [f"{len(comparison.newly_assigned)} newly assigned"] if comparison.newly_assigned else []
        moved += [f"{len(comparison.unassigned)} unassigned"] if comparison.unassigned else []
        yield f"{change}: {', '.join(moved)}{_idle(comparison)}"
        yield (
            f"stopped during the rebalance: {comparison.stopped_eager} with the eager protocol, "
            f"{comparison.stopped_cooperative} with the cooperative protocol"
        )
    else:
        count = sum(map(len, forecast.final.values()))
        members = format_count(len(forecast.final), "member")
        yield f"{assignor}: {format_count(count, 'partition')} for {members}{_idle(comparison)}"
    if len(forecast.rebalances) > 1:
        withheld = forecast.withheld
        unassigned = (
            format_assignment(withheld) if len(withheld) <= _MAX_LISTED else format_count(len(withheld), "partition")
        )
        rebalances = f"{len(forecast.rebalances)} rebalances"
        yield f"this takes {rebalances}; between the first and the last no member has {unassigned}"
    if not forecast.settled:
        yield f"the group does not settle: after {len(forecast.rebalances)} rebalances partitions still move"
    yield f"skew (largest / mean): {'; '.join(_skews(situation, forecast.final, with_before=with_before))}"


def _idle(comparison: Comparison) -> str:
    return f"; idle: {', '.join(comparison.idle)}" if comparison.idle else ""


def _skews(situation: Situation, after: Mapping[str, Sequence[TopicPartition]], *, with_before: bool) -> Iterator[str]:
    loads: dict[str, Mapping[TopicPartition, float] | None] = {"partitions": None}
    if situation.live is not None:
        loads |= {"lag": situation.live.lags, "rate": situation.live.rates}
    for name, load in loads.items():
        ratios = [skew(situation.before, load).ratio] if with_before else []
        ratios.append(skew(after, load).ratio)
        yield f"{name} {' -> '.join(map(_ratio, ratios)) if any(ratios) else 'none'}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _assumption_lines(forecasts: Forecasts) -> Iterator[str]:
    situation = forecasts.situation
    assignors = [each.forecast.assignor for each in forecasts.comparisons]
    ordered = [name for name in assignors if name in _DEPENDS_ON_ORDER]
    if ordered and any(member.id.startswith(NEW_MEMBER_PREFIX) for member in forecasts.members):
        names = ", ".join(ordered)
        yield f"{names} depends on the order of member ids; new members sort last here, give ids with --add NAME"
    different = [name for name in assignors if name != situation.assignor]
    if situation.assignor and different:
        if (situation.assignor in SERVER_ASSIGNORS) != (different[0] in SERVER_ASSIGNORS):
            yield "a change of protocol restarts all members; the forecast assumes that they keep their partitions"
        elif situation.assignor not in SERVER_ASSIGNORS:
            yield "a change of assignor restarts all members; the forecast assumes that they keep their partitions"


def _live_group_lines(live: LiveGroup) -> Iterator[str]:
    seconds = RATE_WINDOW_MS // 1000
    yield f"RATE: offsets per second in the last {seconds} s, by record timestamps"
    if unknown := live.unknown_lags:
        yield (
            f"LAG: unknown for {format_count(len(unknown), 'partition')} (no committed offset, or failed); not included"
        )
    if live.missing:
        yield f"subscribed topics that do not exist: {', '.join(live.missing)}"
    if live.group.type == CONSUMER:
        pending = sum(len({*(member.target or ())} ^ {*member.owned}) for member in live.group.members)
        more = f"; {format_count(pending, 'partition')} not yet reconciled" if pending else ""
        yield f"the broker assigns the partitions of {live.group.group}; today is the target assignment{more}"


def _leader_lines(situation: Situation) -> Iterator[str]:
    """Compare today's assignment with the forecast of an assignor that depends on members and topics only."""
    if situation.assignor in _STATELESS:
        usual = forecast_assignment(situation.assignor, situation.topics, situation.members)
        if compare(situation.before, usual).moves:
            yield (
                f"today's assignment differs from Kafka's {situation.assignor}: the group leader runs a different "
                "client library (librdkafka's sorts by member id only), or topics have changed since"
            )
