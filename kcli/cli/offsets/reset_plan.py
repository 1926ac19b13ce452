"""The plan of `kcli offsets reset`: the groups that are meant, their facts, and a row for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kcli.admin.offsets.facts import gather_facts
from kcli.admin.offsets.inspection import check_cluster
from kcli.admin.offsets.plan import Plan, Row, make_plan, plan_reset
from kcli.admin.offsets.targets import FromOffsets, Target
from kcli.cli.group.selection import select_groups
from kcli.cli.offsets.plan_rows import WHOLE_GROUP
from kcli.errors import KcliError, NotFound

if TYPE_CHECKING:
    import re

    from kcli.admin.offsets.facts import Scope
    from kcli.cli.offsets.targets import Policies
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.structs import OffsetAndMetadata, TopicPartition


def chosen_groups(
    client: ConsumerNetworkClient, names: Sequence[str], found: re.Pattern[str] | None, deadline_ms: float
) -> list[str]:
    """The groups with these names, else those in whose name the pattern is `found`.

    An error if there are none, or if a broker did not tell its groups: then it is not known which are meant.
    """
    selected = select_groups(client, names, found, deadline_ms)
    for error in selected.unheard.values():
        raise error
    if not selected.groups:
        raise NotFound("no group's name matches")
    return list(selected.groups)


def positions_in(text: str, source: str) -> tuple[FromOffsets, str | None]:
    """Where a file leads, and the id of the cluster that this is about, if it tells that."""
    from kcli.admin.offsets.plan_files import Positions
    from kcli.admin.offsets.plan_reading import offsets_of, read_plan_file

    found = read_plan_file(text, source)
    target = found.target(source) if isinstance(found, Positions) else offsets_of(found, source)
    return target, found.cluster_id


def positions_of(client: ConsumerNetworkClient, group: str, deadline_ms: float) -> FromOffsets:
    """Where another group is, with epochs and notes. An error, if it is nowhere, or if a part of it cannot be told."""
    from kcli.admin.groups.committed import committed_offsets

    found = committed_offsets(client, [group], deadline_ms)
    for error in found.errors.values():
        raise error
    positions: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {}
    for tp, committed in found.values[group].items():
        if isinstance(committed, KcliError):
            raise committed
        positions[None, tp] = committed
    if not positions:
        raise NotFound(f"group {group} has committed nothing")
    return FromOffsets(positions, f"group {group}")


def make_reset_plan(
    client: ConsumerNetworkClient,
    groups: Iterable[str],
    scope: Scope,
    target: Target,
    deadline_ms: float,
    policies: Policies,
) -> Plan:
    """Look at groups and logs now and plan the way. Changes nothing."""
    names = list(groups)
    facts = gather_facts(client, names, scope, target, deadline_ms)
    rows: list[Row] = []
    for name in names:
        if name in facts.errors:
            rows.append(refused_group(name, facts.errors[name]))
            continue
        told = facts.values[name].partitions
        rows += plan_reset(name, told, target, **policies._asdict()) or [
            refused_group(name, _nothing_to_move(name, target))
        ]
    check_cluster(client, None, deadline_ms)  # asks which one it is, for the plan
    states = {name: facts.values[name].state for name in names if name in facts.values}
    return make_plan("reset", rows, client.clock.wall_ms(), states, client.metadata.cluster.cluster_id)


def refused_group(group: str, error: KcliError) -> Row:
    """The row of a group whose partitions are not known."""
    return Row(group, WHOLE_GROUP, None, None, "refuse", error.message, error=error)


def _nothing_to_move(group: str, target: Target) -> KcliError:
    if isinstance(target, FromOffsets):
        return NotFound(f"nothing in {target.source} is about group {group}")
    words = f"group {group} has committed nothing; name topics with --topic to have it begin there"
    return NotFound(words)
