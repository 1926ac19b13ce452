"""The command line's frame: find the command that was meant, import only that, run it, turn errors into a status.

`COMMANDS` is the table of all commands. Typer sees one branch of it in an ordinary run, and all names with their help
lines, but none of their modules, for `--help`. How a command module looks: see `bind`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from kcli.cli import exit_status
from kcli.cli.environment import Environment


class Entry(NamedTuple):
    """A command: the module with its `run`, and its line in the help of the group."""

    module: str
    help: str


GROUPS = {
    "topic": "Create, look at and delete topics.",
    "consume": "Read records: kcli consume [topic] TOPIC.",
    "group": "Look at consumer groups and their lag; remove what is left.",
    "offsets": "Plan, preview, apply and undo moves of committed offsets.",
    "assignor": "Foresee who gets which partitions.",
    "compat": "What scripts for Apache's tools expect.",
    "cluster": "Look at the cluster.",
    "broker": "Run a Kafka broker for tests and demos.",
    "spark": "Topics as files and tables, by Apache Spark.",
}
COMMANDS: dict[tuple[str, ...], Entry] = {
    ("demo",): Entry("demo", "See it work: a broker of its own, data in it, the real commands."),
    ("topic", "list"): Entry("topic_list", "Names of the topics."),
    ("topic", "describe"): Entry("topic_describe", "Partitions, leaders, replicas of topics; offsets, settings."),
    ("topic", "create"): Entry("topic_create", "Create topics."),
    ("topic", "delete"): Entry("topic_delete", "Delete topics with all their records."),
    ("consume", "topic"): Entry("consume_topic", "Read a range of a topic, or follow it."),
    ("produce",): Entry("produce", "Write lines of standard input as records."),
    ("group", "list"): Entry("group_list", "The groups: type, state, coordinator, members."),
    ("group", "describe"): Entry("group_describe", "How far groups have read, their members, their state."),
    ("group", "lag"): Entry("group_lag", "How far behind each group is: a line for each, for scripts and alarms."),
    ("group", "watch"): Entry("group_watch", "Lag, rates and drain time, live."),
    ("group", "explain"): Entry("group_explain", "Why groups are stuck or silent, with evidence and advice."),
    ("group", "wait"): Entry("group_wait", "Wait until a group is empty, stable, or has caught up."),
    ("group", "delete"): Entry("group_delete", "Delete groups and what they have committed."),
    ("group", "remove-members"): Entry("group_remove_members", "Make members leave their group."),
    ("offsets", "show"): Entry("offsets_show", "What groups have committed, and where that is in the log."),
    ("offsets", "export"): Entry("offsets_export", "Save positions of groups as a file."),
    ("offsets", "reset"): Entry("offsets_reset", "Move what groups have committed: by time, to an end, to offsets."),
    ("offsets", "apply"): Entry("offsets_apply", "Carry out a saved plan, or commit saved positions."),
    ("offsets", "copy"): Entry("offsets_copy", "Have one group go on where another one is."),
    ("offsets", "delete"): Entry("offsets_delete", "Have a group forget what it has committed in some topics."),
    ("offsets", "undo"): Entry("offsets_undo", "Bring back what groups had committed before."),
    ("assignor", "show"): Entry("assignor_show", "Who gets what, of members that need not exist."),
    ("assignor", "diff"): Entry("assignor_diff", "What the next rebalance of a group would do."),
    ("compat", "consumer-groups"): Entry("compat_consumer_groups", "kafka-consumer-groups.sh, with true statuses."),
    ("cluster", "describe"): Entry("cluster_describe", "Id, controller and brokers."),
    ("cluster", "api-versions"): Entry("cluster_api_versions", "What each broker speaks, and what kcli makes of it."),
    ("spark", "export"): Entry("spark_export", "Write topics as files: Parquet, JSON, CSV and others."),
    ("spark", "doctor"): Entry("spark_doctor", "Is everything there that Spark needs?"),
    ("spark", "throughput"): Entry("spark_throughput", "Records and bytes over time, at the speed of headers."),
    ("spark", "skew"): Entry("spark_skew", "Hot keys, and how evenly partitions are filled."),
    ("spark", "profile"): Entry("spark_profile", "Nulls, tombstones, sizes, order in time; fields of JSON, drift."),
    ("spark", "gaps"): Entry("spark_gaps", "Offsets without a record, and why."),
    ("spark", "duplicates"): Entry("spark_duplicates", "Records that are there more than once."),
    ("spark", "compare"): Entry("spark_compare", "Whether two topics have the same records."),
    ("spark", "lag-history"): Entry("spark_lag_history", "How far behind groups were, from before anybody watched."),
    ("spark", "group-offsets"): Entry("spark_group_offsets", "What all groups have committed, to keep and to compare."),
    ("spark", "sql"): Entry("spark_sql", "SQL over topics, batches, groups and their lag."),
    ("broker", "run"): Entry("broker_run", "Run a broker in this terminal. Not for production."),
}
SHORT_FOR = {"consume": "topic"}  # `kcli consume orders` is `kcli consume topic orders`

Run = Callable[..., int]


def run_process(argv: Sequence[str]) -> int:
    """Run in the real process: its streams, and nothing left to complain when the interpreter shuts down."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # started with that stream closed
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    env = Environment.of_process()
    status = run(argv, env)
    try:
        env.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            status = report(env, error)
    return status


