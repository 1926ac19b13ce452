"""Cutting a stream at its delimiter, whatever the chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.produce.splitter import Splitter


def cut(splitter: Splitter, data: bytes, sizes: list[int]) -> list[bytes]:
    """All pieces of `data`, fed in chunks of these sizes in turn."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces + splitter.finish()


SIZES = st.lists(st.integers(1, 7), min_size=1)


@given(data=st.binary().map(lambda data: data.replace(b"x", b"--")), sizes=SIZES)
def test_chunks_do_not_matter(data: bytes, sizes: list[int]) -> None:
    whole = data.split(b"--")
    assert cut(Splitter(b"--", 1000), data, sizes) == (whole if whole[-1] else whole[:-1])


def test_the_last_piece_needs_no_delimiter_and_an_empty_one_is_none() -> None:
    assert cut(Splitter(b"\n", 100), b"a\n\nb", [100]) == [b"a", b"", b"b"]
    assert cut(Splitter(b"\n", 100), b"a\n\nb\n", [100]) == [b"a", b"", b"b"]
    assert cut(Splitter(b"\n", 100), b"", [100]) == []


@given(sizes=SIZES)
def test_a_piece_that_is_too_long_is_counted_and_the_others_come(sizes: list[int]) -> None:
    splitter = Splitter(b"--", 5)
    assert cut(splitter, b"abc--" + b"x" * 40 + b"--12345--123456--end", sizes) == [b"abc", b"12345", b"end"]
    assert splitter.too_long == 2


@given(sizes=SIZES)
def test_a_last_piece_that_is_too_long_is_counted_too(sizes: list[int]) -> None:
    splitter = Splitter(b"\n", 5)
    assert cut(splitter, b"a\n1234567", sizes) == [b"a"]
    assert splitter.too_long == 1


def test_no_more_is_kept_than_may_be_a_piece() -> None:
    splitter = Splitter(b"\n", 1000)
    for _ in range(100):
        splitter.feed(b"x" * 10_000)
        assert len(splitter._rest) <= 1000
    assert splitter.too_long == 1


def test_without_delimiter_all_is_one_piece() -> None:
    assert cut(Splitter(b"", 100), b"a\nb\n", [1]) == [b"a\nb\n"]
