"""`kcli group metrics` and `kcli group lag --output openmetrics`, read by prometheus_client's own parsers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import run_kcli
from tests.limits import Limit, killed_after

ACCEPT = "application/openmetrics-text; version=1.0.0"


@contextmanager
def exporter(bootstrap: str, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `kcli group metrics --all` on a free port; yield its URL and the process."""
    command = (sys.executable, "-m", "kcli", "group", "metrics", "--all", "-b", bootstrap, "--listen", "127.0.0.1:0")
    with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            with killed_after(process, "the address of the exporter"):
                line = process.stderr.readline()
            url = re.search(r"http://\S+/metrics", line)
            assert url, line
            yield url[0], process
        finally:
            process.kill()


def scrape(url: str, accept: str = ACCEPT) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=20) as answer:
        return str(answer.read().decode())


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a metric: its label values in the order of their names -> value."""
    found = {}
    for family in parse_openmetrics(text):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture
def billing(kafka_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker with 10 records in `orders`, of which the group `billing` has read 4."""
    kafka_broker.create_topic("orders")
    lines = "".join(f"{number}\n" for number in range(10)).encode()
    assert run_kcli("produce", "-b", kafka_broker.address, "orders", stdin=lines).status == 0
    read = run_kcli("consume", "-b", kafka_broker.address, "orders", "-g", "billing", "-o", "start", "-n", "4")
    assert read.status == 0
    return kafka_broker


def test_any_number_of_scrapes_is_one_survey(billing: EmbeddedBroker) -> None:
    with exporter(billing.address, "--interval", "3600") as (url, _):
        first = scrape(url)
        surveyed = len(billing.requests)
        assert all(scrape(url) == first for _ in range(100))
        assert len(billing.requests) == surveyed
    lag = values(first, "kafka_consumergroup_group_lag")
    assert lag == {("", billing.address, "", "billing", "", "0", "orders"): 6}
    assert values(first, "kcli_group_up") == {(billing.address, "billing"): 1}


def test_both_formats_have_the_same_samples(billing: EmbeddedBroker) -> None:
    with exporter(billing.address, "--interval", "3600", "--cluster-name", "prod") as (url, _):
        plain, rich = scrape(url, "text/plain"), scrape(url)
    assert rich.endswith("# EOF\n")
    assert "# EOF" not in plain
    read = [
        [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]
        for families in (parse_text(plain), parse_openmetrics(rich))
    ]
    assert read[0] == read[1]
    assert any(labels.get("cluster_name") == "prod" for _, labels, _ in read[0])


def is_whole(text: str) -> bool:
    """Return whether all offsets are known: after a start neither the coordinator nor a leader may be ready yet."""
    up, unknown = values(text, "kcli_group_up"), values(text, "kcli_group_unknown_partitions")
    return set(up.values()) == {1} and set(unknown.values()) == {0}


def scrape_until(url: str, awaited: str, reached: Callable[[str], bool]) -> str:
    """Scrape until the metrics fulfil a condition; return them."""
    limit = Limit(awaited)
    while not reached(text := scrape(url)):
        limit.check()
    return text


