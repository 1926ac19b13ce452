"""Resource types that have settings, and the rights to them. Not a handler."""

from __future__ import annotations

from collections.abc import Callable

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import CLUSTER_NAME, ResourceType

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def check_this_broker(name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST unless the name of a broker resource is this broker's id."""
    if name != str(node_id):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, not {name!r}")


def unknown_type(number: int) -> BrokerError:
    """Return the error for a resource type that Kafka does not define."""
    return BrokerError(ErrorCode.INVALID_REQUEST, f"{number} is not a valid resource type")


def check_allowed(kind: int, name: str, is_allowed: Callable[[ResourceType, str], bool]) -> None:
    """Raise the error of a client that lacks the right to the settings of a resource; an unknown type passes."""
    if kind == TOPIC:
        allowed, code = is_allowed(ResourceType.TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == GROUP:
        allowed, code = is_allowed(ResourceType.GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif kind in ALL:
        allowed, code = is_allowed(ResourceType.CLUSTER, CLUSTER_NAME), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        return
    if not allowed:
        raise BrokerError(code)
