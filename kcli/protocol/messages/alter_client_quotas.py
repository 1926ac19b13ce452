"""AlterClientQuotas (49): set or remove the quotas of users, client ids and addresses (KIP-546)."""

from kcli.protocol.wire import *


@struct
class EntityData:
    """A part of an entity: `entity_type` is user, client-id or ip; a null name means the default."""

    entity_type: String = ""
    entity_name: NullableString = ""


@struct
class OpData:
    """A quota to set, or with `remove` to remove."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class EntryData:
    """An entity and the changes to its quotas."""

    entity: Array[EntityData] = []
    ops: Array[OpData] = []


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """Ask the controller to change quotas."""

    entries: Array[EntryData] = []
    validate_only: Bool = False


@struct
class EntityDataOfResult:
    """A part of an entity."""

    entity_type: String = ""
    entity_name: NullableString = ""


@struct
class EntryResult:
    """The outcome for an entity."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    entity: Array[EntityDataOfResult] = []


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """Outcomes by entity."""

    throttle_time_ms: Int32 = 0
    entries: Array[EntryResult] = []
