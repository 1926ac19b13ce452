"""`kcli compat consumer-groups`: Apache's group tool, as scripts know it, with exit statuses that tell the truth."""

from __future__ import annotations

from contextlib import closing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from kcli.cli import exit_status
from kcli.cli.compat.options import documented, read_options
from kcli.cli.compat.problems import Failed, Misused
from kcli.cli.environment import Environment
from kcli.cli.parser import Context, Option, UnparsedCommand

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.cli.compat.session import Session
    from kcli.cli.compat.words import Given
    from kcli.cli.options import Common

VERSION = "4.3.1"


def run(env: Environment, context: Context, **_documented: Any) -> int:
    """Apache's kafka-consumer-groups.sh of 4.3.1: its options, tables and messages, on the same streams.

    Put it in the place of the script; what scripts read is the same. Wanted differences:

    \b
    Apache's tool                        kcli compat consumer-groups
    exit status 0 whatever happens,      the statuses below; with --apache-exit-codes
      1 for wrong usage                    those of the tool
    --help ends with 1                   ends with 0
    wrong usage prints all options       prints the message and where to read more,
                                           and finds it before it asks the cluster
    a Java stack trace beside errors     none; and a failure to reach brokers, or to
                                           read a file, is told in kcli's words
    groups, members and rows come in     sorted; of several things wrong the first in
      the order of a hash table            order is told
    a reset commits group by group,      commits nothing before the plan for all
      and ends at the first failure        groups is whole; keeps a snapshot (kcli
                                           offsets undo); nothing if anything moved
    a reset is planned for groups that   refused; their own tools do that
      are of no consumers, but sharers
    a reset forgets the metadata that    keeps it
      was committed
    a file's line without an offset      refused, as are two offsets for one
      means offset 0                       partition
    --to-datetime ignores what it does   refused
      not understand behind the seconds
    a partition given twice fails        is taken once
    of two offsets, times or files the   both are refused
      first is taken
    one unreadable partition fails       is a row with - where it is not known, and a
      --describe                           line on standard error; status 1
    WARN lines by its logging            the same words, without time and class
    --version prints 4.3.1               prints 4.3.1 and kcli's own
    """
    words: tuple[str, ...] = context.obj
    try:
        given = read_options(words, env.say)
        status = _run(env, context, given)
    except Misused as wrong:
        env.say(str(wrong))
        env.say("(see kcli compat consumer-groups --help)")
        return _usage_status("--apache-exit-codes" in words)
    return exit_status.DONE if "apache-exit-codes" in given else status


def _usage_status(theirs: bool) -> int:
    return exit_status.FAILED if theirs else exit_status.USAGE


def _run(env: Environment, context: Context, given: Given) -> int:
    if "help" in given:
        env.stdout.write(context.get_help() + "\n")
        return exit_status.DONE
    if "version" in given:
        from kcli import __version__

        env.stdout.write(f"{VERSION} (kcli {__version__})\n")
        return exit_status.DONE
    try:
        if (pattern := given.value("validate-regex")) is not None:
            return _validate(env, pattern)
        return _ask(env, given)
    except Failed as failed:
        env.stdout.write(f"\nError: Executing consumer group command failed due to {failed.message}\n")
        return failed.status


def _validate(env: Environment, pattern: str) -> int:
    from kcli.cli.compat.re2 import problem_of

    problem = problem_of(pattern)
    verdict = "valid" if problem is None else f"invalid: {problem}"
    env.stdout.write(f"The regular expression `{pattern}` is {verdict}.\n")
    return exit_status.DONE if problem is None else exit_status.FAILED


def _ask(env: Environment, given: Given) -> int:
    from kcli.cli.compat.problems import failure
    from kcli.cli.compat.session import Session
    from kcli.errors import ConfigError, KcliError

    try:
        common = _common(env, given)
        with closing(common.connect()) as client:
            return _action(given)(Session(env, given, client, common.deadline_ms()))
    except ConfigError as wrong:
        raise Failed(str(wrong), exit_status.USAGE) from wrong
    except KcliError as error:
        raise failure(error) from error


def _common(env: Environment, given: Given) -> Common:
    """The tool's settings as kcli's; its numbers are read even where they are not used."""
    from kcli.cli.options import common_options

    config, servers = given.value("command-config"), given.value("bootstrap-server")
    for name in ("to-datetime", "by-duration", "from-file"):
        given.value(name)
    for name in ("to-offset", "shift-by"):
        given.number(name)
    timeout_ms = given.number("timeout")
    timeout_s = 30.0 if timeout_ms is None else max(timeout_ms, 1) / 1000
    return common_options(env, bootstrap_server=servers, command_config=config, timeout=timeout_s)


def _action(given: Given) -> Callable[[Session], int]:
    if "list" in given:
        from kcli.cli.compat.listing import list_them as action
    elif "describe" in given:
        from kcli.cli.compat.describing import describe as action
    elif "delete" in given:
        from kcli.cli.compat.deleting import delete_them as action
    elif "delete-offsets" in given:
        from kcli.cli.compat.deleting import delete_offsets_of as action
    else:
        from kcli.cli.compat.resetting import reset as action
    return action


def _signature() -> Signature:
    """The tool's options as the parser declares them, for help, manual and completion."""
    parameters = [Parameter("env", Parameter.KEYWORD_ONLY, annotation=Environment)]
    parameters.append(Parameter("context", Parameter.KEYWORD_ONLY, annotation=Context))
    for option in documented():
        told = Option(f"--{option.name}", help=option.help, metavar=option.metavar or None)
        kind: Any = bool if option.value == "none" else list[str] | None if option.repeatable else str | None
        default = False if option.value == "none" else None
        name = option.name.replace("-", "_")
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told]))
    return Signature(parameters)


run.__signature__ = _signature()  # type: ignore[attr-defined]
run.command_class = UnparsedCommand  # type: ignore[attr-defined]
