"""Record the frames between foreign clients and a real broker: `python -m tests.vectors.capture`.

Starts a Kafka whose advertised address is a recording proxy, lets kcat, Kafka's own tools, confluent-kafka and
kafka-python work with it, and writes one file of exchanges per client to tests/vectors/captures/. Run it by hand for
a new version of Kafka or of a client; the files are checked in. `python -m tests.vectors.capture with_acls` runs only
that function, and adds the exchanges of APIs that are not in the files.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.registry import ApiKey, api_name
from tests.java_driver import packed
from tests.real_kafka import KafkaNode, fetch_jars, free_ports
from tests.real_kafka_cluster import BrokerOnly
from tests.streams_member import StreamsMember
from tests.vectors.proxy import Exchange, RecordingProxy

FOLDER = Path(__file__).parent / "captures"
EXCHANGES_PER_VERSION = 3
LARGEST_FRAME = 6000
SPOKEN_KEYS = {int(key) for key in ApiKey}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
RECEIVER = Path(__file__).parent / "TelemetryReceiver.java"
TRANSACTIONAL_CLIENT = Path(__file__).parent.parent / "interop" / "transactions" / "TransactionalClient.java"
JAAS = f'{PLAIN} user_alice="alice-secret";'


class Lab:
    """A broker behind two recording proxies, one for each listener, and one for its controller's listener."""

    def __init__(self, folder: Path) -> None:
        plain, sasl, controller = free_ports(3)
        self.node = KafkaNode(
            folder,
            _jars_and_receiver(folder),
            settings={
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice",
                "delegation.token.secret.key": "a secret key of the captures",
                "metadata.log.max.record.bytes.between.snapshots": "1000",
                "metric.reporters": RECEIVER.stem,
            },
            more_listeners=["SASL_PLAINTEXT"],
            advertised={"PLAINTEXT": plain, "SASL_PLAINTEXT": sasl, "CONTROLLER": controller},
        )
        self.address = f"127.0.0.1:{plain}"
        self.sasl_address = f"127.0.0.1:{sasl}"
        self.controller_address = f"127.0.0.1:{controller}"
        self.proxies = [
            RecordingProxy(("127.0.0.1", self.node.port), plain),
            RecordingProxy(("127.0.0.1", self.node.ports["SASL_PLAINTEXT"]), sasl),
            RecordingProxy(("127.0.0.1", self.node.ports["CONTROLLER"]), controller),
        ]

    def origin(self, name: str) -> None:
        for proxy in self.proxies:
            proxy.origin = name

    def tool(self, tool: str, *args: str, **how: Any) -> None:
        self.node.tool(tool, "--bootstrap-server", self.address, *args, **how)


def _jars_and_receiver(folder: Path) -> Path:
    """Return a folder with links to Kafka's jars, and the receiver of clients' metrics."""
    jars = fetch_jars()
    linked = folder / jars.name
    linked.mkdir()
    for jar in (*jars.iterdir(), packed(RECEIVER, jars)):
        (linked / jar.name).symlink_to(jar)
    return linked


