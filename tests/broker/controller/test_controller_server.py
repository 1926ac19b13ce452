"""ControllerServer: a new cluster, requests of brokers and in envelopes, restarts, ends of sessions, a failing disk."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.cluster.image import BROKER_CONFIG
from kcli.broker.cluster.metadata_log import encode_snapshot
from kcli.broker.config import BrokerConfig
from kcli.broker.controller.controller_server import ControllerFailed, ControllerServer
from kcli.broker.serving.request_context import CloseConnection, RequestContext, response_parts
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages import alter_configs as old
from kcli.protocol.messages import incremental_alter_configs as new
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest
from kcli.protocol.messages.envelope import EnvelopeRequest, PrincipalData, encode_principal
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from kcli.protocol.metadata_records import (
    METADATA_TOPIC_ID,
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    UserScramCredentialRecord,
    VotersRecord,
)
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message, Request
from tests.protocol.golden import goldens

R = TypeVar("R", bound=Message)
PRINCIPAL = encode_principal(PrincipalData(type="User", name="ANONYMOUS"))
LOCALHOST = b"\x7f\0\0\1"


class Lab:
    """A controller on a disk in memory, under a manual clock; requests reach it without a socket."""

    def __init__(self) -> None:
        self.clock, self.files = ManualClock(1000), MemoryFiles()
        self.messages: list[str] = []
        self.settings: dict[str, str] = {}
        self.server: ControllerServer | None = None

    def start(self, listeners: str = "CONTROLLER://127.0.0.1:0", **settings: str) -> ControllerServer:
        self.stop()
        self.settings |= {name.replace("_", "."): value for name, value in settings.items()}
        given = {"process.roles": "controller", "node.id": "3000", "listeners": listeners, "log.dirs": "/data"}
        config = BrokerConfig.from_properties({**given, **self.settings})
        server = ControllerServer(config, clock=self.clock, files=self.files, log=self.messages.append)
        server.start()
        self.server = server
        return server

    def stop(self, *, clean: bool = True) -> None:
        if self.server is not None:
            self.server.shutdown(clean=clean)
            self.server = None

    def ask(self, request: Request[R], version: int) -> R:
        assert self.server is not None
        answer = self.server.handle(request, self.context(request.API_KEY, version))
        assert isinstance(answer, Message)
        return answer  # type: ignore[return-value]

    def context(self, key: int, version: int) -> RequestContext:
        now_ms, now_wall_ms = self.clock.now_ms(), self.clock.wall_ms()
        return RequestContext(key, version, 7, "client", "1", "127.0.0.1", now_ms, now_wall_ms)

    def records(self) -> list[Any]:
        assert self.server is not None
        found: list[Any] = []
        self.server.log.replay(lambda record, offset: found.append(record))
        return found

    def register(self, node_id: int = 1) -> int:
        """Register and unfence a broker; return its epoch."""
        assert self.server is not None
        registered = self.ask(
            BrokerRegistrationRequest(
                broker_id=node_id,
                cluster_id=self.server.cluster_id,
                incarnation_id=UUID(int=node_id),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
                features=[
                    Feature(name=name, min_supported_version=first, max_supported_version=last)
                    for name, (first, last) in SUPPORTED_FEATURES.items()
                ],
                log_dirs=[UUID(int=100 + node_id)],
            ),
            4,
        )
        assert registered.error_code == 0
        self.beat(node_id, registered.broker_epoch)
        return registered.broker_epoch

    def beat(self, node_id: int, epoch: int) -> None:
        assert self.server is not None
        offset = self.server.log.end_offset - 1
        request = BrokerHeartbeatRequest(
            broker_id=node_id, broker_epoch=epoch, current_metadata_offset=offset, want_fence=False
        )
        assert self.ask(request, 2).error_code == 0

    def forward(self, request: Request[Any], version: int) -> Any:
        """Send a request in an envelope, and return the response inside the answer."""
        answer = self.ask(enveloped(request, version), 0)
        assert answer.error_code == 0
        correlation_id, response = decode_response(request.RESPONSE, version, bytes(answer.response_data or b""))
        assert correlation_id == 5
        return response


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.stop()


def enveloped(request: Request[Any], version: int) -> EnvelopeRequest:
    data = encode_request(request, version, 5, "client")
    return EnvelopeRequest(request_data=data, request_principal=PRINCIPAL, client_host_address=LOCALHOST)


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def test_a_new_cluster_begins_with_its_voter_and_features(lab: Lab) -> None:
    server = lab.start(min_insync_replicas="2")

    change, version, voters, *rest = lab.records()
    assert isinstance(change, LeaderChangeMessage)
    assert (change.leader_id, [one.voter_id for one in change.voters]) == (3000, [3000])
    assert version == KRaftVersionRecord(kraft_version=1)
    assert [(one.voter_id, one.endpoints[0].port) for one in voters.voters] == [(3000, server.port)]
    assert rest == [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        FeatureLevelRecord(name="group.version", feature_level=1),
        ConfigRecord(resource_type=4, name="min.insync.replicas", value="2"),
    ]
    assert server.controller.image.offset == server.log.end_offset - 1 == 7


def test_a_restart_keeps_the_cluster_and_begins_an_epoch(lab: Lab) -> None:
    server = lab.start()
    cluster_id, port = server.cluster_id, server.port
    lab.register()
    lab.forward(create("orders"), 7)
    before = server.controller.image
    lab.stop(clean=False)
    server = lab.start(f"CONTROLLER://127.0.0.1:{port}")

    image = server.controller.image
    assert (server.cluster_id, server.quorum.epoch) == (cluster_id, 2)
    assert (image.topics, image.brokers, image.features) == (before.topics, before.brokers, before.features)
    assert image.offset == before.offset + 1  # the change of the leader
    assert isinstance(lab.records()[-1], LeaderChangeMessage)


def test_a_new_address_is_written_to_the_voters(lab: Lab) -> None:
    first = lab.start().port
    second = lab.start().port

    voters = [record for record in lab.records() if isinstance(record, VotersRecord)]
    assert [one.voters[0].endpoints[0].port for one in voters] == [first, second]


def test_a_start_with_a_snapshot_has_the_same_image(lab: Lab) -> None:
    server = lab.start(metadata_log_max_record_bytes_between_snapshots="1000")
    lab.register()
    for number in range(20):
        lab.forward(create(f"t{number}"), 7)
    before = server.controller.image
    assert server.log.start_offset > 0
    server = lab.start()

    assert server.controller.image.topics == before.topics
    assert server.controller.image.brokers == before.brokers
    assert server.controller.image.configs == before.configs


def test_a_snapshot_is_written_when_the_last_one_is_old(lab: Lab) -> None:
    server = lab.start(metadata_log_max_snapshot_interval_ms="60000")
    epoch = lab.register()
    lab.clock.advance(59_999)
    lab.forward(create("a"), 7)
    assert server.log.latest_snapshot is None
    lab.clock.advance(1)
    lab.beat(1, epoch)
    lab.forward(create("b"), 7)

    assert server.log.latest_snapshot is not None
    assert server.log.latest_snapshot.end_offset == server.log.end_offset


def test_a_decision_of_very_many_records_is_a_transaction(lab: Lab) -> None:
    server = lab.start()
    lab.register()
    created = lab.forward(
        CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=10_000, replication_factor=1)]), 7
    )
    assert created.topics[0].error_code == 0
    image = server.controller.image
    assert image.offset == server.log.end_offset - 1
    lab.stop(clean=False)

    assert len(lab.start().controller.image.topics["a"].partitions) == 10_000


def test_a_transaction_that_the_last_leader_did_not_end_is_aborted(lab: Lab) -> None:
    server = lab.start()
    lost = [BeginTransactionRecord(), FeatureLevelRecord(name="share.version", feature_level=1)]
    server.log.append(lost, 1, 0)
    features = lab.start().controller.image.features

    assert "share.version" not in features
    assert AbortTransactionRecord in map(type, lab.records())
    lab.start()
    assert [type(record) for record in lab.records()].count(AbortTransactionRecord) == 1


def test_a_forwarded_request_is_that_of_the_client(lab: Lab) -> None:
    lab.start()
    lab.register()
    response = lab.forward(create("orders"), 7)

    assert [(one.name, one.error_code) for one in response.topics] == [("orders", 0)]
    assert lab.forward(create("orders"), 7).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\1\0"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": PRINCIPAL[:5]}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"\1\2"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\0"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": encode_request(EnvelopeRequest(), 0, 1, None)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_that_cannot_be_opened_is_refused(lab: Lab, envelope: dict[str, Any], code: ErrorCode) -> None:
    lab.start()
    fields = {"request_data": b"", "request_principal": PRINCIPAL, "client_host_address": LOCALHOST, **envelope}

    with pytest.raises(BrokerError) as refused:
        lab.ask(EnvelopeRequest(**fields), 0)
    assert refused.value.code == code


def test_a_forwarded_request_that_would_close_a_connection_keeps_that_of_the_broker(lab: Lab) -> None:
    lab.start()
    with pytest.raises(BrokerError) as refused:
        lab.ask(enveloped(DescribeAclsRequest(resource_type_filter=0), 3), 0)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_broker_that_stops_its_heartbeats_is_fenced(lab: Lab) -> None:
    server = lab.start(broker_session_timeout_ms="9000")
    lab.register()
    lab.clock.advance(8_999)
    server.poll(0)
    assert server.controller.image.is_active(1)
    lab.clock.advance(2)
    server.poll(0)

    assert not server.controller.image.is_active(1)
    last = lab.records()[-1]
    assert isinstance(last, BrokerRegistrationChangeRecord)
    assert last.fenced == 1


def test_with_an_authorizer_only_brokers_may_forward_and_read_the_log(lab: Lab) -> None:
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    lab.start(authorizer_class_name=standard, super_users="User:broker")
    fetch = FetchRequest(topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[FetchPartition()])])
    for request, version in (
        (enveloped(create("a"), 7), 0),
        (fetch, 18),
        (FetchSnapshotRequest(), 1),
        (DescribeQuorumRequest(), 2),
    ):
        with pytest.raises(BrokerError) as refused:
            lab.ask(request, version)
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    lab.start(super_users="User:ANONYMOUS")
    lab.register()
    assert lab.forward(create("a"), 7).topics[0].error_code == 0


def test_the_settings_of_the_controller_are_described(lab: Lab) -> None:
    lab.start()
    resource = DescribeConfigsResource(resource_type=4, resource_name="3000", configuration_keys=["node.id"])
    (result,) = lab.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [(one.name, one.value) for one in result.configs] == [("node.id", "3000")]


def test_api_versions_have_the_features_of_the_cluster(lab: Lab) -> None:
    server = lab.start()
    answer = lab.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    keys = {one.api_key for one in answer.api_keys}
    assert {ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.ALTER_PARTITION} <= keys
    assert ApiKey.PRODUCE not in keys
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    assert levels == {
        "kraft.version": 1,
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "group.version": 1,
    }
    assert answer.finalized_features_epoch == server.controller.image.offset
    assert "kraft.version" in {one.name for one in answer.supported_features}

    older = lab.ask(ApiVersionsRequest(), 3)  # a feature whose first level is 0 is not known there
    assert [one.name for one in older.supported_features] == ["metadata.version"]
    unknown = lab.ask(ApiVersionsRequest(), 99)
    assert (unknown.error_code, len(unknown.api_keys)) == (ErrorCode.UNSUPPORTED_VERSION, 1)


def test_describe_cluster_names_the_controller_only_to_those_who_ask_for_it(lab: Lab) -> None:
    server = lab.start()
    answer = lab.ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert (answer.cluster_id, answer.controller_id) == (server.cluster_id, 3000)
    assert [(one.broker_id, one.port) for one in answer.brokers] == [(3000, server.port)]

    assert answer.cluster_authorized_operations == -(1 << 31)

    assert lab.ask(DescribeClusterRequest(), 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert lab.ask(DescribeClusterRequest(), 0).error_code == ErrorCode.INVALID_REQUEST, "it has no endpoint type"
    assert lab.ask(DescribeClusterRequest(endpoint_type=3), 1).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_describe_cluster_has_the_operations_that_apache_kafka_has(lab: Lab) -> None:
    lab.start()
    request = DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True)
    assert lab.ask(request, 2).cluster_authorized_operations == 8096


def test_a_full_disk_refuses_the_request_and_the_controller_goes_on(lab: Lab) -> None:
    server = lab.start()
    lab.register()
    lab.files.faults.append(Fault("append", ".log", errno.ENOSPC))
    twice = CreateTopicsRequest(topics=[*create("a").topics, *create("no/name").topics])
    rows = lab.forward(twice, 7).topics
    assert [(one.name, one.error_code) for one in rows] == [
        ("a", ErrorCode.UNKNOWN_SERVER_ERROR),
        ("no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert rows[0].error_message == "records of the metadata log cannot be written: No space left on device"
    assert (rows[0].topic_id.int, rows[0].num_partitions) == (0, -1)
    assert server.controller.image.topics == {}
    assert "No space left" in lab.messages[-1]

    assert lab.forward(create("a"), 7).topics[0].error_code == 0
    assert server.failed is None


def test_every_change_of_clients_has_the_error_of_a_full_disk(lab: Lab) -> None:
    """Without an error in the answer, a node would close its client's connection, and the outcome would be unknown."""
    lab.start()
    lab.register()
    assert lab.forward(create("a"), 7).topics[0].error_code == 0
    named: dict[str, Any] = {"resource_type": 2, "resource_name": "a"}
    setting = {"name": "retention.ms", "value": "1"}
    replaced = old.AlterConfigsResource(**named, configs=[old.AlterableConfig(**setting)])
    changed = new.AlterConfigsResource(**named, configs=[new.AlterableConfig(**setting)])
    changes: list[tuple[Request[Any], int]] = [
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6),
        (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=9, assignments=None)]), 3),
        (old.AlterConfigsRequest(resources=[replaced]), 2),
        (new.IncrementalAlterConfigsRequest(resources=[changed]), 1),
    ]
    for request, version in changes:
        lab.files.faults.append(Fault("append", ".log", errno.ENOSPC))
        answer = lab.forward(request, version)
        [row] = answer.results if hasattr(answer, "results") else answer.responses
        assert (row.error_code, row.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, lab.messages[-1])
        assert (row.name if hasattr(row, "name") else row.resource_name) == "a"
        assert "No space left" in row.error_message


