"""A broker and its controller in one process: other nodes join, restarts keep topics, unfit directories are refused."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

import kcli
from kcli.broker.broker import Broker
from kcli.broker.combined import CombinedBroker, reason_to_be_alone
from kcli.broker.config import BrokerConfig
from kcli.broker.data_dir import write_topic_id
from kcli.broker.files import DiskFiles
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import ConfigError, KcliError
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from kcli.structs import TopicPartition
from tests.broker.wire import Wire
from tests.limits import Limit
from tests.real_kafka import read_until_equal

COMBINED = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    # After an unclean end nobody waits for the end of this session.
    "broker.session.timeout.ms": "600000",
    "broker.heartbeat.interval.ms": "100",
    "default.replication.factor": "1",
}


class Process:
    """A combined broker whose loop has a thread, as the main thread of a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: list[str] = []
        self.combined: CombinedBroker | None = None
        self.failure: KcliError | None = None

    def start(self, *topics: str, **settings: str) -> CombinedBroker:
        """Start it, with these topics of two partitions, and wait until it serves clients."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.from_properties({**COMBINED, "log.dirs": str(self.folder), **given})
        assert config.wants_controller
        assert reason_to_be_alone(config) is None
        combined = CombinedBroker(config, log=self.messages.append)
        combined.start()
        self.combined, self._stopping = combined, threading.Event()
        serves = threading.Event()

        def run() -> None:
            try:
                combined.run(lambda: combined.is_serving or self._stopping.is_set())
                self.counts = [combined.create_topic(name, 2) for name in topics]
                serves.set()
                combined.run(self._stopping.is_set)
            except KcliError as failure:
                self.failure = failure

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert serves.wait(60)
        return combined

    def end(self, *, clean: bool = True) -> None:
        combined, self.combined = self.combined, None
        if combined is not None:
            self._stopping.set()
            combined.wakeup()
            self.join()
            combined.shutdown(clean=clean)

    def join(self) -> None:
        """Wait until the loop has ended."""
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path / "data")
    yield process
    process.end()


def topics(address: str) -> dict[str, MetadataResponseTopic]:
    with Wire(address) as wire:
        return {one.name: one for one in wire.ask(MetadataRequest(topics=None), 12).topics}


def write(address: str, topic: str, value: bytes) -> None:
    with kcli.Producer(bootstrap_servers=address) as producer:
        producer.send(topic, value, partition=0)
        producer.flush()


def values(address: str, topic: str) -> list[bytes | None]:
    with kcli.Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        found: list[bytes | None] = []
        limit = Limit(f"{end} records of {topic}")
        while consumer.position(tp) < end:
            limit.check()
            found += [record.value for records in consumer.poll(1000).values() for record in records]
        return found


def test_another_node_joins_and_replicates(process: Process, tmp_path: Path) -> None:
    combined = process.start("orders")
    assert process.counts == [2]
    write(combined.address, "orders", b"first")
    controller = combined.endpoints[-1]
    assert controller.name == "CONTROLLER"
    other = EmbeddedBroker(
        tmp_path / "node-2",
        process_roles="broker",
        node_id=2,
        controller_quorum_bootstrap_servers=f"{controller.host}:{controller.port}",
        broker_heartbeat_interval_ms=100,
    )
    with other:
        with Wire(other.address) as wire:
            topic = CreatableTopic(name="both", num_partitions=1, replication_factor=2)
            assert wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
        for address in (combined.address, other.address):  # a broker follows the controller a moment later
            assert read_until_equal(True, lambda address=address: "both" in topics(address))
        write(combined.address, "both", b"copied")
        assert values(other.address, "both") == [b"copied"]
        assert sorted(topics(other.address)["both"].partitions[0].isr_nodes) == [1, 2]
        other.stop()
        process.end()  # the controller ends last: it grants the controlled shutdown of its own broker
    assert (process.folder / ".kafka_cleanshutdown").exists()
    assert not [text for text in process.messages if "without a controlled shutdown" in text]


@pytest.mark.parametrize("clean", [True, False])
def test_topics_and_records_survive_a_restart(process: Process, clean: bool) -> None:
    address = process.start("orders").address
    write(address, "orders", b"kept")
    before = topics(address)["orders"].topic_id
    process.end(clean=clean)
    address = process.start("orders", "more").address  # at once: no session of the last process is waited for
    assert process.counts == [2, 2]
    assert topics(address)["orders"].topic_id == before
    assert values(address, "orders") == [b"kept"]


def test_the_broker_reaches_its_controller_whatever_address_that_advertises(process: Process) -> None:
    advertised = "PLAINTEXT://localhost:9092,CONTROLLER://no-such-host.invalid:9093"
    address = process.start("orders", advertised_listeners=advertised).address
    assert list(topics(address)) == ["orders"]


def test_a_directory_has_one_owner(process: Process) -> None:
    process.start()
    with pytest.raises(ConfigError, match=r"another broker uses the data directory"):
        Process(process.folder).start()


def test_partitions_without_their_metadata_log_are_refused(process: Process) -> None:
    process.folder.joinpath("orders-0").mkdir(parents=True)
    with pytest.raises(
        ConfigError, match=r"has partitions \(orders-0\), but no __cluster_metadata-0 with their topics"
    ):
        process.start()
    assert [path.name for path in process.folder.iterdir()] == ["orders-0"]


def test_partitions_of_topics_that_the_metadata_log_does_not_have_are_kept_aside(process: Process) -> None:
    process.start("orders")
    process.end()
    stray = process.folder / "other-0"
    shutil.copytree(process.folder / "orders-0", stray)
    write_topic_id(DiskFiles(), str(stray), UUID(int=99))
    address = process.start().address
    assert list(topics(address)) == ["orders"]
    assert len(list(process.folder.glob("other-0.*-stray"))) == 1
    assert any("does not assign to this node: other-0; their records are kept" in text for text in process.messages)


def test_a_port_in_use_leaves_nothing_open(process: Process) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(KcliError, match=f"cannot listen on 127.0.0.1:{port}"):
            process.start(listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0")
    process.start()


def test_a_controller_whose_disk_fails_ends_the_process(process: Process) -> None:
    controller = process.start().controller
    controller.call(lambda: setattr(controller, "failed", OSError("the disk is gone")))
    process.join()
    assert str(process.failure) == "the metadata log has failed: the disk is gone"
    process.end(clean=False)


SECURE = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, None),
        ({"controller.quorum.voters": "1@localhost:9093"}, None),
        ({"controller.quorum.voters": "1@a:1,2@b:1"}, "controller.quorum.voters must have node 1 only"),
        (
            {"controller.quorum.bootstrap.servers": "a:1,b:1"},
            "controller.quorum.bootstrap.servers must have one address",
        ),
        (SECURE, "listener PLAINTEXT has protocol SSL; nodes and controller need PLAINTEXT"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"},
            "listener CONTROLLER has protocol SASL_SSL; nodes and controller need PLAINTEXT",
        ),
        (
            AUTHORIZER,
            "the authorizer refuses the nodes, which connect by PLAINTEXT; super.users must have User:ANONYMOUS",
        ),
        ({**AUTHORIZER, "super.users": "User:admin;User:ANONYMOUS"}, None),
    ],
)
def test_what_a_controller_in_this_process_cannot_do(settings: dict[str, str], reason: str | None) -> None:
    assert reason_to_be_alone(BrokerConfig.from_properties({**COMBINED, **settings})) == reason


def test_a_broker_alone_goes_on_with_the_directory_and_the_other_way_round(process: Process) -> None:
    address = process.start("orders").address
    before = topics(address)["orders"].topic_id
    write(address, "orders", b"kept")
    process.end()
    messages: list[str] = []
    properties = {"log.dirs": str(process.folder), "listeners": "PLAINTEXT://127.0.0.1:0"}
    for names in (["orders"], ["orders", "more"]):
        alone = Broker(BrokerConfig.from_properties(properties), log=messages.append)
        alone.start()
        assert list(alone.cluster.topics) == names
        assert alone.cluster.topics["orders"].topic_id == before
        assert alone.create_topic("more", 3) == 3
        alone.shutdown()
    assert messages == []
    address = process.start("orders", "more").address
    assert process.counts[-2:] == [2, 3]
    assert topics(address)["orders"].topic_id == before
    assert values(address, "orders") == [b"kept"]


def test_a_directory_of_an_earlier_version_is_first_converted_by_a_broker_alone(tmp_path: Path) -> None:
    (tmp_path / "kcli-topics.json").touch()
    config = BrokerConfig.from_properties({**COMBINED, "log.dirs": str(tmp_path)})
    reason = f"{tmp_path} is the directory of an earlier version: it has kcli-topics.json, which a start without "
    assert reason_to_be_alone(config) == reason + "a controller converts"
