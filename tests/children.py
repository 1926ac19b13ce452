"""Functions run in a fork of the test's process, as a prefork server does with its workers."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_LIMIT_S = 30


def in_child(function: Callable[[], T]) -> T:
    """Return what a function returns in a forked process, or raise its exception. The process has ended then.

    At its end the child collects its garbage, so that finalizers of copied objects run. It runs no `atexit` functions.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(function, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as pipe:
            if not select.select([pipe], [], [], _LIMIT_S)[0]:
                raise AssertionError(f"the child did not return within {_LIMIT_S} s")
            content = pipe.read()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    result, error = pickle.loads(content)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _answer(function: Callable[[], object], writing: int) -> None:
    """Run in the child."""
    try:
        try:
            answer: tuple[object, BaseException | None] = function(), None
        except BaseException as error:
            answer = None, error.with_traceback(None)
        del function
        gc.collect()
        with open(writing, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
    finally:
        os._exit(0)


@contextmanager
def idle_child() -> Iterator[None]:
    """A forked process that does nothing, for the time of the block. It runs when the block begins."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, b"x")
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.read(reading, 1)
        yield
    finally:
        os.close(reading)
        os.close(writing)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
