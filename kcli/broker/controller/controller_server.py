"""ControllerServer: the process of a controller. It owns the log, the decisions and the connections, in one loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import isfinite
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.cluster.features import KRAFT_VERSION, SUPPORTED_FEATURES
from kcli.broker.cluster.journal import Journal
from kcli.broker.cluster.snapshot_records import records_of
from kcli.broker.controller.controller import Controller, Decision, decided_apis, not_written
from kcli.broker.controller.envelope import handle_envelope
from kcli.broker.controller.quorum import Quorum, VoterListener
from kcli.broker.data_dir import KAFKA_METADATA_LOG, META, DataDir, parse_uuid
from kcli.broker.files import DiskFiles, is_exhausted
from kcli.broker.handlers.api_table import ServedApi
from kcli.broker.handlers.rights import cluster_operations
from kcli.broker.serving.connection_quotas import ConnectionQuotas, max_open_connections
from kcli.broker.serving.request_context import RequestContext, is_served
from kcli.broker.serving.server import Answer, SocketServer
from kcli.broker.serving.server_loop import ServerLoop, advertised_address, bind
from kcli.broker.serving.timer import TimerTask
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.network.selector import Selector
from kcli.protocol import metadata_records as records
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages import api_versions, describe_cluster
from kcli.protocol.registry import ApiKey, request_type
from kcli.protocol.wire import Request

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.counters import MBean
    from kcli.broker.files import Files
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
    from kcli.protocol.messages.envelope import EnvelopeRequest

T = TypeVar("T")

_KRAFT_VERSION = 1
_BROKERS, _CONTROLLERS = 1, 2
_BACKLOG = 1024
_FINAL_ANSWERS_MS = 200.0
_CLUSTER_ACTION, _DESCRIBE = AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE


class ControllerFailed(KcliError):
    """The metadata log cannot be written, and the controller stops."""


class ControllerServer(ServerLoop):
    """A cluster's only controller, on the settings of `process.roles=controller`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """`log` receives messages for the operator; by default they go to standard error."""
        super().__init__(config, clock, log, role="controller")
        self.cluster_id = ""
        self.failed: OSError | None = None
        self.controller: Controller
        self.quorum: Quorum
        self._files = files or DiskFiles()
        self._tick: TimerTask | None = None
        # Requests without a decision, and the right on the cluster that they need.
        self._own: dict[int, tuple[Callable[[Any, RequestContext], Answer], AclOperation | None]] = {
            ApiKey.API_VERSIONS: (self._api_versions, None),
            ApiKey.DESCRIBE_CLUSTER: (self._describe_cluster, None),
            ApiKey.DESCRIBE_QUORUM: (lambda request, context: self.quorum.answer_describe(request, context), _DESCRIBE),
            ApiKey.ENVELOPE: (self._envelope, _CLUSTER_ACTION),
            ApiKey.FETCH: (lambda request, context: self.quorum.answer_fetch(request, context), _CLUSTER_ACTION),
            ApiKey.FETCH_SNAPSHOT: (
                lambda request, context: self.quorum.answer_fetch_snapshot(request, context),
                _CLUSTER_ACTION,
            ),
        }
        keys = sorted({*self._own, *map(int, decided_apis())})
        self._served = {key: ServedApi("", *request_type(key).VERSIONS) for key in keys}
        self._forwarded = {key: self._served[key] for key in decided_apis() | {int(ApiKey.DESCRIBE_QUORUM)}}

    def __repr__(self) -> str:
        return f"<ControllerServer {self.address} node={self.config.node_id}>"

    # ---- life cycle ----

    def start(self) -> None:
        """Open the data directory, begin an epoch, and listen. KcliError or OSError if that fails."""
        config = self.config
        if config.data_dir is None:
            raise ConfigError("log.dirs is not set; set it to the data directory")
        for endpoint in config.endpoints:
            if endpoint.protocol != "PLAINTEXT":
                raise ConfigError(
                    f"listeners: {endpoint.name} of the controller has the protocol {endpoint.protocol}; "
                    "only PLAINTEXT is supported there"
                )
        with ExitStack() as undo:
            sockets = [undo.enter_context(bind(endpoint)) for endpoint in config.endpoints]
            self.endpoints = tuple(
                endpoint._replace(port=sock.getsockname()[1])
                for endpoint, sock in zip(config.endpoints, sockets, strict=True)
            )
            self._refuse_lost_identity(config.data_dir)
            self.data = DataDir(config.data_dir, self._files, node_id=config.node_id)
            undo.callback(self.data.release)
            self.cluster_id = self.data.cluster_id
            self.journal = Journal(
                config.data_dir,
                self._files,
                config,
                self.clock,
                apply=lambda record, offset: self.controller.replay(record, offset),
                report=self._log,
            )
            self.log = self.journal.log
            undo.callback(lambda: self.journal.close(clean=False))
            self._lead()
            self.server = self._make_server()
            for endpoint, sock in zip(self.endpoints, sockets, strict=True):
                self.server.listen_on(sock, _BACKLOG, endpoint.name)
            undo.pop_all()

    def _refuse_lost_identity(self, data_dir: str) -> None:
        """Raise ConfigError for a metadata log without its cluster id: a new one would shut out all nodes."""
        meta = os.path.join(data_dir, META)
        if self._files.exists(os.path.join(data_dir, KAFKA_METADATA_LOG)) and not self._files.exists(meta):
            raise ConfigError(
                f"{meta} is missing, but {KAFKA_METADATA_LOG} is there; restore the file, or write version=1, "
                f"node.id={self.config.node_id} and the cluster.id of the nodes' {META} to it"
            )

    def _lead(self) -> None:
        """Replay the log, and begin an epoch as its leader. A new log gets its first records."""
        config, journal = self.config, self.journal
        self.controller = Controller(config, self.cluster_id, random=Random())
        journal.replay()
        quorum, voters = self._quorum_records(), journal.voters
        first = [] if self.controller.image.features else journal.first_records()  # a first start may be interrupted
        if journal.is_new:
            self.log.write_bootstrap(first, quorum, self.clock.wall_ms())
        journal.begin_epoch()
        self.quorum = Quorum(
            self.log,
            self.timer,
            node_id=config.node_id,
            directory_id=parse_uuid(self.data.directory_id),
            cluster_id=self.cluster_id,
            epoch=journal.epoch,
            listeners=self._listeners(),
        )
        journal.lead(() if voters == quorum[-1] else quorum)
        if first:
            journal.append([*first, *journal.first_settings()])
        self._run_tick()

    def _quorum_records(self) -> Sequence[Any]:
        """Return the control records that name this controller as the only voter (KIP-853)."""
        voter = records.Voter(
            voter_id=self.config.node_id,
            voter_directory_id=parse_uuid(self.data.directory_id),
            endpoints=[
                records.VoterEndpoint(name=name, host=host, port=port) for name, host, port in self._listeners()
            ],
            kraft_version_feature=records.VoterFeature(min_supported_version=0, max_supported_version=_KRAFT_VERSION),
        )
        return [records.KRaftVersionRecord(kraft_version=_KRAFT_VERSION), records.VotersRecord(voters=[voter])]

    def _listeners(self) -> list[VoterListener]:
        return [VoterListener(endpoint.name, *advertised_address(endpoint)) for endpoint in self.endpoints]

    def _make_server(self) -> SocketServer:
        config = self.config
        selector = Selector(
            self.clock,
            max_frame_bytes=config.socket_request_max_bytes,
            idle_ms=config.connections_max_idle_ms,
            half_duplex=True,
        )
        return SocketServer(
            selector,
            ConnectionQuotas(min(config.max_connections, max_open_connections()), config.max_connections_per_ip),
            self.handle,
            self.control,
            self.timer,
            self.clock,
            self._log_fault,
            served=self._served,
        )

    def run(self, until: Callable[[], bool]) -> None:
        """Poll until `until()` returns True. It is called after each iteration; `wakeup` ends one.

        ControllerFailed if the log cannot be written.
        """
        while not until():
            self.poll(float("inf"))
            if self.failed is not None:
                self.server.finish_sending(_FINAL_ANSWERS_MS)
                raise ControllerFailed(f"the metadata log has failed: {self.failed}")

    def shutdown(self, *, clean: bool = True) -> None:
        """Close all connections and the log. `clean` False: as kill -9 would leave them."""
        self.server.close()
        self.journal.close(clean=clean and self.failed is None)
        self.data.release()

    def mbeans(self) -> list[MBean]:
        """Return the metrics. May be called from any thread while the loop runs."""
        from kcli.broker.mbeans import controller_metrics

        return self.call(lambda: self.server.requests.mbeans() + controller_metrics(self.controller.image))

    def kill(self) -> None:
        """End it as kill -9 would: nothing is flushed or marked."""
        self.shutdown(clean=False)

    # ---- decisions ----

    def handle(self, request: Request[Any], context: RequestContext) -> Answer:
        """Answer a request, after the records of its decision are in the log. BrokerError for an error of it all."""
        own = self._own.get(context.api_key)
        if own is not None:
            answer, operation = own
            self.controller.check_right(operation, context)
            return answer(request, context)
        decision = self.controller.handle(request, context)
        try:
            self._carry_out(decision)
        except BrokerError as error:
            return not_written(decision, request, context, error)
        return decision.response

    def _carry_out(self, decision: Decision) -> None:
        """Append and replay the records of a decision, and wait for the next tick. BrokerError if that fails."""
        if decision.records:
            try:
                self.journal.append(decision.records)
            except OSError as error:
                if not is_exhausted(error):
                    self.failed = error
                fault = f"records of the metadata log cannot be written: {error.strerror or error}"
                self._log(fault)
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, fault) from None
            self.quorum.appended()
            if self.journal.snapshot_is_due:
                self.write_snapshot()
        self._wait_for_tick()

    def _run_tick(self) -> None:
        self._tick = None
        try:
            self._carry_out(self.controller.tick(self.clock.now_ms()))
        except BrokerError:
            self._tick = self.timer.call_at(self.clock.now_ms() + 1000.0, self._run_tick)

    def _wait_for_tick(self) -> None:
        due_ms = self.controller.next_due_ms()
        if self._tick is not None and self._tick.deadline_ms != due_ms:
            self._tick.cancel()
            self._tick = None
        if self._tick is None and isfinite(due_ms):
            self._tick = self.timer.call_at(due_ms, self._run_tick)

    def write_snapshot(self) -> None:
        """Write a snapshot of the image. A failure is logged; the log has all records."""
        self.journal.write_snapshot(self._quorum_records(), records_of(self.controller.image))

    # ---- requests about the controller itself ----

    def _api_versions(
        self, request: api_versions.ApiVersionsRequest, context: RequestContext
    ) -> api_versions.ApiVersionsResponse:
        keys = [
            api_versions.ApiVersion(api_key=key, min_version=api.first_version, max_version=api.last_version)
            for key, api in self._served.items()
        ]
        if not is_served(context.api_key, context.api_version, self._served):
            own = [key for key in keys if key.api_key == ApiKey.API_VERSIONS]
            return api_versions.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
        image = self.controller.image
        finalized = {KRAFT_VERSION: _KRAFT_VERSION, **image.features}
        return api_versions.ApiVersionsResponse(
            api_keys=keys,
            supported_features=[
                api_versions.SupportedFeatureKey(name=name, min_version=first, max_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
                if (first == 0 and context.api_version >= 4) or first > 0
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                api_versions.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in finalized.items()
            ],
        )

    def _envelope(self, request: EnvelopeRequest, context: RequestContext) -> Answer:
        return handle_envelope(request, context, self.handle, forwarded=self._forwarded, served=self._served)

    def _describe_cluster(self, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
        if request.endpoint_type == _BROKERS:  # the only type that v0 can ask for
            mismatched, invalid = ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.INVALID_REQUEST
            return describe_cluster.DescribeClusterResponse(
                error_code=mismatched if context.api_version else invalid,
                error_message="This is a controller endpoint, not a broker endpoint",
            )
        if request.endpoint_type != _CONTROLLERS:
            return describe_cluster.DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"{request.endpoint_type} is not a valid endpoint type",
            )
        node_id, listener = self.config.node_id, self.quorum.listeners[0]
        response = describe_cluster.DescribeClusterResponse(
            endpoint_type=_CONTROLLERS,
            cluster_id=self.cluster_id,
            controller_id=node_id,
            brokers=[describe_cluster.DescribeClusterBroker(broker_id=node_id, host=listener.host, port=listener.port)],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(self.controller.authorizer, context)
        return response
