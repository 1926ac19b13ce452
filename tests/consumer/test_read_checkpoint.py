"""Checkpoints as text, and the restarts that are refused because the positions or the output are of something else."""

from __future__ import annotations

import gc
import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.consumer.read_checkpoint import (
    Checkpoint,
    OutputMark,
    Selection,
    check_output,
    check_resolved,
    format_checkpoint,
    parse_checkpoint,
    resume_ranges,
)
from kcli.consumer.read_range import LogOffsets, ReadRange, resolve_range
from kcli.consumer.subscription import FetchPosition
from kcli.errors import ConfigError, KcliError, Refused
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
MARK = OutputMark(1, 2, 100, "digest", "/out.jsonl")
ALL = Selection({"t": None})
KEPT = Checkpoint("c", ALL, {"t": ID}, {T0: FetchPosition(5, 1), T1: FetchPosition(0)}, MARK)
FOLLOW = ReadRange(LOG_END)
THREE = dict.fromkeys((T0, T1, T2), FOLLOW)

NAMES = st.text("abc.-_", min_size=1, max_size=3)
OFFSETS = st.integers(0, 2**63 - 1)
POSITIONS = st.builds(FetchPosition, OFFSETS, st.integers(-1, 2**31 - 1))
MARKS = st.builds(OutputMark, OFFSETS, OFFSETS, OFFSETS, st.text(max_size=3), st.text(max_size=5))


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    positions = draw(st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 99)), POSITIONS, max_size=6))
    topics = {tp.topic for tp in positions}
    chosen = {topic: draw(st.none() | st.lists(st.integers(0, 99)).map(tuple)) for topic in topics}
    ids = {topic: draw(st.none() | st.uuids()) for topic in topics}
    selection = Selection(chosen, draw(st.none() | st.text(max_size=5)), draw(st.booleans()))
    return Checkpoint(draw(st.none() | NAMES), selection, ids, positions, draw(st.none() | MARKS), draw(st.booleans()))


@given(checkpoints())
def test_a_checkpoint_is_read_as_it_was_written(checkpoint: Checkpoint) -> None:
    assert parse_checkpoint(format_checkpoint(checkpoint), "cp") == checkpoint


def test_a_checkpoint_leaves_no_garbage_for_the_collector() -> None:
    format_checkpoint(KEPT)
    gc.collect()
    format_checkpoint(KEPT)
    assert gc.collect() == 0


@given(checkpoints(), st.data())
def test_a_damaged_checkpoint_raises_no_other_error(checkpoint: Checkpoint, data: st.DataObject) -> None:
    text = format_checkpoint(checkpoint)
    at = data.draw(st.integers(0, len(text) - 2))
    damaged = text[:at] if data.draw(st.booleans()) else text[:at] + data.draw(st.text(max_size=2)) + text[at + 1 :]
    with suppress(ConfigError):  # and no other error; some damage is a valid checkpoint
        parse_checkpoint(damaged, "cp")


@pytest.mark.parametrize("text", ["[]", "{}", '{"kind": "groups"}', '{"kind": "consume.checkpoint", "kcli": 2}'])
def test_another_document_is_not_a_checkpoint(text: str) -> None:
    with pytest.raises(ConfigError, match="cp is "):
        parse_checkpoint(text, "cp")


def resumed(checkpoint: Checkpoint = KEPT, **changed: object) -> dict[TopicPartition, ReadRange]:
    given: dict[str, object] = {"cluster_id": "c", "selection": ALL, "topic_ids": {"t": ID}, "ranges": THREE, **changed}
    return resume_ranges(checkpoint, "cp", **given)  # type: ignore[arg-type]


def test_a_read_goes_on_at_its_positions_and_reads_added_partitions_from_their_start() -> None:
    assert resumed() == {T0: ReadRange(Place.offset(5)), T1: ReadRange(Place.offset(0)), T2: ReadRange(LOG_START)}


