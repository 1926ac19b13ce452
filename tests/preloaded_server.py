"""A server that imports kcli once and forks a process for each task from a socket: `preloaded_server.py DESCRIPTOR`.

A task is JSON, {"argv": [...], "environ": {...}, "cwd": path}, with four descriptors: the standard streams of the
process, and a socket for the answers. The answers are the process id and, after its end, the exit status (negative for
a signal) and the peak resident memory in KiB. The process is killed when the other end closes that socket.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn, TextIO

LARGEST = 1 << 20
HIGHEST_DESCRIPTOR = 64

# Packages whose modules most commands of the tests import sooner or later. A process imports everything else itself.
PACKAGES = """
cli cli.consume cli.group cli.offsets cli.output cli.produce cli.topic client network protocol protocol.records
consumer consumer.group producer assignors admin admin.groups admin.offsets broker.handlers broker.log
"""
MESSAGES = """
api_versions consumer_group_describe consumer_group_heartbeat create_topics delete_topics describe_cluster
describe_configs describe_groups describe_log_dirs describe_topic_partitions fetch find_coordinator heartbeat
init_producer_id join_group leave_group list_offsets metadata offset_commit offset_delete offset_fetch
offset_for_leader_epoch produce sync_group
"""


def preload() -> None:
    wanted = [f"kcli.protocol.messages.{name}" for name in MESSAGES.split()]
    for package in PACKAGES.split():
        path = importlib.import_module(f"kcli.{package}").__path__
        wanted += [f"kcli.{package}.{name}" for _, name, is_package in pkgutil.iter_modules(path) if not is_package]
    for name in wanted:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become_kcli(task: dict[str, Any], streams: list[int]) -> NoReturn:
    """Continue as `python -m kcli` does after its imports."""
    from kcli.__main__ import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, HIGHEST_DESCRIPTOR)
    sys.stdin, sys.stdout = _opened(sys.stdin, 0, "r"), _opened(sys.stdout, 1, "w")
    sys.stderr = _opened(sys.stderr, 2, "w", 1)
    os.setsid()
    os.chdir(task["cwd"])
    os.environ.clear()
    os.environ.update(task["environ"])
    sys.argv = [sys.modules["kcli.__main__"].__file__ or "kcli", *task["argv"]]
    status = 1
    try:
        status = main()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def _opened(old: TextIO, number: int, mode: str, buffering: int = -1) -> TextIO:
    """Open a standard stream as Python does: the old object has examined another descriptor (terminal, seekable)."""
    return open(number, mode, buffering, old.encoding, old.errors, "\n", closefd=False)  # type: ignore[return-value]


def supervise(task: dict[str, Any], streams: list[int], answers: socket.socket) -> None:
    """Fork the task, answer its process id and its end, and kill it when the answer socket is closed."""
    pid = os.fork()
    if not pid:
        become_kcli(task, streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    with contextlib.suppress(OSError):
        answers.sendall(b"%d\n" % pid)
    if ended not in select.select([ended, answers], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        answers.sendall(b"%d %d\n" % (os.waitstatus_to_exitcode(status), usage.ru_maxrss))


def main() -> None:
    tasks = socket.socket(fileno=int(sys.argv[1]))
    preload()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while True:
        message, descriptors, _, _ = socket.recv_fds(tasks, LARGEST, 4)
        if not message:
            break
        if os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            _reap(os.WNOHANG)
            continue
        tasks.close()
        *streams, answers = descriptors
        supervise(json.loads(message), streams, socket.socket(fileno=answers))
        os._exit(0)
    _reap(0)


def _reap(how: int) -> None:
    """Reap the child processes that have ended (`os.WNOHANG`), or wait for all of them (0)."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, how)[0]:
            pass


if __name__ == "__main__":
    main()
