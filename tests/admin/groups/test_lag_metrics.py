"""Metrics of groups, from literals: names, labels, and what has no sample."""

from __future__ import annotations

from kcli.admin.groups.lag_metrics import KMINION, LAG_EXPORTER, NAMES, LagMetrics
from kcli.admin.groups.survey import GroupSurvey
from kcli.errors import KcliError
from tests.admin.explain.explain_cases import group, group_survey, member

SURVEY = group_survey(
    group(member("a", "orders-0", "orders-1")),
    {"orders-0": (40, 0, 100), "orders-1": (None, 5, 10), "returns-0": (7, 0, 7)},
    1000.0,
)


def samples(style: str, survey: GroupSurvey = SURVEY) -> dict[str, dict[str, float]]:
    """Return name of a metric -> labels as `a=1,b=2` -> value."""
    metrics = LagMetrics(style, "prod")
    metrics.add_cluster(up=True, survey_s=12.5)
    metrics.add_groups({"billing": survey}, ["lost"])
    return {
        metric.name: {
            ",".join(f"{name}={value}" for name, value in zip(metric.labels, labels, strict=True)): number
            for labels, number in metric.samples
        }
        for metric in metrics.metrics
    }


def test_lag_exporters_names_and_labels() -> None:
    """Names and labels of its README, section Metrics."""
    found = samples(LAG_EXPORTER)
    of_group = "cluster_name=prod,group=billing"
    owner = "member_host=10.0.0.9,consumer_id=a-1,client_id=a"
    assert found["kafka_consumergroup_group_lag"] == {
        f"{of_group},topic=orders,partition=0,{owner}": 60,
        f"{of_group},topic=returns,partition=0,member_host=,consumer_id=,client_id=": 0,
    }
    assert found["kafka_consumergroup_group_sum_lag"] == {of_group: 60}
    assert found["kafka_consumergroup_group_max_lag"] == {f"{of_group},is_simple_consumer=false": 60}
    assert found["kafka_consumergroup_group_topic_sum_lag"] == {
        f"{of_group},topic=orders": 60,
        f"{of_group},topic=returns": 0,
    }
    assert found["kafka_partition_latest_offset"] == {
        "cluster_name=prod,topic=orders,partition=0": 100,
        "cluster_name=prod,topic=orders,partition=1": 10,
        "cluster_name=prod,topic=returns,partition=0": 7,
    }
    assert found["kafka_partition_earliest_offset"]["cluster_name=prod,topic=orders,partition=1"] == 5


def test_kminions_names_and_labels() -> None:
    """Names and labels of its docs/metrics.md."""
    found = samples(KMINION)
    assert found["kminion_exporter_up"] == {"": 1}
    assert found["kminion_kafka_consumer_group_topic_partition_lag"] == {
        "group_id=billing,topic_name=orders,partition_id=0": 60,
        "group_id=billing,topic_name=returns,partition_id=0": 0,
    }
    assert found["kminion_kafka_consumer_group_topic_lag"]["group_id=billing,topic_name=orders"] == 60
    assert found["kminion_kafka_consumer_group_members"] == {"group_id=billing": 1}
    state = "protocol=range,protocol_type=consumer,coordinator_id=1,state=Stable"
    assert found["kminion_kafka_consumer_group_info"] == {f"group_id=billing,{state}": 1}
    assert found["kminion_kafka_topic_partition_high_water_mark"]["topic_name=orders,partition_id=0"] == 100


def test_an_unknown_lag_has_no_sample_and_is_counted() -> None:
    found = samples(LAG_EXPORTER)
    assert not any("partition=1" in labels for labels in found["kafka_consumergroup_group_lag"])
    assert found["kcli_group_unknown_partitions"] == {"cluster_name=prod,group=billing": 1}


def test_a_failed_group_is_a_metric() -> None:
    assert samples(LAG_EXPORTER)["kcli_group_up"] == {
        "cluster_name=prod,group=billing": 1,
        "cluster_name=prod,group=lost": 0,
    }


def test_a_group_without_any_known_lag_has_no_sum() -> None:
    survey = group_survey(group(), {"orders-0": (3, 0, None)}, 1000.0)._replace(error=KcliError("not loaded"))
    found = samples(LAG_EXPORTER, survey)
    assert "kafka_consumergroup_group_sum_lag" not in found
    assert found["kcli_group_up"]["cluster_name=prod,group=billing"] == 0


def test_a_time_lag_is_in_seconds() -> None:
    rows = [row._replace(time_lag_ms=1500) for row in SURVEY.partitions]
    found = samples(LAG_EXPORTER, SURVEY._replace(partitions=rows))
    assert set(found["kafka_consumergroup_group_lag_seconds"].values()) == {1.5}
    assert set(found["kafka_consumergroup_group_max_lag_seconds"].values()) == {1.5}


def test_no_two_metrics_share_a_name() -> None:
    for style in (LAG_EXPORTER, KMINION):
        names = [(style == KMINION and name.kminion) or name.lag_exporter for name in NAMES.values()]
        assert len(set(names)) == len(names)
