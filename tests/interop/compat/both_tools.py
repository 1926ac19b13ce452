"""One command line run by Apache's group tool and by ours, and the output of both.

The comparison ignores, as the command's help says: the order of lines within a table or between groups, the order of
words in a list that the tool keeps in a hash table, Java's stack traces and the list of all options (ours prints
neither), and trailing blanks in members' lines.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.cli.fake import run_kcli
from tests.java_driver import compiled
from tests.limits import read_line
from tests.real_kafka import TOOL_JVM, VERSION, archived_tool

SOURCE = Path(__file__).parent / "GroupTool.java"
LOGGING = Path(__file__).parent / "group_tool.log4j2.properties"

_TRACE = re.compile(r"\t(at |\.\.\. )|Caused by: | at \[Source")
_THROWN = re.compile(r'(Exception in thread "main" )?[\w.$]+(Exception|Error)(: .*)?')
_UNCAUGHT = re.compile(r'Exception in thread "main" joptsimple\.\w+: ')
_LISTED = re.compile(r"(\[[\w-]+\](?:, \[[\w-]+\])+|(?<= are: ).*|(?<=successfully: ).*|(?<=groups \().*(?=\) was))")


class Said(NamedTuple):
    """The output and the exit status of one run."""

    stdout: str
    stderr: str
    status: int


class GroupTool:
    """Apache's tool, for many runs in one process."""

    def __init__(self, jars: Path) -> None:
        path = f"{jars}/*:{compiled(SOURCE, jars)}"  # the archive of classes begins with the jars
        command = [
            "java",
            *TOOL_JVM,
            *archived_tool(jars, VERSION),
            f"-Dlog4j2.configurationFile={LOGGING}",
            "-cp",
            path,
            "GroupTool",
        ]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self) -> GroupTool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, words: Sequence[str]) -> Said:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(list(words)) + "\n")
        self._process.stdin.flush()
        line = read_line(self._process, f"the end of the tool with {words}")
        assert line, f"the tool ended with {self._process.wait()}"
        answer = json.loads(line)
        return Said(answer["stdout"], answer["stderr"], answer["status"])


def run_ours(words: Sequence[str], **environ: str) -> Said:
    """Run `kcli compat consumer-groups` with these words."""
    done = run_kcli("compat", "consumer-groups", *words, environ=environ)
    return Said(done.text, done.err, done.status)


def normalised(said: Said) -> tuple[list[str], list[str]]:
    """Return the lines of both streams in a fixed order."""
    return sorted(_lines(said.stdout)), sorted(_complaints(said.stderr))


def _lines(text: str) -> list[str]:
    return [_LISTED.sub(_in_order, line.rstrip()) for line in text.splitlines()]


def _complaints(text: str) -> list[str]:
    kept = []
    for line in _lines(text):
        if line.startswith(("Option  ", "(see kcli")):
            if line.startswith("Option  "):
                break  # all options from here on
            continue
        uncaught = _UNCAUGHT.sub("", line)
        if uncaught != line or not (_TRACE.match(line) or _THROWN.fullmatch(line)):
            kept.append(uncaught)
    return [line for line in kept if line]


def _in_order(match: re.Match[str]) -> str:
    return ", ".join(sorted(match[0].split(", ")))
