"""`-o/--offset`: every valid form, and one sentence for each error."""

import re
from datetime import datetime, timezone

import pytest

from kcli.cli.consume.options import (
    TopicOptions,
    choose_ranges,
    followed_topics,
    parse_offset_spec,
    parse_offset_specs,
)
from kcli.consumer.read_range import ReadRange
from kcli.errors import ConfigError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import TopicPartition

NOW = 1_700_000_000_123
HOUR = 3_600_000


def utc(*when: int) -> Place:
    return Place.time(int(datetime(*when, tzinfo=timezone.utc).timestamp() * 1000))  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("start", LOG_START, None),
        ("beginning", LOG_START, None),
        ("earliest", LOG_START, None),
        ("oldest", LOG_START, None),
        ("end", LOG_END, None),
        ("latest", LOG_END, None),
        ("newest", LOG_END, None),
        ("oldest:newest", LOG_START, LOG_END),
        ("0", Place.offset(0), None),
        ("42", Place.offset(42), None),
        (" 42 ", Place.offset(42), None),
        ("9223372036854775807", Place.offset(2**63 - 1), None),
        ("+42", Place.after_start(42), None),
        ("-42", Place.before_end(42), None),
        ("-0", Place.before_end(0), None),
        ("100:200", Place.offset(100), Place.offset(200)),
        ("100:100", Place.offset(100), Place.offset(100)),
        ("100:", Place.offset(100), None),
        ("100:end", Place.offset(100), LOG_END),
        (":end", LOG_START, LOG_END),
        (":100", LOG_START, Place.offset(100)),
        (":+100", LOG_START, Place.after_start(100)),
        (":-100", LOG_START, Place.before_end(100)),
        ("start:end", LOG_START, LOG_END),
        ("-100:", Place.before_end(100), None),
        ("-100:end", Place.before_end(100), LOG_END),
        ("-100:-50", Place.before_end(100), Place.before_end(50)),
        ("+5:+10", Place.after_start(5), Place.after_start(10)),
        ("end:", LOG_END, None),
        ("100:@-1h", Place.offset(100), Place.time(NOW - HOUR)),
        (":@-1h", LOG_START, Place.time(NOW - HOUR)),
        ("@:-1h", LOG_START, Place.time(NOW - HOUR)),
    ],
)
def test_offsets_and_ranges(text: str, start: object, end: object) -> None:
    assert parse_offset_spec(text, NOW) == (None, ReadRange(start, end))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("@1700000000", Place.time(1_700_000_000_000)),
        ("@1700000000.25", Place.time(1_700_000_000_250)),
        ("@1700000000123", Place.time(1_700_000_000_123)),
        ("@9999999999", Place.time(9_999_999_999_000)),
        ("@100000000000", Place.time(100_000_000_000)),
        ("@2024-01-31", utc(2024, 1, 31)),
        ("@2024-01-31T10:05", utc(2024, 1, 31, 10, 5)),
        ("@2024-01-31 10:05", utc(2024, 1, 31, 10, 5)),
        ("@2024-01-31t10:05:07z", utc(2024, 1, 31, 10, 5, 7)),
        ("@2024-01-31T10:05:07Z", utc(2024, 1, 31, 10, 5, 7)),
        ("@2024-01-31T10:05:07+02:00", utc(2024, 1, 31, 8, 5, 7)),
        ("@2024-01-31T10:05:07-0330", utc(2024, 1, 31, 13, 35, 7)),
        ("@2024-01-31T23:30+01", utc(2024, 1, 31, 22, 30)),
        ("@2024-01-31T10:05:07.5Z", Place.time(utc(2024, 1, 31, 10, 5, 7).n + 500)),
        ("@2024-01-31T10:05:07.123456789Z", Place.time(utc(2024, 1, 31, 10, 5, 7).n + 123)),
        ("@2024-02-29", utc(2024, 2, 29)),
        ("@now", Place.time(NOW)),
        ("@-1h", Place.time(NOW - HOUR)),
        ("@-1h30m", Place.time(NOW - HOUR - HOUR // 2)),
        ("@-1.5h", Place.time(NOW - HOUR - HOUR // 2)),
        ("@-250ms", Place.time(NOW - 250)),
        ("@-2d", Place.time(NOW - 48 * HOUR)),
        ("@-1w", Place.time(NOW - 7 * 24 * HOUR)),
        ("@-90s", Place.time(NOW - 90_000)),
        ("@-99999w", Place.time(0)),
    ],
)
def test_times(text: str, start: Place) -> None:
    assert parse_offset_spec(text, NOW) == (None, ReadRange(start, None))
    assert parse_offset_spec(text + ":", NOW) == (None, ReadRange(start, None))
    assert parse_offset_spec(text + ":end", NOW) == (None, ReadRange(start, LOG_END))
    assert parse_offset_spec("@1970-01-01:" + text[1:], NOW) == (None, ReadRange(Place.time(0), start))
    assert parse_offset_spec("@1970-01-01:" + text, NOW) == (None, ReadRange(Place.time(0), start))
    if not re.fullmatch("@[0-9.]+", text):  # without "@" a number is an offset
        assert parse_offset_spec(text[1:], NOW) == (None, ReadRange(start, None))
        assert parse_offset_spec("1970-01-01:" + text[1:], NOW) == (None, ReadRange(Place.time(0), start))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("@-2h:-1h", Place.time(NOW - 2 * HOUR), Place.time(NOW - HOUR)),
        ("@-2h:@-1h", Place.time(NOW - 2 * HOUR), Place.time(NOW - HOUR)),
        ("@-1h:now", Place.time(NOW - HOUR), Place.time(NOW)),
        ("@1700000000:1700003600", Place.time(1_700_000_000_000), Place.time(1_700_003_600_000)),
        ("@2024-01-31:2024-02-01", utc(2024, 1, 31), utc(2024, 2, 1)),
        ("@2024-01-31T10:00:2024-02-01T11:30", utc(2024, 1, 31, 10), utc(2024, 2, 1, 11, 30)),
        ("@2024-01-31T10:00:30:2024-02-01", utc(2024, 1, 31, 10, 0, 30), utc(2024, 2, 1)),
        ("@2024-01-31T10:00+02:00:2024-02-01T11:30Z", utc(2024, 1, 31, 8), utc(2024, 2, 1, 11, 30)),
        ("@2024-01-31T10:00:30Z:end", utc(2024, 1, 31, 10, 0, 30), LOG_END),
    ],
)
def test_a_range_of_times_is_split_between_the_times(text: str, start: object, end: object) -> None:
    assert parse_offset_spec(text, NOW) == (None, ReadRange(start, end))  # type: ignore[arg-type]


