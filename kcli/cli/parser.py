"""The command-line parser: everything of kcli that touches typer.

A command declares its arguments and options in the signature of its `run`, with `Argument` and `Option` from here; a
parameter can stand for a class of options, see `bind`.
`build_tree` makes typer's tree for one command, so that an ordinary run imports that command's module only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer import Argument, Context, Option
from typer.core import TyperCommand

from kcli.cli.command_table import COMMANDS, GROUPS, changes_cluster, module_of
from kcli.cli.environment import Environment
from kcli.errors import ConfigError

__all__ = [
    "Argument",
    "Context",
    "Option",
    "UnparsedCommand",
    "build_tree",
    "given_options",
    "invoke",
    "option_name",
]

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


def bind(
    run_command: Run, env: Environment, report: Callable[..., int], path: tuple[str, ...] = ()
) -> Callable[..., int]:
    """Return a function that typer can call for a command's `run`.

    `run(env, ...)` declares arguments and options as its parameters. A parameter whose type is a class of options, a
    NamedTuple, stands for the options that are its fields. A parameter whose type has the class method
    `from_options(env, ...)`, such as `Common`, stands for those of that method; they come after the command's own. Of
    two options with the same name the first replaces the other, whose class gets its default.

    A command that changes the cluster (`CHANGES`, by the command's `path`) is refused here if the profile is read-only.
    """
    own = _parameters(run_command)
    options = _Options()
    options.add(own)
    parameters = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in options.declared.values()]

    def call(**given: Any) -> int:
        verbose = bool(given.get("verbose")) or env.is_verbose
        try:
            _check_text(parameters, given)
            values = _Values(env, given, options)
            shared = {name: values.of(p) for name, p in own.items() if _is_shared(p)}
            if changes_cluster(path, given):
                values.shared["common"].before_change(" ".join(path))
            return run_command(env, **shared, **{name: values.of(p) for name, p in own.items() if name not in shared})
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            return report(env, error, verbose=verbose)

    for parameter in parameters:
        _show_default_once(parameter)
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = run_command.__doc__
    return call


class _Options:
    """The options that parameters stand for. `declared` has them by name, `parts` the parameters of each class."""

    def __init__(self) -> None:
        self.declared: dict[str, Parameter] = {}
        self.parts: dict[Any, dict[str, Parameter]] = {}

    def add(self, parameters: dict[str, Parameter]) -> None:
        """Add options of these parameters, the shared ones in reverse order after the others.

        Parameters for options that are declared already are removed.
        """
        for name, parameter in list(parameters.items()):
            if _is_class_of_options(parameter):
                self._add_class(parameter.annotation, _fields(parameter.annotation))
            elif not _is_shared(parameter) and self.declared.setdefault(name, parameter) is not parameter:
                del parameters[name]
        for parameter in reversed(parameters.values()):
            if _is_shared(parameter) and parameter.annotation not in self.parts:
                self._add_class(parameter.annotation, _parameters(parameter.annotation.from_options))

    def _add_class(self, cls: Any, parameters: dict[str, Parameter]) -> None:
        self.parts[cls] = parameters
        self.add(parameters)


class _Values:
    """The values of parameters, made of the `given` options. `shared` has the shared ones by their parameter."""

    def __init__(self, env: Environment, given: Mapping[str, Any], options: _Options) -> None:
        self._env = env
        self._given = given
        self._options = options
        self.shared: dict[str, Any] = {}

    def of(self, parameter: Parameter) -> Any:
        """Return the value of this parameter; the options of a class are checked. A shared one is made once."""
        name, cls = parameter.name, parameter.annotation
        if name in self.shared:
            return self.shared[name]
        if _is_shared(parameter):
            self.shared[name] = cls.from_options(self._env, **self._parts(cls))
            return self.shared[name]
        if not _is_class_of_options(parameter):
            return self._given[name]
        value = cls(**self._parts(cls))
        if hasattr(value, "check"):
            value.check()
        return value

    def _parts(self, cls: Any) -> dict[str, Any]:
        return {name: self.of(part) for name, part in self._options.parts[cls].items()}


def _is_shared(parameter: Parameter) -> bool:
    return hasattr(parameter.annotation, "from_options")


def _is_class_of_options(parameter: Parameter) -> bool:
    return hasattr(parameter.annotation, "_field_defaults") and not _is_shared(parameter)


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a function by name, without the environment."""
    parameters = dict(signature(function, eval_str=True).parameters)
    parameters.pop("env")
    return parameters


def _fields(cls: Any) -> dict[str, Parameter]:
    """Return the fields of a class of options by name, as parameters."""
    defaults, hints = cls._field_defaults, get_type_hints(cls, include_extras=True)
    return {
        name: Parameter(
            name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty), annotation=hints[name]
        )
        for name in cls._fields
    }


def option_name(field: str) -> str:
    """Return `--to-offset` for `to_offset`."""
    return "--" + field.replace("_", "-")


def given_options(options: Any) -> dict[str, object]:
    """Return the values of the options of a class that are given, by the names of the options."""
    defaults = options._field_defaults
    return {option_name(n): value for n, value in options._asdict().items() if value not in (defaults.get(n), [])}


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
