"""An interactive shell in a pseudo-terminal, with the command `kcli` on its PATH."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from types import TracebackType

from tests.needs import skip_or_fail

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
LOAD = {
    "bash": "source <(kcli completion bash)",
    "zsh": "source <(kcli completion zsh)",
    "fish": "kcli completion fish | source",
}
_LIMIT_S = 20


def install_command(folder: Path) -> Path:
    """Write a program `kcli`, as pip makes it, into the folder, and return its path."""
    program = folder / "kcli"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom kcli.__main__ import main\nsys.exit(main())\n")
    program.chmod(0o755)
    return program


class ShellTerminal:
    """A shell that has loaded kcli's completion, in a terminal of 100 columns. Use it in a `with` block."""

    def __init__(
        self, shell: str, home: Path, environ: Mapping[str, str] | None = None, load: str | None = None
    ) -> None:
        if shutil.which(shell) is None:
            skip_or_fail(f"there is no `{shell}` on the PATH")
        bin_folder = home / "bin"
        bin_folder.mkdir(exist_ok=True)
        install_command(bin_folder)
        self.output = ""
        self._environ = {
            "HOME": str(home),
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "PS1": "$ ",
            **({"PYTHONPYCACHEPREFIX": prefix} if (prefix := os.environ.get("PYTHONPYCACHEPREFIX")) else {}),
            **(environ or {}),
        }
        self._command, self._home, self._loaded = COMMANDS[shell], home, load or LOAD[shell]

    def __enter__(self) -> ShellTerminal:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(self._home)
                os.execvpe(self._command[0], self._command, self._environ)
            finally:
                os._exit(127)
        ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.run(self._loaded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self.terminal, keys.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first match in the output since the last `forget`."""
        deadline = time.monotonic() + _LIMIT_S
        while (found := re.search(pattern, self.output)) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.output!r}"
            if select.select([self.terminal], [], [], left)[0]:
                self.output += os.read(self.terminal, 1 << 16).decode(errors="replace")
        return found

    def forget(self) -> None:
        """Forget the output so far."""
        self.output = ""

    def run(self, line: str) -> None:
        """Run a command line and wait for its end."""
        self.forget()
        self.send(f"{line}; printf '%s-%s\\n' the end\r")
        self.wait_for(r"the-end\r?\n")

    def completed(self, typed: str) -> list[str]:
        """Type a line and TAB; return the words of the line as the shell then reads them, with variables expanded."""
        self.forget()
        self.send(f"{typed}\t")
        self.send("\x01printf '<%s>' the words \x05 at end\r")
        found = self.wait_for(r"<the><words>((?:<[^<>]*>)*)<at><end>")
        return re.findall(r"<([^<>]*)>", found[1])
