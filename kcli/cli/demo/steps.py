"""Steps of the demo: commands of kcli, printed as a user would type them, and run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping


class Step(NamedTuple):
    """A command of the demo: `words` follow `kcli`; `input` is piped into it by an `echo` that is printed."""

    comment: str
    words: tuple[str, ...]
    input: str | None = None

    @property
    def shown(self) -> str:
        """The command line as a user would type it."""
        import shlex

        command = shlex.join(("kcli", *self.words))
        return command if self.input is None else f"echo {shlex.quote(self.input)} | {command}"


def run_step(env: Environment, variables: Mapping[str, str], step: Step) -> int:
    """Print a step's comment and command, and run it with all its output on standard output; return its exit status."""
    from io import BytesIO, TextIOWrapper

    from kcli.cli.app import run as run_kcli

    env.stdout.write(f"\n# {step.comment}\n$ {step.shown}\n")
    env.stdout.flush()
    stdin = TextIOWrapper(BytesIO(b"" if step.input is None else f"{step.input}\n".encode()), "utf-8")
    environ = {name: value for name, value in env.environ.items() if not name.startswith("KCLI_")}
    environ |= variables
    inner = Environment(stdin, env.stdout, env.stdout, environ, env.clock)
    status = run_kcli(step.words, inner)
    return exit_status.INTERRUPTED if inner.interrupted else status
