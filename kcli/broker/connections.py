"""Which connections are let in: how many in all, how many from one address."""

from __future__ import annotations

from collections import Counter


class ConnectionCounts:
    """The open connections by id, against `max.connections` and `max.connections.per.ip`."""

    def __init__(self, max_connections: int, max_per_ip: int) -> None:
        self.max_connections = max_connections
        self.max_per_ip = max_per_ip
        self._hosts: dict[str, str] = {}
        self._per_host: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ConnectionCounts {len(self)} connections from {len(self._per_host)} addresses>"

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def is_full(self) -> bool:
        """There is no room for another, wherever it comes from."""
        return len(self._hosts) >= self.max_connections

    def allows(self, host: str) -> bool:
        """Whether one more from this address is within its limit."""
        return self._per_host[host] < self.max_per_ip if host in self._per_host else self.max_per_ip > 0

    def add(self, id: str, host: str) -> None:
        self._hosts[id] = host
        self._per_host[host] += 1

    def remove(self, id: str) -> None:
        """Unknown ids are fine."""
        host = self._hosts.pop(id, None)
        if host is not None:
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]

    def host(self, id: str) -> str:
        return self._hosts[id]


def max_open_connections() -> int:
    """How many connections leave the logs half of the files that this process may open: without files they fail."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft // 2, 16)
