"""kcli's tests and benchmarks. They and the processes that they start run without Python's environment variables."""

import os
import sys

# A user's machine has none of Python's variables, while containers often set some: PYTHONUNBUFFERED hides what buffers
# do, and with PYTHONDONTWRITEBYTECODE each process compiles kcli. These two only choose the code and the cache.
for _name in [_name for _name in os.environ if _name.startswith("PYTHON")]:
    if _name not in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
        del os.environ[_name]
sys.dont_write_bytecode = False
