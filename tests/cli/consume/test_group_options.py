"""`kcli consume --group`: what does not go with it, told before anybody is asked."""

from __future__ import annotations

import pytest

from kcli.cli.consume.options import MemberOptions, assignor_property, member_properties
from tests.cli.consume.test_command import consume


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-p", "0"], "-p does not go with --group: the group decides who reads which partitions"),
        (["bills:0,1"], "bills:... does not go with --group"),
        (["-o", "100"], "-o 100 does not go with --group: a member goes on at its group's committed offsets"),
        (["-o", "start:end"], "-o start:end does not go with --group"),
        (["-o", "start", "-o", "end"], "-o start -o end does not go with --group"),
        (["--assignor", "fair"], "--assignor: 'fair' is not a known assignor; use one of range, roundrobin, sticky"),
        (["--protocol", "modern"], "group.protocol: 'modern' is not valid; use classic or consumer"),
        (["-X", "session.timeout.ms=100"], "heartbeat.interval.ms=3000 must be below session.timeout.ms=100"),
    ],
)
def test_what_does_not_go_with_a_group_is_one_line_and_status_2(options: list[str], says: str) -> None:
    status, out, err = consume("--group", "g", *options)
    assert (status, out) == (2, b"")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    "option", [["--no-commit"], ["--assignor", "range"], ["--instance-id", "a"], ["--protocol", "classic"]]
)
def test_options_of_members_need_a_group(option: list[str]) -> None:
    status, _, err = consume(*option)
    assert status == 2
    assert f"{option[0]} is for members of a group: it needs --group" in err


def test_a_group_without_a_name_is_refused() -> None:
    assert "--group needs the name of a group" in consume("--group", "").err


def test_an_empty_instance_id_is_no_silent_dynamic_member() -> None:
    status, _, err = consume("--group", "g", "--instance-id", "")
    assert status == 2
    assert "--instance-id needs an id" in err


def test_a_good_command_line_gets_as_far_as_the_broker() -> None:
    assert consume("--group", "g", "-o", "start", "-n", "3", "--assignor", "sticky", "--no-commit").status == 5


def test_options_become_properties() -> None:
    options = MemberOptions("g", assignor="sticky", instance_id="one", protocol="consumer")
    assert member_properties(options, ["end"]) == {
        "group.id": "g",
        "enable.auto.commit": "false",
        "group.instance.id": "one",
        "group.protocol": "consumer",
        "auto.offset.reset": "latest",
    }
    assert assignor_property("uniform", "consumer") == {"group.remote.assignor": "uniform"}
    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert assignor_property(java, "classic") == {"partition.assignment.strategy": "sticky"}
