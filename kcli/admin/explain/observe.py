"""Two observations of groups and of the topics that they read. Joins no group, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.admin.configs import TOPIC, describe_configs
from kcli.admin.explain.observations import ClusterFacts, Observations, Retention
from kcli.admin.groups.group import SHARE
from kcli.admin.groups.survey import READ_COMMITTED, GroupSurvey, survey_groups
from kcli.client.offset_lookup import LATEST, list_offsets
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.admin.configs import Setting
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo

_RETENTION_SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes")


def observe_twice(
    client: ConsumerNetworkClient, groups: Mapping[str, str | None], interval_ms: float, timeout_ms: float
) -> Results[str, Observations]:
    """Observe these groups (name -> type, None if unknown) twice, `interval_ms` apart.

    Each observation may take `timeout_ms`. A group that does not exist, or that could not be described both times, is
    an error under its name.
    """
    deadline_ms = client.clock.now_ms() + timeout_ms
    first = survey_groups(client, groups, deadline_ms)
    if not first.values:
        return Results({}, first.errors)
    first_stable_ends = _stable_ends(client, first.values.values(), deadline_ms)
    observed_ms = next(iter(first.values.values())).ends_ms
    client.sleep(max(0.0, observed_ms + interval_ms - client.clock.now_ms()))

    deadline_ms = client.clock.now_ms() + timeout_ms
    second = survey_groups(client, {n: s.group.type for n, s in first.values.items()}, deadline_ms, time_lag=True)
    cluster = _cluster_facts(client, list(second.values.values()), first_stable_ends, deadline_ms)
    return Results(
        {name: Observations(first.values[name], survey, cluster) for name, survey in second.values.items()},
        {**first.errors, **second.errors},
    )


def _cluster_facts(
    client: ConsumerNetworkClient,
    surveys: list[GroupSurvey],
    first_stable_ends: Mapping[TopicPartition, int],
    deadline_ms: float,
) -> ClusterFacts:
    from kcli.admin.logs.open_transactions import survey_transactions
    from kcli.admin.logs.sizes import log_sizes

    rows = [row for survey in surveys for row in survey.partitions]
    topics = _topics(client, surveys, deadline_ms)
    stable_ends = _stable_ends(client, surveys, deadline_ms)
    with_open_transaction = {
        row.tp for row in rows if row.tp in stable_ends and row.end is not None and stable_ends[row.tp] < row.end
    }
    lagging = {row.tp for row in rows if row.lag}
    retention = _retention(client, sorted({tp.topic for tp in lagging}), deadline_ms)
    limited_by_size = {tp for tp in lagging if tp.topic in retention and retention[tp.topic].bytes is not None}
    return ClusterFacts(
        client.clock.wall_ms(),
        topics,
        retention,
        (first_stable_ends, stable_ends),
        survey_transactions(client, with_open_transaction, deadline_ms).transactions if with_open_transaction else (),
        log_sizes(client, limited_by_size, deadline_ms).values if limited_by_size else {},
    )


def _topics(
    client: ConsumerNetworkClient, surveys: Iterable[GroupSurvey], deadline_ms: float
) -> dict[str, TopicInfo | KcliError]:
    names = {row.tp.topic for survey in surveys for row in survey.partitions}
    names.update(topic for survey in surveys for topic in survey.group.topics)
    if not names:
        return {}
    cached = client.metadata.cluster.topics
    # The survey has waited for a topic that does not exist; do not wait for it again.
    existing = {n for n in names if n not in cached or cached[n].error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    cluster = client.topics_metadata(sorted(existing), deadline_ms)
    return {name: cluster.topic_error(name) or cluster.topics[name] for name in names & cluster.topics.keys()}


def _stable_ends(
    client: ConsumerNetworkClient, surveys: Iterable[GroupSurvey], deadline_ms: float
) -> dict[TopicPartition, int]:
    """Return the last stable offsets of partitions whose end offset is known."""
    partitions = {
        row.tp for survey in surveys for row in survey.partitions if row.end is not None and survey.group.type != SHARE
    }
    results = list_offsets(client, dict.fromkeys(sorted(partitions), LATEST), deadline_ms, READ_COMMITTED)
    return {tp: result.offset for tp, result in results.values.items()}


def _retention(client: ConsumerNetworkClient, topics: list[str], deadline_ms: float) -> dict[str, Retention]:
    if not topics:
        return {}
    configs = describe_configs(client, TOPIC, topics, deadline_ms, keys=_RETENTION_SETTINGS)
    limits = {name: parse_retention(settings) for name, settings in configs.values.items()}
    return {name: retention for name, retention in limits.items() if retention is not None}


def parse_retention(settings: Iterable[Setting]) -> Retention | None:
    """Return the retention of a topic with these settings; None if its records are never deleted. Pure."""
    values = {setting.name: setting.value or "" for setting in settings}
    if "delete" not in values.get("cleanup.policy", "delete"):
        return None
    limits = [_limit(values.get(name, "")) for name in ("retention.ms", "retention.bytes")]
    return Retention(*limits) if limits != [None, None] else None


def _limit(text: str) -> int | None:
    return int(text) if text.isdigit() else None  # -1: no limit
