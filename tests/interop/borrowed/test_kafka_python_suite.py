"""kafka-python's integration suite on our broker, except the named exclusions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.borrowed.kafka_python import SuiteUnavailable, fetch_suite, run_suite
from tests.needs import skip_or_fail
from tests.real_kafka import free_ports
from tests.slowness import wait_for_a_quiet_moment

pytestmark = pytest.mark.slow

EXCLUSIONS = Path(__file__).with_name("exclusions.txt")
# The suite at this version, without the tests of listeners that it would start itself. Fewer would mean that some did
# not run.
TESTS = 56
REPEATS = 4


def exclusions() -> dict[str, str]:
    """Return the reason of each excluded test."""
    lines = (line for line in EXCLUSIONS.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split(maxsplit=1) for line in lines)  # type: ignore[misc]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a configured advertised address, as the suite expects."""
    (port,) = free_ports(1)
    result = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    broker = BrokerProcess(tmp_path / "broker", port=port, settings=result)
    broker.start()
    yield broker
    broker.kill()


def test_the_suite_passes_except_the_exclusions(broker: BrokerProcess) -> None:
    try:
        fetch_suite()
    except SuiteUnavailable as missing:
        skip_or_fail(str(missing))
    outcomes = run_suite(broker.bootstrap_servers)
    excluded = exclusions()
    assert excluded.keys() <= outcomes.keys(), "an exclusion names no test"
    assert len(outcomes) == TESTS
    failed = [name for name, o in outcomes.items() if o.result == "failed" and name not in excluded]
    for _ in range(REPEATS):  # some give a consumer two seconds from its start to a record, on a quiet machine enough
        if failed:
            wait_for_a_quiet_moment()
            outcomes |= run_suite(broker.bootstrap_servers, only=failed)
            failed = [name for name in failed if outcomes[name].result == "failed"]
    failures = {name: outcomes[name].text for name in failed}
    assert not failures, "\n".join(f"{name}: {text}" for name, text in failures.items())
    skipped = {name for name, o in outcomes.items() if o.result == "skipped" and name not in excluded}
    assert not skipped, f"skipped without a reason here: {skipped}"
    stale = {name for name in excluded if outcomes[name].result == "passed"}
    assert not stale, f"excluded, and passed all the same: {stale}"
