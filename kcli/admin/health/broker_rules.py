"""Rules about brokers: brokers that are down, their disks, versions and settings. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import PROBLEM, WARNING, Finding, join_names, name_brokers, quantity
from kcli.text import format_size

if TYPE_CHECKING:
    from kcli.admin.cluster import NodeVersions, VersionRange
    from kcli.admin.configs import Setting
    from kcli.admin.health.inventory import Inventory, LogDir

#: A broker's logs are uneven above this multiple of the mean, and below its inverse.
UNEVEN = 1.5
#: Differences of disk use below this number of bytes are not reported.
DISK_FLOOR = 1_000_000_000
_NEARLY_FULL, _FULL = 0.10, 0.05  # usable parts of a volume

# Settings that differ between brokers on purpose.
_OWN = re.compile(
    r"(broker|node)\.id|broker\.rack|process\.roles|(advertised\.)?(host\.name|listeners|port)|log\.dirs?|metadata\.log\.dir"
    r"|(.*\.)?ssl\.(keystore|truststore)\..*|(.*\.)?ssl\.principal\..*|.*\.sasl\.jaas\.config|zookeeper\.connect"
)
_DEFAULT = "default"
_DISK_ADVICE = (
    "Move replicas with kafka-reassign-partitions.sh. A large partition cannot be divided: look also for hot keys and "
    "for topics with few partitions."
)


def brokers_down(facts: Inventory) -> Iterator[Finding]:
    """Brokers that are fenced, that hold replicas but are not registered, or that do not answer."""
    replicas = Counter(node for info in facts.partitions for node in info.replicas)
    known = {broker.id: broker for broker in facts.brokers}
    for node in sorted({*known, *replicas}):
        held = f"It holds replicas of {quantity(replicas[node], 'partition')}."
        if node not in known:
            evidence = f"Replicas are placed on broker {node}, which the cluster does not list. {held}"
        elif known[node].fenced:
            address = f"{known[node].host}:{known[node].port}"
            evidence = f"Broker {node} ({address}) is registered but fenced: it does not serve clients. {held}"
        else:
            continue
        yield Finding(
            "broker-offline",
            PROBLEM if replicas[node] else WARNING,
            f"broker {node}",
            evidence,
            "Start the broker, or read its log. If it does not come back, move its replicas to other brokers with "
            "kafka-reassign-partitions.sh, then unregister it.",
        )
    for node, error in sorted(facts.unreachable.items(), key=lambda item: item[0]):
        yield Finding(
            "broker-unreachable",
            PROBLEM,
            f"broker {node}",
            f"The cluster lists it as live, but it does not answer: {error}. Its disks, settings and transactions are "
            "not checked.",
            "Check its advertised.listeners, and the network between this machine and the broker.",
        )


def failed_log_dirs(facts: Inventory) -> Iterator[Finding]:
    """Data directories that are offline: the broker cannot read or write their replicas."""
    for node, log_dir in _all_dirs(facts):
        if log_dir.error is not None:
            yield Finding(
                "log-dir-offline",
                PROBLEM,
                f"broker {node}",
                f"The directory {log_dir.path} is offline: {log_dir.error}.",
                "Read the broker's log for the cause, replace the disk if it failed, and restart the broker.",
            )


def full_disks(facts: Inventory) -> Iterator[Finding]:
    """Volumes with little usable space (Kafka 3.3 and later)."""
    for node, log_dir in _all_dirs(facts):
        if log_dir.total_bytes <= 0 or log_dir.usable_bytes < 0 or log_dir.error is not None:
            continue
        usable = log_dir.usable_bytes / log_dir.total_bytes
        if usable < _NEARLY_FULL:
            yield Finding(
                "disk-nearly-full",
                PROBLEM if usable < _FULL else WARNING,
                f"broker {node}",
                f"The volume of {log_dir.path} has {format_size(log_dir.usable_bytes)} of "
                f"{format_size(log_dir.total_bytes)} left ({usable:.1%}); the logs of Kafka take "
                f"{format_size(log_dir.log_bytes)}.",
                "Add space, lower retention.ms or retention.bytes of large topics, or move replicas to other brokers.",
            )


def uneven_disks(facts: Inventory, floor: int = DISK_FLOOR) -> Iterator[Finding]:
    """Brokers, and directories of one broker, with much more or less data than the others.

    Differences from the mean below `floor` bytes are ignored.
    """
    by_broker = {f"broker {node}": _sum(dirs) for node, dirs in facts.log_dirs.items()}
    yield from _uneven(by_broker, floor)
    for node, dirs in sorted(facts.log_dirs.items()):
        yield from _uneven(
            {f"broker {node} {log_dir.path}": log_dir.log_bytes for log_dir in dirs if log_dir.error is None}, floor
        )


def _uneven(sizes: Mapping[str, int], floor: int) -> Iterator[Finding]:
    if len(sizes) < 2:
        return
    mean = sum(sizes.values()) / len(sizes)
    far = {name: size for name, size in sorted(sizes.items()) if abs(size - mean) >= floor}
    more = [name for name, size in far.items() if size > UNEVEN * mean]
    less = [name for name, size in far.items() if size < mean / UNEVEN]
    listed = join_names(f"{name}: {format_size(size)}" for name, size in sorted(sizes.items()))
    for name in more or less:  # one cause, one finding: those with less are the others of those with more
        evidence = (
            f"Its logs take {format_size(sizes[name])}, {'more' if more else 'less'} than the mean of "
            f"{format_size(mean)}. {listed}."
        )
        yield Finding("uneven-disk", WARNING, name, evidence, _DISK_ADVICE)


def _sum(dirs: Iterable[LogDir]) -> int:
    return sum(log_dir.log_bytes for log_dir in dirs)


def _all_dirs(facts: Inventory) -> Iterator[tuple[int, LogDir]]:
    for node, dirs in sorted(facts.log_dirs.items()):
        for log_dir in dirs:
            yield node, log_dir


def unlike_versions(facts: Inventory) -> Iterator[Finding]:
    """Brokers whose API versions or features differ from those of most brokers."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for node, versions in sorted(facts.versions.items()):
        alike.setdefault(_signature(versions), []).append(node)
    if len(alike) < 2:
        return
    most = max(alike.values(), key=lambda nodes: (len(nodes), -nodes[0]))
    usual = facts.versions[most[0]]
    for nodes in alike.values():
        if nodes is most:
            continue
        other = facts.versions[nodes[0]]
        differences = [
            *_differences(_named(other.apis), _named(usual.apis)),
            *_differences(other.supported_features, usual.supported_features),
        ]
        yield Finding(
            "unlike-versions",
            WARNING,
            name_brokers(nodes),
            f"API versions and features differ from those of {name_brokers(most)}: {join_names(differences, '; ')}.",
            "Finish the upgrade of the brokers; clients use only the versions that all brokers support.",
        )


