"""The limits of open connections: `max.connections`, `max.connections.per.ip`, and half of the file descriptors."""

from __future__ import annotations

from collections import Counter


class ConnectionQuotas:
    """The open connections by id, against `max.connections` and `max.connections.per.ip`."""

    def __init__(self, max_connections: int, max_per_ip: int) -> None:
        self.max_connections = max_connections
        self.max_per_ip = max_per_ip
        self._hosts: dict[str, str] = {}
        self._per_host: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ConnectionQuotas {len(self)} connections from {len(self._per_host)} addresses>"

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def is_full(self) -> bool:
        """True if no more connections are allowed, from any address."""
        return len(self._hosts) >= self.max_connections

    def allows(self, host: str) -> bool:
        """Return True if the address may open one more connection."""
        return self._per_host[host] < self.max_per_ip if host in self._per_host else self.max_per_ip > 0

    def add(self, id: str, host: str) -> None:
        self._hosts[id] = host
        self._per_host[host] += 1

    def remove(self, id: str) -> None:
        """Remove a connection; an unknown id is ignored."""
        host = self._hosts.pop(id, None)
        if host is not None:
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]


def max_open_connections() -> int:
    """Return half of the file descriptor limit; the other half is for log segments, which fail without it."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft // 2, 16)