def with_java(lab: Lab) -> None:
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    topic = ("--topic", "orders")
    new = ("--consumer-property", "group.protocol=consumer")
    read = ("--from-beginning", "--max-messages", "4", "--timeout-ms", "20000")
    lab.tool("BrokerApiVersionsCommand")
    lab.tool("TopicCommand", "--create", *topic, "--partitions", "2", "--config", "retention.ms=86400000")
    lab.tool("TopicCommand", "--alter", *topic, "--partitions", "3")
    lab.tool("TopicCommand", "--describe", *topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lab.tool("ConsoleProducer", *topic, "--compression-codec", codec, stdin=f"{codec} one\n{codec} two\n" * 2)
    lab.tool("ConsoleConsumer", *topic, *read, "--group", "classic-readers")
    lab.tool("ConsoleConsumer", *topic, *read, "--group", "new-readers", *new)
    lab.tool("ConsoleConsumer", *topic, *read, "--isolation-level", "read_committed")
    lab.tool("GetOffsetShell", *topic, "--time", "-1")
    lab.tool("GetOffsetShell", *topic, "--time", "earliest")
    with following(lab, "ConsoleConsumer", *topic, "--group", "classic-live"):
        lab.tool("ConsumerGroupCommand", "--describe", "--group", "classic-live", "--members", "--verbose")
    with following(lab, "ConsoleConsumer", *topic, "--group", "new-live", *new):
        lab.tool("ConsumerGroupCommand", "--describe", "--group", "new-live", "--members", "--verbose")
    with following(lab, "ConsoleShareConsumer", *topic, "--group", "share-live"):
        lab.tool("ShareGroupCommand", "--describe", "--group", "share-live", "--members")
        lab.tool("ShareGroupCommand", "--describe", "--group", "share-live", "--offsets")
    lab.tool("ConsumerGroupCommand", "--list", "--state")
    lab.tool("ConsumerGroupCommand", "--describe", "--all-groups")
    reset = ("--reset-offsets", "--group", "classic-readers", *topic, "--to-earliest", "--execute")
    lab.tool("ConsumerGroupCommand", *reset)
    lab.tool("ConsumerGroupCommand", "--delete-offsets", "--group", "classic-readers", *topic)
    lab.tool("ConsumerGroupCommand", "--delete", "--group", "classic-readers")
    lab.tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "orders", "--all")
    entity = ("--entity-type", "topics", "--entity-name", "orders")
    lab.tool("ConfigCommand", "--alter", *entity, "--add-config", "segment.ms=3600000,cleanup.policy=[compact,delete]")
    lab.tool("ConfigCommand", "--alter", *entity, "--delete-config", "segment.ms,cleanup.policy")
    lab.tool("ConfigCommand", "--describe", "--entity-type", "client-metrics")
    lab.tool("LogDirsCommand", "--describe", "--topic-list", "orders")
    cut = lab.node.folder / "cut.json"
    cut.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 1}]}')
    lab.tool("DeleteRecordsCommand", "--offset-json-file", str(cut))
    lab.tool("TopicCommand", "--create", "--topic", "gone", "--partitions", "1")
    lab.tool("TopicCommand", "--delete", "--topic", "gone")
    lab.tool("TopicCommand", "--describe", "--topic", "gone", check=False)


def with_streams_group(lab: Lab) -> None:
    """Run Kafka's tool on a streams group whose member does not use the proxy."""
    member = StreamsMember(lab.node.bootstrap_servers, "streams-live", ["orders"])
    lab.origin("")
    member.join()
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    lab.tool("StreamsGroupCommand", "--describe", "--group", "streams-live", "--members")
    lab.tool("StreamsGroupCommand", "--describe", "--group", "streams-live", "--offsets")
    lab.origin("")
    member.leave()


def with_acls(lab: Lab) -> None:
    """Manage ACLs, SCRAM users and delegation tokens with Kafka's tools, confluent-kafka and kafka-python."""
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    orders = ("--topic", "orders", "--resource-pattern-type")
    lab.tool("AclCommand", "--add", "--allow-principal", "User:carol", "--operation", "Read", *orders, "literal")
    lab.tool("AclCommand", "--add", "--deny-principal", "User:*", "--operation", "Write", *orders, "prefixed")
    lab.tool("AclCommand", "--list", *orders, "match")
    lab.tool("AclCommand", "--list")
    lab.tool("AclCommand", "--remove", "--force", *orders, "any")
    users = ("--entity-type", "users", "--entity-name", "carol")
    credential = "SCRAM-SHA-256=[iterations=4096,password=carol-secret]"
    lab.tool("ConfigCommand", "--alter", *users, "--add-config", credential)
    lab.tool("ConfigCommand", "--describe", *users)
    lab.tool("ConfigCommand", "--alter", *users, "--delete-config", "SCRAM-SHA-256")
    _with_tokens(lab)
    _with_librdkafka_acls(lab)
    _with_kafka_python_acls(lab)


def with_quotas(lab: Lab) -> None:
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    client = ("--entity-type", "clients", "--entity-name", "c")
    lab.tool("ConfigCommand", "--alter", *client, "--add-config", "request_percentage=12.5")
    lab.tool("ConfigCommand", "--describe", *client)


