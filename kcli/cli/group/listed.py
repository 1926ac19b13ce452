"""The groups of a cluster as items: what each broker lists, with the members that their coordinators tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.listing import STATES, ListedGroup, list_groups
from kcli.admin.groups.model import CLASSIC, CONSUMER, SHARE, STREAMS
from kcli.admin.groups.positions import group_positions
from kcli.cli.group.items import node_item, unheard_broker
from kcli.cli.output.report import error_field
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from kcli.admin.groups.model import Group
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results

TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)


def check_types(texts: Iterable[str]) -> list[str]:
    """The types that --type names, repeated or joined by commas. ConfigError for one that no group has."""
    return _checked("--type", texts, TYPES)


def check_states(texts: Iterable[str]) -> list[str]:
    """The states that --state names, in any case."""
    return _checked("--state", texts, STATES)


def _checked(option: str, texts: Iterable[str], known: tuple[str, ...]) -> list[str]:
    by_case = {name.lower(): name for name in known}
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if word.lower() not in by_case:
            raise ConfigError(f"{option} takes {', '.join(known)}, not '{word}'")
    return [by_case[word.lower()] for word in words]


def list_all(
    client: ConsumerNetworkClient,
    deadline_ms: float,
    states: Iterable[str],
    types: Iterable[str],
    found: re.Pattern[str] | None,
    topic: str | None,
    *,
    count_members: bool,
) -> list[Item]:
    """The groups wanted, sorted by name; behind them the brokers that did not answer.

    Members and topics cost another question to each coordinator. A group that goes away meanwhile is left out.
    """
    told = list_groups(client, deadline_ms, states, types)
    listed = {g.group: g for groups in told.values.values() for g in groups if not found or found.search(g.group)}
    described: Results[str, Group] | None = None
    if count_members or topic is not None:
        coordinators = Coordinators(client)
        kinds = {name: group.type for name, group in listed.items()}
        described = describe_groups(client, kinds, deadline_ms, coordinators=coordinators)
        gone = {name for name, error in described.errors.items() if _is_gone(error)}
        listed = {name: group for name, group in listed.items() if name not in gone}
        if topic is not None:
            here = _on_topic(client, described.values, topic, deadline_ms, coordinators)
            listed = {name: group for name, group in listed.items() if name in here or name in described.errors}
    items = [_item(listed[name], described) for name in sorted(listed)]
    return items + [unheard_broker(node, error) for node, error in told.errors.items()]


def _item(listed: ListedGroup, described: Results[str, Group] | None) -> Item:
    item: Item = {
        "group": listed.group,
        "type": listed.type,
        "state": listed.state or None,
        "protocol_type": listed.protocol_type or None,
        "coordinator": node_item(listed.coordinator),
    }
    if described is not None and listed.group in described.values:
        group = described.values[listed.group]
        item.update(state=group.state, member_count=len(group.members))
    elif described is not None and listed.group in described.errors:
        item["error"] = error_field(described.errors[listed.group])
    return item


def _on_topic(
    client: ConsumerNetworkClient,
    groups: Mapping[str, Group],
    topic: str,
    deadline_ms: float,
    coordinators: Coordinators,
) -> set[str]:
    """Which groups have to do with the topic: by subscription or assignment, else by a position in it.

    Groups whose positions cannot be read are counted in: that they have none there is not known.
    """
    here = {name for name, group in groups.items() if topic in group.topics}
    others = [group for name, group in groups.items() if name not in here]
    found = group_positions(client, others, deadline_ms, coordinators)
    here.update(found.errors)
    here.update(name for name, positions in found.values.items() if any(tp.topic == topic for tp in positions))
    return here


def _is_gone(error: KcliError) -> bool:
    return getattr(error, "code", None) is ErrorCode.GROUP_ID_NOT_FOUND
