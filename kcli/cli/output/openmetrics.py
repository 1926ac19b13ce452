"""Metrics as text of OpenMetrics and for Prometheus, by prometheus_client."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from kcli.errors import ConfigError
from kcli.host_names import resolve
from kcli.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kcli.cli.environment import Environment
    from kcli.metric import Metric

LISTEN = "127.0.0.1:9308"
#: A scrape must be over by then. Prometheus gives one up after 10 seconds, unless it is configured otherwise.
DEADLINE_S = 20.0
#: Each connection has a thread. When so many are open, a new one closes the oldest.
MOST_CONNECTIONS = 32


class Collector(Protocol):
    """The interface of prometheus_client: the families of one scrape. It is called in a thread of the server."""

    def collect(self) -> list[Any]: ...


class Families:
    """Metrics as a collector."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        self._families: list[Any] = []
        for metric in metrics:
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in metric.samples:
                family.add_metric(labels, value)
            self._families.append(family)

    def collect(self) -> list[Any]:
        """Return the families."""
        return self._families


def check_package(need: str = "metrics need") -> None:
    """Raise ConfigError without prometheus_client. `need` begins its sentence."""
    try:
        import prometheus_client  # noqa: F401 - a missing package is reported before anything is asked
    except ImportError:
        raise ConfigError(f"{need} the Python package prometheus_client: pip install 'kcli-kafka[metrics]'") from None


def openmetrics_text(metrics: Iterable[Metric]) -> str:
    """Return the metrics as text, with the line that ends it."""
    from prometheus_client.openmetrics.exposition import generate_latest

    text: bytes = generate_latest(Families(metrics))  # type: ignore[no-untyped-call]
    return text.decode()


def print_metrics(env: Environment, metrics: Iterable[Metric]) -> None:
    """Print the metrics on standard output. Names are escaped on a terminal, so that they cannot control it."""
    text = openmetrics_text(metrics)
    if env.stdout_is_terminal:
        text = "\n".join(map(visible, text.split("\n")))
    env.stdout.write(text)


def parse_listen(text: str, option: str = "--listen") -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. An IPv6 address is in brackets. ConfigError if it is not valid."""
    host, colon, port = text.rpartition(":")
    is_valid = colon and host and port.isascii() and port.isdigit() and int(port) < 65536
    if not is_valid or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ConfigError(f"{option}: '{text}' is not valid; use HOST:PORT, such as {LISTEN}")
    return host.strip("[]"), int(port)


@contextmanager
def metrics_served(
    collector: Collector, address: tuple[str, int], env: Environment, option: str = "--listen"
) -> Iterator[None]:
    """Serve metrics at http://HOST:PORT/metrics during the block. ConfigError if the address cannot be used.

    A connection has one request, and `DEADLINE_S` for all of it.
    """
    from threading import Thread

    host, port = address
    shown = f"[{host}]" if ":" in host else host
    try:
        server = _make_server(collector, host, port)
    except OSError as error:
        raise ConfigError(f"{option}: cannot listen on {shown}:{port}: {error.strerror}") from None
    thread = Thread(target=server.serve_forever, name="kcli-metrics", daemon=True)
    thread.start()
    try:
        env.report(f"kcli: metrics are at http://{shown}:{server.server_port}/metrics; Ctrl-C ends")
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_server(collector: Collector, host: str, port: int) -> Any:
    from socketserver import ThreadingMixIn
    from threading import Lock
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    from prometheus_client import CollectorRegistry, make_wsgi_app

    family, where = resolve(host, port, to_bind=True)[0]

    class SilentHandler(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print no line for each scrape."""

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True
        address_family = family
        request_queue_size = MOST_CONNECTIONS

        def __init__(self) -> None:
            self._open: dict[Any, float] = {}  # the deadlines of connections, oldest first
            self._lock = Lock()
            super().__init__((str(where[0]), int(where[1])), SilentHandler)

        def process_request(self, request: Any, client_address: Any) -> None:
            with self._lock:
                if len(self._open) >= MOST_CONNECTIONS:
                    self._cut(next(iter(self._open)))
                self._open[request] = time.monotonic() + DEADLINE_S
            super().process_request(request, client_address)

        def service_actions(self) -> None:
            """Cut the connections whose time is over; `serve_forever` calls it at least twice a second."""
            now = time.monotonic()
            with self._lock:
                for request in [request for request, deadline in self._open.items() if deadline <= now]:
                    self._cut(request)

        def shutdown_request(self, request: Any) -> None:
            with self._lock:
                self._open.pop(request, None)
            super().shutdown_request(request)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Print nothing about a connection that was lost or cut."""

        def _cut(self, request: Any) -> None:
            del self._open[request]
            with suppress(OSError):  # its thread then ends, and closes it
                request.shutdown(socket.SHUT_RDWR)

    registry = CollectorRegistry()
    registry.register(collector)
    server = Server()
    server.set_app(make_wsgi_app(registry))
    return server
