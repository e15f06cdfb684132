# Completion of jotun for bash. The program itself says what there is: jotun --help-words lists the commands,
# and behind the words of a command its options, each with what follows it.
_jotun()
{
    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
    local option= follows= words= options= name kind rest i list
    # bash cuts --name=VALUE into three words
    [[ $word == = ]] && word=
    [[ $last == = ]] && last=${COMP_WORDS[COMP_CWORD - 2]}
    for ((i = COMP_CWORD - 1; i > 1; i--)); do # in whose list of values the cursor is
        if [[ ${COMP_WORDS[i]} == --* ]]; then option=${COMP_WORDS[i]}; break; fi
    done
    list=$("${COMP_WORDS[0]}" --help-words "${COMP_WORDS[@]:1:COMP_CWORD < 3 ? COMP_CWORD - 1 : 2}" 2>/dev/null)
    while read -r name kind rest; do
        if [[ $name == "$option" && ! $follows ]]; then follows=${kind:-nothing} words=$rest; fi
        [[ "$options " == *" $name "* ]] || options+=" $name"
    done <<<"$list"
    [[ $word == --* || $last != "$option" && $follows != paths ]] && follows=
    COMPREPLY=()
    case $follows in
    words) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    value) ;;
    *)
        [[ $follows == path* ]] || COMPREPLY=($(compgen -W "$options" -- "$word"))
        if ((COMP_CWORD > 1)) && [[ ${#COMPREPLY[@]} == 0 || $word != -* && $list == --* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
        fi ;;
    esac
}
complete -F _jotun jotun
