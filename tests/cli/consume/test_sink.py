"""The bulk output to files, pipes and streams."""

import io
import os
import threading
from pathlib import Path

import pytest

from kcli.cli.consume.sink import Sink

DATA = bytes(range(256)) * 4096


def read_all(fd: int, into: list[bytes]) -> threading.Thread:
    def read() -> None:
        with open(fd, "rb") as pipe:
            into.append(pipe.read())

    thread = threading.Thread(target=read)
    thread.start()
    return thread


@pytest.mark.parametrize("blocking", [True, False])
def test_a_slow_pipe_gets_all_bytes(blocking):
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


def test_text_written_before_is_flushed_first() -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        stream.write(b"before ")
        Sink(stream).write(b"after")
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"before after"


def test_a_closed_pipe_raises() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as stream, pytest.raises(BrokenPipeError):
        Sink(stream).write(DATA)


def test_a_stream_without_a_descriptor() -> None:
    stream = io.BytesIO()
    Sink(stream).write(b"abc")
    assert stream.getvalue() == b"abc"


def test_check_raises_for_a_closed_pipe() -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as stream:
        sink = Sink(stream)
        sink.check()
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            sink.check()


def test_check_does_not_raise_for_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as stream:
        Sink(stream).check()
    Sink(io.BytesIO()).check()
