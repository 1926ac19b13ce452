"""Metrics of a client under Kafka's names: totals, rates, averages and maxima of requests and connections. Pure.

Rates, averages and maxima are those of the last 30 to 60 seconds: two windows of 30 s, as in Java's clients. NaN means
that there was no value in that time. A value is recorded per response or connection, never per record.

Source of the names: https://kafka.apache.org/documentation/#monitoring ("common client metrics", consumer, producer).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

#: Metrics by group; the tags of a group follow its name: `consumer-node-metrics,node-id=node-1` -> name -> value.
MetricGroups = dict[str, dict[str, float]]

#: Names of a consumer's sensors: delivered records; records and bytes of records by response, also `NAME,topic=TOPIC`;
#: rebalances, with their duration in ms.
RECORDS, RECORD_BYTES, REBALANCES = "records-consumed", "bytes-consumed", "rebalances"
RECORDS_PER_REQUEST = "records-per-request"

_WINDOW_MS = 30_000.0
_LONG_THROTTLE_MS = 1_000.0


class Sensor:
    """Values over time: their number and sum since the start, and statistics of two windows."""

    __slots__ = ("_current", "_previous", "count", "last_ms", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        #: The time of the last value; minus infinity before the first.
        self.last_ms = float("-inf")
        self._current: _Window | None = None
        self._previous: _Window | None = None

    def __repr__(self) -> str:
        return f"<Sensor count={self.count} total={self.total:g}>"

    def record(self, value: float, now_ms: float) -> None:
        self.count += 1
        self.total += value
        self.last_ms = now_ms
        window = self._current
        if window is None or now_ms - window.start_ms >= _WINDOW_MS:
            self._previous, self._current = window, _Window(now_ms)
            window = self._current
        window.count += 1
        window.total += value
        window.largest = max(window.largest, value)

    def average(self, now_ms: float) -> float:
        windows = self._recent(now_ms)
        count = sum(window.count for window in windows)
        return sum(window.total for window in windows) / count if count else math.nan

    def maximum(self, now_ms: float) -> float:
        return max((window.largest for window in self._recent(now_ms)), default=math.nan)

    def rate(self, now_ms: float) -> float:
        """Return the number of values per second."""
        windows = self._recent(now_ms)
        return sum(window.count for window in windows) / _elapsed_s(windows, now_ms)

    def total_rate(self, now_ms: float) -> float:
        """Return the sum of values per second."""
        windows = self._recent(now_ms)
        return sum(window.total for window in windows) / _elapsed_s(windows, now_ms)

    def seconds_ago(self, now_ms: float) -> float:
        """Return the time since the last value; -1 before the first, as in Java."""
        return -1.0 if not self.count else (now_ms - self.last_ms) / 1000

    def _recent(self, now_ms: float) -> list[_Window]:
        windows = (self._previous, self._current)
        return [window for window in windows if window is not None and now_ms - window.start_ms < 2 * _WINDOW_MS]


class _Window:
    __slots__ = ("count", "largest", "start_ms", "total")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.largest = -math.inf


def _elapsed_s(windows: list[_Window], now_ms: float) -> float:
    """Return the seconds that a rate refers to. If they are less than one window, the length of a window is added.

    Otherwise the first value would give a very high rate. Java adds it too.
    """
    elapsed_ms = now_ms - windows[0].start_ms if windows else 0.0
    return (elapsed_ms if elapsed_ms >= _WINDOW_MS else elapsed_ms + _WINDOW_MS) / 1000


class _NodeSensors:
    __slots__ = ("latency", "received", "sent")

    def __init__(self) -> None:
        self.sent, self.received, self.latency = Sensor(), Sensor(), Sensor()


class ClientMetrics:
    """The counts of one client. The network client records; any thread may read.

    `on_throttled` is called once, with the sum in ms, when throttling by quotas exceeds one second in all.
    """

    def __init__(self) -> None:
        self.on_throttled: Callable[[float], object] | None = None
        self.connections = 0
        self._opened, self._closed = Sensor(), Sensor()
        self._waits, self._io = Sensor(), Sensor()
        self._all = _NodeSensors()
        self._nodes: dict[int, _NodeSensors] = {}
        self._latencies: dict[str, Sensor] = {}
        self._throttles: dict[str, Sensor] = {}
        self._own: dict[str, Sensor] = {}

    def __repr__(self) -> str:
        return f"<ClientMetrics {self._all.sent.count} requests, {self.connections} connections>"

    # Recording

    def opened(self, now_ms: float) -> None:
        """Count a connection that is made."""
        self.connections += 1
        self._opened.record(1, now_ms)

    def closed(self, now_ms: float) -> None:
        """Count the end of such a connection."""
        self.connections -= 1
        self._closed.record(1, now_ms)

    def sent(self, node_id: int, size_bytes: int, now_ms: float) -> None:
        """Count a request."""
        self._all.sent.record(size_bytes, now_ms)
        self._node(node_id).sent.record(size_bytes, now_ms)

    def received(self, node_id: int, api: str, size_bytes: int, latency_ms: float, now_ms: float) -> None:
        """Count a response."""
        for sensors in (self._all, self._node(node_id)):
            sensors.received.record(size_bytes, now_ms)
            sensors.latency.record(latency_ms, now_ms)
        self.latency(api).record(latency_ms, now_ms)

    def throttled(self, api: str, throttle_ms: float, now_ms: float) -> None:
        """Count the throttle_time_ms of a response, 0 without a quota."""
        before_ms = self.throttle_ms
        self.throttle(api).record(throttle_ms, now_ms)
        if before_ms <= _LONG_THROTTLE_MS < before_ms + throttle_ms and self.on_throttled is not None:
            self.on_throttled(before_ms + throttle_ms)

    def polled(self, waited_ns: int, io_ns: int, now_ms: float) -> None:
        """Count a poll of the connections, with the time that it has waited for events, and that of its I/O."""
        self._waits.record(waited_ns, now_ms)
        self._io.record(io_ns, now_ms)

    def _node(self, node_id: int) -> _NodeSensors:
        sensors = self._nodes.get(node_id)
        if sensors is None:
            sensors = self._nodes[node_id] = _NodeSensors()
        return sensors

    # Sensors, for the metrics of consumers and producers

    def latency(self, api: str) -> Sensor:
        """The latencies in ms of the responses to one API, such as `Fetch`."""
        return _at(self._latencies, api)

    def throttle(self, api: str) -> Sensor:
        """The throttle times in ms of the responses to one API, 0 without a quota."""
        return _at(self._throttles, api)

    def sensor(self, name: str) -> Sensor:
        """Another sensor of the consumer or producer that owns this client."""
        return _at(self._own, name)

    # Reading

    @property
    def throttle_ms(self) -> float:
        """The sum of all throttle times."""
        return sum(sensor.total for sensor in list(self._throttles.values()))

    def snapshot(self, kind: str, now_ms: float) -> MetricGroups:
        """Return the metrics of requests and connections; `kind` is consumer, producer or admin-client."""
        sent, received, latency = self._all.sent, self._all.received, self._all.latency
        totals = {
            "connection-count": float(self.connections),
            **counts("connection-creation", self._opened, now_ms),
            **counts("connection-close", self._closed, now_ms),
            **statistics("request-size", sent, now_ms),
            **statistics("request-latency", latency, now_ms),
            "throttle-time-total": self.throttle_ms,
            **counts("select", self._waits, now_ms),
            **_times("io-wait", self._waits, now_ms),
            **_times("io", self._io, now_ms),
        }
        result = {f"{kind}-metrics": totals | _traffic(sent, received, now_ms)}
        for node_id, node in sorted(self._nodes.items()):
            result[f"{kind}-node-metrics,node-id=node-{node_id}"] = {
                **_traffic(node.sent, node.received, now_ms),
                **statistics("request-latency", node.latency, now_ms),
            }
        return result

    def summary(self) -> str:
        """Return one sentence with the counts since the start."""
        count, latency = self._all.sent.count, self._all.latency
        text = f"{_counted(count, 'request')} over {_counted(self._opened.count, 'connection')}"
        if latency.count:
            text += f", latency {latency.total / latency.count:,.1f} ms on average"
        if self._closed.count:
            text += f", {_counted(self._closed.count, 'connection')} lost"
        return text + (f", throttled {self.throttle_ms / 1000:,.1f} s" if self.throttle_ms else "")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _at(sensors: dict[str, Sensor], name: str) -> Sensor:
    sensor = sensors.get(name)
    return sensors.setdefault(name, Sensor()) if sensor is None else sensor


def _traffic(sent: Sensor, received: Sensor, now_ms: float) -> dict[str, float]:
    return {
        **counts("request", sent, now_ms),
        **counts("response", received, now_ms),
        **sums("outgoing-byte", sent, now_ms),
        **sums("incoming-byte", received, now_ms),
    }


def _times(prefix: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    """Return the sum and average of times in ns, and the part of the time that they take."""
    return {
        f"{prefix}-time-ns-total": sensor.total,
        f"{prefix}-time-ns-avg": sensor.average(now_ms),
        f"{prefix}-ratio": sensor.total_rate(now_ms) / 1e9,
    }


def counts(prefix: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    """Return `PREFIX-total` and `PREFIX-rate` of the number of values."""
    return {f"{prefix}-total": float(sensor.count), f"{prefix}-rate": sensor.rate(now_ms)}


def sums(prefix: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    """Return `PREFIX-total` and `PREFIX-rate` of the sum of the values."""
    return {f"{prefix}-total": sensor.total, f"{prefix}-rate": sensor.total_rate(now_ms)}


def statistics(prefix: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    """Return `PREFIX-avg` and `PREFIX-max`."""
    return {f"{prefix}-avg": sensor.average(now_ms), f"{prefix}-max": sensor.maximum(now_ms)}


def merged(*snapshots: Mapping[str, dict[str, float]]) -> MetricGroups:
    """Return one snapshot with the groups of all; metrics of the same group are joined."""
    result: MetricGroups = {}
    for snapshot in snapshots:
        for group, values in snapshot.items():
            result.setdefault(group, {}).update(values)
    return result
