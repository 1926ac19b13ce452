"""Lag of groups as metrics for Prometheus, under the names of kafka-lag-exporter or of kminion. Pure: no I/O.

A dashboard made for one of the two exporters works unchanged for the metrics that it has; `NAMES` is the table. A
metric that an exporter does not have gets a name that begins with `kcli_`.

A number that is unknown has no sample, because an old or invented number would hide the failure.
`kcli_group_unknown_partitions` counts the partitions without a lag, `kcli_group_beyond_end_partitions` those of them
that are committed after the log end, and `kcli_group_up` is 0 for a group that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.lag import rows_by_topic, total_lag
from kcli.metric import Metric

if TYPE_CHECKING:
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.structs import TopicPartition

LAG_EXPORTER, KMINION = "kafka-lag-exporter", "kminion"
STYLES = (LAG_EXPORTER, KMINION)


class MetricNames(NamedTuple):
    """A metric's name in each style and its help text. The kminion name is the other one if kminion has none."""

    lag_exporter: str
    kminion: str | None
    help: str


NAMES: dict[str, MetricNames] = {
    "up": MetricNames("kcli_up", "kminion_exporter_up", "1 if the last survey reached the cluster, else 0."),
    "survey_time": MetricNames(
        "kcli_survey_timestamp_seconds", None, "Time of the last survey that reached the cluster, since 1970."
    ),
    "failed_brokers": MetricNames("kcli_failed_brokers", None, "Brokers that did not return their groups."),
    "group_up": MetricNames("kcli_group_up", None, "1 if the group could be surveyed, else 0."),
    "unknown": MetricNames("kcli_group_unknown_partitions", None, "Partitions of the group whose lag is unknown."),
    "beyond_end": MetricNames(
        "kcli_group_beyond_end_partitions",
        None,
        "Partitions of the group with a committed offset after the log end; their lag is unknown.",
    ),
    "members": MetricNames("kcli_group_members", "kminion_kafka_consumer_group_members", "Members of the group."),
    "state": MetricNames(
        "kcli_group_info", "kminion_kafka_consumer_group_info", "1 if the group is stable, else 0; its state."
    ),
    "offset": MetricNames("kafka_consumergroup_group_offset", None, "Committed offset of the group in the partition."),
    "lag": MetricNames(
        "kafka_consumergroup_group_lag",
        "kminion_kafka_consumer_group_topic_partition_lag",
        "Offsets between the committed offset and the end of the partition.",
    ),
    "time_lag": MetricNames(
        "kafka_consumergroup_group_lag_seconds", None, "Age of the record at the committed offset; 0 without lag."
    ),
    "max_lag": MetricNames("kafka_consumergroup_group_max_lag", None, "Largest lag of the group in a partition."),
    "max_time_lag": MetricNames(
        "kafka_consumergroup_group_max_lag_seconds", None, "Largest age of a record at a committed offset of the group."
    ),
    "sum_lag": MetricNames("kafka_consumergroup_group_sum_lag", None, "Lag of the group in all partitions."),
    "topic_lag": MetricNames(
        "kafka_consumergroup_group_topic_sum_lag",
        "kminion_kafka_consumer_group_topic_lag",
        "Lag of the group in all partitions of the topic.",
    ),
    "end": MetricNames(
        "kafka_partition_latest_offset", "kminion_kafka_topic_partition_high_water_mark", "End offset of the partition."
    ),
    "start": MetricNames(
        "kafka_partition_earliest_offset",
        "kminion_kafka_topic_partition_low_water_mark",
        "Start offset of the partition.",
    ),
}


