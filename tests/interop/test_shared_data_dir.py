"""One data directory used in turn by a real Kafka and by our broker: each continues where the other stopped or was
killed.
"""

from __future__ import annotations

import base64
import hmac
import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from kcli import Admin
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.records.batch import walk_batches
from tests.broker.test_earlier_files import EARLIER
from tests.broker.wire import Wire
from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode, free_ports, read_until_equal
from tests.secured_kafka import SCRAM_MODULE, jaas

pytestmark = pytest.mark.slow

Row = tuple[int, bytes | None, bytes | None]

# Words in a broker's log that say it was not content with what it found.
COMPLAINTS = re.compile(r"corrupt|rebuil[dt]|truncat|damaged|stray|inconsisten|fail", re.IGNORECASE)
HARMLESS = re.compile(
    r"log\.cleaner|= |truncateOnRestart|authorization failed|Truncating to|failed authentication|Truncation|failover|"
    # Our log says that this broker leads, until Kafka's controller has registered it: it loads its groups again then.
    r"Failed to load metadata from __consumer_offsets-\d+ with epoch \d+ due to Stopped loading records",
)


def produce(broker: Kafka, topic: str, rows: list[tuple[bytes, bytes | None]], **settings: Any) -> None:
    refused: list[str] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0, **settings}
    )
    for key, value in rows:
        producer.produce(topic, value, key, partition=0, on_delivery=lambda e, _: refused.append(str(e)) if e else None)
    assert producer.flush(60) == 0
    assert not refused


