# Completion for bash of promptcache and promptcache-bench. It asks the programs themselves: with
# --words they print their commands, or a command's options with the kind of value and the choices.

_promptcache()
{
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} path=() i words line
    words=$("$program" --words 2>/dev/null)
    for ((i = 1; i < COMP_CWORD; i++)); do
        grep -qxF -e "${COMP_WORDS[i]}" <<<"$words" || break
        path+=("${COMP_WORDS[i]}")
        words=$("$program" "${path[@]}" --words 2>/dev/null)
    done

    # bash makes three words of --name=value
    local option=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $current == = ]]; then
        current=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    line=$(grep -e "^$option [A-Z]" <<<"$words")
    COMPREPLY=()
    case $line in
    --*" FILE "* | --*" PATH "*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --*" DIR "*) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    --*" NAME "*) mapfile -t COMPREPLY < <(compgen -W "${line#*NAME }" -- "$current") ;;
    --*" "[A-Z]*) return ;; # a text or a number
    *)
        mapfile -t COMPREPLY < <(compgen -W "$(cut -d' ' -f1 <<<"$words")" -- "$current")
        [[ $current == -* || $words != --* ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    esac
    [[ $line == *" NAME "* ]] || compopt -o filenames 2>/dev/null
}
complete -F _promptcache promptcache promptcache-bench
