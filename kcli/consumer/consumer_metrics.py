"""Metrics of a consumer under Kafka's names: fetches, lag of each partition, and the group: commits, rebalances.

Requests are counted by the client (`kcli.client.metrics`). The lag is computed when it is read, so it costs a poll
nothing. Bytes are those of the batches as they were received; Java counts the decompressed records in them, without
the headers of the batches. Source of the names: https://kafka.apache.org/documentation/#consumer_monitoring
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kcli.client.metrics import (
    REBALANCES,
    RECORD_BYTES,
    RECORDS,
    RECORDS_PER_REQUEST,
    MetricGroups,
    counts,
    statistics,
    sums,
)

if TYPE_CHECKING:
    from kcli.client.metrics import ClientMetrics
    from kcli.consumer.subscription import SubscriptionState

_FETCHES, _COORDINATOR = "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"


def fetch_metrics(
    metrics: ClientMetrics, subscription: SubscriptionState, now_ms: float, *, read_committed: bool
) -> MetricGroups:
    """Return the metrics of fetches, and `records-lag` and `records-lead` of each partition whose log end is known."""
    latency, records, size = metrics.latency("Fetch"), metrics.sensor(RECORDS), metrics.sensor(RECORD_BYTES)
    partitions: MetricGroups = {}
    largest_lag, smallest_lead = math.nan, math.nan
    for tp in list(subscription.partitions()):
        state = subscription.get(tp)
        if state is None or state.position is None:
            continue
        end = state.log_end(read_committed=read_committed)
        values: dict[str, float] = {}
        if end >= 0:
            lag = float(max(0, end - state.position.offset))
            values["records-lag"] = lag
            largest_lag = lag if math.isnan(largest_lag) else max(largest_lag, lag)
        if state.log_start >= 0:
            lead = float(max(0, state.position.offset - state.log_start))
            values["records-lead"] = lead
            smallest_lead = lead if math.isnan(smallest_lead) else min(smallest_lead, lead)
        if values:
            partitions[f"{_FETCHES},topic={tp.topic},partition={tp.partition}"] = values
    fetches = {
        **counts("fetch", latency, now_ms),
        **statistics("fetch-latency", latency, now_ms),
        **statistics("fetch-size", size, now_ms),
        **statistics("fetch-throttle-time", metrics.throttle("Fetch"), now_ms),
        **sums("bytes-consumed", size, now_ms),
        **sums("records-consumed", records, now_ms),
        "records-per-request-avg": metrics.sensor(RECORDS_PER_REQUEST).average(now_ms),
        "records-lag-max": largest_lag,
        "records-lead-min": smallest_lead,
    }
    topics = {tp.topic: _topic_metrics(metrics, tp.topic, now_ms) for tp in list(subscription.partitions())}
    return {
        _FETCHES: fetches,
        **{f"{_FETCHES},topic={topic}": values for topic, values in topics.items() if values},
        **partitions,
    }


def _topic_metrics(metrics: ClientMetrics, topic: str, now_ms: float) -> dict[str, float]:
    """Return the metrics of the fetched records of one topic; nothing before its first."""
    size, records = (metrics.sensor(f"{name},topic={topic}") for name in (RECORD_BYTES, RECORDS_PER_REQUEST))
    if not size.count:
        return {}
    return {
        **statistics("fetch-size", size, now_ms),
        **sums("bytes-consumed", size, now_ms),
        **sums("records-consumed", records, now_ms),
        "records-per-request-avg": records.average(now_ms),
    }


def group_metrics(metrics: ClientMetrics, assigned: int, now_ms: float) -> MetricGroups:
    """Return the metrics of a member: commits, heartbeats, joins and rebalances."""
    commit, join, sync = (metrics.latency(api) for api in ("OffsetCommit", "JoinGroup", "SyncGroup"))
    kip848 = metrics.latency("ConsumerGroupHeartbeat")
    heartbeat = kip848 if kip848.count else metrics.latency("Heartbeat")
    rebalances = metrics.sensor(REBALANCES)
    return {
        _COORDINATOR: {
            "assigned-partitions": float(assigned),
            **counts("commit", commit, now_ms),
            **statistics("commit-latency", commit, now_ms),
            **counts("heartbeat", heartbeat, now_ms),
            "heartbeat-response-time-max": heartbeat.maximum(now_ms),
            "last-heartbeat-seconds-ago": heartbeat.seconds_ago(now_ms),
            **counts("join", join, now_ms),
            **statistics("join-time", join, now_ms),
            **counts("sync", sync, now_ms),
            **statistics("sync-time", sync, now_ms),
            **statistics("rebalance-latency", rebalances, now_ms),
            "rebalance-latency-total": rebalances.total,
            "rebalance-total": float(rebalances.count),
            "rebalance-rate-per-hour": rebalances.rate(now_ms) * 3600,
            "last-rebalance-seconds-ago": rebalances.seconds_ago(now_ms),
        }
    }
