"""Completion for zsh, by its `_arguments` and `_describe`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.cli.docs.tree import CommandDoc, OptionDoc, groups, short_forms

_FUNCTION = """\
#compdef kcli
# zsh completion for kcli, made by `python -m kcli.cli.docs`; put it into a folder of $fpath as _kcli.
_kcli() {{
    local -a words_here
    local command="${{words[2]}}"
    if ((CURRENT == 2)); then
        words_here=({first})
        _describe command words_here
        return
    fi
    case "$command" in
{groups}
    esac
    case "$command" in
{commands}
    esac
}}
_kcli "$@"
"""
_GROUP = """\
        {group})
            if ((CURRENT == 3)); then
                words_here=({second})
                _describe command words_here
                return
            fi
            case "${{words[3]}}" in
                {names}) command+=" ${{words[3]}}"; shift words; ((CURRENT--)) ;;
                *) command+=" {short}" ;;
            esac
            ;;"""


def completion(commands: Sequence[CommandDoc]) -> str:
    """The whole script."""
    lone = {command.words[0]: command.summary for command in commands if len(command.words) == 1}
    nested = []
    for group in groups():
        second = {command.words[1]: command.summary for command in commands if command.words[0] == group}
        if second:
            short, described = short_forms().get(group, ""), _described(second.items())
            nested.append(_GROUP.format(group=group, names=" | ".join(second), short=short, second=described))
    each = []
    for command in commands:
        options = " ".join(_option(option) for option in command.options)
        each.append(f"        {_quoted(' '.join(command.words))}) shift words; ((CURRENT--)); _arguments {options} ;;")
    first = _described({**lone, **groups()}.items())
    return _FUNCTION.format(first=first, groups="\n".join(nested), commands="\n".join(each))


def _described(items: Iterable[tuple[str, str]]) -> str:
    return " ".join(_quoted(f"{word}:{text}") for word, text in items)


def _option(option: OptionDoc) -> str:
    action = ""
    if option.choices:
        action = f":value:({' '.join(option.choices)})"
    elif option.value is not None:
        action = ":file:_files" if option.is_file else ":value: "
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    star = "*" if option.repeatable else ""
    return " ".join(_quoted(f"{star}{name}[{text}]{action}") for name in option.names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