def with_share_group(lab: Lab) -> None:
    """Read as a member of a share group; each record is acknowledged, the last ones when the session is closed."""
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    topic = ("--topic", "shared")
    lab.tool("TopicCommand", "--create", *topic, "--partitions", "1")
    group = ("--entity-type", "groups", "--entity-name", "share-readers")
    lab.tool("ConfigCommand", "--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    lab.tool("ConsoleProducer", *topic, stdin="one\ntwo\nthree\nfour\n")
    read = ("--max-messages", "4", "--timeout-ms", "20000")
    lab.tool("ConsoleShareConsumer", *topic, "--group", "share-readers", *read)


@contextlib.contextmanager
def second_broker(lab: Lab) -> Iterator[BrokerOnly]:
    """Join a second broker with two log directories, behind a proxy of its own; it is unregistered in the end."""
    folder = Path(tempfile.mkdtemp(prefix="second-", dir=lab.node.folder))
    dirs = {"log.dirs": f"{folder}/a,{folder}/b", "authorizer.class.name": "", "auto.create.topics.enable": "false"}
    second = BrokerOnly(folder, lab.node.jars, 2, lab.controller_address, dirs)
    (advertised,) = free_ports(1)
    lab.proxies.append(RecordingProxy(("127.0.0.1", second.port), advertised))
    with second.config_file.open("a") as settings:
        settings.write(f"advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}\n")
    second.format()
    metadata = lab.node.data / "__cluster_metadata-0"
    while not list(metadata.glob("*[1-9]*-*.checkpoint")):  # the second broker begins with this snapshot
        time.sleep(0.2)
    lab.origin(f"Apache Kafka broker {lab.node.version}")
    second.launch()
    try:
        second.wait_until_ready()
        yield second
    finally:
        second.stop()
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    _output_of(*lab.node.java("ClusterTool"), "unregister", "--bootstrap-server", lab.address, "--id", "2")


def with_second_broker(lab: Lab) -> None:
    """Give a second broker a replica, and change the cluster with Kafka's tools."""
    with second_broker(lab) as second:
        at = ("--bootstrap-server", second.bootstrap_servers)
        second.tool("TopicCommand", *at, "--create", "--topic", "moved", "--replica-assignment", "2")  # forwarded
        _init_producer_id(second.port)
        lab.origin(f"Apache Kafka tools {lab.node.version}")
        for replicas, directory in (([1, 2], "any"), ([1, 2], f"{second.folder}/a"), ([1, 2], f"{second.folder}/b")):
            partition = {"topic": "moved", "partition": 0, "replicas": replicas, "log_dirs": ["any", directory]}
            _reassign(lab, {"version": 1, "partitions": [partition]})
        lab.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", "moved", "--partition", "0")
        lab.tool("MetadataQuorumCommand", "describe", "--status")
        lab.tool("FeatureCommand", "upgrade", "--feature", "group.version=1", "--dry-run", check=False)


def _reassign(lab: Lab, plan: dict[str, Any]) -> None:
    move = lab.node.folder / "move.json"
    move.write_text(json.dumps(plan))
    command = (*lab.node.java("ReassignPartitionsCommand"), "--bootstrap-server", lab.address)
    _output_of(*command, "--reassignment-json-file", str(move), "--execute")
    while "No partition reassignments" not in _output_of(*command, "--list"):
        time.sleep(0.2)


def with_transactions_over_two_brokers(lab: Lab) -> None:
    """Write transactions to leaders on two brokers: their leaders and coordinators need each other's requests."""
    with second_broker(lab) as second:
        topic = ("--topic", "spread", "--replica-assignment", "1,2")
        second.tool("TopicCommand", "--bootstrap-server", second.bootstrap_servers, "--create", *topic)
        _with_java_transactions(lab)
        _with_librdkafka_transactions(lab)
    brokers: dict[int, int] = {
        ApiKey.WRITE_TXN_MARKERS: 0,
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,
    }  # the first version that only brokers send
    for proxy in lab.proxies:
        proxy.exchanges[:] = [
            exchange._replace(origin=f"Apache Kafka broker {lab.node.version}")
            if exchange.version >= brokers.get(exchange.api_key, 99)
            else exchange
            for exchange in proxy.exchanges
        ]


def _with_java_transactions(lab: Lab) -> None:
    lab.origin(f"Apache Kafka clients {lab.node.version}")
    settings = {"bootstrap.servers": lab.address, "transactional.id": "spread-java"}
    orders: list[dict[str, Any]] = [{"do": "producer", "settings": settings}, {"do": "init"}]
    for end in ("commit", "abort"):
        orders += [{"do": "begin"}]
        orders += [{"do": "send", "topic": "spread", "partition": number, "value": end} for number in (0, 1)]
        orders += [{"do": "send_offsets", "topic": "spread", "partition": 0, "offset": 1, "group": "spread-group"}]
        orders += [{"do": "flush"}, {"do": end}]
    lines = "".join(json.dumps({"name": "p", **order}) + "\n" for order in orders)
    command = ["java", "-cp", f"{lab.node.jars}/*", str(TRANSACTIONAL_CLIENT)]
    answers = _output_of(*command, stdin=lines)
    if "error" in answers:
        raise SystemExit(answers)


def _with_librdkafka_transactions(lab: Lab) -> None:
    import confluent_kafka

    lab.origin(f"confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})")
    at = {"bootstrap.servers": lab.address}
    consumer = confluent_kafka.Consumer({**at, "group.id": "spread-rdkafka"})
    producer = confluent_kafka.Producer({**at, "transactional.id": "spread-rdkafka"})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in (0, 1):
            producer.produce("spread", end.__name__, partition=number)
        position = confluent_kafka.TopicPartition("spread", 0, 1)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
        end()
    consumer.close()


def _init_producer_id(port: int) -> None:
    """Ask this broker for a producer id; it has none before it asks its controller for a block."""
    request = encode_request(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4, 1, "capture"
    )
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as stream:
            stream.write(struct.pack(">i", len(request)) + request)
            stream.flush()
            response = stream.read(struct.unpack(">i", stream.read(4))[0])
            if decode_response(InitProducerIdResponse, 4, response)[1].error_code == 0:
                return
        time.sleep(0.1)
    raise SystemExit("the second broker gave no producer id")


def _with_tokens(lab: Lab) -> None:
    login = lab.node.folder / "login.properties"
    entry = f'{PLAIN} username="alice" password="alice-secret";'
    login.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={entry}\n")
    at = ("--bootstrap-server", lab.sasl_address, "--command-config", str(login))
    created = lab.node.tool("DelegationTokenCommand", *at, "--create", "--max-life-time-period", "-1")
    hmac = next(word for word in created.stdout.split() if word.endswith("="))
    renewed = ("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    lab.node.tool("DelegationTokenCommand", *at, *renewed)
    lab.node.tool("DelegationTokenCommand", *at, "--describe", "--owner-principal", "User:alice")
    lab.node.tool("DelegationTokenCommand", *at, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)


def _with_librdkafka_acls(lab: Lab) -> None:
    import confluent_kafka
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    lab.origin(f"confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})")
    admin = AdminClient({"bootstrap.servers": lab.address})
    rest = ("User:dora", "*", AclOperation.READ, AclPermissionType.ALLOW)
    for done in admin.create_acls(
        [AclBinding(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, *rest)]
    ).values():
        done.result(20)
    doras = AclBindingFilter(ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, *rest)
    admin.describe_acls(doras).result(20)
    for done in admin.delete_acls([doras]).values():
        done.result(20)


def _with_kafka_python_acls(lab: Lab) -> None:
    import kafka
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        KafkaAdminClient,
        ResourcePattern,
        ResourceType,
    )

    lab.origin(f"kafka-python {kafka.__version__}")
    admin = KafkaAdminClient(bootstrap_servers=lab.address)
    rest = ("User:emil", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, "orders"))
    admin.create_acls([ACL(*rest)])
    admin.describe_acls(ACLFilter(*rest))
    admin.delete_acls([ACLFilter(*rest)])
    admin.close()


