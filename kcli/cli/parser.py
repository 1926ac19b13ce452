"""The command-line parser: everything of kcli that touches typer.

A command declares its arguments and options in the signature of its `run`, with `Argument` and `Option` from here.
`build_tree` makes typer's tree for one command, so that an ordinary run imports that command's module only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple

import typer
from typer import Argument, Context, Option
from typer.core import TyperCommand

from kcli.cli.command_table import COMMANDS, GROUPS, changes_cluster, module_of
from kcli.cli.environment import Environment
from kcli.errors import ConfigError

__all__ = ["Argument", "Context", "Option", "UnparsedCommand", "build_tree", "invoke"]

Run = Callable[..., int]
_SETTINGS = {"help_option_names": ["--help", "-h"]}


class UsageError(Exception):
    """Wrong usage as the parser reports it: one sentence, and the command to ask for help (None: not known)."""

    def __init__(self, message: str, command: str | None = None) -> None:
        super().__init__(message)
        self.command = command


class HelpWanted(Exception):
    """A command that cannot run without arguments got none: its argument is the help text."""


def invoke(tree: Any, words: list[str], env: Environment) -> int:
    """Parse the words, run the command, and return its exit status.

    `UsageError` for wrong usage, `HelpWanted` where help must be shown, `KeyboardInterrupt` when a prompt is aborted.
    """
    from contextlib import redirect_stdout

    try:
        with redirect_stdout(env.stdout), tree.make_context("kcli", words) as context:
            return int(tree.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        # Typer's usage errors have one public subclass, BadParameter; the others share its `format_message` and `ctx`.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            raise HelpWanted(context.get_help()) from None  # type: ignore[union-attr]
        raise UsageError(_usage_message(error), context.command_path if context is not None else None) from None


def _usage_message(error: Any) -> str:
    """Return typer's message in the form of kcli's own: the option first, then the value."""
    message: str = error.format_message().rstrip(".")
    for pattern, replacement in _REWORDED:
        message = re.sub(pattern, replacement, message)
    if message.startswith("unexpected argument: ") and "=" in message:
        message = "unexpected argument (not shown: it may contain a password); write properties as -X key=value"
    message, _, similar = message.partition(" (Possible options: ")
    names = [name for name in similar.rstrip(")").split(", ") if name not in ("", "--help")]
    hint = _output_hint(error, message) or (f"did you mean {' or '.join(names)}?" if names else "")
    return f"{message}; {hint}" if hint else message


def _output_hint(error: Any, message: str) -> str | None:
    """Return how to set the output format, for an option with which other programs set it."""
    option = message.removeprefix("there is no option ")
    known = [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx else []
    if option not in _OUTPUT_ELSEWHERE or "--output" not in known:
        return None
    return f"use --output {_OUTPUT_ELSEWHERE[option]} or -O {_OUTPUT_ELSEWHERE[option]}"


_OUTPUT_ELSEWHERE = {"-o": "FORMAT", **{f"--{form}": form for form in ("json", "jsonl", "csv", "tsv", "table")}}


_REWORDED = (
    (r"^Invalid value for '([^']+)'(?: / '[^']+')*: ", r"\1: "),
    (r"^Missing (?:argument|option) '([^']+)'(?: / '[^']+')*", r"\1 is missing"),
    (r"^Missing command$", "the command is missing"),
    (r"^No such option: (\S+)", r"there is no option \1"),
    (r"^Got unexpected extra argument(?:s|\(s\))? \((.*)\)", r"unexpected argument: \1"),
    (r"^Option '([^']+)' requires an argument$", r"\1 needs a value"),
    (r"^Option '([^']+)' does not take a value$", r"\1 does not take a value"),
    (r"is not a valid float(?: range)?$", "is not a number"),
    (r"is not a valid (?:int|integer)(?: range)?$", "is not a whole number"),
    (r"(\S+) is not in the range (-?\d+)<=x<=(-?\d+)", r"\1 is out of range; use \2 to \3"),
    (r"(\S+) is not in the range x>=(-?\d+)", r"\1 is out of range; use at least \2"),
)


def build_tree(
    env: Environment, report: Callable[..., int], only: tuple[str, ...] | None = None, *, whole: bool = False
) -> Any:
    """Return the parser's tree: one branch (`only`), all names without modules, or the `whole` with all modules.

    `report(env, error, verbose=...)` turns an error of a command into its exit status. The whole tree is the source of
    the manual pages and of shell completion.
    """
    root = _group("kcli", "Read, write and administer Kafka from the command line.", _root_options)
    groups: dict[str, typer.Typer] = {}
    for path, help_line in COMMANDS.items():
        if only is not None and path != only:
            continue
        parent = root
        if len(path) == 2:
            if path[0] not in groups:
                groups[path[0]] = _group(path[0], GROUPS[path[0]])
                root.add_typer(groups[path[0]])
            parent = groups[path[0]]
        loaded = whole or path == only
        run_command = _load(path) if loaded else None
        callback = bind(run_command, env, report, path) if run_command else _placeholder
        kind = getattr(run_command, "command_class", _Command)
        doc = None if loaded else help_line
        parent.command(path[-1], cls=kind, help=doc, short_help=help_line, context_settings=_SETTINGS)(callback)
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
    """A command whose usage line has no braces around required arguments: braces are shell syntax."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


