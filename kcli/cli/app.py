"""One run of the command line: find the command, import only its module, run it, and turn errors into a status."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence

from kcli import logs
from kcli.cli import exit_status
from kcli.cli.command_table import find_command
from kcli.cli.environment import Environment, open_closed_streams
from kcli.cli.parser import HelpWanted, UsageError, build_tree, invoke
from kcli.errors import KcliError, WakeupError


def run_process(argv: Sequence[str]) -> int:
    """Run in the real process, with its streams, and flush them.

    Nothing runs if standard output is closed: a command must not commit records that nobody sees. A closed stderr only
    loses its messages.
    """
    has_stdout = open_closed_streams()
    env = Environment.of_process()
    if not has_stdout:
        env.report("kcli: standard output is closed; redirect it to a file or to /dev/null")
        return exit_status.FAILED
    status = run(argv, env)
    try:
        env.stdout.flush()
    except OSError as error:
        env.discard_stdout()
        if not isinstance(error, BrokenPipeError):
            status = report(env, error)
    return status


def run(argv: Sequence[str], env: Environment) -> int:
    """Run one command line and return its exit status. Never raises."""
    logs.keep_quiet()
    try:
        try:
            words, path = find_command(list(argv))
            return invoke(build_tree(env, report, path), words, env)
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except HelpWanted as help_text:
            env.report_lines(str(help_text).split("\n"))
            return exit_status.USAGE
        except Exception as error:
            return report(env, error)
    except BrokenPipeError:
        return exit_status.DONE
    except KeyboardInterrupt:
        return exit_status.INTERRUPTED


def report(env: Environment, error: BaseException, *, verbose: bool = False) -> int:
    """Report an error in one line on stderr, with `verbose` also its causes, and return the exit status for it.

    KCLI_DEBUG=1 prints the traceback as well. An error that a signal has caused is not reported.
    """
    try:
        env.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        env.discard_stdout()
    if isinstance(error, UsageError):
        see = f" (see {error.command} --help)" if error.command is not None else ""
        env.report(f"kcli: {_one_line(str(error).rstrip('.'))}{see}")
        return exit_status.USAGE
    if env.environ.get("KCLI_DEBUG") == "1":
        env.report_lines("".join(traceback.format_exception(error)).rstrip().split("\n"))
    expected = isinstance(error, KcliError | OSError | MemoryError)
    if isinstance(error, WakeupError) or (not expected and _is_of_a_signal(error)):
        return exit_status.INTERRUPTED
    text = _message(error) or type(error).__name__
    env.report(f"kcli: {text}" if expected else f"kcli: internal error: {type(error).__name__}: {text}")
    for cause in _causes(error) if verbose else ():
        env.report(f"kcli:   because: {type(cause).__name__}: {_one_line(str(cause))}")
    return exit_status.status_of(error)


def _is_of_a_signal(error: BaseException) -> bool:
    """Return whether a signal caused an error. Python up to 3.11 raises RuntimeError for one while it makes a class."""
    return any(isinstance(cause, KeyboardInterrupt | WakeupError) for cause in _causes(error, hidden=True))


def _causes(error: BaseException, *, hidden: bool = False) -> Iterator[BaseException]:
    """Yield the errors that caused this one, each once: an error that several requests share can be its own cause.

    `raise ... from None` hides a cause, because its text may have a password; `hidden` yields such causes too.
    """
    seen = [error]
    while True:
        last = seen[-1]
        cause = last.__cause__ or (None if last.__suppress_context__ and not hidden else last.__context__)
        if cause is None or any(cause is known for known in seen):
            return
        seen.append(cause)
        yield cause


def _message(error: BaseException) -> str:
    """Return the error's message in one line: that of kcli as it is, because it may have a command to paste.

    An `OSError` that arrives here comes from writing output: leave out its number.
    """
    if isinstance(error, KcliError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory{': ' if str(error) else ''}{error}"
    return _one_line(str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())
