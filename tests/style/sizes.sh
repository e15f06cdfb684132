#!/bin/sh
# Prints a table of the rooms of src: files, lines, lines of the median, ninth-decile and longest file and function. These describe the
# code and limit nothing: a file is a chapter about one noun. Fails only for a function above 80 lines whose comment does not say why:
#   /* long: ... */
# A function's braces stand alone at the left margin, which is all that is needed to see where it begins and ends.
# usage: sizes.sh ROOT
cd "$1" || exit 1
find src tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' -o -name '*.def' \) 2> /dev/null | sort | xargs awk '
# how often a number occurs in a room, and the number below which a part of them lie
function add(room, kind, n) { count[room, kind]++; seen[room, kind, n]++; if (n > most[room, kind]) most[room, kind] = n }
function quantile(room, kind, part,    wanted, n) {
    if (!count[room, kind]) return "-"
    wanted = int((count[room, kind] - 1) * part) + 1
    for (n = 0; (wanted -= seen[room, kind, n]) > 0; n++);
    return n
}
function row(room) {
    printf "%-10s %5d %7d %9s %5s %5s %11d %7s %5s %5s\n", room, files[room], lines[room], quantile(room, "file", 0.5), quantile(room, "file", 0.9),
        quantile(room, "file", 1), count[room, "function"], quantile(room, "function", 0.5), quantile(room, "function", 0.9), quantile(room, "function", 1)
}
function file_ends() { if (room) { add(room, "file", last); add("src", "file", last) } }
FNR == 1 {
    file_ends()
    reason = start = 0
    room = FILENAME ~ /^src\/[a-z]+\// ? FILENAME : ""
    sub(/^src\//, "", room); sub(/\/.*/, "", room)
    if (room && !(room in files)) order[++rooms] = room
    files[room]++; files["src"] += room != ""
}
{ last = FNR; lines[room]++; lines["src"] += room != "" }
FILENAME ~ /\.def$/ { next }
/^$/ && !start { reason = 0 }
/\/\* long: / { reason = 1 }
/^\{/ { start = FNR }
/^\}/ && start {
    if (FNR - start - 1 > 80 && !reason) { print FILENAME ":" start ": a function of " FNR - start - 1 " lines; above 80 a comment says why: /* long: ... */"; bad = 1 }
    if (room) { add(room, "function", FNR - start - 1); add("src", "function", FNR - start - 1) }
    start = reason = 0
    functions++
}
END {
    file_ends()
    if (!functions) { print "no functions in src and tests: nothing was looked at"; exit 1 }
    print "room       files   lines   a file: p50   p90   max   functions:   p50   p90   max"
    for (i = 1; i <= rooms; i++) row(order[i])
    row("src")
    exit bad
}' || exit 1
