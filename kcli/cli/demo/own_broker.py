"""A broker in a process of its own, for the duration of a block or longer."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kcli.errors import KcliError

COMMAND = (
    *(sys.executable, "-m", "kcli", "broker", "run", "--ephemeral", "--port", "0"),
    *("-c", "group.initial.rebalance.delay.ms=0"),  # a group's first member does not wait for more members
)
_STOP_WAIT_S = 10


@contextmanager
def own_broker(*, keep: bool) -> Iterator[tuple[int, str]]:
    """Start a broker; yield its process id and address. It ends with the block, and also when this process is
    terminated.

    With `keep` it continues after a block that ends normally. `KcliError` if it does not start.
    """
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # read only if it does not start; it prints little and tolerates a closed pipe
        text=True,
        start_new_session=True,  # Ctrl-C must reach the demo only, which then stops the broker
    )
    handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    leave = False
    try:
        yield process.pid, _address(process)
        leave = keep
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if not leave:
            _stop(process)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"\S+:\d+", line)
    if found is None:
        assert process.stderr is not None
        lines = process.stderr.read().strip().splitlines()
        raise KcliError(
            f"the broker did not start: {lines[-1].removeprefix('kcli: ') if lines else 'it printed no error'}"
        )
    return found[0]


def _end(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
