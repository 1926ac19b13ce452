"""Forecasts as the items and rows of a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.assignors.comparison import Comparison, Move, Share, load_of, skew
from kcli.cli.assignor.grammar import shown_partitions
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.assignors.model import Member
    from kcli.cli.assignor.situation import Situation
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


def forecast_item(found: Situation, members: Iterable[Member], comparison: Comparison, *, with_before: bool) -> Item:
    """One assignor's forecast. `members` as they will be; without `with_before` nothing is said of what was."""
    forecast = comparison.forecast
    known = {member.id: member for member in (*found.members, *members)}
    item: Item = {
        "group": None if found.live is None else found.live.group.group,
        "assignor": forecast.assignor,
        "today": found.assignor or None,
        "members": [_member_item(found, known[it.member], it, with_before=with_before) for it in comparison.shares],
        "idle": comparison.idle,
        "rebalances": len(forecast.rebalances),
        "settled": forecast.settled,
        "withheld": numbers_by_topic(forecast.withheld),
    }
    if with_before:
        item |= {
            "moved": len(comparison.moved),
            "kept": comparison.kept,
            "taken_up": len(comparison.taken_up),
            "given_up": len(comparison.given_up),
            "stopped": {"eager": comparison.stopped_eager, "cooperative": comparison.stopped_cooperative},
            "moves": [_move_item(move) for move in comparison.moves],
        }
    after = skews(found, forecast.final)
    item["skew"] = {"before": skews(found, found.before), "after": after} if with_before else after
    if found.live is not None:
        from kcli.admin.assignments import RATE_WINDOW_MS

        item["rate_window_ms"] = RATE_WINDOW_MS
        item["unknown_lags"] = numbers_by_topic(found.live.unknown_lags)
        item["missing_topics"] = found.live.missing
    return item


def _member_item(found: Situation, member: Member, share: Share, *, with_before: bool) -> Item:
    told = found.described.get(member.id)
    item: Item = {
        "member": member.id,
        "client_id": told.client_id if told else None,
        "host": told.host if told else None,
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
    for name, loads in _loads(found).items():
        item |= {
            f"{name}_before": _rounded(load_of(share.before, loads)) if share.before is not None else None,
            f"{name}_after": _rounded(load_of(share.after, loads)) if share.after is not None else None,
        }
    return item


def _move_item(move: Move) -> Item:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": move.giver,
        "to": move.taker,
    }


def skews(found: Situation, assignment: Assigned) -> Item:
    """The largest part by the mean one: of partitions, and of a live group's lag and rate."""
    measures = {"partitions": skew(assignment)}
    measures |= {name: skew(assignment, loads) for name, loads in _loads(found).items()}
    return {
        name: {"most": _rounded(it.most), "mean": _rounded(it.mean), "ratio": _rounded(it.ratio)}
        for name, it in measures.items()
    }


def _loads(found: Situation) -> dict[str, Mapping[TopicPartition, float]]:
    return {} if found.live is None else {"lag": found.live.lags, "rate": found.live.rates}


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    return int(value) if value == int(value) else round(value, 3)


def show_rows(comparison: Comparison, item: Item) -> list[Item]:
    """A row for each member that there will be."""
    return [_row(it, share) for it, share in zip(item["members"], comparison.shares, strict=True)]


def _row(item: Item, share: Share) -> Item:
    return {
        **item,
        "count": len(share.after or ()),
        "partitions": shown_partitions(share.after or ()),
        "before": None if share.before is None else len(share.before),
        "after": None if share.after is None else len(share.after),
        "kept": len(share.kept),
        "gained": shown_partitions(share.gained),
        "lost": shown_partitions(share.lost),
    }


def compare_rows(found: Situation, comparisons: Sequence[Comparison], *, with_before: bool) -> list[Item]:
    """A row for each assignor, and before them one for today if there is something to begin with."""
    rows = [_summary(found, found.before, {"assignor": TODAY})] if with_before else []
    for each in comparisons:
        final = each.forecast.final
        moves: dict[str, Any] = {
            "moved": len(each.moved),
            "kept": each.kept,
            "stopped_eager": each.stopped_eager,
            "stopped_cooperative": each.stopped_cooperative,
        }
        own = {"assignor": each.forecast.assignor, "rebalances": len(each.forecast.rebalances)}
        rows.append(_summary(found, final, {**own, **(moves if with_before else {})}))
    return rows


def _summary(found: Situation, assignment: Assigned, own: Item) -> Item:
    counts = [len(partitions) for partitions in assignment.values()]
    ratios = {name: measure["ratio"] for name, measure in skews(found, assignment).items()}
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


def used(columns: Sequence[str], rows: Sequence[Item], *, for_programs: bool) -> list[str]:
    """Without columns that are empty for everybody; programs always get the same ones."""
    if for_programs:
        return list(columns)
    return [name for name in columns if name not in OPTIONAL or any(row.get(name) is not None for row in rows)]
