"""`kcli consume`: errors in the command line, before any request."""

from __future__ import annotations

import pytest

from tests.cli.fake import Result, run_kcli
from tests.cli.loopback import loopback_broker
from tests.needs import needs_package


def consume(*argv: str, **environ: str) -> Result:
    """A run without a broker: status 5 means that the command line is valid."""
    return run_kcli("consume", "orders", "-b", "127.0.0.1:1", "--timeout", "0.01", *argv, environ=environ)


@pytest.mark.parametrize("option", [("-f", "%s"), ("-D", ";"), ("-K", ":"), ("-Z", "NULL")])
def test_raw_options_take_precedence_over_the_output_of_the_environment(option: tuple[str, str]) -> None:
    assert consume(*option, KCLI_OUTPUT="jsonl").status == 5
    both = consume(*option, "--output", "csv", KCLI_OUTPUT="jsonl")
    assert both.status == 2
    assert f"{option[0]} cannot be combined with --output csv; it is for raw output" in both.err


@pytest.mark.parametrize("option", [("--columns", "offset"), ("--select", ".value")])
def test_columns_and_select_take_precedence_over_the_output_of_the_environment(option: tuple[str, str]) -> None:
    needs_package("jq")
    for output in ("jsonl", "table"):
        assert consume(*option, KCLI_OUTPUT=output).status == 5
    other = {"--columns": "jsonl", "--select": "table"}[option[0]]
    assert consume(*option, "--output", other).status == 2


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("-o", "5:3", "it ends before it starts"),
        ("--grep", "(", "not a valid regular expression"),
        ("-f", "%q", "not a valid verb"),
        ("-f", "%{value.id}", "requires a decoder, such as -s value=json"),
        ("-s", "value=xyz", "value: 'xyz' is not a known format"),
        ("--columns", "offset,id", "'id' is not a valid column"),
        ("-n", "0", "--max-messages: 0 is out of range; use at least 1"),
        ("--idle-timeout", "0", "a number of seconds above 0"),
        ("--isolation-level", "serializable", "read_uncommitted"),
        ("-p", "x", "not a valid list of partitions"),
        ("-X", "fetch.max.wait.ms=30000", "request.timeout.ms=30000 must be above fetch.max.wait.ms=30000"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(option: str, value: str, message: str) -> None:
    status, out, err = consume(option, value)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1
    assert message in err


def test_all_unknown_topics_are_reported_together_and_none_is_created() -> None:
    with loopback_broker(topics={"orders": 1, "bills": 2}) as broker:
        run = run_kcli("consume", "ordrs", "orders", "blils", "-e", "-b", broker.address)
    assert (run.status, run.out) == (3, b"")
    assert run.err == (
        "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic ordrs (did you mean orders?); "
        "there is no topic blils (did you mean bills?)\n"
    )
    assert broker.requests
    assert not any(request.allow_auto_topic_creation for request in broker.requests)


def test_an_unknown_partition_is_reported_with_the_existing_ones() -> None:
    with loopback_broker(topics={"orders": 1, "bills": 2}) as broker:
        run = run_kcli("consume", "bills:0,7,9", "-e", "-b", broker.address)
        assert run == (3, b"", "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic bills has partitions 0 to 1, not 7, 9\n")
        assert "not 2, 3, 4, 5, 6 and 93 more\n" in run_kcli("consume", "bills:0-99", "-e", "-b", broker.address).err
        run = run_kcli("consume", "orders", "-p", "1", "-e", "-b", broker.address)
        assert run == (3, b"", "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic orders has partition 0 only, not 1\n")


@pytest.mark.parametrize("options", [["-e"], ["--group", "g"]])
def test_a_json_document_is_printed_for_an_unknown_topic(options: list[str]) -> None:
    with loopback_broker(topics={"orders": 1}) as broker:
        run = run_kcli("consume", "ordrs", *options, "--output", "json", "-b", broker.address)
        others = [run_kcli("consume", "ordrs", *options, "-O", name, "-b", broker.address) for name in ("jsonl", "csv")]
    document = run.document
    assert (run.status, document["kind"], document["items"], document["coverage"]) == (3, "consume.topic", [], [])
    assert document["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "there is no topic ordrs (did you mean orders?)" in document["error"]["message"]
    assert "there is no topic ordrs (did you mean orders?)" in run.err
    assert [(other.status, other.out) for other in others] == [(3, b"")] * 2


def test_a_json_document_is_printed_when_no_broker_answers() -> None:
    run = consume("--output", "json")
    assert run.status == 5
    assert run.document["error"]["code"] == "TimeoutExpired"
