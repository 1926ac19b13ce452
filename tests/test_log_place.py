"""Places in a log: one table of spellings, which every option of every family takes, and their offsets in a log."""

import pickle
import re
from collections.abc import Callable

import pytest

from kcli.cli.consume.options import parse_offset_spec
from kcli.cli.offsets.options import TargetOptions
from kcli.cli.spark.options import end_options, start_options
from kcli.cli.topic.truncate import parse_before
from kcli.errors import ConfigError
from kcli.log_place import LOG_END, LOG_START, Place, ends_before_start, parse_place, parse_place_option, resolve
from kcli.spark.start_end import read_end, read_start

NOW = 1_700_000_000_123
HOUR = 3_600_000
MIDNIGHT = 1_706_659_200_000  # 2024-01-31

PLACES = {
    "start": LOG_START,
    "beginning": LOG_START,
    "earliest": LOG_START,
    "oldest": LOG_START,
    "end": LOG_END,
    "latest": LOG_END,
    "newest": LOG_END,
    "0": Place.offset(0),
    "100": Place.offset(100),
    "9223372036854775807": Place.offset(2**63 - 1),
    "+100": Place.after_start(100),
    "-100": Place.before_end(100),
    "@1700000000": Place.time(1_700_000_000_000),
    "@1700000000.25": Place.time(1_700_000_000_250),
    "@1700000000123": Place.time(1_700_000_000_123),
    "@2024-01-31": Place.time(MIDNIGHT),
    "2024-01-31": Place.time(MIDNIGHT),
    "@2024-01-31T10:00": Place.time(MIDNIGHT + 10 * HOUR),
    "2024-01-31T10:00:00.5+02:00": Place.time(MIDNIGHT + 8 * HOUR + 500),
    "@-1h30m": Place.ago(HOUR * 3 // 2),
    "-1h30m": Place.ago(HOUR * 3 // 2),
    "-1.5d": Place.ago(36 * HOUR),
    "@now": Place.ago(0),
    "now": Place.ago(0),
}


def reset(text: str) -> Place:
    target = TargetOptions(to_offset=text).target(NOW)
    assert isinstance(target, Place)
    return target


def source_place(*, stream: bool | None = None, **options: str) -> Place:
    """Return the only place of these options of the Spark source."""
    given = {name.lower(): value for name, value in options.items()}
    is_start = any(name.startswith("starting") for name in options)
    spec = read_start(given, stream=stream).at if is_start else read_end(given, stream=stream).at
    assert isinstance(spec, Place)
    return spec


def consume(text: str) -> Place:
    return parse_offset_spec(text, NOW)[1].start


FAMILIES: dict[str, Callable[[str], Place]] = {
    "ground": lambda text: parse_place(text, NOW),
    "consume": consume,
    "offsets reset": reset,
    "topic truncate": lambda text: parse_before(text, NOW),
    "startingOffsets": lambda text: source_place(startingOffsets=text),
    "startingOffsets of a batch": lambda text: source_place(stream=False, startingOffsets=text),
    "endingOffsets": lambda text: source_place(endingOffsets=text),
    "--from": lambda text: source_place(**start_options(text, NOW)),
    "--until": lambda text: source_place(**end_options(text, NOW)),
}
SENSELESS = {
    "topic truncate": [LOG_START],
    "startingOffsets of a batch": [LOG_END],
    "endingOffsets": [LOG_START],
    "--until": [LOG_START],
}
LONG_NUMBERS = {"--from", "--until"}  # where a long number without "@" is a time, as it always was


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", PLACES)
def test_every_family_takes_every_spelling(family: str, text: str) -> None:
    if family in LONG_NUMBERS and text.isdigit() and len(text) > 7:
        with pytest.raises(ConfigError, match=f"{family}: '@{text}' is not valid; .* seconds since 1970"):
            FAMILIES[family](text)
    elif PLACES[text] in SENSELESS.get(family, []):
        with pytest.raises(ConfigError, match=r"is not valid|cannot be"):
            FAMILIES[family](text)
    else:
        assert FAMILIES[family](text).at(NOW) == PLACES[text].at(NOW)


@pytest.mark.parametrize("text", PLACES)
def test_a_relative_time_stays_relative_without_a_clock(text: str) -> None:
    assert parse_place(text) == PLACES[text]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "use one of start, end, 100, +100, -100, @TIME"),
        ("begin", "use one of start, end"),
        ("1h", "a time in the past begins with '-' or '@-', like @-1h"),
        ("@1h", "a relative time begins with '-', like @-1h"),
        ("@+1h", "a relative time is in the past"),
        ("@-3600", "needs a unit"),
        ("@", "'' is not a valid time; use seconds (9 or 10 digits)"),
        ("@yesterday", "'yesterday' is not a valid time; use seconds"),
        ("@100", "seconds since 1970 have 9 or 10 digits"),
        ("20261128", None),
        ("@20261128", "write the date as 2026-11-28"),
        ("2024-02-30", "not on the calendar"),
        ("9223372036854775808", "an offset has at most 63 bits"),
        ("9" * 5000, "more than 100 characters"),
        ("100:200", "use one of"),
        ("١٢", "use one of"),
    ],
)
def test_anything_else_is_one_sentence(text: str, reason: str | None) -> None:
    if reason is None:
        assert parse_place(text) == Place.offset(int(text))
        return
    with pytest.raises(ConfigError, match=re.escape(reason)):
        parse_place(text, NOW)
    with pytest.raises(ConfigError, match=re.escape(f"--x: '{text[:40]}' is not valid; ")):
        parse_place_option("--x", text, NOW)