def test_the_end_of_a_range_stays() -> None:
    assert resumed(ranges={T0: ReadRange(LOG_START, LOG_END), T1: FOLLOW})[T0] == ReadRange(Place.offset(5), LOG_END)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"cluster_id": "d"}, "cp is a checkpoint of cluster c, and this is cluster d; use another file"),
        ({"selection": Selection({"u": None})}, "cp is a checkpoint of t, not of u; use another file"),
        ({"selection": Selection({"t": (0, 1)})}, "cp is a checkpoint of t, not of t:0-1; use another file"),
        (
            {"selection": Selection({"t": None}, None, True)},
            "cp is a checkpoint of t, not of --control t; use another file",
        ),
        ({"selection": Selection({}, "t.*")}, "cp is a checkpoint of t, not of --topics t.*; use another file"),
        (
            {"topic_ids": {"t": OTHER_ID}},
            "cp: topic t was deleted and created again after the checkpoint; remove the file to read the new topic",
        ),
        (
            {"ranges": {T0: FOLLOW}},
            "cp: partition 1 of topic t of the checkpoint does not exist; remove the file to start anew",
        ),
    ],
)
def test_positions_of_something_else_are_refused(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(Refused) as refused:
        resumed(**changed)
    assert str(refused.value) == reason


def test_ids_that_a_broker_does_not_tell_are_not_compared() -> None:
    assert resumed(topic_ids={"t": None})
    assert resumed(cluster_id=None)
    assert resumed(KEPT._replace(topic_ids={"t": None}), topic_ids={"t": OTHER_ID})


def test_a_pattern_may_match_other_topics_than_before() -> None:
    by_pattern = Selection({"t": None}, "t.*")
    kept = KEPT._replace(selection=by_pattern)
    u0 = TopicPartition("u", 0)
    found = resumed(kept, selection=Selection({"u": None}, "t.*"), topic_ids={"u": OTHER_ID}, ranges={u0: FOLLOW})
    assert found == {u0: ReadRange(LOG_START)}


def test_a_log_that_ends_before_the_position_was_truncated() -> None:
    longer, shorter = (resolve_range(ReadRange(Place.offset(5)), LogOffsets(0, end)) for end in (5, 4))
    check_resolved(KEPT, "cp", {T0: longer})
    with pytest.raises(Refused, match="t 0 is at offset 5, after the log end 4: the log was truncated"):
        check_resolved(KEPT, "cp", {T0: shorter})


def test_the_output_is_cut_to_its_length_at_the_checkpoint() -> None:
    assert check_output(KEPT, "cp", MARK) == 100
    assert check_output(KEPT, "cp", MARK._replace(length=130)) == 100
    assert check_output(KEPT, "cp", MARK._replace(length=130, device=9)) == 100
    assert check_output(KEPT, "cp", MARK._replace(length=130, digest="")) == 100


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (None, "was killed while it wrote to /out.jsonl; append to that file"),
        (MARK._replace(inode=9), "was killed while it wrote to /out.jsonl; append to that file"),
        (MARK._replace(length=99), "has 99 bytes and had 100 at the checkpoint; append to it"),
        (MARK._replace(digest="other"), "/out.jsonl was changed after the checkpoint"),
    ],
)
def test_another_output_after_a_kill_is_refused(output: OutputMark | None, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_output(KEPT, "cp", output)


def test_after_an_orderly_end_or_in_a_pipe_any_output_is_accepted() -> None:
    for output in (None, MARK, MARK._replace(inode=9), MARK._replace(length=0)):
        assert check_output(KEPT._replace(closed=True), "cp", output) is None
        assert check_output(KEPT._replace(output=None), "cp", output) is None


def test_without_a_digest_the_device_must_be_the_same() -> None:
    kept = KEPT._replace(output=MARK._replace(digest=""))
    assert check_output(kept, "cp", MARK) == 100
    with pytest.raises(KcliError):
        check_output(kept, "cp", MARK._replace(device=9))
