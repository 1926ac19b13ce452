"""Run a command and write its cost to a file: `launcher.py FILE COMMAND...`; the exit status is the command's.

The file gets seconds of wall clock, seconds of CPU (user and system), and peak resident memory in KiB. This is a small
process of its own (`python -I -S`), because the kernel counts the memory of the forking process as the child's peak.
"""

import os
import sys
import time

started = time.monotonic()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
wall = time.monotonic() - started
with open(sys.argv[1], "w") as report:
    print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=report)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
