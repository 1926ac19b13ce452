"""Run a command and write its peak memory in KiB to a file: `launcher.py FILE COMMAND...`; its status is the command's.

A process of its own, and a small one: the kernel counts the memory of whoever forks as the child's peak.
"""

import os
import sys

pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as report:
    report.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
