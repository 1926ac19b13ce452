"""kcli processes without the start of Python: `python forker.py` imports kcli once and forks a process for each line.

A line on standard input is JSON: {"argv": [...], "stdout": path, "stderr": path}. Answered by its process id; when it
has ended, which the parent must wait for, {"wait": pid} is answered by its exit status, negative for a signal.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys


def child(task: dict[str, object]) -> None:
    """Become `kcli argv...`; never returns."""
    from kcli.cli.app import run_process

    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(str(task[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    status = 99
    try:
        status = run_process(list(task["argv"]))  # type: ignore[call-overload]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


# What a member imports, now or later, and who moves offsets.
MODULES = """
cli.app cli.commands.consume_topic cli.offset_spec cli.records.account cli.records.filters
cli.records.member_session cli.records.renderer cli.records.session cli.records.text client.connect client.routing
consumer.consumer consumer.group.consumer_membership consumer.group.coordinator assignors.lookup network.selector
protocol.codec protocol.records.decode
admin.offsets.apply admin.offsets.preview admin.offsets.undo cli.commands.offsets_reset cli.commands.offsets_undo
cli.offsets.carry_out cli.render.show
"""
MESSAGES = """
api_versions consumer_group_heartbeat fetch find_coordinator heartbeat join_group leave_group list_offsets metadata
offset_commit offset_fetch offset_for_leader_epoch sync_group
consumer_group_describe describe_groups describe_log_dirs offset_delete
"""


def main() -> None:
    for name in [*MODULES.split(), *(f"protocol.messages.{name}" for name in MESSAGES.split())]:
        importlib.import_module(f"kcli.{name}")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        if "wait" in task:
            _, status = os.waitpid(task["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if not pid:
            child(task)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
