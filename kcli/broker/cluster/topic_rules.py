"""Rules for topics: valid names, partition and replica counts, and manual replica assignments. Pure.

Every violation is a BrokerError with the code that Apache Kafka 4.3.1 returns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Sized

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

LONGEST_NAME = 249  # "-" and a partition number are added for the name of a directory
MOST_PARTITIONS = 10_000  # of one topic
METADATA_LOG = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_fault(name: str) -> str | None:
    """Return the reason why a topic name is invalid, None if it is valid."""
    if not name:
        return "The topic name must not be empty"
    if name in (".", ".."):
        return f"The topic name must not be '{name}'"
    if len(name) > LONGEST_NAME:
        return f"The topic name has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    if not _LEGAL.match(name):
        return f"The topic name '{name}' is not valid; use ASCII letters, digits, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an invalid name."""
    fault = name_fault(name)
    if fault:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)


def check_new_name(name: str, existing: Collection[str]) -> None:
    """Reject an invalid, existing or reserved name, and one that differs from another only in '.' and '_'.

    Metric names replace '.' by '_', so such topics would share their metrics.
    """
    check_name(name)
    if name == METADATA_LOG:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The internal topic {name} cannot be created")
    if name in existing:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    metric_name = name.replace(".", "_")
    if "_" not in metric_name:
        return
    for existing_name in existing:
        if existing_name.replace(".", "_") == metric_name:
            raise BrokerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic '{existing_name}'"
            )


def check_counts(partitions: int, replication_factor: int) -> None:
    """Reject counts that are not positive, and too many partitions. The caller has replaced -1 by the default."""
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


def check_partition_limit(partitions: int) -> None:
    """Raise POLICY_VIOLATION for more partitions than one topic may have."""
    if partitions > MOST_PARTITIONS:
        raise BrokerError(
            ErrorCode.POLICY_VIOLATION, f"A topic can have at most {MOST_PARTITIONS} partitions, not {partitions}"
        )


def new_partition_count(name: str, existing: int, total: int, assigned: Sized | None) -> int:
    """Return how many partitions a topic gets that grows to `total`. BrokerError unless it grows, by `assigned`."""
    if total <= existing:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{name}' already has {existing} partition(s)"
            + (f"; {total} would be fewer" if total < existing else ""),
        )
    if assigned is not None and len(assigned) != total - existing:
        raise _invalid_assignment(
            f"{total - existing} partition(s) are added, but the request assigns replicas to {len(assigned)}"
        )
    return total - existing


def check_assignments(assignments: Mapping[int, Sequence[int]], brokers: Collection[int]) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless partitions 0, 1, ... are assigned to as many of these brokers each."""
    count = None
    for replicas in assignments.values():
        check_replicas(replicas, brokers, count)
        count = len(replicas)
    if sorted(assignments) != list(range(len(assignments))):
        raise _invalid_assignment("The assigned partitions must be numbered from 0 without a gap")


def check_replicas(replicas: Sequence[int], brokers: Collection[int], count: int | None = None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless one partition can have these replicas, and `count` of them if given."""
    if not replicas:
        raise _invalid_assignment("The replica assignment of a partition is empty")
    for broker in replicas:
        if broker not in brokers:
            only = f"there is only broker {next(iter(brokers))}" if len(brokers) == 1 else "it is not registered"
            raise _invalid_assignment(f"A replica is assigned to broker {broker}, but {only}")
        if replicas.count(broker) > 1:
            raise _invalid_assignment(f"The replica assignment of a partition has broker {broker} more than once")
    if count is not None and len(replicas) != count:
        raise _invalid_assignment(f"A partition is assigned to {len(replicas)} broker(s), and another one to {count}")


def _invalid_assignment(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
