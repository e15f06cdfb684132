#!/bin/sh
# A module includes itself and modules below it, only cli and compat include conf, and no headers include each other in a circle.
# usage: layers.sh ROOT
cd "$1/src" || exit 1
grep -rHn '^ *# *include *"' --include='*.[ch]' --include='*.cu' --include='*.cpp' . | sed 's|^\./||' | awk '
BEGIN {
    split("base:0 tensor:1 text:1 chart:1 conf:1 corpus:2 compat:2 comm:3 data:3 model:4 optim:5 parallel:5 store:5 eval:6 convert:6 logs:6 train:7 generate:7 serve:8 plan:8 report:9 cli:10", rows, " ")
    for (i in rows) { split(rows[i], row, ":"); level[row[1]] = row[2] }
}
function told(why) { print why ": " $0; bad = 1 }
{
    path = $0;  sub(/:.*/, "", path)
    from = path; sub(/\/.*/, "", from)
    what = $0;  sub(/^[^"]*"/, "", what); sub(/".*/, "", what)
    to = what;  sub(/\/.*/, "", to)
    seen++
    if (path ~ /\.h$/) includes[path] = includes[path] " " what
    if (!(from in level)) { told("no module of the tree"); next }
    if (what !~ /\//) { told("an include without its directory"); next }
    if (path !~ /^corpus\/clean\// && from == "corpus" && what ~ /^corpus\/clean\//) told("upward inside corpus")
    if (from == to) next
    if (!(to in level)) told("no module of the tree")
    else if (level[to] >= level[from]) told("upward")
    else if (to == "conf" && from != "cli" && from != "compat") told("only cli and compat include conf")
}
# depth first: a header met again while it is open closes a circle
function visit(header,   list, n, i) {
    if (state[header] == "done") return
    if (state[header] == "open") { print "a circle of includes through " header; bad = 1; return }
    state[header] = "open"
    n = split(includes[header], list, " ")
    for (i = 1; i <= n; i++) visit(list[i])
    state[header] = "done"
}
END {
    for (header in includes) visit(header)
    if (!seen) { print "no includes in src: nothing was looked at"; bad = 1 }
    if (!bad) print seen " includes, all downward"
    exit bad
}'
