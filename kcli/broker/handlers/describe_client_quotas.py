"""DescribeClientQuotas (48), v0-1: the quotas of users, client ids and addresses. DESCRIBE_CONFIGS is needed.

`kafka-configs.sh` asks for quotas before it lists SCRAM users. A node returns those of the metadata log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.quotas import ADDRESS, CLIENT_ID, USER
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.alter_client_quotas import EntityData
from kcli.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.quotas import Entity

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Return the entities that meet all conditions; a strict request excludes entities with other parts."""
    try:
        if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE_CONFIGS):
            raise cluster_denied(AclOperation.DESCRIBE_CONFIGS)
        _check(request.components)
    except BrokerError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail, entries=None)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in limits.items()],
            )
            for entity, limits in broker.cluster.image.quotas.items()
            if _matches(entity, request)
        ],
    )


def _check(components: list[ComponentData]) -> None:
    """Raise BrokerError with the code of Apache Kafka for conditions that are not valid."""
    kinds = [component.entity_type for component in components]
    for component in components:
        if not component.entity_type:
            raise _invalid("the type of an entity must not be empty")
        if kinds.count(component.entity_type) > 1:
            raise _invalid(f"the entity type {component.entity_type} is in the request more than once")
        if component.entity_type not in (USER, CLIENT_ID, ADDRESS):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{component.entity_type!r} is not a type of entity; use {USER}, {CLIENT_ID} or {ADDRESS}",
            )
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid(f"{component.match_type} is not a type of match; use 0, 1 or 2")
        if (component.match is None) is (component.match_type == _EXACT):
            raise _invalid(f"match type {component.match_type} and the name {component.match!r} do not fit together")
    if ADDRESS in kinds and len(kinds) > 1:
        raise _invalid(f"{ADDRESS} cannot be combined with {USER} or {CLIENT_ID}")


def _matches(entity: Entity, request: DescribeClientQuotasRequest) -> bool:
    parts = dict(entity)
    if request.strict and len(parts) != len(request.components):
        return False
    return all(
        component.entity_type in parts
        and (component.match_type == _ANY or parts[component.entity_type] == component.match)
        for component in request.components
    )


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, text)
