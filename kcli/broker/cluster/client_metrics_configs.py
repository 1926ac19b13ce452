"""Settings of client metrics (KIP-714): which metrics clients shall send, how often, and which clients.

They are stored and described, and have no effect: GetTelemetrySubscriptions returns no metrics. Source: Apache Kafka
4.3, https://kafka.apache.org/documentation/#monitoring_client_metrics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kcli.broker.config_defs import Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.text import compile_regex

CLIENT_METRICS_OPTIONS = {
    option.name: option
    for option in (
        Option(300_000, name="interval.ms", kind="Int", ignored=True),
        Option((), name="match", kind="List", ignored=True),
        Option((), name="metrics", kind="List", ignored=True),
    )
}
_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000
_OF_CLIENTS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def client_metrics_values(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of every setting. ConfigError for an invalid override."""
    return {
        name: option.parse(overrides[name]) if name in overrides else option.default
        for name, option in CLIENT_METRICS_OPTIONS.items()
    }


def check_client_metrics_configs(overrides: Mapping[str, str]) -> None:
    """Raise BrokerError with the code of Apache Kafka unless client metrics can have these overrides."""
    for name in overrides:
        if name not in CLIENT_METRICS_OPTIONS:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} is not a setting of client metrics")
    try:
        values = client_metrics_values(overrides)
        for name in ("match", "metrics"):
            if any(not item for item in values[name]):
                raise ConfigError(f"{name} has an empty item")
        for item in values["match"]:
            _check_match(item)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, error.message) from None
    if not _MIN_INTERVAL_MS <= values["interval.ms"] <= _MAX_INTERVAL_MS:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"interval.ms: {values['interval.ms']} is not valid; use {_MIN_INTERVAL_MS} to {_MAX_INTERVAL_MS}",
        )


def _check_match(item: str) -> None:
    parts = [part.strip() for part in item.split("=")]
    if len(parts) != 2 or parts[0] not in _OF_CLIENTS or not _is_pattern(parts[1]):
        names = ", ".join(sorted(_OF_CLIENTS))
        raise ConfigError(f"match: {item!r} is not valid; use NAME=REGULAR_EXPRESSION with one of {names}")


def _is_pattern(text: str) -> bool:
    try:
        compile_regex(text)
    except re.error:
        return False
    return bool(text)
