"""`kcli produce --transactional-id`: all of the input is stored, or nothing, and the status says which."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli import Admin, Consumer, Producer, TopicPartition
from kcli.broker.testing.control import DROP, Verdict
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.end_txn import EndTxnResponse
from tests.cli.fake import Result, run_kcli
from tests.limits import killed_after


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as serving:
        serving.create_topic("orders", partitions=1)
        yield serving


def produce(broker: EmbeddedBroker, *words: str, stdin: bytes = b"") -> Result:
    where = ("-b", broker.address, "--transactional-id", "import", "--timeout", "10")
    return run_kcli("produce", "orders", *where, *words, stdin=stdin)


def answer_end(broker: EmbeddedBroker, verdict: Verdict) -> None:
    """Treat the next EndTxn like this; it is not carried out."""
    broker.intercept("EndTxn", lambda _request, _context: verdict, times=1)


def stored(broker: EmbeddedBroker, level: str = "read_committed") -> list[bytes | None]:
    with Consumer(bootstrap_servers=broker.address, isolation_level=level, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        return [record.value for record in consumer.records(to_end=True)]


def test_the_input_is_one_transaction(broker: EmbeddedBroker) -> None:
    lines = [b"%d" % number for number in range(5000)]
    run = produce(broker, "--stats", "-O", "jsonl", stdin=b"\n".join(lines))
    assert run.status == 0
    assert "5,000 records stored" in run.err
    assert run.document == {"topic": "orders", "partition": 0, "outcome": "stored", "records": 5000}
    assert stored(broker) == lines
    assert produce(broker, stdin=b"").status == 0


def test_a_record_that_fails_aborts_the_transaction(broker: EmbeddedBroker) -> None:
    run = produce(broker, "-O", "jsonl", stdin=b"1\n" + b"x" * (2 << 20) + b"\n3\n")
    assert run.status == 1
    assert run.err.splitlines() == [
        "kcli: 1 record not stored: longer than 1,048,576 bytes (max.request.size)",
        "kcli: the transaction was aborted: none of the 3 records read is stored",
    ]
    outcomes = {row["outcome"]: row["records"] for row in map(json.loads, run.out.splitlines())}
    assert outcomes == {"aborted": 2, "not-stored": 1}
    assert stored(broker) == []


def test_a_line_that_is_not_a_record_and_an_unreadable_file_abort_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    bad = produce(broker, "--input", "jsonl", stdin=b'{"value": "1"}\n{"value"\n')
    assert bad.status == 1
    assert "the transaction was aborted: none of the 2 records read is stored" in bad.err
    good = tmp_path / "good"
    good.write_bytes(b"1\n2\n")
    missing = produce(broker, str(good), str(tmp_path / "missing"))
    assert missing.status == 1
    assert "cannot read" in missing.err
    assert "the transaction was aborted: none of the 2 records read is stored" in missing.err
    assert stored(broker) == []
    assert set(stored(broker, "read_uncommitted")) <= {b"1", b"2"}


def test_a_lost_response_to_the_commit_is_repeated(broker: EmbeddedBroker) -> None:
    answer_end(broker, DROP)
    assert produce(broker, stdin=b"1\n").status == 0
    assert stored(broker) == [b"1"]


def test_an_unknown_outcome_has_status_5(broker: EmbeddedBroker) -> None:
    answer_end(broker, DROP)
    answer_end(broker, EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    run = produce(broker, "-O", "jsonl", stdin=b"1\n2\n")
    assert run.status == 5
    assert "kcli: 2 records possibly stored: all or none" in run.err
    assert "unknown whether the transaction was committed" in run.err
    assert run.document["outcome"] == "possibly-stored"


def test_a_producer_that_takes_over_the_id_ends_it(broker: EmbeddedBroker) -> None:
    answer_end(broker, EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    run = produce(broker, stdin=b"1\n")
    assert run.status == 1
    assert "PRODUCER_FENCED: another producer with the same transactional id has taken over" in run.err
    assert "the transaction was aborted: none of the 1 record read is stored" in run.err
    with Producer(bootstrap_servers=broker.address, transactional_id="import") as other:
        other.init_transactions()
    assert stored(broker) == []


@pytest.mark.parametrize("code", [16, 48, 53])  # tried again until the timeout; fatal; a denial
@pytest.mark.parametrize("lines", [b"1\n2\n", b"1\n" + b"x" * (2 << 20) + b"\n"], ids=["commit", "abort"])
def test_an_end_that_the_coordinator_refuses_is_not_reported_as_done(
    broker: EmbeddedBroker, code: int, lines: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.producer.producer._ABORT_AT_CLOSE_MS", 100)
    broker.intercept("EndTxn", lambda _request, _context: EndTxnResponse(error_code=code))
    run = produce(broker, "--timeout", "1", "-X", "linger.ms=0", stdin=lines)
    with Admin(broker.address) as admin:
        assert admin.describe_transactions("import").values["import"].state == "Ongoing"
    assert run.status in (1, 4, 5)
    state = "will be aborted after transaction.timeout.ms"
    assert f"the transaction {state}: none of the 2 records read is stored" in run.err


def test_the_broker_limits_the_timeout(broker: EmbeddedBroker) -> None:
    run = produce(broker, "-X", "transaction.timeout.ms=999999999", stdin=b"1\n")
    assert run.status == 1
    assert "INVALID_TRANSACTION_TIMEOUT" in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_end_of_the_input_aborts_it(broker: EmbeddedBroker, number: int) -> None:
    words = ("produce", "orders", "-b", broker.address, "--transactional-id", "import")
    with subprocess.Popen(
        [sys.executable, "-m", "kcli", *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write("1\n")
        process.stdin.flush()
        with killed_after(process, "the record, and the end of the command"):
            while not stored(broker, "read_uncommitted"):
                assert process.poll() is None
            process.send_signal(number)
            _, err = process.communicate()
    assert process.returncode == 130
    assert "the transaction was aborted: none of the 1 record read is stored" in err
    with Admin(broker.address) as admin:
        assert admin.describe_transactions("import").values["import"].state in ("PrepareAbort", "CompleteAbort")
    assert stored(broker) == []
