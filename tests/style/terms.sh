#!/bin/sh
# None of the names and phrases of terms.txt occurs in the sources, the docs, the help or the messages.
# usage: terms.sh ROOT [LIST]
list=${2:-$(cd "$(dirname "$0")" && pwd)/terms.txt}
cd "$1" || exit 1
[ -d src ] || { echo "no src: nothing was looked at"; exit 1; }
places=$(ls -d src docs cmake CMakeLists.txt bench README.md ARCHITECTURE.md CONTRIBUTING.md check quickstart 2> /dev/null)
group() { awk -v want="$1" '/^#/ { next } /^$/ { kind = ""; next } !kind { kind = $0; next } kind == want' "$list"; }
status=0
look() {                                       # look GREP-OPTIONS PATTERN-FILE
    found=$(grep -rnI $1 -f "$2" $places | cut -c1-200)
    [ -z "$found" ] && return
    echo "$found" | sed 's/^/use the standard term (tests\/style\/terms.txt): /'
    status=1
}
names=$(mktemp) phrases=$(mktemp)
trap 'rm -f "$names" "$phrases"' EXIT
group identifiers > "$names"
group phrases > "$phrases"
[ -s "$names" ] && [ -s "$phrases" ] || { echo "$list has no identifiers or no phrases"; exit 1; }
look -Fw "$names"
look -Fi "$phrases"
[ $status = 0 ] && echo "none of $(cat "$names" "$phrases" | wc -l) private names and phrases occurs"
exit $status