@pytest.mark.parametrize(
    ("place", "at_time", "offset"),
    [
        (LOG_START, None, 10),
        (LOG_END, None, 50),
        (Place.offset(40), None, 40),
        (Place.offset(5), None, 5),
        (Place.offset(99), None, 99),
        (Place.after_start(3), None, 13),
        (Place.after_start(1000), None, 1010),
        (Place.before_end(0), None, 50),
        (Place.before_end(8), None, 42),
        (Place.before_end(1000), None, 10),
        (Place.time(NOW), 30, 30),
        (Place.time(NOW), -1, 50),
        (Place.time(NOW), None, 50),
    ],
)
def test_the_offset_of_a_place(place: Place, at_time: int | None, offset: int) -> None:
    assert resolve(place, 10, 50, at_time) == offset


def test_a_relative_time_has_no_offset() -> None:
    with pytest.raises(ValueError, match="relative time"):
        resolve(Place.ago(1), 10, 50, 30)


@pytest.mark.parametrize(
    ("start", "end", "wrong"),
    [
        ("100", "100", False),
        ("100", "99", True),
        ("-5", "-10", True),
        ("-10", "-5", False),
        ("+10", "+5", True),
        ("-1h", "-2h", True),
        ("-2h", "-1h", False),
        ("@2024-01-31", "@2024-01-30", True),
        ("100", "-5", False),
        ("end", "start", False),
    ],
)
def test_two_places_of_one_kind_have_an_order(start: str, end: str, wrong: bool) -> None:
    assert ends_before_start(parse_place(start), parse_place(end)) is wrong


def test_places_compare_by_kind_and_number_and_print_in_the_form_of_options() -> None:
    assert Place.offset(5) == Place.offset(5)
    assert Place.offset(5) != Place.after_start(5)
    assert len({Place.offset(5), Place.offset(5), Place.time(5)}) == 2
    numbered = (Place.offset(7), Place.after_start(7), Place.before_end(7), Place.time(7), Place.ago(7))
    shown = [str(place) for place in (LOG_START, LOG_END, *numbered)]
    assert shown == ["start", "end", "7", "+7", "-7", "@1970-01-01T00:00:00.007Z", "@-7ms"]
    assert pickle.loads(pickle.dumps(Place.ago(7))) == Place.ago(7)


@pytest.mark.parametrize("kind", [Place.offset, Place.after_start, Place.before_end, Place.time, Place.ago])
def test_a_negative_number_is_an_error(kind: Callable[[int], Place]) -> None:
    with pytest.raises(ValueError, match="-1"):
        kind(-1)


def test_a_relative_time_is_not_before_the_epoch() -> None:
    assert Place.ago(2**60).at(NOW) == Place.time(0)
    assert LOG_END.at(NOW) == LOG_END