def read(broker: Kafka, topic: str, partition: int = 0) -> list[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    rows: list[Row] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            consumer.close()
            return rows
        rows.append((message.offset(), message.key(), message.value()))
    raise AssertionError(f"no end of {topic} after {len(rows)} records")


def commit(broker: Kafka, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                return
            except KafkaException:  # a real Kafka makes the topic of the offsets only now
                assert time.monotonic() < deadline, f"group {group} found no coordinator"
                time.sleep(0.1)
    finally:
        consumer.close()


def committed(broker: Kafka, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


def complaints(log: str) -> list[str]:
    lines = [line for line in log.splitlines() if "WARN" in line or "ERROR" in line or line.startswith("kcli: ")]
    return [line for line in lines if COMPLAINTS.search(line) and not HARMLESS.search(line)]


class Turns:
    """The directory and the broker that uses it now."""

    def __init__(self, real: KafkaNode) -> None:
        self.real = real
        self.ours = BrokerProcess(real.folder, real.jars, settings={"log.cleaner.backoff.ms": "200"})
        self.now: Any = real
        self._said = 0

    def hand_over(self, *, clean: bool) -> Any:
        if clean:
            self.now.stop()
        else:
            self.now.kill()
        self.now = self.ours if self.now is self.real else self.real
        self._said = len(self.log)
        self.now.start()
        return self.now

    @property
    def log(self) -> str:
        return Path(self.now.log_file).read_text(errors="replace") if Path(self.now.log_file).exists() else ""

    @property
    def said(self) -> str:
        """Return what the current broker has logged since it started."""
        return self.log[self._said :]


@pytest.fixture
def turns(own_kafka: Callable[..., KafkaNode]) -> Any:
    turns = Turns(own_kafka(log_segment_bytes=str(1 << 20)))
    yield turns
    turns.ours.kill()


def rows(start: int, count: int, size: int = 1000) -> list[tuple[bytes, bytes | None]]:
    return [(b"k%d" % (number % 10), b"%d " % number + b"v" * size) for number in range(start, start + count)]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_each_broker_serves_the_data_of_the_other(turns: Turns, clean: bool) -> None:
    real = turns.real
    real.create_topic("orders", 2)
    written = rows(0, 1500)
    produce(real, "orders", written, **{"batch.num.messages": 50})
    upto = 700
    commit(real, "billing", "orders", upto)
    for last in (1600, 1650):
        broker = turns.hand_over(clean=clean)
        assert [row[1:] for row in read(broker, "orders")] == written
        assert [row[0] for row in read(broker, "orders")] == [*range(len(written))]
        assert committed(broker, "billing", "orders") == upto
        more = rows(len(written), last - len(written))
        produce(broker, "orders", more)
        written += more
        upto = len(written)
        commit(broker, "billing", "orders", upto)
        if clean:
            assert complaints(turns.said) == []
    broker = turns.hand_over(clean=clean)
    assert [row[1:] for row in read(broker, "orders")] == written
    assert committed(broker, "billing", "orders") == len(written)
    assert read(broker, "orders", 1) == []


def test_a_topic_compacted_by_one_broker_is_served_and_cleaned_by_the_other(turns: Turns) -> None:
    real = turns.real
    real.create_topic("comp", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=500)
    newest: dict[bytes, bytes | None] = {}

    def write_and_clean(broker: Kafka, start: int) -> None:
        for number in range(start, start + 3):
            batch = rows(number * 100, 100, 20)
            produce(broker, "comp", batch)
            newest.update(batch)
            time.sleep(0.7)
        produce(broker, "comp", [(b"end", b"%d" % start)])
        newest[b"end"] = b"%d" % start
        deadline = time.monotonic() + 30
        while len(read(broker, "comp")) > 130:
            assert time.monotonic() < deadline, "nobody cleaned"
            time.sleep(0.2)

    write_and_clean(real, 0)
    for start in (10, 20):
        broker = turns.hand_over(clean=True)
        if broker is turns.ours:  # it does not know the topic's settings, which are in the real one's metadata log
            from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"}
            resource = ConfigResource(ConfigResource.Type.TOPIC, "comp")
            resource.incremental_configs = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
            ]
            for done in admin.incremental_alter_configs([resource]).values():
                done.result(30)
        before = read(broker, "comp")
        assert {key: value for _, key, value in before} == newest
        write_and_clean(broker, start)
        after = read(broker, "comp")
        assert {key: value for _, key, value in after} == newest
        assert [row[0] for row in after] == sorted(row[0] for row in after)
        assert complaints(turns.said) == []


def write_transactions(broker: Kafka, topic: str) -> None:
    """Write interleaved transactions of three producers and records without one; leave one transaction open."""
    chance = random.Random(5)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transaction.timeout.ms": 600_000, "log_level": 2}
    settings["linger.ms"] = 1000  # a batch has all records up to the next flush
    writers = [Producer({**settings, "transactional.id": f"writer-{number}"}) for number in range(3)]
    for writer in writers:
        writer.init_transactions(60)
    plain = broker.ordered_producer(topic)
    is_open: list[Producer] = []
    written = 0
    for number in range(300):
        writer = chance.choice([*writers, plain])
        if writer in is_open and chance.random() < 0.15:
            (writer.commit_transaction if chance.random() < 0.5 else writer.abort_transaction)(30)
            is_open.remove(writer)
            written += 1  # its marker
            continue
        if writer is not plain and writer not in is_open:
            writer.begin_transaction()
            is_open.append(writer)
        for part in range(chance.randrange(1, 4)):
            writer.produce(topic, b"%d.%d " % (number, part) + b"v" * chance.randrange(8000), b"k", partition=0)
            written += 1
        writer.flush(30)
    assert is_open
    for writer in is_open[1:]:
        writer.abort_transaction(30)
        written += 1
    # The end of a transaction is answered before its marker is written.
    assert read_until_equal(written, lambda: fetch_committed(broker, topic, 0)[1]) == written


def committed_fetch(topic: str, offset: int, max_bytes: int = 1, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(isolation_level=1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)


def fetch_committed(broker: Kafka, topic: str, *wanted: int, max_wait_ms: int = 0) -> tuple[Any, ...]:
    """Return the offsets, the aborted transactions and the first batches' offsets of a read_committed Fetch."""
    request = committed_fetch(topic, *wanted, max_wait_ms=max_wait_ms)
    with Wire(broker.bootstrap_servers) as wire:
        row = wire.ask(request, 12).responses[0].partitions[0]
    data = bytes(row.records)
    starts = [int.from_bytes(data[at : at + 8], "big") for at in walk_batches(data, 0, len(data)).starts]
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
    return row.error_code, row.high_watermark, row.last_stable_offset, aborted, starts


def seen_by_readers(broker: Kafka, topic: str, kcat: str) -> tuple[Any, ...]:
    chance = random.Random(6)
    fetches = [(chance.randrange(450), chance.choice([1, 5_000, 50_000, 2_000_000])) for _ in range(60)]
    command = [kcat, "-b", broker.bootstrap_servers, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
    command += ["-X", "isolation.level=read_committed", "-f", "%o "]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    fetched = [fetch_committed(broker, topic, *one) for one in fetches]
    _, high_watermark, stable_offset, *_ = fetched[0]
    fetched.append(fetch_committed(broker, topic, high_watermark - 1, max_wait_ms=60_000))  # answered at once
    with Wire(broker.bootstrap_servers) as wire:  # the first open batch has several records
        wire.request(committed_fetch(topic, stable_offset + 1, max_wait_ms=60_000), 12)
        assert wire.is_open(for_s=0.3), "a fetch within the first batch that is not stable must wait"
    return read(broker, topic), printed, fetched


def transaction_indexes(broker: KafkaNode) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (broker.data / "tx-0").glob("*.txnindex")}


def test_read_committed_readers_see_the_same_from_both_brokers(turns: Turns, kcat: str) -> None:
    real = turns.real
    real.create_topic("tx", 1)
    write_transactions(real, "tx")
    seen = seen_by_readers(real, "tx", kcat)
    ours = turns.hand_over(clean=True)
    assert seen_by_readers(ours, "tx", kcat) == seen
    assert complaints(turns.said) == []
    ours.stop()
    written = transaction_indexes(real)
    assert len(written) > 1
    for path in written:
        path.unlink()
    ours.start()
    assert seen_by_readers(ours, "tx", kcat) == seen
    assert transaction_indexes(real) == written
    next(iter(written)).write_bytes(b"garbage")
    theirs = turns.hand_over(clean=False)
    assert seen_by_readers(theirs, "tx", kcat) == seen
    assert transaction_indexes(real) == written


DAY_MS = 86_400_000
TOKEN_KEY = "a secret key of the tests"
EARLIER_STATE = """{{
"topics": [
{{"name": "orders", "id": "{orders}", "partitions": 2, "configs": {{"retention.ms": "70000000"}}}},
{{"name": "__consumer_offsets", "id": "{offsets}", "partitions": 4, "configs": {{"cleanup.policy": "compact"}}}},
{{"name": "__transaction_state", "id": "{transactions}", "partitions": 4, "configs": {{"cleanup.policy": "compact"}}}}
],
"version": 1,
"deleted": {{}},
"broker_configs": {{"": {{"min.insync.replicas": "1"}}, "1": {{"log.retention.ms": "80000000"}}}},
"features": {{"kraft.version": 1, "metadata.version": 30, "eligible.leader.replicas.version": 1,
 "transaction.version": 2, "group.version": 1}},
"features_epoch": 0,
"quotas": [{{"entity": [["user", null]], "limits": {{"producer_byte_rate": 90000000.0}}}}],
"resource_configs": {{"32": {{"billing": {{"consumer.session.timeout.ms": "5000"}}}}}}
}}"""


def topic_id_text(data: Path, partition: str) -> str:
    return (data / partition / "partition.metadata").read_text().rpartition("topic_id: ")[2].strip()


def earlier_tokens(token: str) -> str:
    """Return the file of tokens with one of alice that lives for a day."""
    file = json.loads(EARLIER["kcli-delegation-tokens.json"])
    now_ms = int(time.time() * 1000)
    file["tokens"][0] |= {"id": token, "issued_ms": now_ms, "max_ms": now_ms + DAY_MS, "expires_ms": now_ms + DAY_MS}
    return json.dumps(file)


def as_the_version_before(data: Path, token: str) -> None:
    """Replace the metadata log by the file in which the version before kept the same state."""
    ids = {"orders": "orders", "offsets": "__consumer_offsets", "transactions": "__transaction_state"}
    found = {key: topic_id_text(data, f"{topic}-0") for key, topic in ids.items()}
    shutil.rmtree(data / "__cluster_metadata-0")
    (data / "kcli-topics.json").write_text(EARLIER_STATE.format(**found))
    (data / "kcli-credentials.json").write_bytes(EARLIER["kcli-credentials.json"])
    acls = json.loads(EARLIER["kcli-acls.json"])
    allowed = {"principal": "User:alice", "host": "*", "operation": "DESCRIBE", "permission_type": "ALLOW"}
    acls["acls"].append(acls["acls"][0] | allowed)
    (data / "kcli-acls.json").write_text(json.dumps(acls))
    (data / "kcli-delegation-tokens.json").write_text(earlier_tokens(token))
    (data / "producer-ids.json").write_text('{"version": 1, "next_producer_id": 5000}')


def described(broker: Kafka, kind: ConfigResource.Type, name: str, *sources: int) -> dict[str, str]:
    """Return the settings of a resource with these sources: 1 topic, 2 this broker, 3 all brokers."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {entry.name: entry.value for entry in future.result().values() if entry.source in sources}


def acls_of(broker: Kafka) -> set[tuple[str, ...]]:
    """Return the rows that Apache's clients see: resource, pattern, principal, host, operation, permission."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return {
        (
            acl.name,
            acl.resource_pattern_type.name,
            acl.principal,
            acl.host,
            acl.operation.name,
            acl.permission_type.name,
        )
        for acl in admin.describe_acls(every).result(30)
    }


def topics_by_token(port: int, token: str) -> list[str]:
    """Return the topics that the owner of a delegation token may see. Its password is an HMAC of its id (KIP-48)."""
    password = base64.b64encode(hmac.digest(TOKEN_KEY.encode(), token.encode(), "sha512")).decode()
    login = {"username": token, "password": password, "tokenauth": "true"}
    with Admin(
        f"127.0.0.1:{port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=jaas(SCRAM_MODULE, **login),
    ) as admin:
        return sorted(topic.name for topic in admin.list_topics())


def commit_a_transaction(broker: Kafka, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "mover", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", value, partition=1)
    producer.commit_transaction(60)


def test_a_directory_of_the_version_before_goes_to_apache_kafka_and_back(kafka_jars: Path, tmp_path: Path) -> None:
    """Rights, users and a delegation token are valid in Kafka, too.

    It is converted by a broker alone, whose log names no voters: Kafka gets them by controller.quorum.voters.
    """
    (controller_port,) = free_ports(1)
    voter = f"127.0.0.1:{controller_port}"
    secured = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": jaas(SCRAM_MODULE),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    settings = {**secured, "controller.quorum.voters": f"1@{voter}"}
    real = KafkaNode(tmp_path, kafka_jars, settings=settings, more_listeners=["SASL"])
    sasl_port, token = real.ports["SASL"], "aAepjH4RTNOVeNWk7dyQVQ"
    config = real.config_file.read_text()
    real.config_file.write_text(
        config.replace(f"CONTROLLER://127.0.0.1:{real.ports['CONTROLLER']}", f"CONTROLLER://{voter}")
    )
    listeners = f"PLAINTEXT://127.0.0.1:{real.port},SASL://127.0.0.1:{sasl_port}"
    ours = BrokerProcess(tmp_path, kafka_jars, settings={**secured, "listeners": listeners}, port=real.port)
    ours.start()
    try:
        ours.create_topic("orders", 2)
        written = rows(0, 300)
        produce(ours, "orders", written)
        commit(ours, "billing", "orders", 120)
        commit_a_transaction(ours, b"first")
        ours.stop()
        as_the_version_before(tmp_path / "data", token)

        for broker in (ours, real, ours):
            broker.start()
            assert [row[1:] for row in read(broker, "orders")] == written
            assert committed(broker, "billing", "orders") == 120
            assert described(broker, ConfigResource.Type.TOPIC, "orders", 1) == {"retention.ms": "70000000"}
            assert described(broker, ConfigResource.Type.BROKER, "1", 2, 3) == {
                "log.retention.ms": "80000000",
                "min.insync.replicas": "1",
            }
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            alice = admin.describe_user_scram_credentials(["alice"])["alice"].result()
            assert [(one.mechanism.name, one.iterations) for one in alice.scram_credential_infos] == [
                ("SCRAM_SHA_256", 4096)
            ]
            assert acls_of(broker) == {
                ("or", "PREFIXED", "User:bob", "10.0.0.1", "WRITE", "DENY"),
                ("or", "PREFIXED", "User:alice", "*", "DESCRIBE", "ALLOW"),
            }
            assert topics_by_token(sasl_port, token) == ["orders"]
            commit_a_transaction(broker, b"again")
            assert broker.stop() == 0 or broker is real
        ours.start()
        assert [value for _, _, value in read(ours, "orders", 1)] == [b"first", b"again", b"again", b"again"]
        assert "was converted: topics, settings" in ours.log_file.read_text()
    finally:
        ours.kill()
        real.kill()