class UnparsedCommand(TyperCommand):
    """A command that gets its words as they are, in `Context.obj`, because another parser reads them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args in (["--help"], ["-h"]):
            return super().parse_args(ctx, ["--help"])
        ctx.obj = tuple(args)
        return super().parse_args(ctx, [])


def _root_options(version: Annotated[bool, Option("--version", "-V", help="Print the version.")] = False) -> None:
    pass  # __main__ answers --version; it is declared here for the help only


def _placeholder() -> None:
    raise AssertionError("a command that was not loaded")


def _load(path: tuple[str, ...]) -> Run:
    from importlib import import_module

    loaded: Run = import_module(module_of(path)).run
    return loaded


class _Bundle(NamedTuple):
    """Options that many commands share; a command asks for all of them with one parameter."""

    module: str
    function: str


BUNDLES = {
    "job": _Bundle("kcli.cli.spark.options", "job_options"),
    "cluster": _Bundle("kcli.cli.spark.options", "cluster_options"),
    "common": _Bundle("kcli.cli.options", "common_options"),
}


def bind(
    run_command: Run, env: Environment, report: Callable[..., int], path: tuple[str, ...] = ()
) -> Callable[..., int]:
    """Return a function that typer can call for a command's `run`.

    `run(env, common, ...)` declares its own arguments and options after the environment and (for networked commands)
    the common options, and returns an exit status. Each parameter named in `BUNDLES` stands for all options of that
    bundle; they come after the command's own options. An option that the command declares itself, with the same
    parameter name, replaces the bundle's, and so does an option of an earlier bundle.

    A command that changes the cluster (`CHANGES`, by the command's `path`) is refused here if the profile is read-only.
    """
    from inspect import signature

    own = dict(signature(run_command, eval_str=True).parameters)
    own.pop("env")
    requested = {name for name in BUNDLES if own.pop(name, None) is not None}
    parts = _parts(requested)
    taken = set(own)
    for part in parts.values():
        for name in (taken & part.options.keys()) | {"env", *BUNDLES}:
            part.options.pop(name, None)
        taken |= part.options.keys()

    def call(**given: Any) -> int:
        verbose = bool(given.get("verbose")) or env.is_verbose
        try:
            _check_text(parameters, given)
            made: dict[str, Any] = {}
            for name, part in reversed(parts.items()):
                made[name] = part.make(env, **{n: made[n] for n in part.needs}, **{n: given[n] for n in part.options})
            if changes_cluster(path, given):
                made["common"].before_change(" ".join(path))
            return run_command(env, **{n: made[n] for n in requested}, **{name: given[name] for name in own})
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            return report(env, error, verbose=verbose)

    every = (*own.values(), *(option for part in parts.values() for option in part.options.values()))
    parameters = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in every]
    for parameter in parameters:
        _show_default_once(parameter)
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = run_command.__doc__
    return call


# Texts of these may be any bytes: contents of records, and what is compared with them or written between them.
_OF_BYTES = {"grep", "key", "header", "delimiter", "key_delimiter", "null", "format"}


def _check_text(parameters: Iterable[Parameter], given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an argument that is not UTF-8, where it is neither a path nor of bytes."""
    for parameter in parameters:
        value = given[parameter.name]
        for text in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(text, str) or text.isascii() or parameter.name in _OF_BYTES:
                continue
            for info in getattr(parameter.annotation, "__metadata__", ()):
                if any(path in (info.metavar or "") for path in ("FILE", "DIR", "PATH", "KEY=VALUE")):
                    break
            else:
                _check_utf8(parameter, text)


def _check_utf8(parameter: Parameter, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        infos = getattr(parameter.annotation, "__metadata__", ())
        declared = [name for info in infos for name in (info.default, *(info.param_decls or ()))]
        names = [name for name in declared if isinstance(name, str) and name.startswith("--")]
        name = names[0] if names else parameter.name.upper().replace("_", "-")
        raise ConfigError(f"{name}: {text!r} is not valid; use UTF-8") from None


def _show_default_once(parameter: Parameter) -> None:
    """Hide typer's own `[default: x]` of an option whose help ends with the default in brackets."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        if (getattr(info, "help", None) or "").endswith("]"):
            info.show_default = False


class _BundleOptions(NamedTuple):
    """A bundle's function, its parameters by name, and the other bundles that it needs."""

    make: Callable[..., Any]
    options: dict[str, Any]
    needs: list[str]


def _parts(requested: set[str]) -> dict[str, _BundleOptions]:
    """Return the requested bundles and those that they need, in the order of the table."""
    wanted, parts = set(requested), {}
    for name, bundle in BUNDLES.items():
        if name in wanted:
            parts[name] = _options_of(bundle)
            wanted |= set(parts[name].needs)
    return parts


def _options_of(bundle: _Bundle) -> _BundleOptions:
    from importlib import import_module
    from inspect import signature

    make = getattr(import_module(bundle.module), bundle.function)
    options = dict(signature(make, eval_str=True).parameters)
    return _BundleOptions(make, options, [name for name in options if name in BUNDLES])
