"""Quotas of clients (bytes and time of requests: KIP-13, KIP-124, KIP-219), addresses (KIP-612), replication (KIP-73).

Pure: no I/O, no clock. The broker measures after the fact: a client that is over its quota is answered, and then not
read from until its rate is within the quota again. A rate is measured over a few windows, so that short bursts pass.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kcli.broker.serving.client_address import canonical_address

#: Parts of a quota's entity (type, name), sorted by type; a name of None is the default of that type.
Entity = tuple[tuple[str, str | None], ...]

USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"
PRODUCE_RATE, FETCH_RATE = "producer_byte_rate", "consumer_byte_rate"
#: Time in handlers, in percent of one thread.
REQUEST_RATE = "request_percentage"
CONNECTION_RATE = "connection_creation_rate"
#: Partitions that are created, added or deleted.
MUTATION_RATE = "controller_mutation_rate"
NO_LIMIT = math.inf
_MAX_RATES = 10_000


class Windows(NamedTuple):
    """A rate's memory: `number` windows of `size_ms`, of which the newest is filling."""

    number: int = 11
    size_ms: float = 1000.0

    @property
    def full_ms(self) -> float:
        """The time over which a rate is measured at least."""
        return (self.number - 1) * self.size_ms


class Rate:
    """Bytes per second over the last windows."""

    __slots__ = ("_samples", "_windows", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[tuple[float, float]] = deque()  # start in ms, and bytes
        self.used_ms = 0.0

    def record(self, size: float, now_ms: float) -> None:
        """Add bytes; a negative number takes them back."""
        self.used_ms = now_ms
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._windows.size_ms:
            samples[-1] = samples[-1][0], samples[-1][1] + size
        else:
            samples.append((now_ms, size))
        self._forget(now_ms)

    def per_second(self, now_ms: float) -> float:
        """Return the rate; time before the first sample counts as idle."""
        self._forget(now_ms)
        return 1000 * sum(size for _, size in self._samples) / self._elapsed_ms(now_ms)

    def wait_ms(self, limit: float, now_ms: float) -> float:
        """Return how long to send nothing until the rate is within `limit`; 0 if it is."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0.0
        return (rate - limit) / limit * self._elapsed_ms(now_ms) if limit > 0 else self._windows.full_ms

    def _elapsed_ms(self, now_ms: float) -> float:
        size_ms = self._windows.size_ms
        elapsed = now_ms - self._samples[0][0] if self._samples else 0.0
        missing = self._windows.number - 1 - elapsed // size_ms
        return elapsed + max(missing, 0) * size_ms or size_ms

    def _forget(self, now_ms: float) -> None:
        samples, windows = self._samples, self._windows
        while samples and now_ms - samples[0][0] >= windows.number * windows.size_ms:
            samples.popleft()


class ClientQuotas:
    """The rates of clients and addresses against their quotas.

    `limits` are those by entity, as in `MetadataImage.quotas`. `windows` are the memory of each rate.
    """

    def __init__(self, windows: Windows, limits: Mapping[Entity, Mapping[str, float]]) -> None:
        self.limits = limits
        self.windows = windows
        self._rates: dict[tuple[str, str, str], Rate] = {}
        self._found: dict[tuple[str, str, str], tuple[float, tuple[str, str, str]]] = {}
        self._addresses: dict[str | None, float] | None = None
        self._tokens: dict[tuple[str, str, str], tuple[float, float]] = {}  # with the time at which they were counted

    def __repr__(self) -> str:
        return f"<ClientQuotas {len(self.limits)} entities, {len(self._rates)} rates>"

    def changed(self) -> None:
        """Read `limits` again."""
        self._found.clear()
        self._addresses = None

    def limit(self, quota: str, principal: str, client_id: str | None) -> float:
        """Return the quota of a client in bytes per second; infinity if it has none."""
        return self._find(quota, principal, client_id)[0]

    def burst_bytes(self, principal: str, client_id: str | None) -> float:
        """Return the bytes that one Fetch may return without an excess on its own."""
        return self.limit(FETCH_RATE, principal, client_id) * self.windows.full_ms / 1000

    def throttle_ms(self, quota: str, principal: str, client_id: str | None, size: float, now_ms: float) -> int:
        """Add the bytes of a request or answer; return for how long the client must wait after that, 0 mostly.

        For `REQUEST_RATE`, `size` is the time of a request in percent of a second.
        """
        limit, key = self._find(quota, principal, client_id)
        if limit == NO_LIMIT:
            return 0
        rate = self._rate(key, now_ms)
        rate.record(size, now_ms)
        return math.ceil(rate.wait_ms(limit, now_ms))

    def connection_wait_ms(self, address: str, now_ms: float) -> int:
        """Count a new connection of an address; return for how long it is held and then closed, 0 if it is served.

        A connection that is not served does not count.
        """
        if self._addresses is None:
            named = [(entity[0][1], limits) for entity, limits in self.limits.items() if entity[0][0] == ADDRESS]
            rates = [(name, limits.get(CONNECTION_RATE, NO_LIMIT)) for name, limits in named]
            self._addresses = {name and canonical_address(name): rate for name, rate in rates}
        limit = self._addresses.get(address, self._addresses.get(None, NO_LIMIT))
        if limit == NO_LIMIT:
            return 0
        rate = self._rate((CONNECTION_RATE, address, ""), now_ms)
        rate.record(1, now_ms)
        wait_ms = math.ceil(rate.wait_ms(limit, now_ms))
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def mutate(self, principal: str, client_id: str | None, count: int, now_ms: float, *, refuses: bool) -> int:
        """Take tokens for changes of the controller (KIP-599); return for how long the client must wait, 0 mostly.

        A client may take more tokens than it has, but none while it owes some: if `refuses`, nothing is taken then.
        Unused tokens are kept, as many as are made in the time of all windows.
        """
        limit, key = self._find(MUTATION_RATE, principal, client_id)
        if limit == NO_LIMIT:
            return 0
        most = limit * self.windows.number * self.windows.size_ms / 1000
        tokens, then_ms = self._tokens.get(key, (most, now_ms))
        tokens = min(most, tokens + limit * (now_ms - then_ms) / 1000)
        is_refused = refuses and tokens < 0
        if not is_refused:
            tokens -= count
        if key not in self._tokens and len(self._tokens) >= _MAX_RATES:
            self._tokens.clear()
        self._tokens[key] = tokens, now_ms
        return math.ceil(-1000 * tokens / limit) if tokens < 0 and (is_refused or not refuses) else 0

    def _rate(self, key: tuple[str, str, str], now_ms: float) -> Rate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= _MAX_RATES:
                self._drop_idle(now_ms)
            rate = self._rates[key] = Rate(self.windows)
        return rate

    def take_back(self, quota: str, principal: str, client_id: str | None, size: int, now_ms: float) -> None:
        """Take back the bytes of an answer that is not sent."""
        rate = self._rates.get(self._find(quota, principal, client_id)[1])
        if rate is not None:
            rate.record(-size, now_ms)

    def _drop_idle(self, now_ms: float) -> None:
        for key in [key for key, rate in self._rates.items() if now_ms - rate.used_ms > 2 * self.windows.full_ms]:
            del self._rates[key]

    def _find(self, quota: str, principal: str, client_id: str | None) -> tuple[float, tuple[str, str, str]]:
        """Return the limit, and the key of its rate: what shares a quota's user or client id shares its rate."""
        asked = quota, principal, client_id or ""
        found = self._found.get(asked)
        if found is None:
            if len(self._found) >= _MAX_RATES:
                self._found.clear()
            found = self._found[asked] = self._look_up(quota, principal.partition(":")[2], client_id or "")
        return found

    def _look_up(self, quota: str, user: str, client_id: str) -> tuple[float, tuple[str, str, str]]:
        for entity in (
            ((CLIENT_ID, client_id), (USER, user)),
            ((CLIENT_ID, None), (USER, user)),
            ((USER, user),),
            ((CLIENT_ID, client_id), (USER, None)),
            ((CLIENT_ID, None), (USER, None)),
            ((USER, None),),
            ((CLIENT_ID, client_id),),
            ((CLIENT_ID, None),),
        ):
            limit = self.limits.get(entity, {}).get(quota)
            if limit is not None:
                kinds = {kind for kind, _ in entity}
                return limit, (quota, user if USER in kinds else "", client_id if CLIENT_ID in kinds else "")
        return NO_LIMIT, (quota, "", "")


class ReplicationQuota:
    """The rate of the throttled replicas of one direction. `limit` is infinite until it is set.

    `topics` are the throttled replicas by topic, (partition, broker); None stands for all replicas of that topic.
    """

    def __init__(self, windows: Windows, node_id: int) -> None:
        self.limit = NO_LIMIT
        self.topics: dict[str, frozenset[tuple[int, int]] | None] = {}
        self._node_id = node_id
        self._rate = Rate(windows)

    def __repr__(self) -> str:
        return f"<ReplicationQuota {self.limit:g} bytes/s, {len(self.topics)} topics>"

    def covers(self, topic: str, partition: int) -> bool:
        """Return True if this node's replica of the partition is throttled."""
        if topic not in self.topics:
            return False
        replicas = self.topics[topic]
        return replicas is None or (partition, self._node_id) in replicas

    def set_topic(self, topic: str, value: str | None) -> None:
        """Set the throttled replicas of a topic: `*`, or `partition:broker` separated by commas; None: no replica."""
        parts = [part for part in (value or "").replace(" ", "").split(",") if part]
        if not parts:
            self.topics.pop(topic, None)
        elif parts == ["*"]:
            self.topics[topic] = None
        else:
            pairs = (part.partition(":") for part in parts)
            self.topics[topic] = frozenset((int(number), int(broker)) for number, _, broker in pairs)

    def record(self, size: int, now_ms: float) -> None:
        """Add the bytes of throttled replicas."""
        self._rate.record(size, now_ms)

    def wait_ms(self, now_ms: float) -> float:
        """Return how long throttled replicas must wait."""
        return 0.0 if self.limit == NO_LIMIT else self._rate.wait_ms(self.limit, now_ms)

    def is_exceeded(self, now_ms: float) -> bool:
        """Return True if throttled replicas must wait."""
        return self.limit != NO_LIMIT and self._rate.per_second(now_ms) > self.limit
