"""Decoded values in the session of the tests: written by Confluent's serialisers, schemas from Apicurio."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.fake import Result
from tests.real_kafka import Kafka
from tests.schema_registry import Registry
from tests.spark.export_topics import read_back

if TYPE_CHECKING:
    pass

Kcli = Callable[..., Result]


FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"]}],
}
SECOND: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": "string", "default": "none"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "int"}}, "default": []},
    ],
}
SECOND["fields"][3]["default"] = "\u0000"


@pytest.fixture
def topic(apicurio: Registry, our_kafka: Kafka) -> str:
    """A topic with a record of each version, one that is not Avro, and a tombstone."""
    from datetime import datetime, timezone
    from decimal import Decimal

    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = our_kafka.new_topic(1)
    client = SchemaRegistryClient({"url": apicurio.url})
    context = SerializationContext(topic, MessageField.VALUE)
    old = AvroSerializer(client, json.dumps(FIRST))({"id": 1, "note": "x"}, context)
    when = datetime(2026, 1, 2, 3, 4, 5, 6007, timezone.utc)
    value = {"id": 2**40, "country": "FR", "at": when, "amount": Decimal("12.50"), "lines": [{"a": 1}]}
    new = AvroSerializer(client, json.dumps(SECOND))(value, context)
    producer = our_kafka.ordered_producer()
    for payload in (old, new, b"\x00text", None):
        producer.produce(topic, payload, b"key", partition=0)
    assert producer.flush(120) == 0
    return topic


def test_export_of_avro_has_the_columns_of_the_newest_schema(
    kcli: Kcli, topic: str, our_kafka: Kafka, apicurio: Registry, tmp_path: Path
) -> None:
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--value", "avro", "-O", "json"]
    words += ["--schema-registry", apicurio.url]
    done = kcli(*words, "--to", str(tmp_path / "out"), "--once")
    assert done.status == 0, done.err
    assert done.err == "values that did not decode: 1; see the column value_error\n"
    old, new, bad, null = read_back(tmp_path / "out")
    assert (old["value"]["id"], old["value"]["country"], str(old["value"]["amount"])) == (1, "none", "0.00")
    assert (new["value"]["id"], str(new["value"]["amount"]), new["value"]["lines"]) == (2**40, "12.50", [[("a", 1)]])
    assert new["value"]["at"].isoformat()[:26] == "2026-01-02T03:04:05.006007"
    assert (bad["value"], bad["value_raw"]) == (None, b"\x00text")
    assert bad["value_error"].startswith("avro: ")
    assert (null["value"], null["value_error"], null["value_raw"]) == (None, None, None)

    dead, csv = tmp_path / "dead", tmp_path / "csv"
    more = ["--to", str(csv), "--format", "csv", "--fields", "id,at,amount,lines", "--partition-by", "value.country"]
    done = kcli(*words, *more, "--columns", "value,offset", "--dead-letter", str(dead), "--where", "offset > 0")
    assert done.status == 0, done.err
    assert done.err == f"values that did not decode: 1; written to {dead}\n"
    (file,) = csv.glob("country=FR/*.csv")
    assert file.read_text().splitlines() == [
        "id,at,amount,lines,offset",
        f'{2**40},2026-01-02T03:04:05.006007Z,12.50,"[{{""a"":1}}]",1',
    ]
    ((letter),) = read_back(dead)
    assert (letter["key"], letter["value"], letter["offset"]) == (b"key", b"\x00text", 2)

    more = ["--to", str(tmp_path / "raw"), "--format", "csv", "--fields", "id", "--columns", "value"]
    done = kcli(*words, *more, "--where", "offset = 2")
    assert done.status == 0, done.err
    (file,) = (tmp_path / "raw").glob("*.csv")
    assert file.read_text().splitlines()[1].endswith(",AHRleHQ="), "base64"

    done = kcli(*words, "--to", str(tmp_path / "map"), "--partition-by", "value.lines")
    assert done.status == 2
    assert done.err == (
        "kcli: --partition-by: the field lines is of type array; use a field with a text, a number or a time\n"
    )


def test_a_missing_subject_is_one_line(kcli: Kcli, our_kafka: Kafka, apicurio: Registry, tmp_path: Path) -> None:
    topic = our_kafka.new_topic()
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--to", str(tmp_path / "x")]
    done = kcli(*words, "--value", "avro", "--schema-registry", apicurio.url)
    assert done.err.endswith(f"the registry has no subject '{topic}-value'; use value.subject\n")
    assert (done.status, done.err.count("\n")) == (3, 1)
    done = kcli(*words, "--value", "avro")
    assert done.err == "kcli: value.decode=avro requires schema.registry.url, or value.schema.file\n"
    assert done.status == 2
