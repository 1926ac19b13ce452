"""Plans that add partitions to topics, or change settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from kcli.admin.configs import ALL_BROKERS, NUMBERS, OwnSetting, alter_configs, own_settings
from kcli.admin.offsets.checks import check_cluster
from kcli.admin.plan import Applied, Plan, Row, write_saved
from kcli.admin.snapshots import KINDS_OF_SETTINGS, Change, Snapshot, SnapshotStore, kind_of_settings, new_snapshot
from kcli.admin.topics import create_partitions, describe_topics, with_similar_topics
from kcli.client.requests import half_deadline
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError, Refused
from kcli.settings import is_secret
from kcli.structs import ResourceKind
from kcli.text import did_you_mean, format_time

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient

PARTITIONS = "partitions"
_MOVED_KEYS = "keys may change their partition"
_INTERNAL = (
    "this is an internal topic: with more partitions, groups or transactions lose their coordinator and its state; use "
    "--internal to alter it"
)

_SECRET = "{} is a secret: brokers do not return it, so that a change can be neither checked nor undone"

_PLURALS = {"topic": "topics", "broker": "brokers", "group": "groups", "client-metrics": "client metrics"}

Key = tuple[str, str]
"""The owner, and `partitions` or the name of a setting."""


class Wanted(NamedTuple):
    """Requested changes of one owner: settings to set, and settings to delete; for a topic also its partitions."""

    partitions: int | None = None
    settings: Mapping[str, str] = {}
    deleted: Collection[str] = ()


class OwnerState(NamedTuple):
    """A topic, broker, group or other owner at the time of the plan; `settings` are all of its settings by name.

    The other facts are those of a topic.
    """

    topic_id: UUID | None = None
    partitions: int = 0
    internal: bool = False
    settings: Mapping[str, OwnSetting] = {}


@dataclass(frozen=True)
class Alteration(Row[str]):
    """Change of a setting, or of the number of partitions, by owner and name. `old` and `new` are effective values.

    The owner is what `kind` says: a topic, the id of a broker ("": all of them), a group, a subscription of client
    metrics. `own` and `new_own` are the values set on the owner itself, None: inherited from the broker.
    """

    key: Key
    action: Literal["add", "set", "delete", "keep"] = "set"
    own: str | None = None
    new_own: str | None = None
    kind: ResourceKind = "topic"

    @property
    def owner(self) -> str:
        """The name of the resource."""
        return self.key[0]

    @property
    def name(self) -> str:
        """The name of the setting, or `partitions`."""
        return self.key[1]


def plan_alterations(
    client: ConsumerNetworkClient,
    wanted: Mapping[str, Wanted],
    deadline_ms: float,
    *,
    kind: ResourceKind = "topic",
    internal: bool = False,
    plan_kind: str = "alter",
) -> Plan[Alteration]:
    """Plan changes of these topics or other owners; the brokers check them. Changes nothing.

    An owner that does not exist, or a change that a broker refuses, is a row with its error. More partitions of an
    internal topic are Refused unless `internal`, and so is each change of a secret.
    """
    if kind != "topic" and any(changes.partitions is not None for changes in wanted.values()):
        raise ConfigError("only topics have partitions; use kind 'topic'")
    states, errors = _read_states(client, kind, wanted, deadline_ms)
    rows: list[Alteration] = []
    for owner, changes in wanted.items():
        if owner in errors:
            rows.append(Alteration((owner, ""), action="keep", error=errors[owner], kind=kind))
        else:
            rows += plan_rows(owner, states[owner], changes, kind=kind, internal=internal)
    refused = _check_with_brokers(client, kind, rows, states, deadline_ms)
    return Plan(
        plan_kind,
        tuple(replace(row, error=refused.get(row.key, row.error)) for row in rows),
        states={topic: str(state.topic_id) for topic, state in states.items() if state.topic_id is not None},
        cluster_id=client.metadata.cluster.cluster_id,
        permanent="added partitions cannot be removed again" if any(row.action == "add" for row in rows) else "",
    )


def _read_states(
    client: ConsumerNetworkClient, kind: ResourceKind, owners: Iterable[str], deadline_ms: float
) -> tuple[dict[str, OwnerState], dict[str, KcliError]]:
    owners = list(owners)
    if kind != "topic":
        found = own_settings(client, NUMBERS[kind], owners, half_deadline(client, deadline_ms))
        return {name: OwnerState(settings=settings) for name, settings in found.values.items()}, found.errors
    described = describe_topics(client, owners, half_deadline(client, deadline_ms))
    errors = with_similar_topics(client, described.errors, half_deadline(client, deadline_ms))
    settings = own_settings(client, NUMBERS[kind], described.values, half_deadline(client, deadline_ms))
    errors.update(settings.errors)
    return {
        name: OwnerState(topic.topic_id, len(topic.partitions), topic.internal, settings.values[name])
        for name, topic in described.values.items()
        if name in settings.values
    }, errors


def plan_rows(
    owner: str, state: OwnerState, wanted: Wanted, *, kind: ResourceKind = "topic", internal: bool = False
) -> list[Alteration]:
    """Return the rows of one owner. Pure."""
    rows = []
    if wanted.partitions is not None:
        rows.append(_partitions_row(owner, state, wanted.partitions, internal=internal))
    for name, value in [*sorted(wanted.settings.items()), *((name, None) for name in sorted(wanted.deleted))]:
        now = state.settings.get(name, OwnSetting(None, None, None, kind == "broker" and is_secret(name)))
        if now.sensitive:
            row = Alteration((owner, name), action="set", error=Refused(_SECRET.format(name)), kind=kind)
        elif value is not None:
            row = Alteration((owner, name), now.value, value, "set", _source_of(now), None, now.own, value, kind)
            row = replace(row, action="keep", why="is set already") if now.own == value else row
        else:
            row = Alteration(
                (owner, name), now.value, now.inherited, "delete", "NEW is inherited", own=now.own, kind=kind
            )
            is_known = name in state.settings or _is_of_all_brokers(kind, owner)
            if is_known and now.own is None:
                row = replace(row, action="keep", new=now.value, why=f"is not set on the {kind}")
        rows.append(row)
    return rows


def _is_of_all_brokers(kind: ResourceKind, owner: str) -> bool:
    """True for the settings that all brokers share, of which brokers list only those that are set."""
    return kind == "broker" and owner == ALL_BROKERS


def _partitions_row(topic: str, state: OwnerState, count: int, *, internal: bool) -> Alteration:
    row = Alteration((topic, PARTITIONS), str(state.partitions), str(count), "add", _MOVED_KEYS)
    if count == state.partitions:
        return replace(row, action="keep", why="has this number already")
    if count < state.partitions:
        text = (
            f"topic {topic} has {state.partitions} partitions, and partitions cannot be removed; give a larger number"
        )
        return replace(row, error=Refused(text))
    return replace(row, error=Refused(_INTERNAL)) if state.internal and not internal else row


def _source_of(now: OwnSetting) -> str:
    return "" if now.own is not None or now.value is None else "OLD is inherited"


def _check_with_brokers(
    client: ConsumerNetworkClient,
    kind: ResourceKind,
    rows: Sequence[Alteration],
    states: Mapping[str, OwnerState],
    deadline_ms: float,
) -> dict[Key, KcliError]:
    """Let the brokers check the changes without making them; return the errors of refused rows."""
    changes = [row for row in rows if row.is_change]
    counts, settings = _requests_of(changes)
    until_ms = half_deadline(client, deadline_ms)
    refused: dict[Key, KcliError] = {}
    if counts:
        errors = create_partitions(client, counts, until_ms, dry_run=True).errors
        refused.update({(topic, PARTITIONS): error for topic, error in errors.items()})
    if settings:
        errors = alter_configs(client, NUMBERS[kind], settings, until_ms, dry_run=True).errors
        for owner, error in errors.items():
            refused.update(_blamed(kind, owner, error, settings[owner], states[owner]))
    return refused


def _blamed(
    kind: ResourceKind, owner: str, error: KcliError, changes: Mapping[str, str | None], state: OwnerState
) -> Iterator[tuple[Key, KcliError]]:
    """Return the error for each setting that it concerns: the unknown ones, those that it names, or all."""
    if (
        isinstance(error, BrokerError)
        and error.code == ErrorCode.INVALID_CONFIG
        and not _is_of_all_brokers(kind, owner)
    ):
        unknown = [name for name in changes if name not in state.settings]
        for name in unknown:
            hint = did_you_mean(name, state.settings)
            text = f"{_PLURALS[kind]} have no setting {name}{hint}"
            yield (owner, name), BrokerError(ErrorCode.INVALID_CONFIG, text, request="IncrementalAlterConfigs")
        if unknown:
            return
    named = [name for name in changes if name in error.message]
    for name in named or changes:
        yield (owner, name), error


def _requests_of(changes: Iterable[Alteration]) -> tuple[dict[str, int], dict[str, dict[str, str | None]]]:
    """Return numbers of partitions by topic, and new settings by owner and name (None: delete)."""
    counts: dict[str, int] = {}
    settings: dict[str, dict[str, str | None]] = {}
    for row in changes:
        if row.action == "add":
            counts[row.owner] = int(row.new or 0)
        else:
            settings.setdefault(row.owner, {})[row.name] = row.new_own
    return counts, settings


def apply_alterations(
    client: ConsumerNetworkClient,
    plan: Plan[Alteration],
    snapshots: SnapshotStore,
    deadline_ms: float,
) -> Applied:
    """Make the changes of a plan, settings first.

    PlanRefused for a plan with an error, Refused for an owner that has changed since, WrongCluster, SnapshotError: then
    nothing is changed.
    """
    plan.check()
    check_cluster(client, plan.cluster_id, half_deadline(client, deadline_ms))
    changes = plan.changes
    kind: ResourceKind = changes[0].kind if changes else "topic"
    states, errors = _read_states(client, kind, dict.fromkeys(row.owner for row in changes), deadline_ms)
    for error in errors.values():
        raise error
    for row in changes:
        check_unchanged(row, states[row.owner], plan.states.get(row.owner))
    counts, settings = _requests_of(changes)
    set_rows = [row for row in changes if row.action != "add"]

    def write() -> dict[Key, KcliError]:
        until_ms = half_deadline(client, deadline_ms)
        errors = alter_configs(client, NUMBERS[kind], settings, until_ms).errors if settings else {}
        failed = {row.key: errors[row.owner] for row in set_rows if row.owner in errors}
        errors = create_partitions(client, counts, deadline_ms).errors if counts else {}
        return failed | {(topic, PARTITIONS): error for topic, error in errors.items()}

    snapshot = None
    if set_rows:
        ids = {row.owner: plan.states[row.owner] for row in set_rows if row.owner in plan.states}
        saved = [Change(row.key, row.own, row.new_own) for row in set_rows]
        snapshot = new_snapshot(client, KINDS_OF_SETTINGS[kind], plan.kind, saved, ids)
    return plan.outcome(*write_saved(snapshots, snapshot, [row.key for row in set_rows], write))


def check_unchanged(row: Alteration, state: OwnerState, topic_id: str | None) -> None:
    """Raise Refused if the owner of a row is not as it was when the change was planned. Pure."""
    if topic_id is not None and state.topic_id is not None and str(state.topic_id) != topic_id:
        raise Refused(f"topic {row.owner} was deleted and recreated since the plan; make a new plan")
    now = (
        str(state.partitions) if row.action == "add" else state.settings.get(row.name, OwnSetting(None, None, None)).own
    )
    before = row.old if row.action == "add" else row.own
    if now != before:
        raise Refused(f"{row.name} of {row.kind} {row.owner} has changed since the plan; make a new plan")


def plan_setting_undo(client: ConsumerNetworkClient, snapshot: Snapshot, deadline_ms: float) -> Plan[Alteration]:
    """Plan to restore the settings of a snapshot. WrongCluster for one of another cluster. Changes nothing.

    A topic that was deleted or recreated since is skipped.
    """
    check_cluster(client, snapshot.cluster_id, half_deadline(client, deadline_ms))
    kind = kind_of_settings(snapshot.resource)
    before: dict[str, dict[str, str | None]] = {owner: {} for owner in snapshot.names}
    for (owner, name), value, _ in snapshot.changes:
        before[owner][name] = value
    wanted = {
        owner: Wanted(
            settings={name: value for name, value in values.items() if value is not None},
            deleted=[name for name, value in values.items() if value is None],
        )
        for owner, values in before.items()
    }
    plan = plan_alterations(client, wanted, deadline_ms, kind=kind, plan_kind="undo")
    return replace(plan, rows=tuple(undo_rows(plan, snapshot)))


def undo_rows(plan: Plan[Alteration], snapshot: Snapshot) -> Iterator[Alteration]:
    """Return the rows of an undo, with the reason of each; topics that are gone are kept as they are. Pure."""
    after = {change.key: change.after for change in snapshot.changes}
    when = f"as before the change of {format_time(snapshot.made_ms)}"
    for row in plan.rows:
        then, now = snapshot.topic_ids.get(row.owner), plan.states.get(row.owner)
        if isinstance(row.error, BrokerError) and row.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            yield Alteration(row.key, action="keep", why="the topic does not exist any more")
        elif then is not None and now is not None and now != then:
            yield replace(row, action="keep", new=row.old, error=None, why="the topic was deleted and recreated since")
        elif row.action == "keep" or row.error is not None:
            yield row
        else:
            yield replace(row, why=when if row.own == after[row.key] else f"{when}; it was changed again since")
