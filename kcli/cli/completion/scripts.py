"""The scripts of the shells. They hand the line to `kcli __complete` and insert its answer."""

BASH = """\
# bash completion for kcli, as printed by `kcli completion bash`.
_kcli() {
    local program=${1/#\\~/$HOME} kind="" line
    type -P -- "$program" >/dev/null || program=kcli
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <(printf %s "${COMP_LINE:0:COMP_POINT}" |
        KCLI_WORDBREAKS=$COMP_WORDBREAKS "$program" __complete bash 2>/dev/null)
    case $kind in
        files*) compopt -o default 2>/dev/null ;;
        dirs*) compopt -o dirnames 2>/dev/null ;;
        joined) compopt -o nospace 2>/dev/null ;;
    esac
    return 0
}
complete -F _kcli kcli
"""

ZSH = """\
#compdef kcli
# zsh completion for kcli, as printed by `kcli completion zsh`.
_kcli() {
    local program=${(Q)words[1]/#\\~/$HOME} kind
    local -a answer
    whence -p -- $program >/dev/null || program=kcli
    answer=("${(@f)$(print -rN -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" | $program __complete zsh 2>/dev/null)}")
    kind=$answer[1]
    shift answer
    case $kind in
        files*) compset -p ${kind#files }; _files ;;
        dirs*) compset -p ${kind#dirs }; _files -/ ;;
        joined) _describe value answer -S '' ;;
        words) _describe value answer ;;
    esac
}
if [[ $funcstack[1] == _kcli ]]; then
    _kcli "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
    compdef _kcli kcli
fi
"""

FISH = """\
# fish completion for kcli, as printed by `kcli completion fish`.
function __kcli_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (string replace -r '^~(?=/)' $HOME -- $words[1])
    type -q -- $program; or set program kcli
    set -l answer (printf '%s\\0' $words | $program __complete fish 2>/dev/null)
    set -l kind (string split ' ' -- $answer[1])
    switch "$kind[1]"
        case files dirs
            set -l before (string sub -l $kind[2] -- $words[-1])
            set -l path (string sub -s (math $kind[2] + 1) -- $words[-1])
            if test "$kind[1]" = files
                printf "$before%s\\n" (__fish_complete_path $path)
            else
                printf "$before%s\\n" (__fish_complete_directories $path)
            end
        case '*'
            printf '%s\\n' $answer[2..]
    end
end
complete -c kcli -f -a '(__kcli_complete)'
"""

#: The script of each shell, and the name of its file in the folder from which the shell loads it.
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
FILES = {"bash": "kcli.bash", "zsh": "_kcli", "fish": "kcli.fish"}