def run(argv: Sequence[str], env: Environment) -> int:
    """Run one command line and return its exit status. Never raises."""
    try:
        try:
            words, path = find_command(list(argv))
            return _invoke(build_tree(env, path), words, env)
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            return report(env, error)
    except BrokenPipeError:
        return exit_status.DONE
    except KeyboardInterrupt:
        return exit_status.INTERRUPTED


def find_command(argv: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """The words to parse, and the command they name: None for help, or when the command is missing.

    A group with a short form gets its command inserted. A mistyped name is a usage error with a suggestion.
    """
    if not argv or argv[0].startswith("-"):
        return argv, None
    first, rest = argv[0], argv[1:]
    if (first,) in COMMANDS:
        return argv, (first,)
    if first not in GROUPS:
        raise _mistyped(first, [*GROUPS, *(path[0] for path in COMMANDS if len(path) == 1)])
    if not rest or rest[0] in ("--help", "-h"):
        return argv, None
    if (first, rest[0]) in COMMANDS:
        return argv, (first, rest[0])
    if first in SHORT_FOR:
        return [first, SHORT_FOR[first], *rest], (first, SHORT_FOR[first])
    if rest[0].startswith("-"):
        return argv, None
    raise _mistyped(f"{first} {rest[0]}", [" ".join(path) for path in COMMANDS if path[0] == first])


def _mistyped(given: str, known: list[str]) -> typer.BadParameter:
    from difflib import get_close_matches

    close = get_close_matches(given, known, n=1)
    hint = f"did you mean 'kcli {close[0]}'?" if close else f"there are {', '.join(known)}"
    return UsageError(f"no such command: kcli {given}; {hint}")


class UsageError(typer.BadParameter):
    """A usage error whose message is complete as it stands."""

    def format_message(self) -> str:
        return str(self.message)


_SETTINGS = {"help_option_names": ["--help", "-h"]}


def build_tree(env: Environment, only: tuple[str, ...] | None = None, *, whole: bool = False) -> Any:
    """The parser's tree: one branch (`only`), or all names without their modules, or the `whole` with all modules.

    The whole tree is what documentation and shell completion are made from.
    """
    root = _group("kcli", "Kafka from the command line.", _root_options)
    groups: dict[str, typer.Typer] = {}
    for path, entry in COMMANDS.items():
        if only is not None and path != only:
            continue
        parent = root
        if len(path) == 2:
            if path[0] not in groups:
                groups[path[0]] = _group(path[0], GROUPS[path[0]])
                root.add_typer(groups[path[0]])
            parent = groups[path[0]]
        loaded = whole or path == only
        run_command = _load(entry.module) if loaded else None
        callback = bind(run_command, env) if run_command else _placeholder
        kind = getattr(run_command, "command_class", _Command)  # one may read its words in another way than typer
        doc = None if loaded else entry.help
        parent.command(path[-1], cls=kind, help=doc, short_help=entry.help, context_settings=_SETTINGS)(callback)
    return typer.main.get_command(root)


def _group(name: str, help_line: str, callback: Callable[..., None] | None = None) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=help_line,
        callback=callback or (lambda: None),
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )


