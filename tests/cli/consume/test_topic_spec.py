"""`TOPIC[:p,p..]` and `--partition`."""

import pytest

from kcli.cli.topic_spec import _nearest, parse_topics
from kcli.errors import ConfigError
from kcli.text import parse_partitions


@pytest.mark.parametrize(
    ("texts", "partitions", "wanted"),
    [
        (["orders"], [], {"orders": None}),
        (["orders:0"], [], {"orders": [0]}),
        (["orders:2,0,5-7"], [], {"orders": [0, 2, 5, 6, 7]}),
        (["orders", "bills:1"], ["0,3"], {"orders": [0, 3], "bills": [1]}),
        (["orders"], ["3", "0-1"], {"orders": [0, 1, 3]}),
        (["orders:1", "orders:0"], [], {"orders": [0, 1]}),
        (["orders:1", "orders"], [], {"orders": None}),
        (["orders", "orders:1"], [], {"orders": None}),
        (["a.b_c-D"], [], {"a.b_c-D": None}),
    ],
)
def test_topics(texts, partitions, wanted):
    assert parse_topics(texts, partitions) == wanted


@pytest.mark.parametrize("text", ["", ",", "x", "-1", "1-", "3-1", "1.5", "0-99999999", "1,,2"])
def test_bad_partitions(text):
    with pytest.raises(ConfigError, match="is not a valid list of partitions"):
        parse_partitions(text)


def test_a_topic_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="':1' is not TOPIC"):
        parse_topics([":1"])


def test_names_that_look_alike_are_suggested() -> None:
    names = ["orders", "Orders-v2", "payments", "__consumer_offsets"]
    assert _nearest("order", names).startswith(" (did you mean orders")
    assert _nearest("ORDERS", names).startswith(" (did you mean orders")
    assert _nearest("zzz", names) == ""
