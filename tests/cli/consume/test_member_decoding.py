"""A member that decodes: exactly the printed records are committed, also if the registry or the disk fails."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.cli.consume.decoding import make_decoding
from kcli.cli.consume.member_session import MemberPlan, print_as_member
from kcli.cli.consume.options import DecodeOptions
from kcli.cli.consume.printed_records import Limits
from kcli.cli.consume.printing import PrintOptions, RenderOptions, make_renderer
from kcli.errors import KcliError
from kcli.structs import TopicPartition
from tests.cli.consume.fake_member import P0, P1, FakeConsumer, Step, assigned, records, values
from tests.cli.consume.test_member_session import FullDisk
from tests.cli.fake import FakeEnvironment
from tests.needs import needs_package

SIX = records({P0: values(b"1", b"2", b"3", b"4", b"5", b"6"), P1: values(b"7", b"8")})


class Unreachable:
    """A decoder that works for some calls, until its registry cannot be reached."""

    name = "avro"

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def decode(self, topic: str, payloads: Sequence[bytes | None], schema_headers: Any = None) -> list[Any]:
        self.calls -= 1
        if self.calls < 0:
            raise KcliError("registry: not reachable")
        return [int(payload or 0) for payload in payloads]


class Run:
    """One session that decodes JSON values, two records at a time, and stops at the ends of the partitions."""

    def __init__(self, *steps: Step, limit: int | None = None, decoder: Any = None, **options: Any) -> None:
        needs_package("jq")
        self.consumer = FakeConsumer([assigned(0, P0, P1), *steps])
        self.consumer.ends = {P0: 6, P1: 2}
        self.env = FakeEnvironment(clock=self.consumer.clock)
        decoding = make_decoding(
            DecodeOptions(["value=json"], **options),
            lambda: None,
            lambda sentence: self.env.report(f"kcli: {sentence}"),
            shows_errors=False,
            limit_s=60.0,
        )
        decoding.part_rows = 2
        if decoder is not None:
            decoding._decoders = {"value": decoder}
        printing = PrintOptions(
            make_renderer(RenderOptions(decoders=["value"])), limits=Limits(limit), quiet=True, decoding=decoding
        )
        plan = MemberPlan("g", ["orders"], 5_000.0, 30_000.0, exit_at_end=True)
        self.status: int | None = None
        self.error: BaseException | None = None
        try:
            client = SimpleNamespace(wakeup=lambda: None)
            self.status = print_as_member(self.env, client, self.consumer, printing, plan)  # type: ignore[arg-type]
        except (KcliError, OSError) as error:
            self.error = error
        self.out, self.err = self.env.result(0)[1:]

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return self.consumer.committed


def test_records_that_where_excludes_are_committed() -> None:
    run = Run(SIX, where=".value % 2 == 0")
    assert (run.status, run.out) == (0, b"2\n4\n6\n8\n")
    assert run.committed == {P0: 6, P1: 2}


def test_n_counts_records_after_where_and_the_next_match_is_not_committed() -> None:
    run = Run(SIX, where=".value % 2 == 0", limit=2)
    assert (run.status, run.out) == (0, b"2\n4\n")
    assert run.committed[P0] == 4  # the parts after the limit are not decoded, so their first record is next
    assert run.committed.get(P1, 0) == 0
    within = Run(SIX, where=".value > 0", limit=3)
    assert (within.out, within.committed[P0]) == (b"1\n2\n3\n", 3)


def test_records_that_do_not_decode_are_printed_and_committed_with_status_1() -> None:
    run = Run(records({P0: values(b"{", b"2", b"3", b"4", b"5", b"6"), P1: values(b"7", b"}")}))
    assert (run.status, run.out) == (1, b"{\n2\n3\n4\n5\n6\n7\n}\n")
    assert run.committed == {P0: 6, P1: 2}
    assert run.err.startswith("kcli: orders 0 offset 0: value: json: ")
    assert run.err.endswith("kcli: 2 values did not decode\n")


def test_an_unreachable_registry_ends_the_read_and_only_the_printed_records_are_committed() -> None:
    for calls, out, committed in [(0, b"", {}), (1, b"1\n2\n", {P0: 2}), (3, b"1\n2\n3\n4\n5\n6\n", {P0: 6})]:
        run = Run(SIX, decoder=Unreachable(calls))
        assert str(run.error) == "registry: not reachable"
        assert run.out == out
        assert {tp: offset for tp, offset in run.committed.items() if offset} == committed


def test_a_full_disk_commits_the_complete_rows_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(7, OSError(errno.ENOSPC, "full"))
    stream = SimpleNamespace(flush=lambda: None, fileno=lambda: 1)
    monkeypatch.setattr("kcli.cli.consume.sink.os.write", lambda fd, data: disk.write(data))
    monkeypatch.setattr("tests.cli.fake.FakeEnvironment.stdout_bytes", stream)
    run = Run(SIX)
    assert isinstance(run.error, OSError)
    assert disk.got == b"1\n2\n3\n4"
    assert run.committed[P0] == 3
    assert run.committed.get(P1, 0) == 0
