"""Names that a cluster knows: topics, groups, members, brokers, subjects of its registry; and saved offset changes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from kcli.cli.completion.command_line import Question

if TYPE_CHECKING:
    from kcli.cli.options import Common
    from kcli.client.consumer_network_client import ConsumerNetworkClient

#: Seconds from the start of the process for which a TAB waits for a cluster: the shell's own work stays below 0.2 s.
WAIT_S = 0.15
# Other properties are not part of a key, because they may be secrets.
_PUBLIC = (
    *("bootstrap.servers", "metadata.broker.list", "schema.registry.url", "security.protocol"),
    *("sasl.mechanism", "sasl.mechanisms", "sasl.username"),
)
_VARIABLES = ("KCLI_BOOTSTRAP_SERVER", "KCLI_PROFILE", "KCLI_COMMAND_CONFIG", "KCLI_SCHEMA_REGISTRY")


def cluster_names(asked: Question, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the kind of the question, from the cluster that the line means."""
    from kcli.cli.completion.cached_names import Cache

    if asked.kind.endswith("snapshot"):
        return _snapshots(asked.kind, environ)
    find = _FINDERS.get(asked.kind)
    if find is None:
        return []
    line = _ClusterOptions(asked)
    group = asked.arguments[0] if asked.arguments and asked.kind in _OF_A_GROUP else ""
    key = "\t".join((asked.kind, group, *line.identity(environ)))
    wait_s = max(0.0, WAIT_S - _age_s())
    return Cache.of_user(environ).names(key, lambda: find(line, group), wait_s)


def _age_s() -> float:
    """Return the seconds since the start of this process; where Linux has no such file, the CPU time used."""
    try:
        with open("/proc/self/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError):
        return time.process_time()


class _ClusterOptions:
    """The options of a line that choose the cluster."""

    def __init__(self, asked: Question) -> None:
        self.profile = _last(asked, "--profile")
        self.servers = _last(asked, "--bootstrap-server")
        self.file = _last(asked, "--command-config")
        self.registry = _last(asked, "--schema-registry")
        self.properties = list(asked.options.get("--property", ()))

    def identity(self, environ: Mapping[str, str]) -> Iterable[str]:
        """Yield the texts that identify the cluster and its user, without secrets. A changed file changes them."""
        home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
        for given in (self.profile, self.servers, self.registry, *map(environ.get, _VARIABLES)):
            yield _without_user(given or "")
        for file in (os.path.join(home, "kcli", "config.toml"), self.file or environ.get("KCLI_COMMAND_CONFIG")):
            yield _version(file)
        for text in (*self.properties, *environ.get("KCLI_PROPERTY", "").splitlines()):
            if text.partition("=")[0].strip() in _PUBLIC:
                yield _without_user(text)

    def common(self) -> Common:
        """Return the common options of the line. `PermissionError` if only a program returns the password."""
        from kcli.cli.environment import Environment
        from kcli.cli.options import Common, CommonOptions

        given = CommonOptions(self.profile, self.servers, self.properties, self.file, timeout=_TIMEOUT_S)
        common = Common.from_options(Environment.of_process(), given)
        if common.profile.applied is not None and common.profile.applied.password_command:
            raise PermissionError("a password command may ask for input")
        return common


_TIMEOUT_S = 2.5


def _without_user(text: str) -> str:
    """Return the text without the user and password of a URL."""
    return re.sub(r"//[^/]*@", "//", text)


def _last(asked: Question, name: str) -> str | None:
    """Return the value of an option, with the variables and the home folder that the shell has not replaced yet."""
    values = asked.options.get(name)
    return os.path.expanduser(os.path.expandvars(values[-1])) if values else None


def _version(path: str | None) -> str:
    if not path:
        return ""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{os.path.abspath(path)} {found.st_mtime_ns} {found.st_size}".replace("\n", " ").replace("\t", " ")


def _topics(client: ConsumerNetworkClient, deadline_ms: float, _group: str) -> Iterable[str]:
    from kcli.admin.topics import list_topics

    topics = list_topics(client, deadline_ms)
    return [topic.name for topic in sorted(topics, key=lambda topic: topic.internal)]


def _groups(client: ConsumerNetworkClient, deadline_ms: float, _group: str) -> Iterable[str]:
    from kcli.admin.groups.listing import list_groups

    return [listed.group for node in list_groups(client, deadline_ms).values.values() for listed in node]


def _members(field: str) -> Callable[[ConsumerNetworkClient, float, str], Iterable[str]]:
    def find(client: ConsumerNetworkClient, deadline_ms: float, group: str) -> Iterable[str]:
        from kcli.admin.groups.describe import describe_groups

        described = describe_groups(client, {group: None}, deadline_ms).values
        return [getattr(member, field) or "" for member in described[group].members]

    return find


def _nodes(client: ConsumerNetworkClient, deadline_ms: float, _group: str) -> Iterable[str]:
    from kcli.client.routing import all_brokers

    return [str(node.id) for node in all_brokers(client, deadline_ms)]


def _of_cluster(
    find: Callable[[ConsumerNetworkClient, float, str], Iterable[str]],
) -> Callable[[_ClusterOptions, str], Iterable[str]]:
    def connect_and_find(line: _ClusterOptions, group: str) -> Iterable[str]:
        common = line.common()
        with closing(common.connect()) as client:
            return [name for name in find(client, common.deadline_ms(), group) if name]

    return connect_and_find


def _subjects(line: _ClusterOptions, _group: str) -> Iterable[str]:
    registry = line.common().registry(line.registry)
    return registry.subjects() if registry is not None else ()


def _snapshots(kind: str, environ: Mapping[str, str]) -> list[str]:
    from kcli.admin.snapshots import OFFSETS, SETTINGS, SnapshotStore

    resource = {"snapshot": OFFSETS, "setting-snapshot": SETTINGS}.get(kind)
    return sorted(SnapshotStore.default(environ).list(resource).values, reverse=True)


_OF_A_GROUP = ("member", "instance-id", "client-id")
_FINDERS: dict[str, Callable[[_ClusterOptions, str], Iterable[str]]] = {
    "topic": _of_cluster(_topics),
    "group": _of_cluster(_groups),
    "member": _of_cluster(_members("id")),
    "instance-id": _of_cluster(_members("instance_id")),
    "client-id": _of_cluster(_members("client_id")),
    "node": _of_cluster(_nodes),
    "subject": _subjects,
}
