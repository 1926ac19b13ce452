"""Which resources have settings, by the numbers that three APIs share, and which broker is meant. No handler."""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def check_this_broker(name: str, node_id: int) -> None:
    """INVALID_REQUEST unless a resource's name is our id."""
    if name != str(node_id):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, not {name!r}")


def unknown_type(number: int) -> BrokerError:
    """For a type of resources that Kafka does not have."""
    return BrokerError(ErrorCode.INVALID_REQUEST, f"There is no type {number} of resources with settings")
