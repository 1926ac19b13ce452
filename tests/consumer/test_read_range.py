"""The resolution of ranges for a given log. Pure."""

import pytest

from kcli.consumer.read_range import (
    EARLIEST,
    LATEST,
    Bound,
    FromEnd,
    FromStart,
    LogOffsets,
    Offset,
    ReadRange,
    Time,
    format_time,
    resolve_range,
    times_of,
)

LOG = LogOffsets(log_start=100, log_end=200, at_time={5_000: 150, 9_000: -1})


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        (ReadRange(EARLIEST), 100, None),
        (ReadRange(LATEST), 200, None),
        (ReadRange(EARLIEST, LATEST), 100, 200),
        (ReadRange(Offset(120), Offset(130)), 120, 130),
        (ReadRange(FromStart(10), FromEnd(10)), 110, 190),
        (ReadRange(FromEnd(10), LATEST), 190, 200),
        (ReadRange(FromEnd(1_000), LATEST), 100, 200),
        (ReadRange(EARLIEST, FromEnd(1_000)), 100, 100),
        (ReadRange(EARLIEST, FromStart(1_000)), 100, 200),
        (ReadRange(Time(5_000), LATEST), 150, 200),
        (ReadRange(EARLIEST, Time(5_000)), 100, 150),
        (ReadRange(EARLIEST, Time(9_000)), 100, 200),
        (ReadRange(EARLIEST, EARLIEST), 100, 100),
    ],
)
def test_a_range_inside_the_log_is_complete(asked: ReadRange, start: int, end: int | None) -> None:
    resolved = resolve_range(asked, LOG)
    assert (resolved.start, resolved.end, resolved.position) == (start, end, start)
    assert resolved.missing is None


@pytest.mark.parametrize("asked", [ReadRange(EARLIEST, LATEST), ReadRange(FromEnd(10), LATEST)])
def test_a_last_stable_offset_before_the_log_start_leaves_nothing_to_read(asked: ReadRange) -> None:
    """Kafka returns it while a transaction is open whose first batch was deleted in part."""
    resolved = resolve_range(asked, LogOffsets(log_start=112, log_end=107))
    assert (resolved.start, resolved.end, resolved.position) == (112, 112, 112)
    assert resolved.missing is None


def test_offsets_before_the_log_start_are_missing() -> None:
    resolved = resolve_range(ReadRange(Offset(20), LATEST), LOG)
    assert (resolved.start, resolved.end) == (100, 200)
    assert resolved.asked_start == 20
    assert resolved.missing == "offsets 20 to 99 were deleted: the log starts at 100"


def test_a_range_before_the_log_start_misses_only_its_own_offsets() -> None:
    resolved = resolve_range(ReadRange(Offset(20), Offset(30)), LOG)
    assert (resolved.start, resolved.end) == (100, 100)
    assert resolved.missing == "offsets 20 to 29 were deleted: the log starts at 100"


def test_an_end_after_the_log_end_is_replaced_and_noted() -> None:
    resolved = resolve_range(ReadRange(Offset(150), Offset(900)), LOG)
    assert (resolved.end, resolved.asked_end) == (200, 900)
    assert resolved.missing == "offsets 200 to 899 do not exist: the log ends at 200"
    assert resolved.notes == ("end offset 900 is after the log end 200",)


def test_wait_for_end_waits_for_an_end_after_the_log_end() -> None:
    resolved = resolve_range(ReadRange(Offset(150), Offset(900)), LOG, wait_for_end=True)
    assert (resolved.end, resolved.missing, resolved.notes) == (900, None, ())


def test_a_start_after_the_log_end_is_fetched_from_the_log_end() -> None:
    resolved = resolve_range(ReadRange(Offset(250)), LOG)
    assert (resolved.position, resolved.start, resolved.end) == (200, 250, None)
    assert resolved.notes == ("start offset 250 is after the log end 200",)
    assert resolved.missing is None


def test_a_range_after_the_log_end_reads_nothing_and_misses_its_offsets() -> None:
    resolved = resolve_range(ReadRange(Offset(250), Offset(260)), LOG)
    assert resolved.end is not None
    assert resolved.position >= resolved.end
    assert resolved.missing == "offsets 250 to 259 do not exist: the log ends at 200"


def test_a_start_after_the_log_end_with_the_latest_end_misses_nothing() -> None:
    resolved = resolve_range(ReadRange(Offset(250), LATEST), LOG)
    assert resolved.position == resolved.end == 200
    assert resolved.missing is None


def test_a_time_after_the_last_record_reads_nothing_and_has_a_note() -> None:
    resolved = resolve_range(ReadRange(Time(9_000), LATEST), LOG)
    assert resolved.position == resolved.end == 200
    assert resolved.notes == ("no record at or after 1970-01-01T00:00:09.000Z",)
    assert resolved.missing is None


def test_a_time_before_the_first_record_of_a_log_with_deleted_records_has_a_note() -> None:
    found = LogOffsets(100, 200, {5_000: 100, 6_000: 101})
    note = "the records before offset 100 were deleted; the first one is at or after 1970-01-01T00:00:05.000Z"
    assert resolve_range(ReadRange(Time(5_000)), found).notes == (note,)
    assert resolve_range(ReadRange(Time(6_000)), found).notes == ()
    assert resolve_range(ReadRange(Time(5_000)), LogOffsets(0, 200, {5_000: 0})).notes == ()


def test_a_time_range_that_ends_after_the_last_record_has_no_note() -> None:
    resolved = resolve_range(ReadRange(EARLIEST, Time(9_000)), LOG)
    assert resolved.end == 200
    assert resolved.notes == ()
    assert resolved.missing is None


def test_the_times_of_both_bounds_are_looked_up() -> None:
    assert times_of(ReadRange(Time(5), Time(6))) == [5, 6]
    assert times_of(ReadRange(Offset(5), LATEST)) == []
    assert times_of(ReadRange(Time(5))) == [5]


def test_bounds_compare_by_kind_and_number_and_print_in_the_form_of_options() -> None:
    assert Offset(5) == Offset(5)
    assert Offset(5) != FromStart(5)
    assert len({Offset(5), Offset(5), Time(5)}) == 2
    shown = [str(bound) for bound in (EARLIEST, LATEST, Offset(7), FromStart(7), FromEnd(7), Time(7))]
    assert shown == ["start", "end", "7", "+7", "-7", "@1970-01-01T00:00:00.007Z"]
    assert str(ReadRange(Offset(1), LATEST)) == "1:end"
    assert repr(FromEnd(7)) == "FromEnd(7)"


@pytest.mark.parametrize("kind", [Offset, FromStart, FromEnd, Time])
def test_a_negative_bound_is_an_error(kind: type[Bound]) -> None:
    with pytest.raises(ValueError, match="-1"):
        kind(-1)


def test_a_time_outside_the_calendar_prints_as_its_number() -> None:
    assert format_time(2**62) == str(2**62)
