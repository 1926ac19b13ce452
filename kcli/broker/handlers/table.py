"""Which APIs the broker speaks, in which versions, and the module that answers: what ApiVersions tells is made of it.

A module has `handle(broker, request, context)` and returns the response, a `Pending` of it, or None for no answer.
"""

from __future__ import annotations

from typing import NamedTuple


class Served(NamedTuple):
    """`module` is below kcli.broker.handlers; the versions are those advertised and answered, both ends included."""

    module: str
    first_version: int
    last_version: int


# Versions as Apache Kafka 4.3.1 advertises them, unless the module says why not.
HANDLERS: dict[int, Served] = {
    17: Served("sasl_handshake", 0, 1),
    18: Served("api_versions", 0, 4),
    36: Served("sasl_authenticate", 0, 2),
}