class _Command(TyperCommand):
    """Usage lines without the braces that typer puts around required arguments: they are shell syntax."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


def _root_options(version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False) -> None:
    pass  # __main__ answers --version; it is declared here for the help


def _placeholder() -> None:
    raise AssertionError("a command that was not loaded")


def _load(module: str) -> Run:
    from importlib import import_module

    loaded: Run = import_module(f"kcli.cli.commands.{module}").run
    return loaded


class _Bundle(NamedTuple):
    """Options that many commands share; a command asks for all of them by one parameter."""

    module: str
    function: str


BUNDLES = {
    "job": _Bundle("kcli.cli.spark.options", "job_options"),
    "cluster": _Bundle("kcli.cli.spark.options", "cluster_options"),
    "common": _Bundle("kcli.cli.options", "common_options"),
}


def bind(run_command: Run, env: Environment) -> Callable[..., int]:
    """Make a command module's `run` something typer can call.

    `run(env, common, ...)` declares its own arguments and options the way typer wants them, after the environment and
    (for networked commands) the common options, and returns an exit status. What its parameters named as in `BUNDLES`
    stand for is added behind its own; an option that it declares itself, by the same parameter name, is its own. So is
    one of a bundle before those of the bundles behind it, whose values it is given.
    """
    from inspect import Parameter, Signature, signature

    from kcli.cli.options import is_verbose

    own = dict(signature(run_command, eval_str=True).parameters)
    own.pop("env")
    asked = {name for name in BUNDLES if own.pop(name, None) is not None}
    parts = _parts(asked)
    taken = set(own)
    for part in parts.values():
        for name in (taken & part.options.keys()) | {"env", *BUNDLES}:
            part.options.pop(name, None)
        taken |= part.options.keys()

    def call(**given: Any) -> int:
        verbose = bool(given.get("verbose")) or is_verbose(env)
        try:
            made: dict[str, Any] = {}
            for name, part in reversed(parts.items()):
                made[name] = part.make(env, **{n: made[n] for n in part.needs}, **{n: given[n] for n in part.options})
            return run_command(env, **{n: made[n] for n in asked}, **{name: given[name] for name in own})
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            return report(env, error, verbose=verbose)

    every = (*own.values(), *(option for part in parts.values() for option in part.options.values()))
    parameters = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in every]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = run_command.__doc__
    return call


def _parts(asked: set[str]) -> "dict[str, _Options]":
    """The bundles that were asked for and those that they need, in the order of the table."""
    wanted, parts = set(asked), {}
    for name, bundle in BUNDLES.items():
        if name in wanted:
            parts[name] = _options_of(bundle)
            wanted |= set(parts[name].needs)
    return parts


class _Options(NamedTuple):
    make: Callable[..., Any]
    options: dict[str, Any]
    needs: list[str]


def _options_of(bundle: _Bundle) -> _Options:
    """A bundle's function, its parameters by name, and which other bundles it wants to be given."""
    from importlib import import_module
    from inspect import signature

    make = getattr(import_module(bundle.module), bundle.function)
    options = dict(signature(make, eval_str=True).parameters)
    return _Options(make, options, [name for name in options if name in BUNDLES])


def _invoke(tree: Any, words: list[str], env: Environment) -> int:
    from contextlib import redirect_stdout

    try:
        with redirect_stdout(env.stdout), tree.make_context("kcli", words) as context:
            return int(tree.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        return exit_status.INTERRUPTED
    except Exception as error:
        # Typer's usage errors have one public subclass, BadParameter; the others share its `format_message` and `ctx`.
        if not hasattr(error, "format_message"):
            raise
        return _report_usage(env, error)


def _report_usage(env: Environment, error: Any) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        env.say(error.ctx.get_help())
        return exit_status.USAGE
    see = f" (see {context.command_path} --help)" if context is not None else ""
    env.say(f"kcli: {_one_line(error.format_message().rstrip('.'))}{see}")
    return exit_status.USAGE


def report(env: Environment, error: BaseException, *, verbose: bool = False) -> int:
    """Say what went wrong in one line, with `verbose` why in a few more, and return the status for it.

    KCLI_DEBUG=1 prints the traceback as well.
    """
    from kcli.errors import KcliError

    if hasattr(error, "format_message"):
        return _report_usage(env, error)
    if env.environ.get("KCLI_DEBUG") == "1":
        import traceback

        env.say("".join(traceback.format_exception(error)).rstrip())
    expected = isinstance(error, KcliError | OSError)
    text = _one_line(_words(error)) or type(error).__name__
    env.say(f"kcli: {text}" if expected else f"kcli: internal error: {type(error).__name__}: {text}")
    cause = error.__cause__ or error.__context__
    while verbose and cause is not None:
        env.say(f"kcli:   because: {type(cause).__name__}: {_one_line(str(cause))}")
        cause = cause.__cause__ or cause.__context__
    return exit_status.status_of(error)


def _words(error: BaseException) -> str:
    """What the error says; of the system's refusals, which come here only from writing results, without the number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    return str(error)


def _one_line(text: str) -> str:
    return " ".join(text.split())