P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def chosen(*texts: str, named: str = "", exit_at_end: bool = False) -> dict[TopicPartition, str]:
    specs = parse_offset_specs(texts, NOW)
    ranges = choose_ranges([P0, P1, P2], specs, named, exit_at_end=exit_at_end)
    return {tp: str(asked) for tp, asked in ranges.items()}


def test_a_partition_may_have_its_own_range() -> None:
    assert parse_offset_spec("3=-5", NOW) == (3, ReadRange(Place.before_end(5)))
    assert parse_offset_spec("0=@2024-01-31T10:00:2024-02-01", NOW)[0] == 0
    assert chosen("start", "2=100:200,1=end") == {P0: "start", P1: "end", P2: "100:200"}


def test_the_default_is_to_follow_from_the_end() -> None:
    assert chosen() == {P0: "end", P1: "end", P2: "end"}


def test_exit_gives_every_range_an_end() -> None:
    assert chosen(exit_at_end=True) == {P0: "end:end", P1: "end:end", P2: "end:end"}
    assert chosen("start", "1=5:7", exit_at_end=True) == {P0: "start:end", P1: "5:7", P2: "start:end"}


def test_ranges_of_single_partitions_exclude_others_unless_those_are_named() -> None:
    assert chosen("1=5") == {P1: "5"}
    assert chosen("1=5", named="orders") == {P0: "end", P1: "5", P2: "end"}


