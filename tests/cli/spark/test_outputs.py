"""Output of `kcli spark`: files are written atomically, and a closed pipe is not an error message."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from kcli.cli.spark import session
from kcli.cli.spark.files import check_file, output_file, write_text
from kcli.cli.spark.page import write_page
from kcli.cli.spark.results import show_result
from kcli.errors import ConfigError
from kcli.spark.pipelines.result import Result
from tests.cli.fake import FakeEnvironment, run_kcli

NOBODY = "127.0.0.1:1"


def job(form: str, path: Path) -> Any:
    return SimpleNamespace(env=FakeEnvironment(), output=None, output_file=(form, str(path)))


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_the_old_file_remains_if_the_new_one_cannot_be_written(tmp_path: Path, form: str) -> None:
    path = tmp_path / "result"
    path.write_text("yesterday's")
    with pytest.raises(Exception):  # noqa: B017
        show_result(job(form, path), "spark.sql", Result(["a"], [{"a": _Unwritable()}]))
    assert path.read_text() == "yesterday's"
    assert os.listdir(tmp_path) == ["result"]
    show_result(job(form, path), "spark.sql", Result(["a"], [{"a": 1}]))
    assert path.read_bytes() != b"yesterday's"
    assert os.listdir(tmp_path) == ["result"]


class _Unwritable:
    def __str__(self) -> str:
        raise ValueError("no words for it")


def test_the_old_page_remains_if_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("yesterday's")
    with pytest.raises(AttributeError):
        write_page(str(path), "t", "of", 0, [None])  # type: ignore[list-item]
    assert path.read_text() == "yesterday's"


def test_links_modes_and_pipes_are_preserved(tmp_path: Path) -> None:
    path, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to("file")
    write_text(str(link), "new")
    assert (link.is_symlink(), path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (True, "new", 0o600)
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as reader:  # opened before the writer
        write_text(str(pipe), "half \ud800")
        assert reader.read() == "half \\ud800"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_interrupted_write_leaves_no_partial_file(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), output_file(str(tmp_path / "file")) as file:
        write(file)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words", [("-O", "csv:{}"), ("--report", "{}")])
def test_an_unusable_path_is_reported_before_spark_starts(tmp_path: Path, words: tuple[str, str]) -> None:
    for path, messages in ((tmp_path / "no" / "x.csv", "does not exist"), (tmp_path, "is a folder; use a file")):
        done = run_kcli("spark", "skew", "t", "-b", NOBODY, words[0], words[1].format(path))
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert messages in done.err


def test_an_unwritable_file_is_reported_before_spark_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(ConfigError, match=r"--output: .*/x\.csv is not writable"):
        check_file("--output", str(tmp_path / "x.csv"))


# --- nobody reads


def session_ends_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield lambda: None

    monkeypatch.setattr(session, "session_factory", opened)
    cluster: Any = SimpleNamespace(remote="sc://somewhere")
    with pytest.raises(Exception) as raised, session.spark_session(FakeEnvironment(), None, cluster):  # type: ignore[arg-type]
        raise error
    return raised.value


def test_output_errors_are_not_translated_as_spark_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (BrokenPipeError(32, "Broken pipe"), FileNotFoundError(2, "No such file", "x.csv")):
        assert session_ends_with(error, monkeypatch) is error
    refused = session_ends_with(ConnectionRefusedError(111, "Connection refused"), monkeypatch)
    assert type(refused).__name__ == "SparkFailed"


def wait_for_a_signal() -> None:
    time.sleep(120)
    pytest.fail("no signal arrived within 120 s")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_dropped_interruption_is_repeated(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """Python drops an exception that is raised in a finalizer, and a signal just before a system call does not end its
    wait (`lost`): then the next repetition does.
    """
    monkeypatch.setattr(session, "_REPEAT_S", 0.5)
    repeated, dropped = [], []
    send = signal.pthread_kill

    def repeat(thread: int, number: int) -> None:
        repeated.append(number)
        if len(repeated) > lost:
            send(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", repeat)
    env = FakeEnvironment()

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_a_signal()
        except KeyboardInterrupt:
            dropped.append(1)
        wait_for_a_signal()

    with pytest.raises(KeyboardInterrupt), session.interruptible(env):
        work()
    assert (dropped, env.result(0).err) == ([1], "kcli: interrupted\n")
    assert repeated == [signal.SIGTERM] * (lost + 1)


def test_an_error_after_an_interruption_is_its_consequence() -> None:
    env = FakeEnvironment()

    def work(*, interrupted: bool) -> None:
        if interrupted:
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(KeyboardInterrupt), session.interruptible(env):
        work(interrupted=True)
    assert env.result(0).err == "kcli: interrupted\n"
    with pytest.raises(ConnectionRefusedError), session.interruptible(env):
        work(interrupted=False)


def test_a_closed_pipe_ends_a_command_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield lambda: None

    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(session, "session_factory", opened)
    monkeypatch.setattr("kcli.spark.pipelines.skew.run", lambda *_, **__: _skew())
    monkeypatch.setattr("kcli.cli.spark.results.show_result", broken)
    done = run_kcli("spark", "skew", "t", "-b", NOBODY, "--remote", "sc://somewhere")
    assert (done.status, done.out, done.err) == (0, b"", "")


def _skew() -> Any:
    from kcli.spark.pipelines.skew import Skew

    return Skew(Result([], []), Result([], []), Result([], []))
