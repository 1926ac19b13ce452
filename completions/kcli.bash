# bash completion for kcli, as printed by `kcli completion bash`.
_kcli() {
    local program=${1/#\~/$HOME} kind="" line
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
