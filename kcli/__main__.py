"""The entry point. Answers `kcli --version` itself, before anything else is imported."""

import sys


def main() -> int:
    """Run the command line in `sys.argv` and return its exit status."""
    if sys.argv[1:2] in (["--version"], ["-V"]):
        from kcli import __version__

        return _print_line(f"kcli {__version__}")
    try:
        from kcli.cli.app import run_process

        return run_process(sys.argv[1:])
    except KeyboardInterrupt:  # while still importing
        return 130


def _print_line(line: str) -> int:
    try:
        print(line, flush=True)
    except OSError as error:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more when it ends
        if not isinstance(error, BrokenPipeError):
            print(f"kcli: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
