#!/bin/sh
# No file of src or tests above 600 lines, no folder of src above 30 files. No function above 80 lines, unless its own comment
# says why:  /* long: ... */   and the median function of src has at most 12 lines.
# A function's braces stand alone at the left margin, which is all that is needed to see where it begins and ends.
# usage: sizes.sh ROOT
cd "$1" || exit 1
crowded=$(find src -type f 2> /dev/null | sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 30 { print $2 ": " $1 " files; 30 is the limit: which noun wants a folder?" }')
[ -z "$crowded" ] || { echo "$crowded"; exit 1; }
find src tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' -o -name '*.def' -o -name '*.py' -o -name '*.sh' \) | sort | xargs awk '
FNR == 1 { files++; reason = 0; start = 0 }
FNR == 601 { print FILENAME ": above 600 lines; which noun wants out?"; bad = 1 }
FILENAME ~ /\.(py|sh|def)$/ { next }
/^$/ && !start { reason = 0 }
/\/\* long: / { reason = 1 }
/^\{/ { start = FNR }
/^\}/ && start {
    if (FNR - start - 1 > 80 && !reason) { print FILENAME ":" start ": a function of " FNR - start - 1 " lines; 80 is the wall, or say why: /* long: ... */"; bad = 1 }
    if (FILENAME ~ /^src\//) { size[FNR - start - 1]++; measured++ }
    start = 0; reason = 0
    functions++
}
END {
    if (!functions) { print "no functions in src and tests: nothing was looked at"; bad = 1 }
    for (median = 0; measured && (seen += size[median]) * 2 < measured; median++);
    if (median > 12) { print "the median function of src has " median " lines; 12 is the limit"; bad = 1 }
    if (!bad) print files " files, " functions " functions, median of src " median + 0 " lines"
    exit bad
}' || exit 1
