"""Completion for bash: commands, options, and the values of options that have a list of them."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.cli.docs.tree import CommandDoc, OptionDoc, groups, short_forms

_FUNCTION = """\
# bash completion for kcli, made by `python -m kcli.cli.docs`; source it, or put it into bash-completion's folder.
_kcli() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command="" words="" i
    for ((i = 1; i < COMP_CWORD && i < 3; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
            {known}) command+=" ${{COMP_WORDS[i]}}" ;;
            *) break ;;
        esac
    done
{short}
    case "$command:$prev" in
{values}
    esac
    case "$command" in
{words}
    esac
    [[ $cur == -* || $words != -* ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _kcli kcli
"""


def completion(commands: Sequence[CommandDoc]) -> str:
    """The whole script."""
    paths = [*groups(), *(" ".join(command.words) for command in commands)]
    first = list(dict.fromkeys(command.words[0] for command in commands))
    words = [_case(['""'], f'words="{" ".join(first)}"')]
    for group in groups():
        second = " ".join(command.words[1] for command in commands if command.words[0] == group)
        words.append(_case([f'" {group}"'], f'words="{second}"'))
    values = []
    for command in commands:
        path = " ".join(command.words)
        options = " ".join(name for option in command.options for name in option.names)
        words.append(_case([f'" {path}"'], f'words="{options}"'))
        values += [
            _case([f'" {path}:{name}"' for name in option.names], _value(option))
            for option in command.options
            if option.value is not None
        ]
    known = " | ".join(f'" {path}"' for path in dict.fromkeys(paths))
    short = "\n".join(
        f'    [[ $command == " {group}" && $COMP_CWORD -gt 2 ]] && command=" {group} {second}"'
        for group, second in short_forms().items()
    )
    return _FUNCTION.format(short=short, known=known, values="\n".join(values), words="\n".join(words))


def _case(patterns: Sequence[str], action: str) -> str:
    return f"        {' | '.join(patterns)}) {action} ;;"


def _value(option: OptionDoc) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return'
    return 'COMPREPLY=($(compgen -f -- "$cur")); return' if option.is_file else "return"
