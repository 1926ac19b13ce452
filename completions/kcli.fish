# fish completion for kcli, as printed by `kcli completion fish`.
function __kcli_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (string replace -r '^~(?=/)' $HOME -- $words[1])
    type -q -- $program; or set program kcli
    set -l answer (printf '%s\0' $words | $program __complete fish 2>/dev/null)
    set -l kind (string split ' ' -- $answer[1])
    switch "$kind[1]"
        case files dirs
            set -l before (string sub -l $kind[2] -- $words[-1])
            set -l path (string sub -s (math $kind[2] + 1) -- $words[-1])
            if test "$kind[1]" = files
                printf "$before%s\n" (__fish_complete_path $path)
            else
                printf "$before%s\n" (__fish_complete_directories $path)
            end
        case '*'
            printf '%s\n' $answer[2..]
    end
end
complete -c kcli -f -a '(__kcli_complete)'
