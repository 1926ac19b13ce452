"""`kcli produce` with a fake broker that stores or refuses records."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcli.cli import app
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.records.record import NewRecord
from tests.cli.fake import FakeEnvironment, Result, run_kcli
from tests.cli.loopback import LoopbackBroker, loopback_broker
from tests.producer.fake_log import FakeLog, Fault


class Kafka(NamedTuple):
    """A broker on a socket, and its log."""

    broker: LoopbackBroker
    log: FakeLog

    def produce(self, *argv: str, stdin: bytes = b"") -> Result:
        return run_kcli("produce", "orders", "-b", self.broker.address, *argv, stdin=stdin)

    def records(self) -> list[NewRecord]:
        return [record for tp in sorted(self.log.log) for record in self.log.log[tp]]

    def keys_and_values(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self.records()]


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    log = FakeLog()
    answers = {
        ProduceRequest: lambda request: log.produce(None, request),
        InitProducerIdRequest: lambda request: log.init_producer_id(None, request),
    }
    with loopback_broker(answers, topics={"orders": 1}) as broker:
        yield Kafka(broker, log)


def test_each_line_is_a_record(kafka: Kafka) -> None:
    run = kafka.produce(stdin=b"one\n\ntwo \xff\r\nlast")
    assert run == Result(0, b"", "")
    assert kafka.keys_and_values() == [(None, b"one"), (None, b""), (None, b"two \xff\r"), (None, b"last")]


def test_empty_input_writes_no_record(kafka: Kafka) -> None:
    assert kafka.produce().status == 0
    assert kafka.records() == []


def test_files_and_standard_input_are_read_in_order(kafka: Kafka, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1\n2")
    second.write_bytes(b"5\n")
    assert kafka.produce(str(first), "-", str(second), stdin=b"3\n4\n").status == 0
    assert [value for _, value in kafka.keys_and_values()] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_missing_file_is_an_error_after_the_records_before_it(kafka: Kafka, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_bytes(b"1\n2\n")
    run = kafka.produce(str(first), str(tmp_path / "nowhere"), "--stats")
    assert run.status == 1
    assert run.err.endswith("nowhere: No such file or directory\n")
    assert "2 records stored" in run.err
    assert len(kafka.records()) == 2


def test_delimiters_keys_and_tombstones(kafka: Kafka) -> None:
    run = kafka.produce("-D", r"\0", "-K", ":", "-Z", stdin=b"k:line\nbreak\0gone:\0no key")
    assert run.status == 0
    assert kafka.keys_and_values() == [(b"k", b"line\nbreak"), (b"gone", None), (None, b"no key")]


def test_key_headers_and_timestamp_of_all_records(kafka: Kafka) -> None:
    run = kafka.produce("-k", "all", "-H", "a=1=2", "-H", "none", "--timestamp", "1700000000", stdin=b"x\n")
    assert run.status == 0
    assert kafka.records() == [NewRecord(b"all", b"x", 1_700_000_000_000, [("a", b"1=2"), ("none", None)])]


def test_a_header_given_in_a_locale_without_unicode_is_utf_8(kafka: Kafka) -> None:
    """Python decodes the bytes of arguments to surrogates in such a locale."""
    typed = "\u00e4=\u00f6".encode().decode("ascii", "surrogateescape")
    assert kafka.produce("-H", typed, "-H", "raw=\udcff", stdin=b"x\n").status == 0
    assert kafka.records()[0].headers == [("\u00e4", "\u00f6".encode()), ("raw", b"\xff")]


def test_a_whole_file_as_one_record(kafka: Kafka, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(os.urandom(300_000) + b"\n\n")
    assert kafka.produce("-D", "", str(blob)).status == 0
    assert kafka.keys_and_values() == [(None, blob.read_bytes())]


def test_json_lines_of_consume_are_read(kafka: Kafka) -> None:
    lines = [
        {"topic": "other", "partition": 7, "offset": 3, "timestamp": 9, "key": None, "value": "\u00e4", "headers": []},
        {"key": "AP8=", "key_encoding": "base64", "value": None, "timestamp": 8},
    ]
    run = kafka.produce("--input", "jsonl", stdin="\n".join(map(json.dumps, lines)).encode())
    assert run.status == 0
    assert kafka.records() == [NewRecord(None, "\u00e4".encode(), 9, []), NewRecord(b"\x00\xff", None, 8, [])]


def test_an_invalid_json_line_is_a_failed_record(kafka: Kafka) -> None:
    run = kafka.produce("--input", "jsonl", stdin=b'{"value": "a"}\nb\n{"value": "c"}\n')
    assert run.status == 1
    assert run.err == "kcli: 1 record not stored: line 2 is not a record in JSON: Expecting value at column 1\n"
    assert [value for _, value in kafka.keys_and_values()] == [b"a", b"c"]


def test_failed_records_are_counted_by_kind_and_the_others_are_stored(kafka: Kafka) -> None:
    kafka.log.faults = [Fault(error=87, message="no key"), Fault(stored=True), Fault(error=29)]
    run = kafka.produce("-X", "batch.size=0", stdin=b"1\n2\n3\n4\n")
    assert run.status == 1
    assert run.err.splitlines() == [
        "kcli: 1 record not stored: INVALID_RECORD: no key",
        "kcli: 1 record not stored: TOPIC_AUTHORIZATION_FAILED: topic orders: WRITE on the topic is denied",
    ]
    assert [value for _, value in kafka.keys_and_values()] == [b"2", b"4"]


def test_a_line_that_is_too_long_is_a_failed_record(kafka: Kafka) -> None:
    run = kafka.produce("-X", "max.request.size=1000", stdin=b"a\n" + b"x" * 400_000 + b"\n" + b"y" * 990 + b"\nb\n")
    assert run.status == 1
    assert run.err.splitlines() == [
        "kcli: 1 record not stored: MESSAGE_TOO_LARGE: a record is larger than max.request.size, 1000 bytes; "
        "set a larger max.request.size",
        "kcli: 1 record not stored: longer than 1,000 bytes (max.request.size)",
    ]
    assert [value for _, value in kafka.keys_and_values()] == [b"a", b"b"]


def test_an_unknown_topic_is_an_error_and_is_not_created(kafka: Kafka) -> None:
    run = run_kcli("produce", "orderz", "-b", kafka.broker.address, stdin=b"x\n")
    assert run.status == 3
    assert run.err == "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic orderz (did you mean orders?)\n"
    asked = [request for request in kafka.broker.requests if isinstance(request, MetadataRequest)]
    assert asked
    assert not any(request.allow_auto_topic_creation for request in asked)
    assert kafka.records() == []


def test_an_unknown_partition_is_an_error(kafka: Kafka) -> None:
    run = kafka.produce("-p", "4", stdin=b"x\n")
    assert run == Result(3, b"", "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic orders has partition 0 only, not 4\n")


def test_an_unreachable_broker_is_an_error_at_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    run = run_kcli("produce", "orders", "-b", address, "--timeout", "0.3", stdin=b"x\n")
    assert run.status == 5
    assert f"connection refused by {address}" in run.err


def test_records_without_acknowledgement_fail_at_the_timeout(kafka: Kafka) -> None:
    kafka.log.faults = [Fault(error=19)] * 99
    run = kafka.produce("--timeout", "0.5", stdin=b"x\ny\n")
    assert run.status == 5
    assert "2 records not stored: not acknowledged within 0.5 s" in run.err
    assert "NOT_ENOUGH_REPLICAS" in run.err


@pytest.mark.parametrize(
    ("argv", "blame"),
    [
        (("--input", "xml"), "--input: 'xml' is not valid; use raw or jsonl"),
        (("--input", "jsonl", "-K", ":"), "--input jsonl cannot be combined with -D, -K, -k or -Z"),
        (("-K", ":", "-k", "a"), "-k cannot be combined with -K"),
        (("-K", ""), "-K must not be empty"),
        (("-D", r"\q"), r"\q"),
        (("-z", "rar"), "--compression: 'rar' is not valid; use "),
        (("--acks", "2"), "acks: '2' is not valid; use "),
        (("-p", "-1"), "-p"),
        (("--timestamp", "-1"), "--timestamp: '-1' is not a valid time"),
        (("--timestamp", "20261128120000"), "is not a valid time; write the date as 2026-11-28T12:00:00"),
        (("-H", "\udcff=x"), "use a header name in UTF-8"),
        (("-H", "=x"), "-H: the value is not valid; use NAME=VALUE, or NAME for a null value; the name must not be"),
        (("--transactional-id", "t", "--acks", "1"), "transactional.id requires acks=all"),
        (("--transactional-id", ""), "--transactional-id must not be empty"),
        (("-X", "partitioner.class=X"), "partitioner.class is not supported"),
        (
            ("-X", "value.serializer=X"),
            "-X value.serializer has no effect in kcli: values are bytes; in Python pass a callable; remove it",
        ),
        (("-H", ""), "-H: '' is not valid; use NAME=VALUE"),
    ],
)
def test_usage_errors_send_no_request(kafka: Kafka, argv: tuple[str, ...], blame: str) -> None:
    run = kafka.produce(*argv, stdin=b"x\n")
    assert run.status == 2
    assert blame in run.err
    assert kafka.broker.requests == []


def test_stats_and_verbose_print_a_summary(kafka: Kafka) -> None:
    for option in ("--stats", "-v"):
        run = kafka.produce(option, stdin=b"x\n" * 1000)
        assert run.status == 0
        summary, *rest = run.err.splitlines()
        assert summary.startswith("kcli: 1,000 records stored, 0.0 MB read in ")
        assert summary.endswith("orders-0 1,000")
        assert len(rest) == (option == "-v")
        assert all(" requests over 1 connection, latency " in line for line in rest)


def test_a_file_has_a_progress_bar_on_a_terminal(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.cli.output.progress._APPEARS_AFTER_MS", 0)
    lines = tmp_path / "lines"
    lines.write_bytes(b"x" * 99 + b"\n")
    shown = run_kcli("produce", "orders", "-b", kafka.broker.address, str(lines), terminal=True)
    assert shown.status == 0
    assert "writing" in shown.err
    assert "100%" in shown.err
    assert "records/s" in shown.err
    assert kafka.produce(str(lines)).err == ""
    piped = run_kcli("produce", "orders", "-b", kafka.broker.address, stdin=b"x\n", terminal=True)
    assert "writing" not in piped.err


def test_throttling_by_quotas_is_reported_once(kafka: Kafka) -> None:
    stored = kafka.broker.answers[ProduceRequest]

    def throttled(request: ProduceRequest) -> Any:
        response = stored(request)
        response.throttle_time_ms = 400
        return response

    kafka.broker.answers[ProduceRequest] = throttled
    run = kafka.produce("-X", "batch.size=0", stdin=b"x\n" * 4)
    assert run.status == 0
    assert run.err == "kcli: note: quotas of the brokers slow kcli down: 1.2 s so far (throttle_time_ms)\n"


class PipeEnvironment(FakeEnvironment):
    """An environment whose standard input is a pipe that the test writes to."""

    def __init__(self, read_end: int) -> None:
        super().__init__()
        self.stdin = open(read_end, encoding="utf-8")  # noqa: SIM115


def test_records_are_stored_while_the_input_pauses(kafka: Kafka) -> None:
    read_end, write_end = os.pipe()
    stored = threading.Event()
    answer = kafka.broker.answers[ProduceRequest]

    def produce(request: ProduceRequest) -> object:
        response = answer(request)
        stored.set()
        return response

    kafka.broker.answers[ProduceRequest] = produce
    env = PipeEnvironment(read_end)
    argv = ["produce", "orders", "-b", kafka.broker.address, "-X", "linger.ms=60000", "-X", "delivery.timeout.ms=99999"]
    status: list[int] = []
    command = threading.Thread(target=lambda: status.append(app.run(argv, env)))
    command.start()
    for chunk in (b"one\n", b"two\nthr", b"ee\n"):
        os.write(write_end, chunk)
        assert stored.wait(10)
        stored.clear()
    os.close(write_end)
    command.join(10)
    env.stdin.close()
    assert status == [0]
    assert [value for _, value in kafka.keys_and_values()] == [b"one", b"two", b"three"]


class InterruptedEnvironment(FakeEnvironment):
    """An environment that raises KeyboardInterrupt at the second read of standard input."""

    @property
    def stdin_bytes(self) -> Any:
        class Stream(io.BytesIO):
            def read1(self, _size: int | None = -1, /) -> bytes:
                data = self.read()
                if not data:
                    raise KeyboardInterrupt
                return data

        return Stream(b"one\ntwo\nthr")


def test_an_interrupted_run_reports_the_records_without_acknowledgement(kafka: Kafka) -> None:
    env = InterruptedEnvironment()
    run = env.result(app.run(["produce", "orders", "-b", kafka.broker.address, "-X", "linger.ms=60000"], env))
    assert run.status == 130
    assert run.err == "kcli: 2 records not stored: closed before they were sent\n"


def test_records_with_lost_answers_are_possibly_stored(kafka: Kafka) -> None:
    """500 of 500 were in the log, and kcli said "not stored"."""
    stored = kafka.broker.answers[ProduceRequest]
    kafka.broker.answers[ProduceRequest] = lambda request: stored(request) and None
    run = kafka.produce("--timeout", "0.5", "--output", "json", stdin=b"x\n" * 500)
    assert run.status == 5
    assert len(kafka.records()) == 500
    assert run.err.startswith("kcli: 500 records possibly stored: not acknowledged within 0.5 s (delivery.timeout.ms)")
    (item,) = run.document["items"]
    assert (item["outcome"], item["records"], item["error"]["code"]) == ("possibly-stored", 500, "TimeoutExpired")


def test_the_outcomes_of_all_records_are_printed_as_a_report(kafka: Kafka) -> None:
    kafka.log.faults = [Fault(error=29), Fault(error=7), Fault(stored=True), Fault(error=87)]
    argv = ("-X", "batch.size=0", "-X", "retries=0", "--output", "jsonl")
    run = kafka.produce(*argv, stdin=b"1\n2\n3\n4\n5\n")
    items = [json.loads(line) for line in run.out.splitlines()]
    assert [(item["outcome"], item["partition"], item["records"]) for item in items] == [
        ("stored", 0, 2),
        ("not-stored", None, 1),
        ("possibly-stored", None, 1),
        ("not-stored", None, 1),
    ]
    codes = [item["error"]["code"] for item in items[1:]]
    assert codes == ["TOPIC_AUTHORIZATION_FAILED", "REQUEST_TIMED_OUT", "INVALID_RECORD"]
    assert run.status == 1
    assert len(run.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("error", "outcome", "status"),
    [(29, "not stored", 4), (87, "not stored", 1), (7, "possibly stored", 5), (19, "not stored", 5)],
)
def test_the_status_is_that_of_the_only_kind_of_failure(kafka: Kafka, error: int, outcome: str, status: int) -> None:
    kafka.log.faults = [Fault(error=error)] * 99
    timeout_s = "1" if status == 5 else "20"  # errors of status 5 are retried until the time is up
    run = kafka.produce("--timeout", timeout_s, stdin=b"x\n")
    assert run.status == status
    assert run.err.startswith(f"kcli: 1 record {outcome}: ")


def test_records_without_acknowledgement_by_request_are_sent_and_not_stored(kafka: Kafka) -> None:
    run = kafka.produce("--acks", "0", "--stats", "--output", "jsonl", stdin=b"x\ny\n")
    assert run.status == 0
    assert "2 records sent" in run.err
    assert run.document["outcome"] == "sent"
