"""Controller: requests of brokers and of clients in, records for the metadata log and responses out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.cluster.cluster_values import PRODUCER_IDS_PER_BLOCK
from kcli.broker.cluster.decide.draft import Draft
from kcli.broker.cluster.decide.draft_cluster import DraftCluster
from kcli.broker.cluster.decide.partition_changes import (
    alter_partitions,
    alter_reassignments,
    assign_directories,
    balance_leaders,
    elect_leaders,
    elect_uncleanly,
    elections_failed,
    reassignments_failed,
)
from kcli.broker.cluster.decide.parts import Parts
from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.controller.registrations import Registrations, check_epoch
from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.serving.request_context import ANONYMOUS, RequestContext, error_response
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kcli.protocol.messages.unregister_broker import UnregisterBrokerResponse
from kcli.protocol.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
)
from kcli.protocol.registry import ApiKey

if TYPE_CHECKING:
    from random import Random

    from kcli.broker.config import BrokerConfig
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
    from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
    from kcli.protocol.messages.alter_partition import AlterPartitionRequest
    from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
    from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest
    from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
    from kcli.protocol.messages.update_features import UpdateFeaturesRequest
    from kcli.protocol.wire import Message, Request


class Decision(NamedTuple):
    """Records to append to the log as one batch, then to replay, and the response to send after that.

    `next_due_ms` is the time of the next `tick`.
    """

    records: list[Any]
    response: Message | None = None
    next_due_ms: float = inf


class _Periodic:
    """A decision that is made in intervals; the first interval begins with the first tick."""

    def __init__(self, interval_ms: float, decide: Callable[[Draft, BrokerConfig], None]) -> None:
        self.due_ms = 0.0
        self._interval_ms = interval_ms
        self._decide = decide

    def run(self, draft: Draft, config: BrokerConfig, now_ms: float) -> None:
        if not self.due_ms:
            self.due_ms = now_ms + self._interval_ms
        elif now_ms >= self.due_ms:
            self.due_ms = now_ms + self._interval_ms
            self._decide(draft, config)


def _protocol_before(context: RequestContext) -> str:
    """Return how a client is authenticated whose request a broker has forwarded: its listener is not known here."""
    return "PLAINTEXT" if context.principal == ANONYMOUS else "SASL_SSL"


class Controller:
    """The decisions of a cluster's only controller.

    The caller replays all records of the log at the start, calls `handle` with requests and `tick` when it is due, and
    replays the records of each decision after they are in the log.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        *,
        random: Random,
        image: MetadataImage | None = None,
        protocol_of: Callable[[RequestContext], str] = _protocol_before,
    ) -> None:
        """`config` are the controller's settings. `random` places replicas.

        A broker alone has the image already; `protocol_of` is the security protocol of a client.
        """
        self.config = config
        self.image = image or MetadataImage()
        self.authorizer = _authorizer(config)
        self.protocol_of = protocol_of
        self.client_quotas: ClientQuotas | None = None
        self.registrations = Registrations(config, cluster_id)
        self._random = random
        self._acls_have_changed = False
        self._periodic = [_Periodic(config.unclean_leader_election_interval_ms, elect_uncleanly)]
        if config.auto_leader_rebalance_enable:
            self._periodic.append(_Periodic(config.leader_imbalance_check_interval_seconds * 1000.0, balance_leaders))

    def __repr__(self) -> str:
        return f"<Controller {self.image!r}>"

    def replay(self, record: Any, offset: int) -> None:
        """Apply the record at this offset of the log; control records only move `image.offset`."""
        self.image.apply(record, Changes())
        self.image.offset = offset
        kind = type(record)
        if kind is RegisterBrokerRecord:
            self.registrations.registered(record.broker_id, offset)
        elif kind is ClientQuotaRecord:
            self._set_client_quotas()
        elif kind is AccessControlEntryRecord or kind is RemoveAccessControlEntryRecord:
            self._acls_have_changed = True

    def _set_client_quotas(self) -> None:
        if self.client_quotas is None:
            from kcli.broker.quotas import ClientQuotas, Windows

            windows = Windows(self.config.quota_window_num, 1000.0 * self.config.quota_window_size_seconds)
            self.client_quotas = ClientQuotas(windows, self.image.quotas)
        self.client_quotas.limits = self.image.quotas
        self.client_quotas.changed()

    def handle(self, request: Request[Any], context: RequestContext) -> Decision:
        """Decide about a request: of a broker, or of a client, for which a broker has forwarded it.

        `context` is that of the client. An error is in the response, and changes nothing.
        """
        draft = Draft(self.image)
        try:
            decide, operation = _DECISIONS[context.api_key]
            self.check_right(operation, context)
            response = decide(self, draft, request, context)
        except BrokerError as error:
            return Decision([], failed(request, context, error), self.next_due_ms())
        return Decision(draft.records, response, self.next_due_ms())

    def check_right(self, operation: AclOperation | None, context: RequestContext) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if the client may not do this on the cluster; None: it may do it."""
        if self._acls_have_changed:
            self._apply_acls()
        if operation is not None and not self.authorizer.allows_cluster(context, operation):
            raise cluster_denied(operation)

    def tick(self, now_ms: float) -> Decision:
        """Decide what is due: brokers without heartbeats are fenced, and leaders are elected periodically."""
        draft = Draft(self.image)
        self.registrations.expire(draft, now_ms)
        for task in self._periodic:
            task.run(draft, self.config, now_ms)
        return Decision(draft.records, None, self.next_due_ms())

    def next_due_ms(self) -> float:
        """Return the time of the next tick."""
        periodic = [task.due_ms for task in self._periodic]
        return min(self.registrations.next_due_ms(self.image.brokers.values()), *periodic)

    def _apply_acls(self) -> None:
        """Let the authorizer decide by the ACLs of the image."""
        from kcli.broker.security.authorizer import Authorizer
        from kcli.broker.security.image_security import acl_bindings

        if isinstance(self.authorizer, Authorizer):
            self.authorizer.replace(acl_bindings(self.image))
        self._acls_have_changed = False

    def parts(self, draft: Draft) -> Parts:
        """Return what a decision about a client's request reads and changes."""
        return Parts(draft, self.cluster(draft), self.authorizer, self.client_quotas, self.config, self.protocol_of)

    def cluster(self, draft: Draft) -> DraftCluster:
        """Return the topics and settings of a draft."""
        return DraftCluster(draft, self.config, self._random)