def test_a_range_of_a_partition_that_is_not_read_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"-o 7=\.\.\.: partition 7 is not read"):
        chosen("7=start")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "use one of start, end"),
        (":", "use one of"),
        ("@", "a valid time is seconds"),
        ("@:", "use one of"),
        ("begin", "use one of"),
        ("1,000", "a range for all partitions is given already"),
        ("stored", "without --group"),
        ("s@1700000000", "kcat's 's@A'"),
        ("e@1700000000", "'@A:B' instead of"),
        ("10-20", "like 100:200"),
        ("10..20", "like 100:200"),
        ("1h", "begins with '-' or '@-', like @-1h"),
        ("9" * 5000, "more than 100 characters"),
        ("@" + "9" * 5000, "more than 100 characters"),
        ("@-" + "9" * 400 + "w", "more than 100 characters"),
        ("9" * 90, "at most 63 bits"),
        ("@1h", "begins with '-', like @-1h"),
        ("@2h30m:1h", "begins with '-', like @-1h"),
        ("@-2h:1h", "begins with '-', like @-1h"),
        ("@+1h", "is in the past"),
        ("@-3600", "needs a unit"),
        ("@1970-01-01:-3600", "needs a unit"),
        ("@yesterday", "a valid time is seconds"),
        ("@1970-01-01:yesterday", "'yesterday' is not a valid time"),
        ("@2024-02-30", "not on the calendar"),
        ("@2023-02-29T10:00", "not on the calendar"),
        ("@2024-01-31T25:00", "not on the calendar"),
        ("@2024-01-31T10:00+99:00", "not on the calendar"),
        ("@1969-12-31", "before 1970"),
        ("@2024-1-1", "a valid time is"),
        ("@2024-01-31T10", "a valid time is"),
        ("@-1y", "a valid time is"),
        ("@20261128:", "'20261128' is not a valid time; write the date as 2026-11-28"),
        ("@2024-01-31:20261128120000", "write the date as 2026-11-28T12:00:00"),
        ("@1700000000000000", "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13"),
        ("@0", "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13"),
        ("200:100", "ends before it starts"),
        ("-5:-10", "ends before it starts"),
        ("+10:+5", "ends before it starts"),
        ("@-1h:-2h", "ends before it starts"),
        ("1:2:3", "use one of"),
        ("9223372036854775808", "at most 63 bits"),
        ("x=5", "'x' is not a valid partition number"),
        ("=5", "'' is not a valid partition number"),
        ("-1=5", "'-1' is not a valid partition number"),
        ("1=", "use one of"),
        ("1=2=3", "use one of"),
        ("start,end", "a range for all partitions is given already"),
        ("1=2,1=3", "partition 1 already has a range"),
        ("١٢", "use one of"),
    ],
)
def test_an_invalid_range_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offset_specs([text], NOW)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "exit_at_end", "followed"),
    [
        ((), False, ["orders"]),
        (("start",), False, ["orders"]),
        (("start", "0=5:9"), False, ["orders"]),
        (("start:end",), False, []),
        ((":9",), False, []),
        (("0=start",), False, []),
        (("start",), True, []),
    ],
)
def test_added_partitions_are_followed_if_all_partitions_of_a_topic_are(
    texts: tuple[str, ...], exit_at_end: bool, followed: list[str]
) -> None:
    specs = parse_offset_specs(texts, NOW)
    assert followed_topics({"orders": None, "bills": [0, 1]}, specs, exit_at_end=exit_at_end) == followed


def test_from_beginning_is_o_start() -> None:
    assert TopicOptions(from_beginning=True).offsets == ["start"]
    assert TopicOptions(offset=["5"]).offsets == ["5"]
    assert TopicOptions().offsets == []
    with pytest.raises(ConfigError, match="--from-beginning cannot be combined with -o 5; it is the same as -o start"):
        TopicOptions(offset=["5"], from_beginning=True).check()
