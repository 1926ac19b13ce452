"""The entry point. Answers `kcli --version` itself, before anything else is imported."""

import sys


def main() -> int:
    """Run the command line in `sys.argv` and return its exit status, or rather end the process with it.

    Everything is written and closed by then. What Python would still do is take its modules apart, which costs a fifth
    of a short run; KCLI_DEBUG=1 lets it, for profilers and the like that wait for the end.
    """
    if sys.argv[1:2] in (["--version"], ["-V"]):
        from kcli import __version__

        return _print_line(f"kcli {__version__}")
    import gc
    import os

    gc.set_threshold(50_000)  # importing makes many objects and no garbage
    try:
        from kcli.cli.app import run_process

        status = run_process(sys.argv[1:])
    except KeyboardInterrupt:  # while still importing, or already ending
        status = 130
    if os.environ.get("KCLI_DEBUG") != "1":
        os._exit(status)
    return status


def _print_line(line: str) -> int:
    if sys.stderr is None:  # the process was started with it closed
        return 1
    if sys.stdout is None:
        print("kcli: standard output is closed; redirect it to a file or to /dev/null", file=sys.stderr)
        return 1
    try:
        print(line, flush=True)
    except OSError as error:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more when it ends
        if not isinstance(error, BrokenPipeError):
            print(f"kcli: standard output: {error.strerror}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
