"""A supervisor of three small processes, run by test_supervisor as a process without threads."""

from __future__ import annotations

import os
import signal
import sys
import time

from kcli.cli.broker.supervisor import Child, Process, Supervisor
from kcli.errors import ConfigError


def obedient(child: Child) -> int:
    """Tell an address, log two lines, and end with status 0 at a signal."""
    child.signals.wake = lambda: None
    child.tell_address("127.0.0.1:1")
    child.log("one\ntwo")
    child.tell_ready()
    while not child.signals.requested:
        signal.sigtimedwait([], 0.05)
    return 0


def stubborn(child: Child) -> int:
    """Ignore every signal that can be ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.tell_ready()
    while True:
        time.sleep(60)


def failing(child: Child) -> int:
    raise ConfigError("num.partitions: 'x' is not valid")


def main() -> None:
    """Print what the supervisor reports. With an argument, print the pids and wait to be killed."""
    supervisor = Supervisor(
        lambda name, line: print(f"{name}: {line}", flush=True), lambda one: print(one.name, one.end, flush=True)
    )
    good = supervisor.start("good", obedient)
    supervisor.wait(lambda: good.is_ready, 10)
    if len(sys.argv) > 1:
        print("pid", good.pid, flush=True)
        time.sleep(60)
    print("address", good.address, flush=True)
    bad = supervisor.start("bad", failing)
    supervisor.wait(lambda: bad.exit_code is not None, 10)
    deaf = supervisor.start("deaf", stubborn)
    killed = supervisor.start("killed", obedient)
    supervisor.wait(lambda: deaf.is_ready and killed.is_ready, 10)
    os.kill(killed.pid, signal.SIGKILL)
    supervisor.wait(lambda: killed.exit_code is not None, 10)
    os.kill(good.pid, signal.SIGSTOP)
    print("late", supervisor.stop([name for name, one in supervisor.processes.items() if _runs(one)], 1), flush=True)
    supervisor.close()


def _runs(process: Process) -> bool:
    return process.exit_code is None


if __name__ == "__main__":
    main()