def decided_apis() -> frozenset[int]:
    """Return the keys of the requests that a controller decides about."""
    return frozenset(_DECISIONS)


def _authorizer(config: BrokerConfig) -> AnyAuthorizer:
    if not config.authorizer_class_name:
        from kcli.broker.security.allow_all import AllowAll

        return AllowAll()
    from kcli.broker.security.authorizer import Authorizer

    return Authorizer(super_users=config.super_user_names, allow_without_acl=config.allow_everyone_if_no_acl_found)


def failed(request: Request[Any], context: RequestContext, error: BrokerError) -> Message:
    """Return a response with only this error, in its rows too where Apache Kafka has it there."""
    if (with_rows := _WITH_ROWS.get(context.api_key)) is not None:
        return with_rows(request, error, context.api_version)
    response = error_response(context, error.code)
    assert response is not None, f"{context} has rows for its errors"
    if hasattr(response, "error_message"):
        response.error_message = error.detail
    return response


def not_written(
    decision: Decision,
    request: Request[Any],
    context: RequestContext,
    error: BrokerError,
    names: Container[str] | None = None,
) -> Message:
    """Return the answer to a request whose records cannot be written: this error, in each row that had none.

    `names`: only those of these topics were not written.
    """
    if context.api_key not in _ROWS:
        return failed(request, context, error)
    rows, fields = _ROWS[context.api_key]

    def row_of(decided: Any) -> Any:
        if decided.error_code or (names is not None and decided.name not in names):
            return decided
        named = {field: getattr(decided, field) for field in fields}
        return type(decided)(**named, error_code=error.code, error_message=error.detail)

    answer: Any = type(decision.response)
    return answer(**{rows: [row_of(row) for row in getattr(decision.response, rows)]})  # type: ignore[no-any-return]


_Decide = Callable[["Controller", Draft, Any, RequestContext], "Message"]


def _by(module: str, package: str = "cluster.decide", function: str = "handle") -> _Decide:
    """Return the decision by a function of a module; it is imported with its first request."""

    def decide(controller: Controller, draft: Draft, request: Request[Any], context: RequestContext) -> Message:
        handle = getattr(import_module(f"kcli.broker.{package}.{module}"), function)
        response: Message = handle(controller.parts(draft), request, context)
        return response

    return decide


def _register(
    controller: Controller, draft: Draft, request: BrokerRegistrationRequest, context: RequestContext
) -> Message:
    return controller.registrations.register(draft, request, context.api_version, context.now_ms)


def _heartbeat(
    controller: Controller, draft: Draft, request: BrokerHeartbeatRequest, context: RequestContext
) -> Message:
    return controller.registrations.heartbeat(draft, request, context.now_ms)


def _alter_partitions(
    controller: Controller, draft: Draft, request: AlterPartitionRequest, context: RequestContext
) -> Message:
    return alter_partitions(draft, controller.config, request, context.api_version)


