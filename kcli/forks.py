"""Forks of this process: the child has copies of its parent's clients, and must not use them. Ground.

A copy has the parent's connections, producer ids and group members. So an object that talks to brokers remembers in
`made_in` the process that made it: in a child, its methods raise ForkedClient, and its `close` does nothing. A child
closes its copies of the descriptors right after the fork (`call_in_child`). This sends nothing to a broker, and
without it a connection that the parent closes would stay open until the child ends.

Python calls these functions after each fork of Python code: `os.fork`, multiprocessing, gunicorn. A server written in C
may fork without them, as uWSGI does by default, so `notice` looks at the process id before the network is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import ref

from kcli.errors import ForkedClient

#: The id of this process. A comparison with it costs less than a call of the system.
pid = os.getpid()


_methods: dict[ref[object], Callable[[Any], object]] = {}
"""By object: what to call in a child. The key is a reference, because a `WeakMethod` may print an error at exit."""


def call_in_child(method: Callable[[], object]) -> None:
    """Call a method in each process that is forked from this one, as long as its object exists.

    It closes the child's copies without any effect on the parent, and takes no lock: another thread may hold it.
    """
    assert isinstance(method, MethodType)
    _methods[ref(method.__self__, _methods.pop)] = method.__func__


def require_own_process(made_in: int) -> None:
    """Raise ForkedClient if the object that process `made_in` has made is used in another process."""
    if made_in != pid:
        text = f"the client was made in process {made_in}, and cannot be used in its fork {pid}"
        raise ForkedClient(f"{text}; make a new one in this process", made_in=made_in, used_in=pid)


def notice() -> None:
    """Notice a fork of which Python was not told."""
    if os.getpid() != pid:
        _forked()


def _forked() -> None:
    global pid
    pid = os.getpid()
    for reference, method in list(_methods.items()):
        if (owner := reference()) is not None:
            method(owner)
    _methods.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
