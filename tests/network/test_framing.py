"""Frames in a byte stream, and the memory that a declared length may take."""

from __future__ import annotations

import resource
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import ProtocolError
from kcli.network.framing import FrameReader, ReceiveBudget, drop_sent, frame_parts


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[bytes]:
    """Push `data` through the reader in steps of at most the next of `cuts`, which repeat."""
    frames, at, turn = [], 0, 0
    while at < len(data):
        with reader.space() as space:
            count = min(len(space), cuts[turn % len(cuts)], len(data) - at)
            space[:count] = data[at : at + count]
        at, turn = at + count, turn + 1
        frame = reader.advance(count)
        if frame is not None:
            frames.append(bytes(frame))
    return frames


@given(frames=st.lists(st.binary(min_size=1, max_size=50)), cuts=st.lists(st.integers(1, 60), min_size=1))
def test_frames_do_not_depend_on_how_the_stream_is_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(bytes(p) for frame in frames for p in frame_parts([frame]))
    assert feed(FrameReader(), stream, cuts) == frames


@given(parts=st.lists(st.binary(max_size=9)), counts=st.lists(st.integers(1, 12)))
def test_frames_sent_in_parts_are_complete(parts: list[bytes], counts: list[int]) -> None:
    views = frame_parts(parts)
    whole, taken = b"".join(views), b""
    for count in counts:
        count = min(count, len(whole) - len(taken))
        taken += b"".join(views)[:count]
        drop_sent(views, count)
        assert taken + b"".join(views) == whole
    assert whole == struct.pack(">i", len(whole) - 4) + b"".join(parts)


def test_views_of_wider_items_are_sent_as_bytes() -> None:
    numbers = memoryview(struct.pack("=3I", 1, 2, 3)).cast("I")
    assert b"".join(frame_parts([numbers])) == struct.pack(">i", 12) + bytes(numbers)


def test_a_declared_length_allocates_little_until_bytes_arrive() -> None:
    reader = FrameReader()
    feed(reader, struct.pack(">i", 100_000_000), [4])
    got = 0
    while got < 3_000_000:
        with reader.space() as space:
            have = got + len(space)
            count = min(len(space), 65_536)
        assert have <= max(256 * 1024, 4 * got)
        reader.advance(count)
        got += count


def test_a_peer_that_sent_a_large_frame_gets_a_large_buffer_at_once() -> None:
    reader = FrameReader()
    big = struct.pack(">i", 3_000_000) + bytes(3_000_000)
    assert feed(reader, big, [1 << 30]) == [bytes(3_000_000)]
    feed(reader, big[:4], [4])
    with reader.space() as space:
        assert len(space) == 3_000_000


def test_a_grown_frame_has_its_exact_length() -> None:
    data = bytes(range(256)) * 5000
    (frame,) = feed(FrameReader(), struct.pack(">i", len(data)) + data, [70_001])
    assert frame == data


@pytest.mark.parametrize(
    ("length", "blame"), [(-5, "-5 is not valid"), (0, "0 is not"), (11, "11 bytes is above the limit of 10")]
)
def test_invalid_lengths_are_errors_with_the_length(length: int, blame: str) -> None:
    with pytest.raises(ProtocolError, match=blame):
        feed(FrameReader(max_frame_bytes=10), struct.pack(">i", length), [4])


def test_the_limit_itself_is_allowed() -> None:
    assert feed(FrameReader(max_frame_bytes=10), struct.pack(">i", 10) + bytes(10), [99]) == [bytes(10)]


def test_budget_counts_frames_until_the_last_view_is_freed() -> None:
    budget = ReceiveBudget(10)
    reader = FrameReader(budget=budget)
    frames = []
    for _ in range(2):
        feed_header(reader, 6)
        with reader.space() as space:
            assert len(space) == 6
        frames.append(reader.advance(6))
    assert budget.used_bytes == 12
    feed_header(reader, 6)
    assert reader.space() is None
    view = memoryview(frames.pop())
    frames.clear()
    assert budget.used_bytes == 6
    assert reader.space() is not None
    assert budget.used_bytes == 12
    del view
    reader.discard()
    assert budget.used_bytes == 0


def feed_header(reader: FrameReader, length: int) -> None:
    with reader.space() as space:
        space[:] = struct.pack(">i", length)
    assert reader.advance(4) is None


def test_a_frame_that_does_not_fit_into_memory_is_an_error_with_its_size() -> None:
    reader = FrameReader(2**31 - 1, initial_frame_bytes=2**31 - 1)
    with reader.space() as space:
        space[:] = struct.pack(">i", 2**31 - 1)
    reader.advance(4)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limits[1]))
    try:
        with pytest.raises(ProtocolError, match="not enough memory for a frame of 2147483647 bytes"):
            reader.space()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
