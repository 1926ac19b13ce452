"""Requests about groups: each group is answered by its coordinator only, and when its log is replicated.

`handle` is around the handlers of the group APIs. A request about several groups is split into one for each, because
each group may have another coordinator. A handler module has a function `refused` if its answer with an error has more
than the error. Not a handler.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.group.responses import lacks_protocol
from kcli.broker.serving.pending import Pending, completed, gathered
from kcli.broker.serving.request_context import error_response
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kcli.broker.coordinator_partitions import CoordinatorPartitions
    from kcli.broker.serving.request_context import RequestContext

_OFFSET_FETCH_OF_GROUPS = 8
# Of these, a request without a group id is refused whoever the coordinator is, and a SyncGroup without its protocol.
_NEEDS_GROUP_ID = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.TXN_OFFSET_COMMIT,
)


class _Many(NamedTuple):
    """The fields of an API about several groups: the groups of the request, and the rows of the response."""

    requested: str
    rows: str
    group_id: Callable[[Any], str]
    first_version: int = 0


_MANY: dict[int, _Many] = {
    ApiKey.DESCRIBE_GROUPS: _Many("groups", "groups", str),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _Many("group_ids", "groups", str),
    ApiKey.DELETE_GROUPS: _Many("groups_names", "results", str),
    ApiKey.OFFSET_FETCH: _Many("groups", "groups", lambda group: str(group.group_id), _OFFSET_FETCH_OF_GROUPS),
}
# The others need READ.
_RIGHTS: dict[int, AclOperation] = {
    ApiKey.DESCRIBE_GROUPS: AclOperation.DESCRIBE,
    ApiKey.CONSUMER_GROUP_DESCRIBE: AclOperation.DESCRIBE,
    ApiKey.OFFSET_FETCH: AclOperation.DESCRIBE,
    ApiKey.DELETE_GROUPS: AclOperation.DELETE,
    ApiKey.OFFSET_DELETE: AclOperation.DELETE,
}
API_KEYS = frozenset({*_NEEDS_GROUP_ID, *_MANY, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.LIST_GROUPS})


def handle(
    module: ModuleType, partitions: CoordinatorPartitions, broker: Any, request: Any, context: RequestContext
) -> Any:
    """Return the response of the API's handler `module`, or a `Pending` of it."""
    key = context.api_key
    if key == ApiKey.LIST_GROUPS:
        if partitions.is_loading:
            return error_response(context, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return module.handle(broker, request, context)
    many = _MANY.get(key)
    if many is None or context.api_version < many.first_version:
        is_incomplete = key == ApiKey.SYNC_GROUP and lacks_protocol(request, context.api_version)
        if is_incomplete or (request.group_id == "" and key in _NEEDS_GROUP_ID):
            return module.handle(broker, request, context)
        return _answer(module, partitions, broker, request.group_id, request, context)
    groups = getattr(request, many.requested)
    if len(groups) == 1:
        return _answer(module, partitions, broker, many.group_id(groups[0]), request, context)
    answers = []
    for group in dict.fromkeys(groups) if key == ApiKey.DELETE_GROUPS else groups:
        part = copy(request)
        setattr(part, many.requested, [group])
        answers.append(_answer(module, partitions, broker, many.group_id(group), part, context))
    if not answers:
        return module.handle(broker, request, context)
    pending = [answer if isinstance(answer, Pending) else completed(answer) for answer in answers]
    return gathered(pending).then(lambda responses: _with_rows_of_all(responses, many.rows))


def _answer(
    module: ModuleType,
    partitions: CoordinatorPartitions,
    broker: Any,
    group_id: str,
    request: Any,
    context: RequestContext,
) -> Any:
    """Answer a request about one group. Its coordinator does not matter to a client without the right: it is denied."""

    def refuse(error: ErrorCode) -> Any:
        if hasattr(module, "refused"):
            return module.refused(request, error, context.api_version)
        return error_response(context, error)

    error = partitions.error_of(group_id)
    if error:
        right = _RIGHTS.get(context.api_key, AclOperation.READ)
        is_allowed = broker.authorizer.allows(context, right, ResourceType.GROUP, group_id)
        return refuse(error) if is_allowed else module.handle(broker, request, context)
    return partitions.when_replicated(group_id, module.handle(broker, request, context), refuse)


def _with_rows_of_all(responses: list[Any], rows: str) -> Any:
    first = responses[0]
    setattr(first, rows, [row for response in responses for row in getattr(response, rows)])
    return first