def _by_config(decide: Callable[[Draft, BrokerConfig, Any], Message]) -> _Decide:
    """Return a decision that needs only the draft and the settings."""
    return lambda controller, draft, request, _context: decide(draft, controller.config, request)


def _unregister(
    controller: Controller, draft: Draft, request: UnregisterBrokerRequest, _context: RequestContext
) -> Message:
    controller.registrations.unregister(draft, request.broker_id)
    return UnregisterBrokerResponse(error_message=None)


def _allocate_producer_ids(
    _controller: Controller, draft: Draft, request: AllocateProducerIdsRequest, _context: RequestContext
) -> Message:
    check_epoch(draft.image, request.broker_id, request.broker_epoch)
    first = draft.image.next_producer_id
    draft.write(
        ProducerIdsRecord(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
        )
    )
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_IDS_PER_BLOCK)


def _update_features(
    controller: Controller, draft: Draft, request: UpdateFeaturesRequest, context: RequestContext
) -> Message:
    from kcli.broker.cluster.decide.feature_updates import update_features

    return update_features(draft, controller.config, request, context.api_version)


def _alter_client_quotas(
    _controller: Controller, draft: Draft, request: AlterClientQuotasRequest, _context: RequestContext
) -> Message:
    from kcli.broker.cluster.decide.quota_changes import alter_client_quotas

    return alter_client_quotas(draft, request)


def _quotas_failed(request: AlterClientQuotasRequest, error: BrokerError, _version: int) -> Message:
    from kcli.broker.cluster.decide.quota_changes import quotas_failed

    return quotas_failed(request, error)


_WITH_ROWS: dict[int, Callable[[Any, BrokerError, int], Message]] = {
    ApiKey.ELECT_LEADERS: elections_failed,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments_failed,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas_failed,
}

#: Of the requests of clients whose answers have errors in rows only: the rows, and the fields that name them.
_ROWS: dict[int, tuple[str, tuple[str, ...]]] = {
    ApiKey.CREATE_TOPICS: ("topics", ("name",)),
    ApiKey.DELETE_TOPICS: ("responses", ("name", "topic_id")),
    ApiKey.CREATE_PARTITIONS: ("results", ("name",)),
    ApiKey.ALTER_CONFIGS: ("responses", ("resource_type", "resource_name")),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses", ("resource_type", "resource_name")),
    ApiKey.CREATE_ACLS: ("results", ()),
    ApiKey.DELETE_ACLS: ("filter_results", ()),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results", ("user",)),
}

#: The decision about a request, and the right on the cluster that it needs; None if the decision asks for rights.
_DECISIONS: dict[int, tuple[_Decide, AclOperation | None]] = {
    ApiKey.CREATE_TOPICS: (_by("create_topics"), None),
    ApiKey.DELETE_TOPICS: (_by("delete_topics"), None),
    ApiKey.CREATE_PARTITIONS: (_by("create_partitions"), None),
    ApiKey.ALTER_CONFIGS: (_by("alter_configs"), None),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_by("alter_configs"), None),
    ApiKey.DESCRIBE_CONFIGS: (_by("describe_configs", "handlers"), None),
    ApiKey.CREATE_ACLS: (_by("create_acls"), None),
    ApiKey.DELETE_ACLS: (_by("delete_acls"), None),
    ApiKey.DESCRIBE_ACLS: (_by("describe_acls", "handlers"), None),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_by("alter_user_scram_credentials"), None),
    ApiKey.CREATE_DELEGATION_TOKEN: (_by("token_changes", function="create"), None),
    ApiKey.RENEW_DELEGATION_TOKEN: (_by("token_changes", function="renew"), None),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (_by("token_changes", function="expire"), None),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_by("list_partition_reassignments"), None),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_by_config(alter_reassignments), AclOperation.ALTER),
    ApiKey.ELECT_LEADERS: (_by_config(elect_leaders), AclOperation.ALTER),
    ApiKey.UNREGISTER_BROKER: (_unregister, AclOperation.ALTER),
    ApiKey.UPDATE_FEATURES: (_update_features, AclOperation.ALTER),
    ApiKey.ALTER_CLIENT_QUOTAS: (_alter_client_quotas, AclOperation.ALTER_CONFIGS),
    ApiKey.BROKER_REGISTRATION: (_register, AclOperation.CLUSTER_ACTION),
    ApiKey.BROKER_HEARTBEAT: (_heartbeat, AclOperation.CLUSTER_ACTION),
    ApiKey.ALTER_PARTITION: (_alter_partitions, AclOperation.CLUSTER_ACTION),
    ApiKey.ALLOCATE_PRODUCER_IDS: (_allocate_producer_ids, AclOperation.CLUSTER_ACTION),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (_by_config(assign_directories), AclOperation.CLUSTER_ACTION),
}
