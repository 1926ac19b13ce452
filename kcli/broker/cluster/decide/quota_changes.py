"""AlterClientQuotas (KIP-546): quotas of users, client ids and addresses, checked as by Kafka's controller."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.broker.quotas import ADDRESS, CLIENT_ID, USER
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataOfResult,
    EntryData,
    EntryResult,
)
from kcli.protocol.metadata_records import ClientQuotaRecord, EntityData
from kcli.settings import INT_MAX, LONG_MAX

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.quotas import Entity

#: The largest value of each quota; infinity: it may have a fraction.
_OF_CLIENTS = {
    "producer_byte_rate": float(LONG_MAX),
    "consumer_byte_rate": float(LONG_MAX),
    "request_percentage": float("inf"),
    "controller_mutation_rate": float("inf"),
}
_OF_ADDRESSES = {"connection_creation_rate": float(INT_MAX)}
_SMALLEST_FRACTION = 1e-6
_HOST = re.compile(r"[0-9a-fA-F:.]+(%\w+)?|[A-Za-z0-9_.-]+")


def alter_client_quotas(draft: Draft, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Return a result per entity: all its changes or none. Of an entity that is repeated the first entry counts."""
    results: dict[Entity | int, EntryResult] = {}
    for number, entry in enumerate(request.entries):
        key: Entity | int = number
        result = EntryResult(error_message=None, entity=_named(entry))
        try:
            key = entity = _entity(entry)
            if entity in results:
                raise _invalid("the entity is in the request more than once")
            records = _records(draft, entry, entity)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.detail
        else:
            for record in records if not request.validate_only else ():
                draft.write(record)
        results[key] = result
    return AlterClientQuotasResponse(entries=list(results.values()))


def quotas_failed(request: AlterClientQuotasRequest, error: BrokerError) -> AlterClientQuotasResponse:
    """Return the error of the whole request, in the row of each entity."""
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(error_code=error.code, error_message=error.detail, entity=_named(entry))
            for entry in request.entries
        ]
    )


def _named(entry: EntryData) -> list[EntityDataOfResult]:
    return [EntityDataOfResult(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]


def _entity(entry: EntryData) -> Entity:
    """Return the parts of an entity sorted by type, as the image has them."""
    types = [part.entity_type for part in entry.entity]
    if not types:
        raise _invalid("the entity is empty")
    for part in entry.entity:
        if part.entity_type not in (USER, CLIENT_ID, ADDRESS):
            raise _invalid(f"{part.entity_type!r} is not a type of entity; use {USER}, {CLIENT_ID} or {ADDRESS}")
        if types.count(part.entity_type) > 1:
            raise _invalid(f"the entity has {part.entity_type} twice")
        if part.entity_name == "":
            raise _invalid(f"the name of {part.entity_type} is empty")
    if ADDRESS in types:
        if len(types) > 1:
            raise _invalid(f"{ADDRESS} cannot be combined with {USER} or {CLIENT_ID}")
        if not _is_host(entry.entity[0].entity_name):
            raise _invalid(f"{entry.entity[0].entity_name!r} is not an IP address or a host name")
    return tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))


def _is_host(name: str | None) -> bool:
    """Return whether this can be an address or a host name; Apache Kafka also resolves it, which takes time."""
    return name is None or _HOST.fullmatch(name) is not None


def _records(draft: Draft, entry: EntryData, entity: Entity) -> list[ClientQuotaRecord]:
    """Return the changes to the quotas of an entity."""
    largest = _OF_ADDRESSES if entity[0][0] == ADDRESS else _OF_CLIENTS
    current = draft.image.quotas.get(entity, {})
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    records = []
    keys = [op.key for op in entry.ops]
    for op in entry.ops:
        if keys.count(op.key) > 1:
            raise _invalid(f"{op.key} is in the request more than once")
        if op.remove:
            if op.key in current:
                records.append(ClientQuotaRecord(entity=parts, key=op.key, remove=True))
            continue
        if op.key not in largest:
            raise _invalid(f"{op.key} is not a quota of this entity; use one of {', '.join(largest)}")
        if not op.value > 0:
            raise _invalid(f"{op.key} must be greater than 0")
        is_whole = largest[op.key] != float("inf")
        if is_whole and (op.value > largest[op.key] or op.value % 1.0 > _SMALLEST_FRACTION):
            raise _invalid(f"{op.key} must be a whole number up to {largest[op.key]:.0f}")
        if current.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=parts, key=op.key, value=op.value))
    return records


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, text)