def _signature(versions: NodeVersions) -> tuple[object, ...]:
    return tuple(sorted(versions.apis.items())), tuple(sorted(versions.supported_features.items()))


def _named(apis: Mapping[int, VersionRange]) -> dict[str, VersionRange]:
    from kcli.protocol.registry import api_name

    return {api_name(key): versions for key, versions in apis.items()}


def _differences(these: Mapping[str, VersionRange], usual: Mapping[str, VersionRange]) -> list[str]:
    return [
        f"{name} {_range(these.get(name))} instead of {_range(usual.get(name))}"
        for name in sorted({*these, *usual})
        if these.get(name) != usual.get(name)
    ]


def _range(versions: VersionRange | None) -> str:
    return "none" if versions is None else f"{versions.first}-{versions.last}"


def unlike_settings(facts: Inventory) -> Iterator[Finding]:
    """Settings with different values on different brokers, of which at least one is not the default.

    Settings that belong to one broker, such as listeners and directories, and secrets are not compared.
    """
    names = {name for settings in facts.broker_settings.values() for name in settings}
    for name in sorted(names):
        found = {node: by[name] for node, by in sorted(facts.broker_settings.items()) if name in by}
        if _OWN.fullmatch(name) or any(setting.sensitive for setting in found.values()):
            continue
        values: dict[str | None, list[int]] = {}
        for node, setting in found.items():
            values.setdefault(setting.value, []).append(node)
        if len(values) < 2 or all(setting.source == _DEFAULT for setting in found.values()):
            continue
        listed = "; ".join(
            f"{value or 'empty'} on {name_brokers(nodes)} ({_source(found, nodes)})" for value, nodes in values.items()
        )
        yield Finding(
            "unlike-settings",
            WARNING,
            name,
            f"The brokers have different values: {listed}.",
            "Give all brokers the same value, in their files or with kafka-configs.sh, unless the difference is "
            "intended.",
        )


def _source(found: Mapping[int, Setting], nodes: list[int]) -> str:
    return ", ".join(sorted({found[node].source for node in nodes}))
