"""Shell completion for bash, fish and zsh: commands, options, and the values of options that have a list of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.cli.docs.tree import CommandDoc, OptionDoc, groups, short_forms

# Prints the names of the profiles. A table of a profile has the name in brackets, and a sub-table has another dot.
_PROFILES = r"sed -n 's/^ *\[profile\.\([A-Za-z0-9_-]*\)\].*/\1/p' {file} 2>/dev/null"
_PROFILES_OF_SHELL = _PROFILES.format(file='"${XDG_CONFIG_HOME:-$HOME/.config}/kcli/config.toml"')

_BASH_FUNCTION = """\
# bash completion for kcli, made by `python -m kcli.cli.docs`; source it, or copy it to the folder of bash-completion.
_kcli_profiles() {{
    {profiles}
}}
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


def bash_completion(commands: Sequence[CommandDoc]) -> str:
    """Return the whole bash script."""
    paths = [*groups(), *(" ".join(command.words) for command in commands)]
    first = list(dict.fromkeys(command.words[0] for command in commands))
    words = [_bash_case(['""'], f'words="{" ".join(first)}"')]
    for group in groups():
        second = " ".join(command.words[1] for command in commands if command.words[0] == group)
        words.append(_bash_case([f'" {group}"'], f'words="{second}"'))
    values = []
    for command in commands:
        path = " ".join(command.words)
        options = " ".join(name for option in command.options for name in option.names)
        words.append(_bash_case([f'" {path}"'], f'words="{options}"'))
        values += [
            _bash_case([f'" {path}:{name}"' for name in option.names], _bash_value(option))
            for option in command.options
            if option.value is not None
        ]
    known = " | ".join(f'" {path}"' for path in dict.fromkeys(paths))
    short = "\n".join(
        f'    [[ $command == " {group}" && $COMP_CWORD -gt 2 ]] && command=" {group} {second}"'
        for group, second in short_forms().items()
    )
    return _BASH_FUNCTION.format(
        profiles=_PROFILES_OF_SHELL, short=short, known=known, values="\n".join(values), words="\n".join(words)
    )


def _bash_case(patterns: Sequence[str], action: str) -> str:
    return f"        {' | '.join(patterns)}) {action} ;;"


def _bash_value(option: OptionDoc) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur")); return'
    if option.is_profile:
        return 'COMPREPLY=($(compgen -W "$(_kcli_profiles)" -- "$cur")); return'
    return 'COMPREPLY=($(compgen -f -- "$cur")); return' if option.is_file else "return"


_FISH_PROFILES = _PROFILES.format(file="$folder/kcli/config.toml")
_FISH_HEAD = f"""\
# fish completion for kcli, made by `python -m kcli.cli.docs`; copy it to ~/.config/fish/completions.
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
function __kcli_profiles
    set -l folder $XDG_CONFIG_HOME
    test -n "$folder"; or set folder ~/.config
    {_FISH_PROFILES}
end
complete -c kcli -f
"""


def fish_completion(commands: Sequence[CommandDoc]) -> str:
    """Return the whole fish script: a line per command and option."""
    lines = [_fish_word("", group, text) for group, text in groups().items()]
    for command in commands:
        lines.append(_fish_word(" ".join(command.words[:-1]), command.words[-1], command.summary))
        is_short = short_forms().get(command.words[0]) == command.words[-1]
        path = command.words[0] if is_short else " ".join(command.words)
        lines += [_fish_option(path, option) for option in command.options]
    return _FISH_HEAD + "".join(f"{line}\n" for line in lines)


def _fish_word(path: str, word: str, text: str) -> str:
    condition = f"__kcli_just_at {path}".strip()
    return f"complete -c kcli -n {_fish_quoted(condition)} -a {_fish_quoted(word)} -d {_fish_quoted(text)}"


def _fish_option(path: str, option: OptionDoc) -> str:
    parts = [f"complete -c kcli -n {_fish_quoted(f'__kcli_at {path}')}"]
    parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.choices:
        parts.append(f"-x -a {_fish_quoted(' '.join(option.choices))}")
    elif option.is_profile:
        parts.append("-x -a '(__kcli_profiles)'")
    elif option.value is not None:
        parts.append("-r -F" if option.is_file else "-x")
    return " ".join((*parts, f"-d {_fish_quoted(option.help)}"))


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_ZSH_FUNCTION = """\
#compdef kcli
# zsh completion for kcli, made by `python -m kcli.cli.docs`; copy it to a folder of $fpath as _kcli.
_kcli_profiles() {{
    local -a profiles=(${{(f)"$({profiles})"}})
    compadd -a profiles
}}
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
_ZSH_GROUP = """\
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


def zsh_completion(commands: Sequence[CommandDoc]) -> str:
    """Return the whole zsh script, which uses `_arguments` and `_describe`."""
    lone = {command.words[0]: command.summary for command in commands if len(command.words) == 1}
    nested = []
    for group in groups():
        second = {command.words[1]: command.summary for command in commands if command.words[0] == group}
        if second:
            short, described = short_forms().get(group, ""), _zsh_described(second.items())
            nested.append(_ZSH_GROUP.format(group=group, names=" | ".join(second), short=short, second=described))
    each = []
    for command in commands:
        options = " ".join(_zsh_option(option) for option in command.options)
        each.append(
            f"        {_zsh_quoted(' '.join(command.words))}) shift words; ((CURRENT--)); _arguments {options} ;;"
        )
    first = _zsh_described({**lone, **groups()}.items())
    return _ZSH_FUNCTION.format(
        profiles=_PROFILES_OF_SHELL, first=first, groups="\n".join(nested), commands="\n".join(each)
    )


def _zsh_described(items: Iterable[tuple[str, str]]) -> str:
    return " ".join(_zsh_quoted(f"{word}:{text}") for word, text in items)


def _zsh_option(option: OptionDoc) -> str:
    action = ""
    if option.choices:
        action = f":value:({' '.join(option.choices)})"
    elif option.is_profile:
        action = ":profile:_kcli_profiles"
    elif option.value is not None:
        action = ":file:_files" if option.is_file else ":value: "
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    star = "*" if option.repeatable else ""
    return " ".join(_zsh_quoted(f"{star}{name}[{text}]{action}") for name in option.names)


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
