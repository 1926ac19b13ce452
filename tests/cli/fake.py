"""A process made of buffers: run one kcli command line in it and inspect its output."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcli.cli import app
from kcli.cli.environment import Environment
from kcli.clock import Clock


class Result(NamedTuple):
    """The exit status and the output of a run."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def document(self) -> Any:
        """The document that `--output json` printed. Without one, the test fails with what stderr says."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(
                f"status {self.status} and no JSON on stdout: {self.out!r}; stderr: {self.err}"
            ) from None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that `--output json` printed. Without success, the test fails with what stderr says."""
        assert self.status == 0, self.err
        items: list[dict[str, Any]] = self.document["items"]
        return items


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


class FakeEnvironment(Environment):
    """An environment of buffers; as a terminal it is 100 columns wide. The state folder is this process's."""

    def __init__(
        self,
        *,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        terminal: bool = False,
        clock: Clock | None = None,
    ) -> None:
        stream = _Terminal if terminal else io.TextIOWrapper
        state = {name: value for name, value in os.environ.items() if name == "XDG_STATE_HOME"}
        self.out_buffer, self.err_buffer = io.BytesIO(), io.BytesIO()
        super().__init__(
            stream(io.BytesIO(stdin), "utf-8"),
            stream(self.out_buffer, "utf-8"),
            stream(self.err_buffer, "utf-8"),
            {"COLUMNS": "100", **state, **(environ or {})},
            clock,
        )

    def result(self, status: int) -> Result:
        self.stdout.flush()
        self.stderr.flush()
        return Result(status, self.out_buffer.getvalue(), self.err_buffer.getvalue().decode())


def run_kcli(
    *argv: str,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
    terminal: bool = False,
    clock: Clock | None = None,
) -> Result:
    """Run `kcli argv...` in this process with buffers as streams. `terminal`: all three streams are terminals."""
    env = FakeEnvironment(stdin=stdin, environ=environ, terminal=terminal, clock=clock)
    return env.result(app.run(argv, env))
