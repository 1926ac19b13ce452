"""Deliberate limits of the embedded broker: the one list, from which the README's limits are made."""

from __future__ import annotations

from typing import NamedTuple


class Missing(NamedTuple):
    """A part of Kafka that is missing, and the keys of the APIs that are not served because of it."""

    name: str
    api_keys: tuple[int, ...] = ()


MISSING = (
    Missing("share groups", (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)),
    Missing("streams groups", (88, 89)),
    Missing("metrics pushed by clients", (72,)),
    Missing("a quorum of controllers", (52, 53, 54, 80, 81, 82)),
    Missing("TLS and SASL between nodes"),
    Missing("Kerberos"),
    Missing("two-phase commit"),
    Missing("tiered storage"),
    Missing("several data directories"),
    Missing("policies for topics and settings"),
)


def sentence() -> str:
    """Return the limits as the README has them."""
    return (
        "The embedded broker is not for production, and deliberately lacks parts of Kafka: "
        f"{', '.join(missing.name for missing in MISSING)}."
    )