def test_requests_with_any_values_are_answered_or_refused(lab: Lab) -> None:
    server = lab.start()
    lab.register()
    keys = {one.api_key for one in lab.ask(ApiVersionsRequest(), 0).api_keys}
    for golden in goldens():
        if golden.cls.API_KEY not in keys or not issubclass(golden.cls, Request):
            continue
        context = lab.context(golden.cls.API_KEY, golden.version)
        try:
            answer = server.handle(decode(golden.cls, golden.body, golden.version), context)
        except (BrokerError, CloseConnection):
            continue
        if isinstance(answer, Message):
            response_parts(answer, context)

    assert server.controller.image.is_active(1)
    assert lab.messages == []


def test_a_failing_disk_stops_the_controller(lab: Lab) -> None:
    server = lab.start()
    lab.register()
    lab.files.faults.append(Fault("sync", ".log", errno.EIO))
    assert lab.forward(create("a"), 7).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    server.wakeup()
    with pytest.raises(ControllerFailed, match="the metadata log has failed"):
        server.run(lambda: False)


def test_a_directory_of_another_node_a_taken_port_and_a_secured_listener_are_errors(lab: Lab) -> None:
    lab.start()
    lab.stop()
    with pytest.raises(ConfigError, match="belongs to node 3000"):
        lab.start(node_id="3001")
    lab.settings["node.id"] = "3000"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(KcliError, match="cannot listen on"):
        lab.start(f"CONTROLLER://127.0.0.1:{taken.getsockname()[1]}")
    with pytest.raises(ConfigError, match="only PLAINTEXT"):
        lab.start(listener_security_protocol_map="CONTROLLER:SSL")
    lab.settings.clear()
    lab.start()  # nothing of these kept the directory


