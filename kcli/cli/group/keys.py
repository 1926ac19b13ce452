"""Single keys from the terminal while something is shown; the terminal is as it was, however that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.cli.environment import Environment


class Keys:
    """While entered, keys come one by one and are not shown. Ctrl-C stays what it is. Without a terminal none come."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._fd = -1
        self._before: Any = None

    def __repr__(self) -> str:
        return f"<Keys {'of the terminal' if self._before is not None else 'none'}>"

    def __enter__(self) -> Keys:
        if self._env.stdin_is_terminal:
            try:
                import termios
                import tty

                self._fd = self._env.stdin.fileno()
                self._before = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd)
            except (ImportError, OSError, ValueError):  # Windows, or a terminal that is none
                self._before = None
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._before is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            self._before = None

    @property
    def come(self) -> bool:
        """Is there anybody who could press one?"""
        return self._before is not None

    def wait(self, timeout_s: float) -> str:
        """The keys pressed, at most this long waited for; "" for none."""
        import os
        import select

        ready, _, _ = select.select([self._fd], [], [], max(0.0, timeout_s))
        return os.read(self._fd, 64).decode(errors="replace") if ready else ""
