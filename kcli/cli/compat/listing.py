"""`--list`: the groups of consumers, by name or with their types and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.groups.listing import STATES, list_groups
from kcli.admin.groups.model import CLASSIC, CONSUMER
from kcli.cli import exit_status
from kcli.cli.compat.problems import Misused
from kcli.cli.compat.session import raise_first
from kcli.cli.compat.tables import shown, table
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.admin.groups.listing import ListedGroup
    from kcli.cli.compat.session import Session

TYPES = {"consumer": "Consumer", "classic": "Classic"}
_STATES = tuple(state for state in STATES if state != "NotReady")  # that one is of streams groups


def list_them(session: Session) -> int:
    """Print the groups."""
    given = session.given
    with_type, with_state = "type" in given, "state" in given
    types = _chosen(given.value("type"), TYPES.values(), "types", "types")
    states = _chosen(given.value("state"), _STATES, "state", "states")
    found = consumer_groups(session, states, types)
    if not (with_type or with_state):
        session.print("".join(f"{shown(group.group)}\n" for group in found))
        return exit_status.DONE
    columns = [("GROUP", [shown(group.group) for group in found])]
    if with_type:
        columns.append(("TYPE", [TYPES[group.type] for group in found]))
    if with_state:
        columns.append(("STATE", [group.state or "Unknown" for group in found]))
    width = max(15, *(len(name) for name in columns[0][1]), 0) + 10
    rows = zip(*(cells for _, cells in columns), strict=True)
    session.print(table([name for name, _ in columns], list(rows), [width] + [20] * (len(columns) - 1)))
    return exit_status.DONE


def consumer_groups(session: Session, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
    """Groups of consumers, by name: classic and KIP-848 ones, and what only has committed offsets."""
    found = list_groups(session.client, session.deadline_ms, states, types or (CLASSIC, CONSUMER))
    raise_first(found.errors.values(), wrapped=True)
    groups = (group for listed in found.values.values() for group in listed)
    return sorted(group for group in groups if group.type in TYPES and group.protocol_type in ("", PROTOCOL_TYPE))


def _chosen(text: str | None, known: Collection[str], what: str, several: str) -> list[str]:
    """`stable, Empty` as names that Kafka knows; [] where nothing is said."""
    if not text:
        return []
    spelled = {name.lower(): name for name in known}
    words = [word.strip().lower() for word in text.split(",")]
    if not set(words) <= set(spelled):
        raise Misused(f"Invalid {what} list '{text}'. Valid {several} are: {', '.join(known)}")
    return [spelled[word] for word in words]