@contextlib.contextmanager
def following(lab: Lab, tool: str, *args: str) -> Iterator[None]:
    """Run a consumer in the background; entered when its group exists, as the proxy sees heartbeats."""
    before = len(lab.proxies[0].exchanges)
    command = [*lab.node.java(tool), "--bootstrap-server", lab.address, *args]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not {12, 68, 76} & {exchange.api_key for exchange in lab.proxies[0].exchanges[before:]}:
            if time.monotonic() > deadline:
                raise SystemExit(f"{tool} did not join its group")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait()


def with_kcat(lab: Lab) -> None:
    version = re.search(r"Version (\S+).*librdkafka (\S+)", _output_of("kcat", "-V"))
    assert version
    lab.origin(f"kcat {version[1]} (librdkafka {version[2]})")
    at = ("kcat", "-b", lab.address)
    _output_of(*at, "-L")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        _output_of(
            *at, "-P", "-t", "orders", "-z", codec, "-K:", "-H", "origin=kcat", stdin=f"k:{codec} one\nk:{codec} two\n"
        )
    _output_of(*at, "-C", "-t", "orders", "-o", "beginning", "-e")
    _output_of(*at, "-C", "-t", "nosuch", "-o", "beginning", "-e", "-X", "allow.auto.create.topics=false", check=False)
    _output_of(*at, "-Q", "-t", "orders:0:1700000000000")
    _output_of(*at, "-G", "kcat-readers", "-e", "orders")


