"""The brokers of the cluster: registration, heartbeats, fencing, controlled shutdown (KIP-631, KIP-841, KIP-903).

A broker is FENCED after it has registered, until it has applied the record of its registration and asks to be unfenced.
It is UNFENCED until its heartbeats stop for broker.session.timeout.ms, or it asks for a controlled shutdown: then it
loses its leaderships, and may stop when the other brokers have applied that.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from kcli.broker.cluster.decide.partitions import (
    RESERVED,
    elect_where_leaderless,
    remove_after_unclean_stop,
    remove_from_isrs,
    remove_unregistered,
)
from kcli.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kcli.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.image import MetadataImage, Registration
    from kcli.broker.config import BrokerConfig

_FIRST_WITH_PREVIOUS_EPOCH = 3
_FENCED, _UNFENCED, _SHUTTING_DOWN = 1, -1, 1


class _State(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


class _Session:
    """A broker as its heartbeats show it. `shutdown_offset` is that of the end of its leaderships, -1 before."""

    def __init__(self, epoch: int, contact_ms: float) -> None:
        self.epoch = epoch
        self.contact_ms = contact_ms
        self.metadata_offset = -1
        self.shutdown_offset = -1


class Registrations:
    """The sessions of the brokers, and the decisions about registrations."""

    def __init__(self, config: BrokerConfig, cluster_id: str) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._sessions: dict[int, _Session] = {}
        self._offsets: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Registrations {len(self._sessions)} sessions>"

    def registered(self, node_id: int, offset: int) -> None:
        """Remember the offset of the record of a registration."""
        self._offsets[node_id] = offset

    # ---- registration ----

    def register(
        self, draft: Draft, request: BrokerRegistrationRequest, version: int, now_ms: float
    ) -> BrokerRegistrationResponse:
        """Register a broker. BrokerError with the code that Kafka's controller returns."""
        image, node_id = draft.image, request.broker_id
        existing = image.brokers.get(node_id)
        self._check(image, request, existing, now_ms)
        epoch = draft.next_offset
        record = RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=request.incarnation_id,
            rack=request.rack,
            end_points=[
                BrokerEndpoint(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in request.features
            ],
            log_dirs=list(request.log_dirs),
        )
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            epoch = existing.epoch
            record.fenced = existing.is_fenced
            record.in_controlled_shutdown = existing.in_controlled_shutdown
        else:
            self._clean_up(draft, request, version, existing)
            self._sessions.pop(node_id, None)
        record.broker_epoch = epoch
        draft.write(record)
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _check(
        self, image: MetadataImage, request: BrokerRegistrationRequest, existing: Registration | None, now_ms: float
    ) -> None:
        if request.cluster_id != self._cluster_id:
            raise BrokerError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"the cluster id is {self._cluster_id}, not {request.cluster_id}",
            )
        if (
            existing is not None
            and existing.incarnation_id != request.incarnation_id
            and self._has_session(existing, now_ms)
        ):
            raise BrokerError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        if request.is_migrating_zk_broker:
            raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers that use ZooKeeper cannot register")
        _check_directories(image, request)
        _check_features(image, request)

    def _clean_up(
        self, draft: Draft, request: BrokerRegistrationRequest, version: int, existing: Registration | None
    ) -> None:
        """Remove the previous incarnation of a broker from ISRs, and after an unclean stop from ELRs, too."""
        is_clean = (
            version >= _FIRST_WITH_PREVIOUS_EPOCH
            and existing is not None
            and existing.epoch == request.previous_broker_epoch
        )
        if draft.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0 and not is_clean:
            remove_after_unclean_stop(draft, self._config, request.broker_id)
        else:
            remove_from_isrs(draft, self._config, request.broker_id)

    def unregister(self, draft: Draft, node_id: int) -> None:
        """Remove a registration. BrokerError BROKER_ID_NOT_REGISTERED if there is none."""
        broker = draft.image.brokers.get(node_id)
        if broker is None:
            raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {node_id} is not registered")
        remove_unregistered(draft, self._config, node_id)
        draft.write(UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch))

    # ---- heartbeats ----

    def heartbeat(self, draft: Draft, request: BrokerHeartbeatRequest, now_ms: float) -> BrokerHeartbeatResponse:
        """Decide the state of a broker. BrokerError STALE_BROKER_EPOCH if it is not registered with this epoch."""
        image, node_id = draft.image, request.broker_id
        broker = check_epoch(image, node_id, request.broker_epoch)
        session = self._sessions.get(node_id)
        if session is None or session.epoch != broker.epoch:
            session = self._sessions[node_id] = _Session(broker.epoch, now_ms)
        session.contact_ms = now_ms
        current = _State.FENCED if broker.is_fenced else _State.UNFENCED
        if current is _State.FENCED:
            session.shutdown_offset = -1
        elif session.shutdown_offset >= 0:
            current = _State.CONTROLLED_SHUTDOWN
        is_caught_up = request.current_metadata_offset >= self._offsets.get(node_id, broker.epoch)
        following = self._next_state(image, request, current, session, is_caught_up)
        if following is not current:
            self._move(draft, broker, following)
        session.metadata_offset = request.current_metadata_offset
        self._check_log_dirs(draft, broker, request)
        if following is _State.CONTROLLED_SHUTDOWN and session.shutdown_offset < 0:
            session.shutdown_offset = draft.next_offset - 1
        return BrokerHeartbeatResponse(
            is_caught_up=is_caught_up,
            is_fenced=following in (_State.FENCED, _State.SHUTDOWN_NOW),
            should_shut_down=following is _State.SHUTDOWN_NOW,
        )

    def _next_state(
        self,
        image: MetadataImage,
        request: BrokerHeartbeatRequest,
        current: _State,
        session: _Session,
        is_caught_up: bool,
    ) -> _State:
        if current is _State.FENCED:
            if request.want_shut_down:
                return _State.SHUTDOWN_NOW
            return _State.UNFENCED if is_caught_up and not request.want_fence else _State.FENCED

        def leads() -> bool:
            return any(state.leader == request.broker_id for _, state in image.partitions())

        if current is _State.UNFENCED:
            if request.want_fence:
                return _State.SHUTDOWN_NOW if request.want_shut_down else _State.FENCED
            if request.want_shut_down:
                return _State.CONTROLLED_SHUTDOWN if leads() else _State.SHUTDOWN_NOW
            return _State.UNFENCED
        has_ended = not leads() and session.shutdown_offset <= self._lowest_offset(image)
        return _State.SHUTDOWN_NOW if has_ended else _State.CONTROLLED_SHUTDOWN

    def _lowest_offset(self, image: MetadataImage) -> float:
        """Return the offset that all active brokers have applied."""
        return min(
            (
                self._sessions[broker.node_id].metadata_offset if broker.node_id in self._sessions else -1
                for broker in image.brokers.values()
                if broker.is_active
            ),
            default=inf,
        )

    def _move(self, draft: Draft, broker: Registration, state: _State) -> None:
        change = BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
        if state is _State.UNFENCED:
            change.fenced = _UNFENCED
            draft.write(change)
            elect_where_leaderless(draft, self._config, broker.node_id)
        elif state is _State.CONTROLLED_SHUTDOWN:
            if not broker.in_controlled_shutdown:
                change.in_controlled_shutdown = _SHUTTING_DOWN
                draft.write(change)
            remove_from_isrs(draft, self._config, broker.node_id)
        elif not broker.is_fenced:
            self._fence(draft, broker)

    def _fence(self, draft: Draft, broker: Registration) -> None:
        remove_from_isrs(draft, self._config, broker.node_id)
        draft.write(BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=_FENCED))

    def _check_log_dirs(self, draft: Draft, broker: Registration, request: BrokerHeartbeatRequest) -> None:
        """Take replicas in offline log directories out of their ISRs, and note directories that are cordoned."""
        offline = [directory for directory in broker.log_dirs if directory in request.offline_log_dirs]
        if offline:
            remove_from_isrs(draft, self._config, broker.node_id, directories=offline)
            online = [directory for directory in broker.log_dirs if directory not in offline]
            draft.write(
                BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, log_dirs=online)
            )
        cordoned = request.cordoned_log_dirs
        if cordoned is not None and set(cordoned) != set(broker.cordoned_log_dirs or ()):
            draft.write(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.node_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
                )
            )

    # ---- time ----

    def expire(self, draft: Draft, now_ms: float) -> None:
        """Fence the brokers whose sessions have expired. An unfenced broker without a session gets a new one.

        The broker with the controller's own id was in the controller's last process, and is gone with it.
        """
        for broker in list(draft.image.brokers.values()):
            session = self._sessions.get(broker.node_id)
            if session is None or session.epoch != broker.epoch:
                if not broker.is_fenced and broker.node_id == self._config.node_id:
                    self._fence(draft, broker)
                elif not broker.is_fenced:
                    self._sessions[broker.node_id] = _Session(broker.epoch, now_ms)
            elif self._has_expired(session, now_ms) and not broker.is_fenced:
                self._fence(draft, broker)

    def next_due_ms(self, brokers: Iterable[Registration]) -> float:
        """Return the time at which the next session expires; infinity if there is none."""
        return min(
            (
                self._sessions[broker.node_id].contact_ms + self._config.broker_session_timeout_ms
                for broker in brokers
                if not broker.is_fenced and broker.node_id in self._sessions
            ),
            default=inf,
        )

    def _has_session(self, broker: Registration, now_ms: float) -> bool:
        session = self._sessions.get(broker.node_id)
        return session is not None and session.epoch == broker.epoch and not self._has_expired(session, now_ms)

    def _has_expired(self, session: _Session, now_ms: float) -> bool:
        return now_ms >= session.contact_ms + self._config.broker_session_timeout_ms


