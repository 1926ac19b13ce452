"""The group with the empty name, under which simple consumers commit: each command takes the name, and shows it as ''.

On brokers of its own, because other tests list all groups of the shared ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.fake import Result, run_kcli
from tests.interop.groups.explaining import commit, fill
from tests.real_kafka import OwnBroker

pytestmark = pytest.mark.slow


def test_the_empty_name_is_a_name_in_every_command(any_own_kafka: Callable[..., OwnBroker], tmp_path: Path) -> None:
    kafka = any_own_kafka()
    topic = kafka.new_topic(2)
    fill(kafka, topic, {0: 10, 1: 10})
    commit(kafka, "billing", topic, {0: 3, 1: 4})
    file = tmp_path / "offsets"

    def kcli(*argv: str) -> Result:
        result = run_kcli(*argv, "-b", kafka.bootstrap_servers, environ={"HOME": str(tmp_path)})
        assert result.status == 0, result.err
        return result

    file.write_text(f"{topic},0,5\n{topic},1,6\n")
    applied = kcli("offsets", "apply", str(file), "--group", "", "--execute")
    assert "group '' does not exist; the commit creates it" in applied.err

    # A fresh export of all groups is applied in each form, and nothing would change.
    for form in (["-O", "json"], ["-O", "csv"], ["--apache"]):
        file.write_bytes(kcli("offsets", "export", "--all", *form).out)
        rows = [line.split()[:4] for line in kcli("offsets", "apply", str(file)).text.splitlines()[1:]]
        assert rows == [[group, topic, number, "keep"] for group in ("''", "billing") for number in "01"], form
    # So is a plan.
    file.write_bytes(kcli("offsets", "reset", "", "--to-earliest", "--all-topics", "-O", "json").out)
    assert "'' (Empty): 2 to move" in kcli("offsets", "apply", str(file), "--group", "", "--execute").err
    assert "the reset of '' (2 partitions)" in kcli("offsets", "undo", "--last", "--execute").err

    for command in (["group", "list"], ["group", "describe", ""], ["group", "lag", ""], ["offsets", "show", ""]):
        assert [line.split()[0] for line in kcli(*command).text.splitlines() if line.startswith("'")] != [], command
    shown = kcli("offsets", "show", "", "-O", "json").document["items"]
    assert [(item["group"], item["offset"]) for item in shown] == [("", 5), ("", 6)]
    waited = kcli("group", "wait", "", "--until", "lag<=9", "-O", "json").document["items"]
    assert [(item["group"], item["lag"]) for item in waited] == [("", 9)]

    deleted = kcli("group", "delete", "", "--execute")
    assert "''" in deleted.text
    assert "'' (Absent): 2 to move" in kcli("offsets", "undo", "--last", "--execute").err
    assert [item["offset"] for item in kcli("offsets", "show", "", "-O", "json").document["items"]] == [5, 6]


def test_a_group_that_does_not_exist_has_its_name_in_the_error(any_own_kafka: Callable[..., OwnBroker]) -> None:
    result = run_kcli("group", "describe", "", "-b", any_own_kafka().bootstrap_servers)
    assert (result.status, "(group '')" in result.err) == (3, True), result.err
