"""Lines of Apache's CSV: a number that only Python would read is no offset to go to."""

from __future__ import annotations

import pytest

from kcli.cli.compat.offsets_csv import read_offsets
from kcli.cli.compat.problems import Failed
from kcli.structs import OffsetAndMetadata, TopicPartition


@pytest.mark.parametrize("number", ["1_0", "\u0663", "9223372036854775808", "9" * 5000, "", "1.0", "0x1"])
def test_what_is_no_number_is_no_offset(number: str) -> None:
    with pytest.raises(Failed, match=r"line 2 of f\.csv"):
        read_offsets(f"t,0,1\nt,1,{number}\n", "f.csv", ["g"])


@pytest.mark.parametrize("number", ["0_1", "2147483648"])
def test_what_is_no_number_is_no_partition(number: str) -> None:
    with pytest.raises(Failed, match="is no partition"):
        read_offsets(f"t,{number},1\n", "f.csv", ["g"])


def test_the_largest_offset_and_blanks_around_numbers_are_read() -> None:
    told = read_offsets("t, 0 ,9223372036854775807\n", "f.csv", ["g"])
    assert told == {("g", TopicPartition("t", 0)): OffsetAndMetadata(2**63 - 1)}
