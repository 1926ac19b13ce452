"""`kcli spark export` from a secured Kafka, and passwords that no file and no process list of Spark has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.certificates import PASSWORD
from tests.cli.fake import Result
from tests.secured_kafka import PLAIN_MODULE, USERS, SecuredKafka, jaas
from tests.spark.export_topics import RECORDS, expected, fill, read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kcli = Callable[..., Result]
Properties = dict[str, str]


def over_mutual_tls(kafka: SecuredKafka) -> Properties:
    stores = kafka.certificates
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(stores.truststore_jks),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(stores.pkcs12("client")),
        "ssl.keystore.password": PASSWORD,
    }


@pytest.mark.parametrize("listener", ["MTLS", "SASLS", "OAUTHJ"])
def test_a_secured_topic_is_exported(listener: str, kcli: Kcli, secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    topic, out = fill(secured_kafka, RECORDS), tmp_path / "out"
    properties = over_mutual_tls(secured_kafka) if listener == "MTLS" else secured_kafka.properties(listener)
    at = ("-b", secured_kafka.servers(listener), *secured_kafka.command_config(properties))
    done = kcli("spark", "export", topic, "--to", str(out), *at)
    assert done.status == 0, done.err
    assert read_back(out) == expected(topic, RECORDS)


@pytest.mark.parametrize("right", [True, False])
def test_a_password_is_in_no_event_file_and_no_process_list(
    right: bool,
    kcli: Kcli,
    spark: SparkSession,
    secured_kafka: SecuredKafka,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mark = USERS["marked"]
    topic = fill(secured_kafka, RECORDS)
    login = jaas(PLAIN_MODULE, username="marked" if right else "bob", password=mark)
    properties = secured_kafka.properties("SASLS", "PLAIN") | {"sasl.jaas.config": login}
    at = ("-b", secured_kafka.servers("SASLS"), *secured_kafka.command_config(properties))
    done = kcli("spark", "export", topic, "--to", str(tmp_path / "out"), "-v", *at, environ={"KCLI_DEBUG": "1"})
    assert done.status == (0 if right else 4)
    events = [path for path in Path(spark.conf.get("spark.eventLog.dir") or "").rglob("*") if path.is_file()]
    assert events
    files = [*events, *(path for path in tmp_path.rglob("*") if path.is_file())]
    assert not [path for path in files if mark.encode() in path.read_bytes()]
    assert mark.encode() not in b"".join(map(_command_line, Path("/proc").glob("[0-9]*/cmdline")))
    shown = capfd.readouterr()
    assert mark not in done.text + done.err + shown.out + shown.err


def _command_line(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended
        return b""
