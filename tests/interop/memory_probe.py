"""`python -m tests.interop.memory_probe FILE kcli-arguments...`: kcli whose garbage can be counted while it runs.

The collector of cycles is off. For each line on standard input a line of JSON is added to FILE: the objects that only
the collector frees, and the memory blocks that are in use after it ran.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from pathlib import Path


def _answer(file: Path) -> None:
    for _ in sys.stdin.buffer:
        garbage = gc.collect()
        with file.open("a") as answers:
            answers.write(json.dumps({"garbage": garbage, "blocks": sys.getallocatedblocks()}) + "\n")


def main(file: Path, arguments: list[str]) -> int:
    gc.disable()
    threading.Thread(target=_answer, args=(file,), daemon=True).start()
    from kcli.cli.app import run_process

    return run_process(arguments)


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), sys.argv[2:]))
