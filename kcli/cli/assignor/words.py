"""What a forecast comes to, and what it rests upon, in sentences for standard error. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.assignors.changes import NEWCOMER
from kcli.assignors.comparison import Comparison, compare, foretell, skew
from kcli.assignors.foresee import SERVER_ASSIGNORS
from kcli.cli.assignor.grammar import shown_partitions
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.assignments import LiveGroup
    from kcli.cli.assignor.outlook import Outlook
    from kcli.cli.assignor.situation import Situation
    from kcli.structs import TopicPartition

# Where a member stands among the others decides what it gets from these.
_BY_ORDER = ("range", "roundrobin", "server-range")
_WITHOUT_MEMORY = ("range", "roundrobin")
_FEW = 20  # partitions that a sentence may list


def sentences(outlook: Outlook, *, with_before: bool, compared: bool) -> Iterator[str]:
    """The forecast's own only if there is one; then whatever it takes for granted."""
    if not compared:
        yield from _of_forecast(outlook.found, outlook.comparisons[0], with_before=with_before)
    yield from _notes(outlook)
    if outlook.found.live is not None:
        yield from _of_live_group(outlook.found.live)
        yield from _of_another_leader(outlook.found)


def _of_forecast(found: Situation, comparison: Comparison, *, with_before: bool) -> Iterator[str]:
    forecast = comparison.forecast
    assignor = forecast.assignor
    if with_before:
        change = f"{found.assignor} today, then {assignor}" if found.assignor not in ("", assignor) else assignor
        moved = [format_count(len(comparison.moved), "partition") + " moved", f"{comparison.kept} kept"]
        moved += [f"{len(comparison.taken_up)} taken up"] if comparison.taken_up else []
        moved += [f"{len(comparison.given_up)} given up"] if comparison.given_up else []
        yield f"{change}: {', '.join(moved)}{_idle(comparison)}"
        yield (
            f"stopped meanwhile: {comparison.stopped_eager} under the eager protocol, "
            f"{comparison.stopped_cooperative} under the cooperative one"
        )
    else:
        count = sum(map(len, forecast.final.values()))
        members = format_count(len(forecast.final), "member")
        yield f"{assignor}: {format_count(count, 'partition')} for {members}{_idle(comparison)}"
    if len(forecast.rebalances) > 1:
        withheld = forecast.withheld
        what = shown_partitions(withheld) if len(withheld) <= _FEW else format_count(len(withheld), "partition")
        yield f"this takes {len(forecast.rebalances)} rebalances; between the first and the last nobody has {what}"
    if not forecast.settled:
        yield f"after {len(forecast.rebalances)} rebalances it is not at rest: racks and subscriptions pull in turn"
    yield f"skew (most by mean): {'; '.join(_skews(found, forecast.final, with_before=with_before))}"


def _idle(comparison: Comparison) -> str:
    return f"; idle: {', '.join(comparison.idle)}" if comparison.idle else ""


def _skews(found: Situation, after: Mapping[str, Sequence[TopicPartition]], *, with_before: bool) -> Iterator[str]:
    loads: dict[str, Mapping[TopicPartition, float] | None] = {"partitions": None}
    if found.live is not None:
        loads |= {"lag": found.live.lags, "rate": found.live.rates}
    for name, load in loads.items():
        ratios = [skew(found.before, load).ratio] if with_before else []
        ratios.append(skew(after, load).ratio)
        yield f"{name} {' -> '.join(map(_ratio, ratios)) if any(ratios) else 'none'}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _notes(outlook: Outlook) -> Iterator[str]:
    found = outlook.found
    assignors = [each.forecast.assignor for each in outlook.comparisons]
    by_order = [name for name in assignors if name in _BY_ORDER]
    if by_order and any(member.id.startswith(NEWCOMER) for member in outlook.members):
        names = ", ".join(by_order)
        yield f"by the order of ids: {names}; new members stand last here, --add NAME says where"
    others = [name for name in assignors if name != found.assignor]
    if found.assignor and others:
        if (found.assignor in SERVER_ASSIGNORS) != (others[0] in SERVER_ASSIGNORS):
            yield "members change the protocol by a restart each; this is as if all came back with what they have"
        elif found.assignor not in SERVER_ASSIGNORS:
            yield "members change their assignor by a restart each; this is as if all came back with what they have"


def _of_live_group(live: LiveGroup) -> Iterator[str]:
    from kcli.admin.assignments import RATE_WINDOW_MS
    from kcli.admin.groups.model import CONSUMER

    seconds = RATE_WINDOW_MS // 1000
    yield f"RATE: offsets per second in the last {seconds} s, by the times of the records"
    if unknown := live.unknown_lags:
        yield f"LAG: without {format_count(len(unknown), 'partition')} where nothing is committed, or that failed"
    if live.missing:
        yield f"not there, though members want it: {', '.join(live.missing)}"
    if live.group.type == CONSUMER:
        behind = sum(len({*(it.target or ())} ^ {*it.owned}) for it in live.group.members)
        more = f"; {format_count(behind, 'partition')} still to be given or taken" if behind else ""
        yield f"{live.group.group} has its partitions from the broker; today is its target assignment{more}"


def _of_another_leader(found: Situation) -> Iterator[str]:
    """Where an assignor heeds nothing but members and topics, today's assignment can be checked."""
    if found.assignor in _WITHOUT_MEMORY:
        usual = foretell(found.assignor, found.topics, found.members)
        if compare(found.before, usual).moves:
            yield (
                f"today is not what Kafka's {found.assignor} makes of it: the leader is of another maker (librdkafka's "
                "goes by ids alone), or topics have changed since"
            )
