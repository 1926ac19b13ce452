"""Bulk output: everything arrives, whatever the pipe is like."""

import io
import os
import threading
from pathlib import Path

import pytest

from kcli.cli.consume.read_loop import Sink

DATA = bytes(range(256)) * 4096


def read_all(fd: int, into: list[bytes]) -> threading.Thread:
    def read() -> None:
        with open(fd, "rb") as pipe:
            into.append(pipe.read())

    thread = threading.Thread(target=read)
    thread.start()
    return thread


@pytest.mark.parametrize("blocking", [True, False])
def test_a_pipe_that_takes_a_little_at_a_time_gets_all(blocking):
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    got: list[bytes] = []
    thread = read_all(reading, got)
    with open(writing, "wb") as stream:
        sink = Sink(stream)
        sink.write(DATA)
        sink.write(memoryview(DATA)[:10])
        sink.write(b"")
    thread.join()
    assert got == [DATA + DATA[:10]]


def test_text_written_before_comes_first() -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        stream.write(b"before ")
        Sink(stream).write(b"after")
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"before after"


def test_a_closed_pipe_is_told() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as stream, pytest.raises(BrokenPipeError):
        Sink(stream).write(DATA)


def test_a_stream_without_a_descriptor() -> None:
    stream = io.BytesIO()
    Sink(stream).write(b"abc")
    assert stream.getvalue() == b"abc"


def test_a_closed_pipe_is_noticed_with_nothing_to_write() -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        sink = Sink(stream)
        sink.check()
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            sink.check()


def test_a_file_is_never_closed_by_its_reader(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as stream:
        Sink(stream).check()
    Sink(io.BytesIO()).check()
