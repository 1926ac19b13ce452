"""`kcli consume --group`: options in conflict, before any request."""

from __future__ import annotations

import pytest

from kcli.cli.consume.options import MemberOptions
from kcli.cli.consume.topic import assignor_property
from tests.cli.consume.test_command import consume


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-p", "0"], "-p cannot be combined with --group: the group assigns the partitions"),
        (["bills:0,1"], "bills:... cannot be combined with --group"),
        (["-o", "100"], "-o 100 cannot be combined with --group: a member starts at the committed offsets"),
        (["-o", "start:end"], "-o start:end cannot be combined with --group"),
        (["-o", "start", "-o", "end"], "-o start -o end cannot be combined with --group"),
        (["--assignor", "fair"], "--assignor: 'fair' is not a known assignor; use one of range, roundrobin, sticky"),
        (["--protocol", "modern"], "--protocol: 'modern' is not valid; use classic or consumer"),
        (["-X", "session.timeout.ms=100"], "heartbeat.interval.ms=3000 must be below session.timeout.ms=100"),
    ],
)
def test_options_in_conflict_with_group_are_one_line_and_status_2(options: list[str], message: str) -> None:
    status, out, err = consume("--group", "g", *options)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "option", [["--no-commit"], ["--assignor", "range"], ["--instance-id", "a"], ["--protocol", "classic"]]
)
def test_options_of_members_require_group(option: list[str]) -> None:
    status, _, err = consume(*option)
    assert status == 2
    assert f"{option[0]} requires --group" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("group.id=g", "-X group.id has no effect without --group; use --group"),
        ("auto.offset.reset=earliest", "-X auto.offset.reset has no effect without --group; use -o start or -o end"),
        ("enable.auto.commit=false", "-X enable.auto.commit has no effect without --group; remove it"),
    ],
)
def test_a_property_of_members_without_group_is_refused(given: str, message: str) -> None:
    status, _, err = consume("-X", given)
    assert status == 2
    assert message in err


def test_an_empty_group_name_is_an_error() -> None:
    assert "--group: the group name must not be empty" in consume("--group", "").err


def test_an_empty_instance_id_is_an_error() -> None:
    status, _, err = consume("--group", "g", "--instance-id", "")
    assert status == 2
    assert "--instance-id: the id must not be empty" in err


def test_a_valid_command_line_reaches_the_broker() -> None:
    assert consume("--group", "g", "-o", "start", "-n", "3", "--assignor", "sticky", "--no-commit").status == 5


def test_options_become_properties() -> None:
    options = MemberOptions("g", assignor="sticky", instance_id="one", protocol="consumer")
    assert options.properties(["end"]) == {
        "group.id": "g",
        "enable.auto.commit": "false",
        "group.instance.id": "one",
        "group.protocol": "consumer",
        "auto.offset.reset": "latest",
    }
    for name, reset in (("oldest", "earliest"), ("start", "earliest"), ("newest", "latest")):
        assert options.properties([name])["auto.offset.reset"] == reset
    assert assignor_property("uniform", "consumer") == {"group.remote.assignor": "uniform"}
    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert assignor_property(java, "classic") == {"partition.assignment.strategy": "sticky"}
