#!/bin/sh
# Runs each comparison with packages of PyPI:   tests/outside/run.sh PYTHON [NAME...]
# A comparison is tests/outside/NAME.py, of which comparison.py has what they share; it prints the versions of the packages it compares with, and ends with 0, with 1 where
# something differs, with 77 and a line that says what is missing, or with 76 where a part alone was left out for that. JOTUN is the program; a name given runs that one alone.
python=$1; shift
here=$(dirname "$0")
[ $# -gt 0 ] || set -- $(cd "$here" && ls ./*.py | sed '/comparison/d; s|^\./||; s|\.py$||')
failed= skipped= parts=
for name in "$@"; do
    printf '\n== %s\n' "$name"
    "$python" "$here/$name.py"
    case $? in
    0)  ;;
    77) skipped="$skipped $name" ;;
    76) parts="$parts $name" ;;
    *)  failed="$failed $name" ;;
    esac
done
[ -z "$skipped" ] || printf '\nskipped:%s\n' "$skipped"
[ -z "$parts" ] || printf '\na part left out of:%s\n' "$parts"
if [ -n "$failed" ]; then printf '\nfailed:%s\n' "$failed"; exit 1; fi
printf '\nall others agree\n'
