"""The entry point. Answers `kcli --version` itself, before anything else is imported."""

import os
import sys

from kcli import __version__


def main() -> int:
    """Run the command line in `sys.argv` and return its exit status, or rather end the process with it.

    Everything is written and closed by then. What Python would still do is take its modules apart, which costs a fifth
    of a short run; KCLI_DEBUG=1 lets it, for profilers and the like that wait for the end.
    """
    if sys.argv[1:2] in (["--version"], ["-V"]):
        return _print_line(f"kcli {__version__}")
    sys.unraisablehook = _repeat_interrupt
    try:
        import gc

        gc.set_threshold(100_000)  # importing makes many objects and no garbage
        if "OPENBLAS_NUM_THREADS" not in os.environ:
            # numpy's import starts a thread per core for products of matrices, which nothing here needs. `putenv`
            # leaves os.environ as it is, so that a process with a copy of it (Spark's) does not get the variable.
            os.putenv("OPENBLAS_NUM_THREADS", "1")
        if sys.argv[1:2] == ["__complete"] and len(sys.argv) == 3:  # a TAB in a shell
            from kcli.cli.completion.answer import main as answer

            status = answer(sys.argv[2])
        else:
            from kcli.cli.app import run_process

            status = run_process(sys.argv[1:])
    except KeyboardInterrupt:  # while still importing, or already ending
        status = 130
    if os.environ.get("KCLI_DEBUG") != "1":
        os._exit(status)
    return status


def _repeat_interrupt(dropped: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that Python has dropped, because it came in a finalizer or in a callback of an import.

    A second one within a second would count as the same request. Other dropped errors are reported as Python does it.
    """
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    import signal
    import threading

    timer = threading.Timer(1.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.daemon = True
    timer.start()


def _print_line(line: str) -> int:
    if sys.stdout is None:  # the process was started with it closed
        _report("standard output is closed; redirect it to a file or to /dev/null")
        return 1
    try:
        print(line, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more when it ends
        if not isinstance(error, BrokenPipeError):
            _report(f"standard output: {error.strerror}")
            return 1
    return 0


def _report(text: str) -> None:
    if sys.stderr is not None:
        print(f"kcli: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