def with_librdkafka(lab: Lab) -> None:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, ConfigResource

    lab.origin(f"confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})")
    producer = confluent_kafka.Producer({"bootstrap.servers": lab.address, "transactional.id": "capture"})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", f"value {end.__name__}", key="k", headers={"h": b"1", "none": None})
        end()
    admin = AdminClient({"bootstrap.servers": lab.address})
    admin.describe_cluster().result()
    admin.list_consumer_groups().result()
    admin.describe_consumer_groups(["kcat-readers", "nosuch"])["kcat-readers"].result()
    admin.list_consumer_group_offsets([confluent_kafka.ConsumerGroupTopicPartitions("kcat-readers")])[
        "kcat-readers"
    ].result()
    for done in admin.alter_configs([ConfigResource("topic", "orders", {"retention.ms": "86400000"})]).values():
        done.result()
    settings = {"bootstrap.servers": lab.address, "group.id": "rdkafka", "auto.offset.reset": "earliest"}
    for protocol in ("classic", "consumer"):
        own = {"group.id": f"rdkafka-{protocol}", "group.protocol": protocol, "isolation.level": "read_committed"}
        consumer = confluent_kafka.Consumer({**settings, **own})
        consumer.subscribe(["orders"])
        consumer.consume(5, timeout=20)
        consumer.commit(asynchronous=False)
        consumer.close()
    epochs = confluent_kafka.Consumer(settings)
    epochs.assign([confluent_kafka.TopicPartition("orders", 1, 1, leader_epoch=0)])  # validated before it is fetched
    epochs.consume(1, timeout=20)
    epochs.close()


def with_transactions(lab: Lab) -> None:
    """Run Kafka's tool on transactions of confluent-kafka, one of them open."""
    import confluent_kafka

    lab.origin(f"confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})")
    producer = confluent_kafka.Producer({"bootstrap.servers": lab.address, "transactional.id": "open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", "open", partition=0)
    producer.flush(20)
    lab.origin(f"Apache Kafka tools {lab.node.version}")
    lab.tool("TransactionsCommand", "list")
    lab.tool("TransactionsCommand", "describe", "--transactional-id", "open")
    lab.tool("TransactionsCommand", "describe-producers", "--topic", "orders", "--partition", "0")
    producer.abort_transaction()


def with_kafka_python(lab: Lab) -> None:
    import kafka

    lab.origin(f"kafka-python {kafka.__version__}")
    for speaks in (None, (2, 1), (2, 4), (2, 6)):  # None: the newest
        _kafka_python_round(lab, speaks)
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}
    for password in ("alice-secret", "wrong"):
        with contextlib.suppress(kafka.errors.KafkaError):
            consumer = kafka.KafkaConsumer(
                "orders",
                bootstrap_servers=lab.sasl_address,
                sasl_plain_password=password,
                group_id="python-readers",
                auto_offset_reset="earliest",
                **sasl,
            )
            consumer.poll(timeout_ms=10_000)
            consumer.close()


