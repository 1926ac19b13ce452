"""The resolution of ranges for a given log. Pure."""

import pytest

from kcli.consumer.read_range import LogOffsets, ReadRange, format_time, resolve_range, times_of
from kcli.log_place import LOG_END, LOG_START, Place

LOG = LogOffsets(log_start=100, log_end=200, at_time={5_000: 150, 9_000: -1})


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        (ReadRange(LOG_START), 100, None),
        (ReadRange(LOG_END), 200, None),
        (ReadRange(LOG_START, LOG_END), 100, 200),
        (ReadRange(Place.offset(120), Place.offset(130)), 120, 130),
        (ReadRange(Place.after_start(10), Place.before_end(10)), 110, 190),
        (ReadRange(Place.before_end(10), LOG_END), 190, 200),
        (ReadRange(Place.before_end(1_000), LOG_END), 100, 200),
        (ReadRange(LOG_START, Place.before_end(1_000)), 100, 100),
        (ReadRange(LOG_START, Place.after_start(1_000)), 100, 200),
        (ReadRange(Place.time(5_000), LOG_END), 150, 200),
        (ReadRange(LOG_START, Place.time(5_000)), 100, 150),
        (ReadRange(LOG_START, Place.time(9_000)), 100, 200),
        (ReadRange(LOG_START, LOG_START), 100, 100),
    ],
)
def test_a_range_inside_the_log_is_complete(asked: ReadRange, start: int, end: int | None) -> None:
    resolved = resolve_range(asked, LOG)
    assert (resolved.start, resolved.end, resolved.position) == (start, end, start)
    assert resolved.missing is None


@pytest.mark.parametrize("asked", [ReadRange(LOG_START, LOG_END), ReadRange(Place.before_end(10), LOG_END)])
def test_a_last_stable_offset_before_the_log_start_leaves_nothing_to_read(asked: ReadRange) -> None:
    """Kafka returns it while a transaction is open whose first batch was deleted in part."""
    resolved = resolve_range(asked, LogOffsets(log_start=112, log_end=107))
    assert (resolved.start, resolved.end, resolved.position) == (112, 112, 112)
    assert resolved.missing is None


def test_offsets_before_the_log_start_are_missing() -> None:
    resolved = resolve_range(ReadRange(Place.offset(20), LOG_END), LOG)
    assert (resolved.start, resolved.end) == (100, 200)
    assert resolved.asked_start == 20
    assert resolved.missing == "offsets 20 to 99 were deleted: the log starts at 100"


def test_a_range_before_the_log_start_misses_only_its_own_offsets() -> None:
    resolved = resolve_range(ReadRange(Place.offset(20), Place.offset(30)), LOG)
    assert (resolved.start, resolved.end) == (100, 100)
    assert resolved.missing == "offsets 20 to 29 were deleted: the log starts at 100"


def test_an_end_after_the_log_end_is_replaced_and_noted() -> None:
    resolved = resolve_range(ReadRange(Place.offset(150), Place.offset(900)), LOG)
    assert (resolved.end, resolved.asked_end) == (200, 900)
    assert resolved.missing == "offsets 200 to 899 do not exist: the log ends at 200"
    assert resolved.notes == ("end offset 900 is after the log end 200",)


def test_wait_for_end_waits_for_an_end_after_the_log_end() -> None:
    resolved = resolve_range(ReadRange(Place.offset(150), Place.offset(900)), LOG, wait_for_end=True)
    assert (resolved.end, resolved.missing, resolved.notes) == (900, None, ())


def test_a_start_after_the_log_end_is_fetched_from_the_log_end() -> None:
    resolved = resolve_range(ReadRange(Place.offset(250)), LOG)
    assert (resolved.position, resolved.start, resolved.end) == (200, 250, None)
    assert resolved.notes == ("start offset 250 is after the log end 200",)
    assert resolved.missing is None


def test_a_range_after_the_log_end_reads_nothing_and_misses_its_offsets() -> None:
    resolved = resolve_range(ReadRange(Place.offset(250), Place.offset(260)), LOG)
    assert resolved.end is not None
    assert resolved.position >= resolved.end
    assert resolved.missing == "offsets 250 to 259 do not exist: the log ends at 200"


def test_a_start_after_the_log_end_with_the_latest_end_misses_nothing() -> None:
    resolved = resolve_range(ReadRange(Place.offset(250), LOG_END), LOG)
    assert resolved.position == resolved.end == 200
    assert resolved.missing is None


def test_a_time_after_the_last_record_reads_nothing_and_has_a_note() -> None:
    resolved = resolve_range(ReadRange(Place.time(9_000), LOG_END), LOG)
    assert resolved.position == resolved.end == 200
    assert resolved.notes == ("no record at or after 1970-01-01T00:00:09.000Z",)
    assert resolved.missing is None


def test_a_time_before_the_first_record_of_a_log_with_deleted_records_has_a_note() -> None:
    found = LogOffsets(100, 200, {5_000: 100, 6_000: 101})
    note = "the records before offset 100 were deleted; the first one is at or after 1970-01-01T00:00:05.000Z"
    assert resolve_range(ReadRange(Place.time(5_000)), found).notes == (note,)
    assert resolve_range(ReadRange(Place.time(6_000)), found).notes == ()
    assert resolve_range(ReadRange(Place.time(5_000)), LogOffsets(0, 200, {5_000: 0})).notes == ()


def test_a_time_range_that_ends_after_the_last_record_has_no_note() -> None:
    resolved = resolve_range(ReadRange(LOG_START, Place.time(9_000)), LOG)
    assert resolved.end == 200
    assert resolved.notes == ()
    assert resolved.missing is None


def test_the_times_of_both_bounds_are_looked_up() -> None:
    assert times_of(ReadRange(Place.time(5), Place.time(6))) == [5, 6]
    assert times_of(ReadRange(Place.offset(5), LOG_END)) == []
    assert times_of(ReadRange(Place.time(5))) == [5]


def test_a_range_prints_in_the_form_of_options() -> None:
    assert str(ReadRange(Place.offset(1), LOG_END)) == "1:end"


def test_a_time_outside_the_calendar_prints_as_its_number() -> None:
    assert format_time(2**62) == str(2**62)
