"""The facts for `explain`: two looks at groups and at what lies around them. Joins nothing, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.admin.configs import TOPIC, describe_configs
from kcli.admin.explain.observations import Observations, Retention, Surroundings
from kcli.admin.groups.group import SHARE
from kcli.admin.groups.survey import READ_COMMITTED, GroupSurvey, survey_groups
from kcli.client.offset_lookup import LATEST, list_offsets
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.admin.configs import Setting
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo

_RETENTION = ("cleanup.policy", "retention.ms", "retention.bytes")


def observe_twice(
    client: ConsumerNetworkClient, groups: Mapping[str, str | None], interval_ms: float, timeout_ms: float
) -> Results[str, Observations]:
    """The facts about these groups (name -> type as far as known), from two looks this far apart.

    Each look may take `timeout_ms`. A group that is not there, or could not be described both times, is an error.
    """
    deadline_ms = client.clock.now_ms() + timeout_ms
    first = survey_groups(client, groups, deadline_ms)
    if not first.values:
        return Results({}, first.errors)
    stable_before = _stable_ends(client, first.values.values(), deadline_ms)
    looked_ms = next(iter(first.values.values())).ends_ms
    client.sleep(max(0.0, looked_ms + interval_ms - client.clock.now_ms()))

    deadline_ms = client.clock.now_ms() + timeout_ms
    second = survey_groups(client, {n: s.group.type for n, s in first.values.items()}, deadline_ms, time_lag=True)
    around = _look_around(client, list(second.values.values()), stable_before, deadline_ms)
    return Results(
        {name: Observations(first.values[name], survey, around) for name, survey in second.values.items()},
        {**first.errors, **second.errors},
    )


def _look_around(
    client: ConsumerNetworkClient,
    surveys: list[GroupSurvey],
    stable_before: Mapping[TopicPartition, int],
    deadline_ms: float,
) -> Surroundings:
    from kcli.admin.logs.open_transactions import transactions_holding_back

    rows = [row for survey in surveys for row in survey.partitions]
    topics = _topics(client, surveys, deadline_ms)
    stable = _stable_ends(client, surveys, deadline_ms)
    held = {row.tp for row in rows if row.tp in stable and row.end is not None and stable[row.tp] < row.end}
    lagging = {row.tp for row in rows if row.lag}
    retention = _retention(client, sorted({tp.topic for tp in lagging}), deadline_ms)
    limited = {tp for tp in lagging if tp.topic in retention and retention[tp.topic].bytes is not None}
    return Surroundings(
        client.clock.wall_ms(),
        topics,
        retention,
        (stable_before, stable),
        transactions_holding_back(client, held, deadline_ms) if held else (),
        _log_bytes(client, limited, deadline_ms) if limited else {},
    )


def _topics(
    client: ConsumerNetworkClient, surveys: Iterable[GroupSurvey], deadline_ms: float
) -> dict[str, TopicInfo | KcliError]:
    names = {row.tp.topic for survey in surveys for row in survey.partitions}
    names.update(topic for survey in surveys for topic in survey.group.topics)
    if not names:
        return {}
    told = client.metadata.cluster.topics  # a topic that the survey was told is gone is not waited for once more
    there = {name for name in names if name not in told or told[name].error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    known = client.topics_metadata(sorted(there), deadline_ms).topics
    found: dict[str, TopicInfo | KcliError] = {}
    for name in names & known.keys():
        code = known[name].error
        found[name] = BrokerError(code, topic=name) if code != ErrorCode.NONE else known[name]
    return found


def _stable_ends(
    client: ConsumerNetworkClient, surveys: Iterable[GroupSurvey], deadline_ms: float
) -> dict[TopicPartition, int]:
    """The last stable offsets of partitions that have an end at all."""
    wanted = {
        row.tp for survey in surveys for row in survey.partitions if row.end is not None and survey.group.type != SHARE
    }
    told = list_offsets(client, dict.fromkeys(sorted(wanted), LATEST), deadline_ms, READ_COMMITTED)
    return {tp: found.offset for tp, found in told.values.items()}


def _retention(client: ConsumerNetworkClient, topics: list[str], deadline_ms: float) -> dict[str, Retention]:
    if not topics:
        return {}
    told = describe_configs(client, TOPIC, topics, deadline_ms, keys=_RETENTION)
    return {name: found for name, settings in told.values.items() if (found := retention_of(settings)) is not None}


def retention_of(settings: Iterable[Setting]) -> Retention | None:
    """How a topic with these settings deletes records; None for one that does not. Pure."""
    values = {setting.name: setting.value or "" for setting in settings}
    if "delete" not in values.get("cleanup.policy", "delete"):
        return None
    limits = [_limit(values.get(name, "")) for name in ("retention.ms", "retention.bytes")]
    return Retention(*limits) if limits != [None, None] else None


def _limit(text: str) -> int | None:
    return int(text) if text.isdigit() else None  # -1 is none


def _log_bytes(
    client: ConsumerNetworkClient, partitions: set[TopicPartition], deadline_ms: float
) -> dict[TopicPartition, int]:
    """Sizes of partitions, as the disks of their leaders have them."""
    from kcli.admin.logs.sizes import log_sizes

    return log_sizes(client, partitions, deadline_ms).values