def _kafka_python_round(lab: Lab, speaks: tuple[int, int] | None) -> None:
    import kafka

    at = {"bootstrap_servers": lab.address, "api_version": speaks}
    producer = kafka.KafkaProducer(**at)
    producer.send("orders", b"from kafka-python", key=b"k", headers=[("h", b"1")]).get(20)
    producer.close()
    consumer = kafka.KafkaConsumer("orders", group_id=f"readers-{speaks}", auto_offset_reset="earliest", **at)
    while not consumer.poll(timeout_ms=10_000):
        pass
    consumer.offsets_for_times(dict.fromkeys(consumer.assignment(), 1700000000000))
    consumer.commit()
    consumer.close()


def _output_of(*command: str, stdin: str = "", check: bool = True) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def worth_keeping(exchanges: list[Exchange]) -> list[Exchange]:
    """Select a few exchanges of each client, API and supported version, with responses of different lengths."""
    kept: dict[tuple[str, int, int, int, int], Exchange] = {}
    for exchange in exchanges:
        if exchange.api_key in SPOKEN_KEYS and max(len(exchange.request), len(exchange.response)) <= LARGEST_FRAME:
            kept.setdefault((*exchange[:3], len(exchange.request), len(exchange.response)), exchange)
    few: Counter[tuple[str, int, int]] = Counter()
    chosen = []
    for exchange in kept.values():
        few[exchange[:3]] += 1
        if few[exchange[:3]] <= EXCHANGES_PER_VERSION:
            chosen.append(exchange)
    return sorted(chosen, key=lambda exchange: exchange[:3])


def write(exchanges: list[Exchange], broker: str, *, adds: bool = False) -> None:
    """Write one file per client, one line per exchange. `adds`: keep the files, and add APIs that they lack."""
    FOLDER.mkdir(exist_ok=True)
    for origin in {exchange.origin for exchange in exchanges}:
        name = re.sub(r"[^a-z]+", "-", origin.split(" (")[0].lower()).strip("-")
        path = FOLDER / f"{name}.jsonl"
        text = path.read_text() if adds and path.exists() else ""
        present = {json.loads(line)["api"].split()[0] for line in text.splitlines()}
        with path.open("a" if adds else "w") as file:
            for exchange in exchanges:
                if exchange.origin == origin and api_name(exchange.api_key) not in present:
                    api = f"{api_name(exchange.api_key)} v{exchange.version}"
                    line = {"client": origin, "broker": broker, "api": api}
                    line |= {"request": exchange.request.hex(), "response": exchange.response.hex()}
                    file.write(json.dumps(line) + "\n")


CLIENTS = (
    *(with_java, with_streams_group, with_kcat, with_librdkafka, with_transactions, with_kafka_python),
    *(with_acls, with_quotas, with_share_group, with_second_broker),
    with_transactions_over_two_brokers,
)


def main(names: list[str]) -> None:
    clients = [client for client in CLIENTS if not names or client.__name__ in names]
    folder = Path(tempfile.mkdtemp(prefix="kcli-capture-"))
    lab = Lab(folder)
    try:
        lab.node.start()
        for client in clients:
            print(client.__name__)
            client(lab)
    finally:
        lab.node.kill()
        shutil.rmtree(folder, ignore_errors=True)
    exchanges = worth_keeping([exchange for proxy in lab.proxies for exchange in proxy.exchanges])
    write(exchanges, f"Apache Kafka {lab.node.version}", adds=bool(names))
    seen = sorted({(exchange.api_key, exchange.version) for exchange in exchanges})
    print(f"{len(exchanges)} exchanges:", ", ".join(f"{api_name(key)} v{version}" for key, version in seen))
    print("never seen:", ", ".join(sorted(api_name(key) for key in SPOKEN_KEYS - {key for key, _ in seen})))


if __name__ == "__main__":
    main(sys.argv[1:])
