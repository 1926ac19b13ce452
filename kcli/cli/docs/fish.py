"""Completion for fish: a line for each command and option."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.cli.docs.tree import CommandDoc, OptionDoc, groups, short_forms

_HEAD = """\
# fish completion for kcli, made by `python -m kcli.cli.docs`; put it into ~/.config/fish/completions.
function __kcli_at
    set -l words (commandline -opc)[2..]
    test (count $words) -ge (count $argv); or return 1
    for i in (seq (count $argv))
        test "$words[$i]" = "$argv[$i]"; or return 1
    end
end
function __kcli_just_at
    test (count (commandline -opc)[2..]) -eq (count $argv); and __kcli_at $argv
end
complete -c kcli -f
"""


def completion(commands: Sequence[CommandDoc]) -> str:
    """The whole script."""
    lines = [_word("", group, text) for group, text in groups().items()]
    for command in commands:
        lines.append(_word(" ".join(command.words[:-1]), command.words[-1], command.summary))
        is_short = short_forms().get(command.words[0]) == command.words[-1]
        path = command.words[0] if is_short else " ".join(command.words)
        lines += [_option(path, option) for option in command.options]
    return _HEAD + "".join(f"{line}\n" for line in lines)


def _word(path: str, word: str, text: str) -> str:
    condition = f"__kcli_just_at {path}".strip()
    return f"complete -c kcli -n {_quoted(condition)} -a {_quoted(word)} -d {_quoted(text)}"


def _option(path: str, option: OptionDoc) -> str:
    parts = [f"complete -c kcli -n {_quoted(f'__kcli_at {path}')}"]
    parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        parts.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif option.value is not None:
        parts.append("-r -F" if option.is_file else "-x")
    return " ".join((*parts, f"-d {_quoted(option.help)}"))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
