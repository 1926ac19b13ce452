"""What of a file is to be applied, and for which group. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import Plan
    from kcli.admin.offsets.plan_files import Positions


def chosen_plan(plan: Plan, groups: Collection[str], to_group: str | None, if_out_of_range: str, source: str) -> Plan:
    """The plan, or its rows of these groups. A plan is for the groups and offsets that it was shown for."""
    if to_group is not None:
        raise ConfigError(f"{source} is a plan, which is for its own groups: --to-group takes an export")
    if if_out_of_range != "refuse":
        raise ConfigError(f"{source} is a plan, which is applied as it is: --if-out-of-range takes an export")
    _check_named(groups, plan.groups, source)
    if not plan.rows:
        raise ConfigError(f"{source} is a plan without rows")
    if not groups:
        return plan
    states = {group: state for group, state in plan.states.items() if group in groups}
    return plan._replace(rows=tuple(row for row in plan.rows if row.group in groups), states=states)


def chosen_positions(found: Positions, groups: Collection[str], to_group: str | None, source: str) -> Positions:
    """The positions to commit, each for a group that is named."""
    if not found.offsets:
        raise ConfigError(f"{source} has no positions")
    if "" in groups or to_group == "":
        raise ConfigError("a group has a name: '' is none")
    unnamed = {tp: at for (group, tp), at in found.offsets.items() if group is None}
    if unnamed and found.groups:
        raise ConfigError(f"{source} has positions with and without a group")
    if unnamed:
        names = [*groups, *([] if to_group is None else [to_group])]
        if not names:
            raise ConfigError(f"{source} does not say for which group: that takes --group")
        return found._replace(offsets={(name, tp): at for name in names for tp, at in unnamed.items()})
    _check_named(groups, found.groups, source)
    chosen = {key: at for key, at in found.offsets.items() if not groups or key[0] in groups}
    if to_group is not None:
        if len({group for group, _ in chosen}) > 1:
            raise ConfigError(f"{source} has {len(found.groups)} groups: for --to-group choose one with --group")
        chosen = {(to_group, tp): at for (_, tp), at in chosen.items()}
    return found._replace(offsets=chosen)


def _check_named(groups: Collection[str], there: Collection[str], source: str) -> None:
    for group in groups:
        if group not in there:
            raise ConfigError(f"{source} tells nothing of group {group}: there are {', '.join(there)}")
