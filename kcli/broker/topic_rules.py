"""Which topics may be: names, counts of partitions and replicas, and replicas placed by hand. Pure.

Every refusal is a BrokerError with the code that Apache Kafka 4.3.1 answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

LONGEST_NAME = 249  # with "-" and a partition number it is a directory's name
MOST_PARTITIONS = 10_000  # that one request may ask for
_METADATA_LOG = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_fault(name: str) -> str | None:
    """Why a topic cannot be called so; None if it can."""
    if not name:
        return "A topic name must not be empty"
    if name in (".", ".."):
        return f"A topic must not be called '{name}'"
    if len(name) > LONGEST_NAME:
        return f"A topic name has at most {LONGEST_NAME} characters, but this one has {len(name)}"
    if not _LEGAL.match(name):
        return f"A topic name is made of ASCII letters, digits, '.', '_' and '-', which '{name}' is not"
    return None


def check_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION unless a topic can be called so."""
    fault = name_fault(name)
    if fault:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def check_new_name(name: str, existing: Iterable[str]) -> None:
    """Refuse names that are invalid, taken, reserved, or equal to another but for '.' and '_', as metrics see them."""
    check_name(name)
    if name == _METADATA_LOG:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The internal topic {name} cannot be created")
    folded = name.replace(".", "_")
    for other in existing:
        if other == name:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if other.replace(".", "_") == folded:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic '{other}'")


def check_counts(partitions: int, replication_factor: int) -> None:
    """Refuse what one broker cannot hold. Here -1, the default, has been replaced by its value."""
    if replication_factor <= 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor must be at least 1, or -1 for the broker's default",
        )
    if partitions <= 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, "The number of partitions must be at least 1, or -1 for the broker's default"
        )
    check_partition_limit(partitions)
    if replication_factor > 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor {replication_factor} cannot be reached: there is 1 broker",
        )


def check_partition_limit(partitions: int) -> None:
    """POLICY_VIOLATION for more partitions than a topic may have here."""
    if partitions > MOST_PARTITIONS:
        raise BrokerError(
            ErrorCode.POLICY_VIOLATION, f"A topic can have at most {MOST_PARTITIONS} partitions, not {partitions}"
        )


def check_assignments(assignments: Mapping[int, Sequence[int]], node_id: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless partitions 0, 1, ... are each placed on this broker."""
    for replicas in assignments.values():
        check_replicas(replicas, node_id)
    if sorted(assignments) != list(range(len(assignments))):
        raise _misplaced("The partitions that are placed by hand must be numbered from 0 without a gap")


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless these are replicas that one partition can have."""
    if not replicas:
        raise _misplaced("A partition is placed by hand on no broker at all")
    for broker in replicas:
        if broker != node_id:
            raise _misplaced(f"A partition is placed by hand on broker {broker}, but there is only broker {node_id}")
    if len(replicas) > 1:
        raise _misplaced(f"A partition is placed by hand on broker {node_id} more than once")


def _misplaced(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
