"""`Admin`: topics, groups, offsets and assignments of a cluster for Python users."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.arguments import check_duration, checked
from kcli.errors import ConfigError
from kcli.text import compile_regex

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from kcli.admin.assignments import LiveGroup
    from kcli.admin.cluster import ClusterDescription
    from kcli.admin.configs import Setting
    from kcli.admin.explain.findings import Finding
    from kcli.admin.groups.group import Group, GroupMember
    from kcli.admin.groups.group_conditions import WaitResult
    from kcli.admin.groups.listing import FoundGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.admin.logs.open_transactions import TransactionSurvey
    from kcli.admin.offsets.offset_plan import IfNoRecord, IfOutOfRange, OffsetPlan, Scope, Target
    from kcli.admin.offsets.plan_files import Positions
    from kcli.admin.plan import Applied, Plan, Row
    from kcli.admin.snapshots import Snapshot, SnapshotStore
    from kcli.admin.topic_changes.alterations import Alteration, Wanted
    from kcli.admin.topic_changes.truncation import Truncation
    from kcli.admin.topics import CreatedTopic, NewTopic, TopicSize
    from kcli.admin.transactions import FoundTransactions, Transaction
    from kcli.assignors.forecast import Changes, Comparison
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.keyword_types import AdminSettings
    from kcli.client.metadata import TopicInfo
    from kcli.client.metrics import MetricGroups
    from kcli.client.requests import Results
    from kcli.log_place import Place
    from kcli.structs import ResourceKind, TopicPartition

DEFAULT_REASON = "removed with kcli"


@checked(
    IfNoRecord='Literal["refuse", "end", "skip"]',
    IfOutOfRange='Literal["refuse", "clamp", "skip"]',
    ResourceKind='Literal["topic", "broker", "group", "client-metrics"]',
    Scope="Mapping[str, Sequence[int] | None] | None",
    Target="Place | ToCurrent | ShiftBy | FromOffsets",
)
class Admin:
    """Administration of a cluster: topics, groups, committed offsets, assignments.

    >>> from kcli import LOG_START, Admin
    >>> with Admin(bootstrap, timeout_ms=10_000) as admin:
    ...     lag = admin.group_lag("billing")
    ...     plan = admin.plan_reset(["billing"], LOG_START, topics={"orders": [0]})
    >>> [row.committed.offset for row in lag["billing"].partitions if row.committed]
    [1]
    >>> [(str(row.tp), row.action, row.old.offset, row.new.offset) for row in plan.rows if row.old and row.new]
    [('orders-0', 'move', 1, 0)]

    `admin.apply(plan)` writes the plan; `admin.undo()` restores the offsets that were committed before.

    Settings are Kafka's client properties with underscores (`security_protocol`, `client_id`, ...); an unknown name
    raises ConfigError. Each call takes at most `timeout_ms` milliseconds in all, retries included; what is not known by
    then raises TimeoutExpired. Without `timeout_ms` it is `default_api_timeout_ms`, and without both 30 seconds.

    A call on several topics, groups or partitions returns `Results`: `results[name]` is a value, or raises the error of
    that name; `values` and `errors` are dicts. An error that concerns the whole call is raised. Plans change nothing
    before they are applied. No call joins a group; a call never creates a topic that it only asks for.

    There is no thread. An `Admin` belongs to one thread, connects with the first call, and is closed by the `with`
    block or `close`. A forked process makes its own: there the methods raise `kcli.ForkedClient`. An argument of a
    wrong type is a TypeError before anything is sent.
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str] | tuple[str, ...] = "localhost:9092",
        *,
        timeout_ms: float | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        """Make a client from settings. No connection is made before the first call."""
        from kcli.client.config import ClientConfig, not_settings
        from kcli.client.connect import connect

        if not isinstance(bootstrap_servers, str | list | tuple):
            advice = "keywords, Admin(bootstrap_servers=...), or Admin(**properties)"
            raise not_settings(bootstrap_servers, "an address", advice)
        check_duration("timeout_ms", timeout_ms, owner="Admin")
        if timeout_ms == 0:
            raise ConfigError("timeout_ms: 0 is not valid; use a number of milliseconds above 0")
        defaults = {"allow_auto_create_topics": False, "default_api_timeout_ms": 30_000}
        config = ClientConfig.from_keywords({**defaults, "bootstrap_servers": bootstrap_servers, **settings})
        self._timeout_ms = config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._network = connect(config)

    def __repr__(self) -> str:
        return f"<Admin {self._network.config.bootstrap_servers}>"

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._network.close()

    @property
    def _client(self) -> ConsumerNetworkClient:
        """The client, in the process that made it; raise ForkedClient in a fork of that."""
        self._network.require_own_process()
        return self._network

    def metrics(self) -> MetricGroups:
        """Return the metrics of requests and connections: Kafka's group -> Kafka's name -> value, now.

        Averages, maxima and rates are those of the last 30 to 60 seconds; NaN: no value in that time. Times are in ms.
        """
        return self._client.metrics.snapshot("admin-client", self._client.clock.now_ms())

    def _deadline_ms(self, timeout_ms: float | None = None) -> float:
        return self._client.clock.now_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)

    # Cluster and topics

    def describe_cluster(self) -> ClusterDescription:
        """Return id, controller and brokers of the cluster (KIP-700)."""
        from kcli.admin.cluster import describe_cluster

        return describe_cluster(self._client, self._deadline_ms())

    def list_topics(self) -> list[TopicInfo]:
        """Return all topics that the client may see, sorted by name; internal ones too."""
        from kcli.admin.topics import list_topics

        return list_topics(self._client, self._deadline_ms())

    def describe_topics(self, *names: str) -> Results[str, TopicInfo]:
        """Return these topics with their partitions, leaders and replicas.

        A topic that does not exist is an error under its name: BrokerError, UNKNOWN_TOPIC_OR_PARTITION.
        """
        from kcli.admin.topics import describe_topics

        return describe_topics(self._client, names, self._deadline_ms())

    def create_topics(self, topics: Iterable[NewTopic], *, dry_run: bool = False) -> Results[str, CreatedTopic]:
        """Create topics; with `dry_run` the controller only checks them.

        A topic that exists is an error under its name: BrokerError, TOPIC_ALREADY_EXISTS.
        """
        from kcli.admin.topics import create_topics

        return create_topics(self._client, list(topics), self._deadline_ms(), dry_run=dry_run)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication: int = -1,
        configs: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> CreatedTopic:
        """Create one topic; -1 leaves partitions or replication to the broker. BrokerError if it is refused."""
        from kcli.admin.topics import NewTopic

        return self.create_topics([NewTopic(name, partitions, replication, configs or {})], dry_run=dry_run)[name]

    def plan_topic_deletion(self, *names: str, internal: bool = False) -> Plan[Row[TopicSize]]:
        """Plan the deletion of topics: their partitions, and about how many records they hold. Changes nothing.

        A topic of the brokers, such as __consumer_offsets, is a row with the error Refused unless `internal`.
        """
        from kcli.admin.topics import plan_topic_deletion

        return plan_topic_deletion(self._client, names, self._deadline_ms(), internal=internal)

    def delete_topics(self, plan: Plan[Row[TopicSize]]) -> Results[str, None]:
        """Delete the topics of a plan, with all their records. Errors of the plan and of the broker are by name.

        A topic of the same name that was created after the plan is not deleted (Kafka 2.8 and later).
        """
        from kcli.admin.topics import apply_topic_deletion
        from kcli.client.requests import Results

        failed = apply_topic_deletion(self._client, plan, self._deadline_ms())
        results: Results[str, None] = Results()
        for row in plan.rows:
            results.put(row.key, row.error or failed.get(row.key))
        return results

    def check_cluster(self, *, ignore: Collection[str] = ()) -> list[Finding]:
        """Return the faults of the cluster, the most severe first; those of the kinds to `ignore` are not looked for.

        The kinds are those of `kcli.admin.health.check.KINDS`. The finding "unchecked" reports facts that are missing.
        """
        from kcli.admin.health.check import facts_for, find_faults
        from kcli.admin.health.inspection import inspect_cluster

        return find_faults(inspect_cluster(self._client, self._deadline_ms(), facts=facts_for(ignore)), ignore=ignore)

    def describe_configs(
        self, *names: str, kind: ResourceKind = "topic", keys: Collection[str] = ()
    ) -> Results[str, dict[str, Setting]]:
        """Return the settings of topics, or of another `kind`, by name; with `keys` only these.

        The name of a broker is its id; "" has those settings that were changed for all brokers. A secret has the value
        None. `source` says where a value comes from: "topic", "dynamic-broker", "static-broker", "default" and others
        of `kcli.admin.configs.SOURCES`. Errors by name: BrokerError, and NotFound for the id of no broker.
        """
        from kcli.admin.configs import NUMBERS, describe_configs
        from kcli.client.requests import Results

        found = describe_configs(self._client, NUMBERS[kind], names, self._deadline_ms(), keys=list(keys) or None)
        by_name = {name: {setting.name: setting for setting in settings} for name, settings in found.values.items()}
        return Results(by_name, found.errors)

    def plan_alterations(
        self, wanted: Mapping[str, Wanted], *, kind: ResourceKind = "topic", internal: bool = False
    ) -> Plan[Alteration]:
        """Plan more partitions of topics, and settings to set and to delete; the brokers check them. Changes nothing.

        `kind` says what the names are: topics, ids of brokers ("": all of them), groups or client metrics. A name that
        does not exist, or a change that a broker refuses, is a row with its error. Groups and client metrics need not
        exist. Refused: more partitions of an internal topic unless `internal`, and a secret of a broker, such as a
        password, which no plan shows. ConfigError for partitions of anything but a topic.
        """
        from kcli.admin.topic_changes.alterations import plan_alterations

        return plan_alterations(self._client, wanted, self._deadline_ms(), kind=kind, internal=internal)

    def plan_setting_undo(
        self, snapshot_id: str | None = None, *, kind: ResourceKind = "topic", folder: Path | None = None
    ) -> Plan[Alteration]:
        """Plan to restore the settings of a snapshot; by default of the last change that was not an undo.

        NotFound without such a snapshot of this `kind`, WrongCluster for one of another cluster. Changes nothing.
        """
        from kcli.admin.snapshots import KINDS_OF_SETTINGS
        from kcli.admin.topic_changes.alterations import plan_setting_undo

        deadline_ms = self._deadline_ms()
        snapshot = self._snapshot(KINDS_OF_SETTINGS[kind], snapshot_id, folder, deadline_ms)
        return plan_setting_undo(self._client, snapshot, deadline_ms)

    def alter(self, plan: Plan[Alteration], *, folder: Path | None = None) -> Results[tuple[str, str], str | None]:
        """Make the changes of a plan; new values and errors by the row's name and its setting (or "partitions").

        The old settings are saved first, in `folder`, by default $XDG_STATE_HOME/kcli/snapshots. PlanRefused for a
        plan with an error, Refused for an owner that has changed since, WrongCluster, SnapshotError: then nothing is
        changed.
        """
        from kcli.admin.topic_changes.alterations import apply_alterations
        from kcli.client.requests import Results

        failed = apply_alterations(self._client, plan, _store(folder), self._deadline_ms()).errors
        results: Results[tuple[str, str], str | None] = Results()
        for row in plan.changes:
            results.put(row.key, failed.get(row.key, row.new))
        return results

    def plan_truncation(
        self, topics: Mapping[str, list[int] | None], cut: Place, *, allow_future: bool = False
    ) -> Plan[Truncation]:
        """Plan to delete the records before a place in these partitions (None: all of a topic). Changes nothing.

        The rows have the number of offsets that each partition loses, and the groups that have not read them. Refused
        for a time after now without `allow_future`.
        """
        from kcli.admin.topic_changes.truncation import plan_truncation

        return plan_truncation(self._client, topics, cut, self._deadline_ms(), allow_future=allow_future)

    def truncate(self, plan: Plan[Truncation]) -> Results[TopicPartition, int]:
        """Delete the records of a plan; new first offsets and errors by partition. They cannot be restored.

        PlanRefused for a plan with an error, and Refused for a topic that was recreated since: nothing is deleted.
        """
        from kcli.admin.topic_changes.truncation import apply_truncation

        return apply_truncation(self._client, plan, self._deadline_ms())

    # Groups

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        match: str | None = None,
        topic: str | None = None,
    ) -> FoundGroups:
        """Return the groups of the cluster with their descriptions, sorted by name: `listed` and `described`.

        `states` and `types` are Kafka's names in any case, `match` is a regular expression that is searched for in the
        name, `topic` selects groups with a subscription or a committed offset in it. Brokers that did not answer are in
        `failed_brokers`.
        """
        from kcli.admin.groups.listing import find_groups

        return find_groups(
            self._client, self._deadline_ms(), states=states, types=types, pattern=_pattern(match), topic=topic
        )

    def describe_groups(self, *names: str) -> Results[str, Group]:
        """Return groups with their members, subscriptions and assignments.

        A group that does not exist is an error under its name: BrokerError, GROUP_ID_NOT_FOUND.
        """
        from kcli.admin.groups.describe import describe_groups

        return describe_groups(self._client, dict.fromkeys(names), self._deadline_ms())

    def group_lag(
        self, *names: str, time_lag: bool = False, isolation_level: str = "read_uncommitted"
    ) -> Results[str, GroupSurvey]:
        """Return groups with the lag of each partition that they have committed or own.

        Lag is in offsets. With `time_lag`, the record at each committed offset is read for its age in ms. With the
        isolation level "read_committed" the end of a log is its last stable offset. `kcli.total_lag` sums
        the partitions.
        """
        from kcli.admin.groups.survey import READ_COMMITTED, READ_UNCOMMITTED, survey_groups

        levels = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
        if isolation_level not in levels:
            raise ConfigError(f"isolation_level: '{isolation_level}' is not valid; use {' or '.join(levels)}")
        return survey_groups(
            self._client, names, self._deadline_ms(), isolation_level=levels[isolation_level], time_lag=time_lag
        )

    def wait_for_group(
        self, name: str, until: str, *, timeout_ms: float | None = None, interval_ms: float = 1_000
    ) -> WaitResult:
        """Wait until a group is "empty", "stable", or meets a condition such as "lag<=0", and look every `interval_ms`.

        The result has `reached` False if `timeout_ms` (default: that of all calls) passed first. A group that does not
        exist yet is waited for, except with "empty": BrokerError, GROUP_ID_NOT_FOUND. ConfigError for a condition that
        is not valid.
        """
        from kcli.admin.groups.group_conditions import parse_until, wait_for_group

        condition = parse_until(until)
        return wait_for_group(self._client, name, condition, self._deadline_ms(timeout_ms), interval_ms=interval_ms)

    def explain_groups(self, *names: str, interval_ms: float = 6_000) -> Results[str, list[Finding]]:
        """Return the reasons why groups make no progress, most severe first, from two observations `interval_ms` apart.

        Each finding has its evidence and advice. An interval above auto.commit.interval.ms is recommended.
        """
        from kcli.admin.explain.observe import observe_twice
        from kcli.admin.explain.rules import explain
        from kcli.client.requests import Results

        observed = observe_twice(self._client, dict.fromkeys(names), interval_ms, self._timeout_ms)
        return Results({name: explain(seen) for name, seen in observed.values.items()}, observed.errors)

    def plan_group_deletion(self, *names: str) -> Plan[Row[GroupSurvey]]:
        """Plan the deletion of groups, with their committed offsets. Changes nothing.

        A group with members is a row with its error, NON_EMPTY_GROUP.
        """
        from kcli.admin.groups.removal import plan_group_deletion

        return plan_group_deletion(self._client, names, self._deadline_ms())

    def delete_groups(self, *names: str, folder: Path | None = None) -> Results[str, None]:
        """Delete groups without members, with their committed offsets. Errors by name: NON_EMPTY_GROUP, ...

        A snapshot of the offsets is saved first, so that `undo` restores them; `folder` as for `apply`. SnapshotError
        if it cannot be saved: then nothing is deleted.
        """
        from kcli.admin.offsets.apply import apply_group_deletion
        from kcli.client.requests import Results

        applied = apply_group_deletion(self._client, names, _store(folder), self._deadline_ms())
        return Results({name: None for name, error in applied.results.items() if error is None}, applied.errors)

    def plan_member_removal(
        self,
        group: str,
        *,
        members: Iterable[str] = (),
        instances: Iterable[str] = (),
        clients: Iterable[str] = (),
        every: bool = False,
    ) -> Plan[Row[GroupMember]]:
        """Plan the removal of members by member id, instance id or client id, or of `every` member. Changes nothing.

        The key of a row is the member id. An id that no member has is a row with its error, UNKNOWN_MEMBER_ID.
        """
        from kcli.admin.groups.removal import plan_member_removal

        described = self.describe_groups(group)[group]
        return plan_member_removal(described, list(members), list(instances), list(clients), every=every)

    def remove_members(
        self, group: str, members: Iterable[GroupMember], *, reason: str = DEFAULT_REASON
    ) -> Results[str, None]:
        """Remove these members from a classic or consumer group; results by member id.

        A live member joins again; a live static member is fenced and stops. `reason` is for the broker's log.
        """
        from kcli.admin.groups.removal import remove_members

        return remove_members(self._client, group, members, reason, self._deadline_ms())

    # Transactions

    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), match: str | None = None
    ) -> FoundTransactions:
        """Return the transactional ids of all brokers with their descriptions, sorted; () and None select all.

        `states` are names such as Ongoing, and `match` is a regular expression for a part of the id.
        """
        from kcli.admin.transactions import find_transactions

        pattern = _pattern(match)
        return find_transactions(
            self._client, self._deadline_ms(), states=states, producer_ids=producer_ids, pattern=pattern
        )

    def describe_transactions(self, *transactional_ids: str) -> Results[str, Transaction]:
        """Return the state of these ids; that of an unknown one is BrokerError, TRANSACTIONAL_ID_NOT_FOUND."""
        from kcli.admin.transactions import describe_transactions

        return describe_transactions(self._client, transactional_ids, self._deadline_ms())

    def abort_transactions(self, *transactional_ids: str) -> Results[str, int]:
        """Abort what is open of these ids and fence their producers. Return the new producer epochs by id."""
        from kcli.admin.transactions import abort_transactions

        found = self.describe_transactions(*transactional_ids)
        aborted = abort_transactions(self._client, found.values.values(), self._deadline_ms())
        aborted.errors.update(found.errors)
        return aborted

    def open_transactions(self, *topics: str) -> TransactionSurvey:
        """Return the open transactions of all partitions of these topics, and which of them hang.

        A hanging one is known to no coordinator, so that no timeout ends it.
        """
        from kcli.admin.logs.open_transactions import survey_transactions
        from kcli.admin.topics import find_partitions

        deadline_ms = self._deadline_ms()
        partitions = find_partitions(self._client, dict.fromkeys(topics), deadline_ms)
        return survey_transactions(self._client, partitions, deadline_ms)

    # Offsets

    def plan_reset(
        self,
        groups: Iterable[str],
        target: Target,
        *,
        topics: Scope = None,
        if_no_record: IfNoRecord = "refuse",
        if_out_of_range: IfOutOfRange = "refuse",
    ) -> OffsetPlan:
        """Plan to move the committed offsets of groups to a target of `kcli.admin.offsets.offset_plan`.

        Targets are places of `kcli.log_place`, ToCurrent, ShiftBy and FromOffsets. `topics` maps topics to
        partitions, None: all of them; without it, all partitions of the topics in which a group has committed. A
        partition that cannot be set as requested is a refused row, which prevents the whole plan, unless a policy says
        otherwise: `if_no_record` "end" or "skip", `if_out_of_range` "clamp" or "skip". Changes nothing.
        """
        from kcli.admin.offsets.reset import plan_group_reset

        return plan_group_reset(
            self._client,
            groups,
            target,
            self._deadline_ms(),
            scope=topics,
            if_no_record=if_no_record,
            if_out_of_range=if_out_of_range,
        )

    def plan_copy(
        self, group: str, to_group: str, *, topics: Scope = None, if_out_of_range: IfOutOfRange = "refuse"
    ) -> OffsetPlan:
        """Plan to commit the offsets, leader epochs and metadata of one group for another one. Changes nothing.

        NotFound if the group has no committed offsets in `topics`.
        """
        from kcli.admin.offsets.reset import plan_copy

        deadline_ms = self._deadline_ms()
        plan, _ = plan_copy(self._client, group, to_group, deadline_ms, scope=topics, if_out_of_range=if_out_of_range)
        return plan

    def plan_delete(self, group: str, topics: Scope) -> OffsetPlan:
        """Plan to delete the committed offsets of a group in these topics (KIP-496). Changes nothing.

        NotFound for a topic or partition without a committed offset.
        """
        from kcli.admin.offsets.reset import plan_delete

        return plan_delete(self._client, group, topics, self._deadline_ms())

    def plan_undo(self, snapshot_id: str | None = None, *, folder: Path | None = None) -> OffsetPlan:
        """Plan to restore the offsets of a snapshot; by default, of the last change on this cluster that was not an
        undo.

        NotFound without such a snapshot, WrongCluster for one of another cluster. Changes nothing.
        """
        from kcli.admin.offsets.undo import plan_undo
        from kcli.admin.snapshots import OFFSETS

        deadline_ms = self._deadline_ms()
        return plan_undo(self._client, self._snapshot(OFFSETS, snapshot_id, folder, deadline_ms), deadline_ms)

    def _snapshot(self, resource: str, snapshot_id: str | None, folder: Path | None, deadline_ms: float) -> Snapshot:
        """Return the snapshot with this id, or the last one of the resource on this cluster."""
        from kcli.admin.offsets.checks import check_cluster

        if snapshot_id is not None:
            return _store(folder).load(snapshot_id, resource)
        check_cluster(self._client, None, deadline_ms)  # requests the cluster id
        return _store(folder).last(self._client.metadata.cluster.cluster_id, resource)

    def apply(self, plan: OffsetPlan, *, folder: Path | None = None) -> Applied:
        """Write a plan, after its assumptions are checked again and a snapshot is saved.

        Before anything is written: PlanRefused for a refused row, GroupInUse for a group with members, PlanOutdated for
        an offset that has changed since, WrongCluster, SnapshotError. A partition that fails during the write is in
        `errors` of the result; OutcomeUnknown there means that the offset may be written. `folder` is for snapshots; by
        default $XDG_STATE_HOME/kcli/snapshots.
        """
        from kcli.admin.offsets.apply import apply_plan

        return apply_plan(self._client, plan, _store(folder), self._deadline_ms())

    def undo(self, snapshot_id: str | None = None, *, folder: Path | None = None) -> Applied:
        """Restore the offsets of a snapshot: `plan_undo`, then `apply`. It can be undone by the id of the result."""
        return self.apply(self.plan_undo(snapshot_id, folder=folder), folder=folder)

    def snapshots(self, *, folder: Path | None = None) -> Results[str, Snapshot]:
        """Return the snapshots of offsets and settings by id, oldest first; one that cannot be read is an error."""
        return _store(folder).list()

    def export_offsets(self, *groups: str, match: str | None = None, topics: Scope = None) -> Positions:
        """Return the committed offsets of these groups, of those whose name contains a match, or of all.

        `positions_as_json` and `positions_as_csv` of `kcli.admin.offsets.plan_files` make a file of it. The first
        failure is raised, because a file with a part missing would look complete.
        """
        from kcli.admin.groups.listing import select_groups
        from kcli.admin.offsets.positions import export_offsets

        deadline_ms = self._deadline_ms()
        selected = select_groups(self._client, groups, _pattern(match), deadline_ms)
        return export_offsets(self._client, selected, topics, deadline_ms).positions

    # Assignments

    def assignment(self, group: str) -> LiveGroup:
        """Return a group as an assignor sees it: members with their partitions, topics, lags and rates.

        A rebalance is waited for. BrokerError, GROUP_ID_NOT_FOUND; Refused for a group that is not of consumers.
        """
        from kcli.admin.assignments import read_live_group

        return read_live_group(self._client, group, self._deadline_ms())

    def forecast(self, group: str, assignor: str | None = None, changes: Changes | None = None) -> Comparison:
        """Forecast the next assignment of a group and compare it with the current one. Changes nothing.

        `assignor` is a name of `kcli.assignors.lookup`, by default that of the group; `changes` adds or removes members
        or partitions. ConfigError for an unknown assignor, or if the group has none.
        """
        from kcli.assignors.forecast import Changes, change, compare, forecast_assignment

        live = self.assignment(group)
        name = assignor or live.assignor
        if not name:
            raise ConfigError(f"group {group} has no assignor; give one")
        topics, members = change(live.topics, live.members, changes or Changes())
        before = {member.id: member.owned for member in live.members}
        return compare(before, forecast_assignment(name, topics, members))

    def foresee(self, group: str, assignor: str | None = None, changes: Changes | None = None) -> Comparison:
        """Deprecated: the name of `forecast` before version 0.1.0."""
        warnings.warn("Admin.foresee is called Admin.forecast", DeprecationWarning, stacklevel=2)
        return self.forecast(group, assignor, changes)


def _pattern(match: str | None) -> re.Pattern[str] | None:
    try:
        return None if match is None else compile_regex(match)
    except re.error as error:
        raise ConfigError(f"match: '{match}' is not a valid regular expression: {error}") from None


def _store(folder: Path | None) -> SnapshotStore:
    from kcli.admin.snapshots import SnapshotStore

    return SnapshotStore.default(os.environ) if folder is None else SnapshotStore(folder)