class LagMetrics:
    """Metrics of one survey, in the names and labels of a style (one of `STYLES`).

    `cluster` is the label `cluster_name` of kafka-lag-exporter; kminion has no such label.
    """

    def __init__(self, style: str, cluster: str) -> None:
        self._is_kminion = style == KMINION
        self._cluster = () if self._is_kminion else (cluster,)
        self._metrics: dict[str, Metric] = {}
        on_cluster = () if self._is_kminion else ("cluster_name",)
        group, topic = ("group_id", "topic_name") if self._is_kminion else ("group", "topic")
        partition = "partition_id" if self._is_kminion else "partition"
        owner = () if self._is_kminion else ("member_host", "consumer_id", "client_id")
        simple = () if self._is_kminion else ("is_simple_consumer",)
        of_group, of_topic = (*on_cluster, group), (*on_cluster, group, topic)
        of_partition = (*of_topic, partition, *owner)
        protocol = ("protocol", "protocol_type", "coordinator_id", "state")
        self._labels: dict[str, tuple[str, ...]] = {
            **dict.fromkeys(("up", "survey_time", "failed_brokers"), on_cluster),
            **dict.fromkeys(("group_up", "unknown", "beyond_end", "members", "sum_lag"), of_group),
            **dict.fromkeys(("max_lag", "max_time_lag"), (*of_group, *simple)),
            **dict.fromkeys(("offset", "lag", "time_lag"), of_partition),
            **dict.fromkeys(("end", "start"), (*on_cluster, topic, partition)),
            "topic_lag": of_topic,
            "state": (*of_group, *protocol),
        }

    def add_cluster(self, *, up: bool, failed_brokers: int = 0, survey_s: float | None = None) -> None:
        """Add the metrics of the cluster. `survey_s`: time of the last survey that reached it, or None."""
        self._add("up", (), float(up))
        self._add("failed_brokers", (), failed_brokers)
        if survey_s is not None:
            self._add("survey_time", (), survey_s)

    def add_groups(self, surveys: Mapping[str, GroupSurvey], failed: Iterable[str]) -> None:
        """Add the metrics of these surveyed groups, of the groups that failed, and of the surveyed partitions."""
        bounds: dict[TopicPartition, tuple[int | None, int | None]] = {}
        for name, survey in surveys.items():
            self._add("group_up", (name,), float(survey.error is None))
            self._add_group(name, survey)
            bounds.update((row.tp, (row.start, row.end)) for row in survey.partitions)
        for name in failed:
            self._add("group_up", (name,), 0)
        for tp, (start, end) in sorted(bounds.items()):
            where = (tp.topic, str(tp.partition))
            if start is not None:
                self._add("start", where, start)
            if end is not None:
                self._add("end", where, end)

    def _add_group(self, name: str, survey: GroupSurvey) -> None:
        group, totals = survey.group, total_lag(survey.partitions)
        state = (group.assignor, group.protocol_type, str(group.coordinator.id), group.state)
        self._add("state", (name, *state), float(group.state == "Stable"))
        self._add("members", (name,), len(group.members))
        self._add("unknown", (name,), totals.unknown)
        self._add("beyond_end", (name,), totals.beyond_end)
        if totals.unknown < totals.partitions or survey.error is None:
            simple = () if self._is_kminion else (str(not group.protocol_type).lower(),)
            self._add("sum_lag", (name,), totals.lag)
            self._add("max_lag", (name, *simple), totals.max_lag)
            if totals.max_time_lag_ms is not None:
                self._add("max_time_lag", (name, *simple), totals.max_time_lag_ms / 1000)
        for topic, rows in rows_by_topic(survey.partitions).items():
            if any(row.lag is not None for row in rows):
                self._add("topic_lag", (name, topic), total_lag(rows).lag)
            for row in rows:
                self._add_partition(row)

    def _add_partition(self, row: PartitionLag) -> None:
        labels: tuple[str, ...] = (row.group, row.tp.topic, str(row.tp.partition))
        if not self._is_kminion:
            owner = row.member
            labels += ("", "", "") if owner is None else (owner.host, owner.id, owner.client_id)
        if row.committed is not None:
            self._add("offset", labels, row.committed.offset)
        if row.lag is not None:
            self._add("lag", labels, row.lag)
        if row.time_lag_ms is not None:
            self._add("time_lag", labels, row.time_lag_ms / 1000)

    def _add(self, key: str, values: tuple[str, ...], value: float) -> None:
        metric = self._metrics.get(key)
        if metric is None:
            names = NAMES[key]
            name = (self._is_kminion and names.kminion) or names.lag_exporter
            metric = self._metrics[key] = Metric(name, names.help, self._labels[key], [])
        metric.samples.append(((*self._cluster, *values), value))

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that have samples, in the order of `NAMES`."""
        return [self._metrics[key] for key in NAMES if key in self._metrics]
