#!/bin/sh
# No file of src or tests above 600 lines. No function above 80, unless its own comment says why:  /* long: ... */
# A function's braces stand alone at the left margin, which is all that is needed to see where it begins and ends.
# usage: sizes.sh ROOT
cd "$1" || exit 1
find src tests -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' -o -name '*.def' -o -name '*.py' -o -name '*.sh' \) | sort | xargs awk '
FNR == 1 { files++; reason = 0; start = 0 }
FNR == 601 { print FILENAME ": above 600 lines; which noun wants out?"; bad = 1 }
FILENAME ~ /\.(py|sh|def)$/ { next }
/^$/ && !start { reason = 0 }
/\/\* long: / { reason = 1 }
/^\{/ { start = FNR }
/^\}/ && start {
    if (FNR - start - 1 > 80 && !reason) { print FILENAME ":" start ": a function of " FNR - start - 1 " lines; 80 is the wall, or say why: /* long: ... */"; bad = 1 }
    start = 0; reason = 0
    functions++
}
END {
    if (!functions) { print "no functions in src and tests: nothing was looked at"; bad = 1 }
    if (!bad) print files " files, " functions " functions"
    exit bad
}' || exit 1
