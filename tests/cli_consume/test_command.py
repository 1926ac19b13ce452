"""`kcli consume`: what is refused before anybody is asked, and what is not."""

from __future__ import annotations

import pytest

from tests.cli.fake import Result, run_kcli


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
        ("-n", "0", "0 is not in the range"),
        ("--idle-timeout", "0", "a number of seconds above 0"),
        ("--isolation-level", "serializable", "not one of read_uncommitted, read_committed"),
        ("-p", "x", "not a list of partitions"),
        ("-X", "fetch.max.wait.ms=30000", "request.timeout.ms=30000 must be above fetch.max.wait.ms=30000"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(option: str, value: str, says: str) -> None:
    status, out, err = consume(option, value)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1
    assert says in err