def test_a_dead_cluster_is_a_metric_and_its_return_is_seen(billing: EmbeddedBroker) -> None:
    def is_up(text: str) -> bool:
        return values(text, "kcli_up") == {(billing.address,): 1}

    def is_down(text: str) -> bool:
        return values(text, "kcli_up") == {(billing.address,): 0}

    with exporter(billing.address, "--interval", "0.2") as (url, process):
        scrape_until(url, "kcli_up 1", is_up)
        billing.kill()
        text = scrape_until(url, "kcli_up 0", is_down)
        assert not values(text, "kafka_consumergroup_group_lag")
        assert values(text, "kcli_survey_timestamp_seconds")
        billing.start()
        text = scrape_until(url, "kcli_up 1, and all metrics", lambda text: is_up(text) and is_whole(text))
        assert set(values(text, "kafka_consumergroup_group_sum_lag").values()) == {6}
        process.send_signal(signal.SIGTERM)
        _, reported = process.communicate(timeout=20)
        assert process.returncode == 0
        lines = reported.splitlines()
        lost = lines[0]
        assert "no broker answered" in lost or "cannot be reached" in lost  # by the request that notices it first
        # On a busy machine a survey may take too long once more: that is reported, too, and so is its end.
        assert lines[1::2] == ["kcli: the cluster is reachable again"] * (len(lines) // 2)
        assert len(lines) % 2 == 0


def test_the_lag_as_openmetrics(billing: EmbeddedBroker) -> None:
    result = run_kcli(
        "group", "lag", "-b", billing.address, "billing", "gone", "-O", "openmetrics", "--metric-names", "kminion"
    )
    assert result.status == 3
    assert values(result.text, "kminion_kafka_consumer_group_topic_partition_lag") == {("billing", "0", "orders"): 6}
    assert values(result.text, "kcli_group_up") == {("billing",): 1, ("gone",): 0}
    assert result.err.startswith("kcli: gone: GROUP_ID_NOT_FOUND")


def test_without_a_cluster_the_openmetrics_say_so() -> None:
    result = run_kcli("group", "lag", "-b", "127.0.0.1:1", "--all", "-O", "openmetrics", "--timeout", "0.3")
    assert result.status == 5
    assert values(result.text, "kcli_up") == {("127.0.0.1:1",): 0}


def test_the_cluster_name_is_the_profile(billing: EmbeddedBroker, tmp_path: Path) -> None:
    config = tmp_path / "kcli" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[profile.prod]\nbootstrap-servers = "{billing.address}"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    result = run_kcli("group", "lag", "-P", "prod", "--all", "-O", "openmetrics", environ=environ)
    assert values(result.text, "kcli_up") == {("prod",): 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lag", "--all", "-O", "metrics"), "--output: 'metrics' is not valid; use table, json, jsonl, csv, tsv or "),
        (("lag", "--all", "--cluster-name", "a"), "--metric-names and --cluster-name require --output openmetrics"),
        (("lag", "--all", "-O", "openmetrics", "--metric-names", "a"), "--metric-names: 'a' is not valid; use kafka-"),
        (("lag", "--all", "-O", "openmetrics", "--by-topic"), "--by-topic cannot be combined with --output openme"),
        (("metrics", "--all", "--listen", "9308"), "--listen: '9308' is not valid; use HOST:PORT, such as 127.0.0.1:"),
        (("metrics", "--all", "--listen", "192.0.2.1:1"), "--listen: cannot listen on 192.0.2.1:1: "),
        (("metrics", "--all", "--listen", "a..b:1"), "--listen: cannot listen on a..b:1: Name or service not known"),
        (("metrics", "--all", "--interval", "0"), "--interval: 0 is not valid; use a number of seconds above 0"),
        (("metrics",), "select groups in exactly one form: group names, --all, or --match REGEX"),
    ],
)
def test_wrong_options(words: tuple[str, ...], message: str) -> None:
    result = run_kcli("group", *words)
    assert result.status == 2
    assert result.err.startswith(f"kcli: {message}")


def test_openmetrics_on_a_terminal_cannot_control_it(billing: EmbeddedBroker) -> None:
    name = "x\x1b]52;c;eA==\x07\x9b2J\u202e\u200b\nkcli: forged"
    read = run_kcli("consume", "-b", billing.address, "orders", "-g", name, "-o", "start", "-n", "1")
    assert read.status == 0
    asked = ("group", "lag", "-b", billing.address, name, "gone\nkcli: forged", "-O", "openmetrics")
    shown = run_kcli(*asked, terminal=True)
    assert shown.status == 3
    lines = shown.text.splitlines()
    assert all(map(str.isprintable, lines))
    assert any("\\x1b]52;c;eA==" in line for line in lines)
    assert [line for line in shown.err.splitlines() if line.startswith("kcli: forged")] == []
    piped = run_kcli(*asked)
    groups = {labels for labels, _ in values(piped.text, "kcli_group_up").items()}
    assert any(name in labels for labels in groups)
