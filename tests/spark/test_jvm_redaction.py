"""Passwords among the options of a query: absent from plans, the event log, progress, errors and checkpoints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.spark.client_options import REDACTION, hide_passwords, redacted_names
from tests.real_kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK = "hunter2-marked"
SECRETS = {
    "kafka.sasl.jaas.config": f'a.Plain required username="a" password="{MARK}";',
    "kafka.sasl.password": MARK,
    "kafka.ssl.keystore.key": MARK,
    "kafka.ssl.key.password": MARK,
    "kafka.ssl.ca.pem": MARK,
    "kafka.sasl.oauthbearer.client.secret": MARK,
}


def test_names_of_passwords_are_matched_and_others_are_not() -> None:
    pattern = re.compile(redacted_names())
    assert all(pattern.search(name) for name in (*SECRETS, "KAFKA.SASL.JAAS.CONFIG"))
    for name in ("kafka.sasl.mechanism", "kafka.ssl.truststore.location", "kafka.bootstrap.servers", "subscribe"):
        assert not pattern.search(name)


def test_the_pattern_of_the_session_is_kept_and_extended_once() -> None:
    class Conf(dict[str, str]):
        set = dict.__setitem__

    class Session:
        conf = Conf({REDACTION: "(?i)url"})

    hide_passwords(Session)  # type: ignore[arg-type]
    hide_passwords(Session)  # type: ignore[arg-type]
    assert Session.conf[REDACTION] == f"(?i)url|{redacted_names()}"


def test_a_password_is_in_no_plan_event_progress_error_or_checkpoint(
    spark: SparkSession, our_kafka: Kafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = our_kafka.new_topic(1)
    options: dict[str, Any] = {"kafka.bootstrap.servers": our_kafka.bootstrap_servers, "subscribe": topic, **SECRETS}
    frame = spark.read.format("kcli").options(**options).load()
    assert frame.collect() == []
    stream = spark.readStream.format("kcli").options(**options).load()
    target = {"kafka.bootstrap.servers": our_kafka.bootstrap_servers, "topic": our_kafka.new_topic(1), **SECRETS}
    spark.range(3).selectExpr("'v' value").write.format("kcli").options(**target).mode("append").save()
    writer = stream.select("value").writeStream.format("kcli").options(**target)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the stream did not end within 120 s"
    for plan in (frame, stream):
        plan.explain("extended")
    query.explain(extended=True)
    protocol = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    with pytest.raises(Exception, match="two logins") as not_written:
        spark.range(3).selectExpr("'v' value").write.format("kcli").options(**target, **protocol).mode("append").save()
    contradicting = spark.read.format("kcli").options(**options, **protocol).load()
    with pytest.raises(Exception, match="two logins") as refused:
        contradicting.collect()
    shown = capfd.readouterr().out
    assert "(redacted)" in shown
    assert MARK not in shown + str(query.recentProgress) + str(refused.value) + str(not_written.value)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    events = [path for path in Path(spark.conf.get("spark.eventLog.dir") or "").rglob("*") if path.is_file()]
    assert files
    assert any(topic.encode() in path.read_bytes() for path in events)
    assert not [path for path in (*files, *events) if MARK.encode() in path.read_bytes()]
