"""The HTTP server of metrics: each connection has a deadline, and their number is limited."""

from __future__ import annotations

import io
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from kcli.cli.environment import Environment
from kcli.cli.output import openmetrics
from kcli.cli.output.openmetrics import MOST_CONNECTIONS, Families, metrics_served, openmetrics_text, parse_listen
from kcli.errors import ConfigError
from kcli.metric import Metric

METRICS = [
    Metric("kafka_reads", "Reads.", ("topic",), [(("t",), 3)], is_counter=True),
    Metric("kafka_leaders", "Leaders.", (), [((), 2)]),
]


@contextmanager
def server(collector: Any = None) -> Iterator[tuple[str, int]]:
    """Serve metrics on a free port; yield its address."""
    stderr = io.StringIO()
    environment = Environment(io.StringIO(), io.StringIO(), stderr, {})
    with metrics_served(collector or Families(METRICS), ("127.0.0.1", 0), environment):
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", stderr.getvalue())
        assert found
        yield "127.0.0.1", int(found[1])


def scrape(address: tuple[str, int]) -> str:
    url = f"http://{address[0]}:{address[1]}/metrics"
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_counters_and_gauges() -> None:
    lines = openmetrics_text(METRICS).splitlines()
    assert {"# TYPE kafka_reads counter", 'kafka_reads_total{topic="t"} 3.0'} < {*lines}
    assert {"# TYPE kafka_leaders gauge", "kafka_leaders 2.0"} < {*lines}
    with server() as address:
        assert 'kafka_reads_total{topic="t"} 3.0' in scrape(address)


def test_idle_connections_do_not_keep_a_scrape_out() -> None:
    with server() as address, ExitStack() as stack:
        before = threading.active_count()
        for _ in range(3 * MOST_CONNECTIONS):
            stack.enter_context(closing(socket.create_connection(address, 10))).sendall(b"GET /met")
        assert "kafka_leaders 2.0" in scrape(address)
        deadline = time.monotonic() + 10
        while threading.active_count() > before + MOST_CONNECTIONS + 1:  # the threads of cut connections end
            assert time.monotonic() < deadline, threading.active_count()
            time.sleep(0.01)


def test_a_request_has_a_deadline_although_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmetrics, "DEADLINE_S", 0.3)
    with server() as address, closing(socket.create_connection(address, 10)) as slow:
        slow.settimeout(0.05)
        slow.sendall(b"GET /metrics HTTP/1.0\r\n")
        assert is_cut(slow)


def is_cut(slow: socket.socket) -> bool:
    """Send a byte now and then, with which no deadline per read would pass; True if the connection ends."""
    for _ in range(400):
        try:
            slow.sendall(b"x")
            if not slow.recv(1):
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_an_answer_that_is_not_read_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmetrics, "DEADLINE_S", 0.3)
    many = Metric("kafka_many", "Many.", ("n",), [((f"{n:0900}",), 0) for n in range(10_000)])
    before = threading.active_count()
    with server(Families([many])) as address, closing(socket.create_connection(address, 10)) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(1) == b"H"  # of HTTP, and then no more
        wait_until_gone(before + 1)
    wait_until_gone(before)


def wait_until_gone(threads: int) -> None:
    """Wait until so many threads are left."""
    ended = threading.Event()
    for _ in range(400):
        if threading.active_count() <= threads:
            return
        ended.wait(0.05)
    raise AssertionError(f"{threading.active_count()} threads, not {threads}")


def test_addresses_to_listen_on() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:9308") == ("::1", 9308)
    for text in ("", ":9308", "::1:9308", "localhost:", "localhost:65536", "localhost:-1"):
        with pytest.raises(ConfigError, match="--metrics: "):
            parse_listen(text, "--metrics")