def test_a_formatted_directory_begins_with_the_records_of_its_bootstrap_checkpoint(lab: Lab) -> None:
    first = [
        FeatureLevelRecord(name="metadata.version", feature_level=29),
        UserScramCredentialRecord(name="alice", mechanism=1, salt=b"salt", iterations=4096),
    ]
    lab.files.make_dir("/data")
    lab.files.write_atomically("/data/bootstrap.checkpoint", encode_snapshot((), first, 0, 0))
    image = lab.start().controller.image
    assert image.features == {"metadata.version": 29}
    assert [one for one in lab.records() if isinstance(one, UserScramCredentialRecord)] == first[1:]


def test_the_log_of_other_controllers_is_refused(lab: Lab) -> None:
    lab.start()
    lab.stop()
    meta = lab.files.read_bytes("/data/meta.properties")
    lab.files.write_atomically("/data/meta.properties", meta.replace(b"node.id=3000", b"node.id=7"))
    sentence = "is the log of a quorum with the controllers 3000; node 7 of kcli continues only"
    with pytest.raises(ConfigError, match=sentence):
        lab.start(node_id="7")


def test_a_metadata_log_without_its_identity_is_an_error(lab: Lab) -> None:
    lab.start()
    lab.stop()
    meta = lab.files.read_bytes("/data/meta.properties")
    lab.files.remove("/data/meta.properties")

    with pytest.raises(ConfigError, match=r"/data/meta.properties is missing, but __cluster_metadata-0 is there"):
        lab.start()
    assert not lab.files.exists("/data/meta.properties")
    lab.files.write_atomically("/data/meta.properties", meta)
    lab.start()


def test_a_client_reaches_the_controller_through_its_socket(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(
        {
            "process.roles": "controller",
            "node.id": "3000",
            "listeners": "CONTROLLER://127.0.0.1:0",
            "log.dirs": str(tmp_path),
        }
    )
    server = ControllerServer(config, log=pytest.fail)
    server.start()
    request = encode_request(DescribeClusterRequest(endpoint_type=2), 1, 9, "c")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(len(request).to_bytes(4, "big") + request)
        client.setblocking(False)
        received = b""
        for _ in range(100):
            server.poll(50)
            try:
                received += client.recv(1000)
                break
            except BlockingIOError:
                continue
    server.shutdown()

    assert server.cluster_id.encode() in received


def test_an_interrupted_first_start_is_completed_by_the_next(lab: Lab) -> None:
    lab.files.faults.append(Fault("append", ".log", skip=1))
    with pytest.raises(OSError, match="Input/output error"):
        lab.start()
    server = lab.start()
    assert server.controller.image.features["metadata.version"] == 30
    assert server.controller.image.configs[BROKER_CONFIG, ""] == {"min.insync.replicas": "1"}
