"""All rules of `health`, applied to an inventory, with the facts that each finding needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import Finding, sort_by_severity
from kcli.admin.health.broker_rules import (
    DISK_FLOOR,
    brokers_down,
    failed_log_dirs,
    full_disks,
    uneven_disks,
    unlike_settings,
    unlike_versions,
)
from kcli.admin.health.inventory import (
    BROKER_SETTINGS,
    BROKERS,
    DISKS,
    FACTS,
    TOPIC_SETTINGS,
    TOPICS,
    TRANSACTIONS,
    VERSIONS,
)
from kcli.admin.health.partition_rules import (
    leaders_not_preferred,
    partitions_without_leader,
    under_min_isr,
    under_replicated,
)
from kcli.admin.health.safety_rules import hanging_transactions, single_replicas, unchecked_facts, unclean_elections

if TYPE_CHECKING:
    from kcli.admin.health.inventory import Inventory

#: Each kind of finding with the facts that it needs.
KINDS: dict[str, tuple[str, ...]] = {
    "broker-offline": (BROKERS, TOPICS),
    "broker-unreachable": (BROKERS,),
    "log-dir-offline": (DISKS,),
    "disk-nearly-full": (DISKS,),
    "uneven-disk": (DISKS,),
    "offline": (BROKERS, TOPICS),
    "leaderless": (BROKERS, TOPICS),
    "under-replicated": (BROKERS, TOPICS),
    "under-min-isr": (TOPICS, TOPIC_SETTINGS),
    "not-preferred-leader": (BROKERS, TOPICS),
    "hanging-transaction": (TOPICS, TRANSACTIONS),
    "overdue-transaction": (TOPICS, TRANSACTIONS),
    "unlike-versions": (VERSIONS,),
    "unlike-settings": (BROKER_SETTINGS,),
    "single-replica": (BROKERS, TOPICS),
    "unclean-election": (TOPICS, TOPIC_SETTINGS),
    "unchecked": (),
}


def find_faults(facts: Inventory, *, ignore: Collection[str] = (), disk_floor: int = DISK_FLOOR) -> list[Finding]:
    """Return the findings of all rules except those of the kinds to `ignore`, the most severe first."""
    rules = (
        *(brokers_down, partitions_without_leader, under_min_isr, failed_log_dirs, hanging_transactions, full_disks),
        *(under_replicated, leaders_not_preferred, partial(uneven_disks, floor=disk_floor), unlike_versions),
        *(unlike_settings, single_replicas, unclean_elections, unchecked_facts),
    )
    findings: Iterator[Finding] = chain.from_iterable(rule(facts) for rule in rules)
    return sort_by_severity(finding for finding in findings if finding.kind not in ignore)


def facts_for(ignore: Collection[str]) -> frozenset[str]:
    """Return the facts to request if findings of these kinds are ignored."""
    return frozenset(fact for fact in FACTS for kind, needed in KINDS.items() if fact in needed and kind not in ignore)
