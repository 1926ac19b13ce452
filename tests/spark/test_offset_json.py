"""The connector's offset JSON and its canonical order (Spark compares the offsets of streams as text)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import ConfigError
from kcli.spark.offset_json import offsets_dict, read_offsets, read_partitions, read_times
from kcli.structs import TopicPartition

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=12)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), st.integers(-2, 2**63 - 1), max_size=12
)


def text_of(offsets: dict[TopicPartition, int]) -> str:
    return json.dumps(offsets_dict(offsets), separators=(",", ":"))


def test_the_json_format_is_that_of_the_connector() -> None:
    # As in a checkpoint of spark-sql-kafka-0-10: offsets/0 has {"topic":{"0":5,"1":5}}.
    offsets = {TopicPartition("b", 0): -2, TopicPartition("a", 1): -1, TopicPartition("a", 0): 23}
    assert text_of(offsets) == '{"a":{"0":23,"1":-1},"b":{"0":-2}}'
    assert text_of({}) == "{}"


def test_partitions_are_ordered_by_number() -> None:
    text = '{"t":{"10":1,"2":1,"0":1},"s":{"0":7}}'
    assert text_of(read_offsets(text)) == '{"s":{"0":7},"t":{"0":1,"2":1,"10":1}}'


@settings(deadline=None, max_examples=40)
@given(OFFSETS, st.randoms())
def test_equal_offsets_have_equal_text(offsets: dict[TopicPartition, int], random: object) -> None:
    mixed = list(offsets.items())
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert text_of(dict(mixed)) == text_of(offsets)


@settings(deadline=None, max_examples=40)
@given(OFFSETS)
def test_offsets_are_parsed_from_their_text_and_from_pysparks_dict(
    offsets: dict[TopicPartition, int],
) -> None:
    assert read_offsets(text_of(offsets)) == offsets
    assert read_offsets(json.loads(json.dumps(offsets_dict(offsets)))) == offsets


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("latest", "'latest' is not valid JSON: Expecting value at column 1"),
        ("[1]", "[1] is not an object"),
        ('{"t":[0,1]}', "[0, 1] is not an object"),
        ('{"t":{"a":1}}', '"a" is not a partition number'),
        ('{"t":{"-1":1}}', '"-1" is not a partition number'),
        ('{"t":{"2147483648":1}}', '"2147483648" is not a partition number'),
        ('{"t":{"0":"5"}}', '"5" for t-0 is not valid'),
        ('{"t":{"0":1.5}}', "1.5 for t-0 is not valid"),
        ('{"t":{"0":true}}', "true for t-0 is not valid"),
        ('{"t":{"0":-3}}', "-3 for t-0 is not valid"),
        ('{"t":{"0":9223372036854775808}}', "9223372036854775808 for t-0 is not valid"),
        ('{"t":{"0":1,"0":2}}', '"0" is given twice'),
        ('{"t":{"0":1},"t":{"1":2}}', '"t" is given twice'),
        ('{"t":{"00":5,"0":7}}', "t-0 is given twice"),
        ('{"t":{"%s":5}}' % ("7" * 5000), f'"{"7" * 59} is not a partition number'),
        ('{"t":{"0":%s}}' % ("7" * 4000), f"{'7' * 60} for t-0 is not valid"),
        ('{"t":{"0":%s}}' % ("7" * 5000), "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_malformed_offsets_are_reported_with_an_example(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_offsets(text, "startingOffsets")
    assert caught.value.message.startswith('startingOffsets must have the form {"orders":{"0":23,"1":-1}')
    assert reason in caught.value.message


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=30))
def test_arbitrary_text_is_a_config_error(text: str) -> None:
    try:
        read_offsets(text)
    except ConfigError:
        return
    assert isinstance(json.loads(text), dict)


def test_times_are_not_negative_and_partitions_are_lists() -> None:
    assert read_times('{"t":{"0":1700000000000}}', "x") == {TopicPartition("t", 0): 1_700_000_000_000}
    with pytest.raises(ConfigError, match="t-0: '-1' is not a valid time"):
        read_times('{"t":{"0":-1}}', "startingOffsetsByTimestamp")
    assert read_partitions('{"t":[1,0],"s":[2]}', "assign") == {
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("s", 2),
    }
    with pytest.raises(ConfigError, match=r'but "7{59} is not a partition number'):
        read_partitions('{"t":["%s"]}' % ("7" * 5000), "assign")
    with pytest.raises(ConfigError, match="topic t has no list"):
        read_partitions('{"t":{"0":1}}', "assign")
