"""DescribeClientQuotas (48): the quotas of users, clients and addresses (KIP-546)."""

from kcli.protocol.messages.alter_client_quotas import EntityData
from kcli.protocol.wire import *


@struct
class ComponentData:
    """A condition on one part of an entity: 0 this name, 1 the default (null), 2 any name."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: NullableString = ""


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """Ask for entities that meet all conditions; `strict`: and have no other parts."""

    components: Array[ComponentData] = []
    strict: Bool = False


@struct
class ValueData:
    """A quota: its name and value."""

    key: String = ""
    value: Float64 = 0.0


@struct
class EntryData:
    """The quotas of one entity."""

    entity: Array[EntityData] = []
    values: Array[ValueData] = []


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The entities with quotas, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    entries: NullableArray[EntryData] = []
