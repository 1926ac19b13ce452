"""`kcli compat consumer-groups`: Apache's group tool for scripts, with exit statuses that report failures."""

from __future__ import annotations

from contextlib import closing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from kcli import __version__
from kcli.cli import exit_status
from kcli.cli.compat.messages import Failed, InvalidUsage, failure
from kcli.cli.compat.options import documented_options, read_options
from kcli.cli.environment import Environment
from kcli.cli.parser import Context, Option, UnparsedCommand
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.cli.compat.groups import Session
    from kcli.cli.compat.options import Given
    from kcli.cli.options import Common

VERSION = "4.3.1"


def run(env: Environment, context: Context, **_documented: Any) -> int:
    """Run a command line of Apache's kafka-consumer-groups.sh 4.3.1: same options, tables and messages, on the same
    streams.

    It can replace the script; scripts read the same output. Intended differences:

    \b
    Apache's tool                        kcli compat consumer-groups
    exit status 0 even after a failure,  the statuses below; with --apache-exit-codes
      1 for invalid usage                  those of the tool
    --help returns 1                     returns 0
    invalid usage prints all options     prints the message and where to find help,
                                           before it connects to the cluster
    a Java stack trace after errors      none; kcli's own message when brokers are
                                           unreachable or a file cannot be read
    groups, members and rows are in      they are sorted; of several errors the first
      the order of a hash table            one in that order is reported
    a reset commits group by group,      commits nothing before the plan for all
      and stops at the first failure       groups is complete; keeps a snapshot (kcli
                                           offsets undo); commits nothing if an offset
                                           has changed
    a deletion cannot be undone          saves the committed offsets before (kcli
                                           offsets undo)
    a lost response is a time-out        looks in the cluster what was done
    a reset is planned even for groups   refused; use the tools of these groups
      of another type (share, streams)
    a reset deletes the metadata of the  keeps it
      committed offset
    a line of a file without an offset   refused, as are two offsets for one
      means offset 0                       partition
    --to-datetime ignores the text       refused
      after the part that it can parse
    a partition given twice fails        the duplicate is ignored
    of two offsets, times or files the   both are refused
      first is used
    one unreadable partition fails       shown as a row with - for unknown values,
      --describe                           and a line on stderr; status 1
    WARN lines of its log                the same text, without time and class
    --version prints 4.3.1               prints 4.3.1 and kcli's version
    --validate-regex asks RE2/J          asks RE2: pip install 'kcli-kafka[regex]'
    """
    args: tuple[str, ...] = context.obj
    try:
        given = read_options(args, env.report)
        status = _run(env, context, given)
    except InvalidUsage as error:
        env.report(str(error))
        env.report("(see kcli compat consumer-groups --help)")
        return _usage_status("--apache-exit-codes" in args)
    return exit_status.DONE if "apache-exit-codes" in given else status


def _usage_status(apache_statuses: bool) -> int:
    return exit_status.FAILED if apache_statuses else exit_status.USAGE


def _run(env: Environment, context: Context, given: Given) -> int:
    if "help" in given:
        env.stdout.write(context.get_help() + "\n")
        return exit_status.DONE
    if "version" in given:
        env.stdout.write(f"{VERSION} (kcli {__version__})\n")
        return exit_status.DONE
    try:
        if (pattern := given.value("validate-regex")) is not None:
            return _validate(env, pattern)
        return _ask(env, given)
    except Failed as failed:
        env.stdout.write(f"\nError: Executing consumer group command failed due to {failed.message}\n")
        return failed.status


# RE2's wording of an error, before its colon, and that of the brokers' and the tool's library, RE2/J.
_PATTERN_ERRORS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}


def _validate(env: Environment, pattern: str) -> int:
    from kcli.patterns import InvalidRegex, LibraryMissing, compile_regex

    try:
        compile_regex(pattern)
    except LibraryMissing as error:
        env.report(f"kcli: {error}")
        return exit_status.USAGE
    except InvalidRegex as error:
        problem = str(error).partition(": ")[0]
        verdict = f"invalid: {_PATTERN_ERRORS.get(problem, problem)}"
    else:
        verdict = "valid"
    env.stdout.write(f"The regular expression `{pattern}` is {verdict}.\n")
    return exit_status.DONE if verdict == "valid" else exit_status.FAILED


def _ask(env: Environment, given: Given) -> int:
    from kcli.cli.compat.groups import Session
    from kcli.cli.run_plan import OutputFailed

    try:
        common = _common(env, given)
        if given.any_of(("delete", "delete-offsets")) or ("reset-offsets" in given and "execute" in given):
            common.before_change("compat consumer-groups")
        with closing(common.connect()) as client:
            return _action(given)(Session(env, given, client, common.deadline_ms()))
    except OutputFailed:
        raise
    except ConfigError as error:
        raise Failed(str(error), exit_status.USAGE) from error
    except KcliError as error:
        raise failure(error) from error


def _common(env: Environment, given: Given) -> Common:
    """Return the tool's settings as kcli's. Numbers are parsed even if they are not used, as in the tool."""
    from kcli.cli.options import Common, CommonOptions

    config, servers = given.value("command-config"), given.value("bootstrap-server")
    for name in ("to-datetime", "by-duration", "from-file"):
        given.value(name)
    for name in ("to-offset", "shift-by"):
        given.number(name)
    timeout_ms = given.number("timeout")
    timeout_s = 30.0 if timeout_ms is None else max(timeout_ms, 1) / 1000
    return Common.from_options(env, CommonOptions(None, servers, command_config=config, timeout=timeout_s))


def _action(given: Given) -> Callable[[Session], int]:
    if "list" in given:
        from kcli.cli.compat.groups import list_groups_of as action
    elif "describe" in given:
        from kcli.cli.compat.groups import describe as action
    elif "delete" in given:
        from kcli.cli.compat.groups import delete_groups_of as action
    elif "delete-offsets" in given:
        from kcli.cli.compat.groups import delete_offsets_of as action
    else:
        from kcli.cli.compat.offsets import reset as action
    return action


def _signature() -> Signature:
    """Return the tool's options as the parser declares them, for help, manual page and completion."""
    parameters = [Parameter("env", Parameter.KEYWORD_ONLY, annotation=Environment)]
    parameters.append(Parameter("context", Parameter.KEYWORD_ONLY, annotation=Context))
    for option in documented_options():
        declared = Option(f"--{option.name}", help=option.help, metavar=option.metavar or None)
        kind: Any = bool if option.value == "none" else list[str] | None if option.repeatable else str | None
        default = False if option.value == "none" else None
        name = option.name.replace("-", "_")
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared])
        )
    return Signature(parameters)


run.__signature__ = _signature()  # type: ignore[attr-defined]
run.command_class = UnparsedCommand  # type: ignore[attr-defined]
