"""File slices in frames: sent by the kernel for real files, read for files in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.network.file_slice import FileSlice
from kcli.network.framing import drop_sent, frame_parts
from tests.limits import Limit, join
from tests.network.harness import BytesFile, MemoryHarness, SocketHarness, SocketPeer


class DiskFile:
    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.fd = os.open(path, os.O_RDONLY)
        self.reads = 0

    def fileno(self) -> int:
        return self.fd

    def read_at(self, position: int, length: int) -> bytes:
        self.reads += 1
        return os.pread(self.fd, length, position)


@pytest.fixture
def harness() -> Iterator[SocketHarness]:
    harness = SocketHarness(half_duplex=True)
    yield harness
    harness.close()


def read_in_background(peer: SocketPeer, frames: int = 1) -> tuple[threading.Thread, list[bytes]]:
    taken: list[bytes] = []
    reader = threading.Thread(target=lambda: taken.extend(peer.take_frame() for _ in range(frames)))
    reader.start()
    return reader, taken


DATA = bytes(range(256)) * 40_000  # ten megabytes


def test_file_records_are_sent_by_the_kernel_between_bytes(harness: SocketHarness, tmp_path: Path) -> None:
    file = DiskFile(tmp_path / "log", DATA)
    peer = harness.connect("1")
    reader, taken = read_in_background(peer)
    harness.selector.send("1", [b"head", FileSlice(file, 1000, 5_000_000), b"middle", FileSlice(file, 7, 3), b"tail"])
    harness.poll_until(lambda: harness.sends, polls=5000)
    join(reader)
    assert taken == [b"head" + DATA[1000:5_001_000] + b"middle" + DATA[7:10] + b"tail"]
    assert file.reads == 0


def test_a_file_in_memory_is_sent_too(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    reader, taken = read_in_background(peer)
    harness.selector.send("1", [b"head", FileSlice(BytesFile(DATA), 5, 1_000_000), FileSlice(BytesFile(DATA), 0, 0)])
    harness.poll_until(lambda: harness.sends, polls=5000)
    join(reader)
    assert taken == [b"head" + DATA[5:1_000_005]]


def test_the_memory_selector_sends_slices() -> None:
    harness = MemoryHarness()
    peer = harness.connect("1")
    harness.selector.send("1", [b"head", FileSlice(BytesFile(DATA), 5, 10)])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == b"head" + DATA[5:15]


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_truncated_file_closes_the_connection(harness: SocketHarness, tmp_path: Path, on_disk: bool) -> None:
    file = DiskFile(tmp_path / "log", b"0123456789") if on_disk else BytesFile(b"0123456789")
    harness.connect("1")
    harness.selector.send("1", [FileSlice(file, 5, 10)])
    harness.poll_until(lambda: harness.disconnected)
    assert "ends before" in harness.disconnected["1"] or "Input/output" in harness.disconnected["1"]
    assert harness.failed == ["1"]


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), counts=st.lists(st.integers(1, 12)))
def test_slices_sent_in_parts_are_complete(sizes: list[int], counts: list[int]) -> None:
    file = BytesFile(bytes(range(200)))
    parts = frame_parts([FileSlice(file, 10 * n, size) if n % 2 else bytes(size) for n, size in enumerate(sizes)])
    whole, taken = b"".join(map(bytes, parts)), b""
    for count in counts:
        count = min(count, len(whole) - len(taken))
        taken += b"".join(map(bytes, parts))[:count]
        drop_sent(parts, count)
        assert taken + b"".join(map(bytes, parts)) == whole


def test_a_poll_bounds_the_bytes_written_to_one_connection(harness: SocketHarness, tmp_path: Path) -> None:
    """A response of 50 MB takes many polls however fast the client reads, so that others are served in between."""
    file = DiskFile(tmp_path / "log", DATA * 5)
    peer = harness.connect("greedy")
    reader, taken = read_in_background(peer)
    harness.selector.send("greedy", [FileSlice(file, 0, len(DATA) * 5)])
    polls, limit = 0, Limit("the end of the frame")
    while not harness.sends:
        limit.check()
        before = harness.selector.channel("greedy")._written_bytes  # type: ignore[union-attr]
        harness.poll(100)
        polls += 1
        channel = harness.selector.channel("greedy")
        assert channel is not None
        assert channel._written_bytes - before <= 2 << 20
    join(reader)
    assert polls >= len(DATA) * 5 >> 21
    assert len(taken[0]) == len(DATA) * 5


def test_a_poll_bounds_the_bytes_read_from_one_connection(harness: SocketHarness) -> None:
    greedy, modest = harness.connect("greedy"), harness.connect("modest")
    sender = threading.Thread(target=lambda: greedy.deliver(bytes(60_000_000)))
    sender.start()
    harness.poll_until(lambda: harness.selector.channel("greedy")._reader.progress)  # type: ignore[union-attr]
    modest.deliver(b"me too")
    harness.poll_until(lambda: ("modest", b"me too") in harness.receives)
    assert not [id for id, _ in harness.receives if id == "greedy"]
    harness.poll_until(lambda: len(harness.receives) == 2, polls=10_000)
    join(sender)


def test_half_duplex_reads_the_next_request_after_the_response_is_written(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    peer.deliver(b"first")
    harness.poll_until(lambda: harness.receives)
    harness.selector.send("1", [bytes(20_000_000)])
    peer.deliver(b"second")
    for _ in range(20):
        harness.poll(1)
    assert harness.receives == [("1", b"first")]
    reader, _ = read_in_background(peer)
    harness.poll_until(lambda: len(harness.receives) == 2, polls=10_000)
    join(reader)
    assert harness.sends == ["1"]


def test_single_bytes_of_a_length_do_not_keep_a_connection_from_expiring() -> None:
    harness = SocketHarness(idle_ms=1000)
    try:
        peer = harness.connect("dawdler")
        for _ in range(3):
            peer.deliver_bytes(b"\0")
            harness.poll(0)
            harness.poll(0)
            harness.advance(400)
        harness.poll(0)
        assert list(harness.disconnected) == ["dawdler"]
    finally:
        harness.close()