def check_epoch(image: MetadataImage, node_id: int, epoch: int) -> Registration:
    """Return the registration. BrokerError STALE_BROKER_EPOCH if there is none with this epoch."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.epoch != epoch:
        raise BrokerError(ErrorCode.STALE_BROKER_EPOCH)
    return broker


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = set(request.log_dirs)
    fault = None
    if not directories:
        fault = "no log directory is in the request"
    elif any(directory.int < RESERVED for directory in directories):
        fault = "the id of a log directory is reserved"
    elif len(directories) < len(request.log_dirs):
        fault = "the id of a log directory is in the request twice"
    else:
        for broker in image.brokers.values():
            if broker.node_id != request.broker_id and directories & set(broker.log_dirs):
                fault = f"broker {broker.node_id} has a log directory with the same id"
    if fault is not None:
        raise BrokerError(ErrorCode.INVALID_REGISTRATION, fault)


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Refuse a broker that does not support the finalized level of a feature."""
    supported = {
        feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
    }
    if METADATA_VERSION not in supported:
        raise BrokerError(ErrorCode.INVALID_REGISTRATION, f"the request does not have the feature {METADATA_VERSION}")
    for name in {**supported, **image.features}:
        lowest, highest = supported.get(name, (0, 0))
        level = image.features.get(name, 0)
        if not lowest <= level <= highest:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{name} has level {level} in this cluster, but the broker supports {lowest} to {highest}",
            )
