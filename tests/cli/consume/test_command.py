"""`kcli consume`: what is refused before anybody is asked, and what is not."""

from __future__ import annotations

import pytest

from tests.cli.fake import Result, run_kcli
from tests.cli.loopback import loopback_broker


def consume(*argv: str, **environ: str) -> Result:
    """A run without a broker: status 5 says that the command line was fine."""
    return run_kcli("consume", "orders", "-b", "127.0.0.1:1", "--timeout", "0.01", *argv, environ=environ)


@pytest.mark.parametrize("option", [("-f", "%s"), ("-D", ";"), ("-K", ":"), ("-Z", "NULL")])
def test_raw_options_are_nearer_than_the_environments_output(option: tuple[str, str]) -> None:
    assert consume(*option, KCLI_OUTPUT="jsonl").status == 5
    both = consume(*option, "--output", "csv", KCLI_OUTPUT="jsonl")
    assert both.status == 2
    assert f"{option[0]} is for raw output: it does not go with --output csv" in both.err


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("-o", "5:3", "it ends before it starts"),
        ("--grep", "(", "not a regular expression"),
        ("-f", "%q", "not a format verb"),
        ("-n", "0", "--max-messages: 0 is out of range; use at least 1"),
        ("--idle-timeout", "0", "a number of seconds above 0"),
        ("--isolation-level", "serializable", "read_uncommitted"),
        ("-p", "x", "not a valid list of partitions"),
        ("-X", "fetch.max.wait.ms=30000", "request.timeout.ms=30000 must be above fetch.max.wait.ms=30000"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(option: str, value: str, says: str) -> None:
    status, out, err = consume(option, value)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1
    assert says in err


def test_all_mistyped_topics_are_told_at_once_and_none_is_created() -> None:
    with loopback_broker(topics={"orders": 1, "bills": 2}) as broker:
        run = run_kcli("consume", "ordrs", "orders", "blils", "-e", "-b", broker.address)
    assert (run.status, run.out) == (3, b"")
    assert run.err == (
        "kcli: UNKNOWN_TOPIC_OR_PARTITION: there is no topic ordrs (did you mean orders?), "
        "there is no topic blils (did you mean bills?)\n"
    )
    assert broker.requests
    assert not any(request.allow_auto_topic_creation for request in broker.requests)


def test_a_partition_that_is_not_there_is_told_with_those_that_are() -> None:
    with loopback_broker(topics={"orders": 1, "bills": 2}) as broker:
        run = run_kcli("consume", "bills:0,7,9", "-e", "-b", broker.address)
        assert run == (3, b"", "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic bills has partitions 0 to 1, not 7, 9\n")
        assert "not 2, 3, 4, 5, 6 and 93 more\n" in run_kcli("consume", "bills:0-99", "-e", "-b", broker.address).err
        run = run_kcli("consume", "orders", "-p", "1", "-e", "-b", broker.address)
        assert run == (3, b"", "kcli: UNKNOWN_TOPIC_OR_PARTITION: topic orders has partition 0 only, not 1\n")
