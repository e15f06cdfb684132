#!/bin/sh
# Other programs have one room: outside of compat and convert no identifier and no string names fairseq, DeepSpeed, Argonne, BigScience, metaseq
# or NeMo. Comments may, and so may includes of compat's headers.
# usage: other_programs.sh ROOT
cd "$1/src" || exit 1
find . \( -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cpp' \) ! -path './compat/*' ! -path './convert/*' | sed 's|^\./||' | sort |
    xargs awk '
FNR == 1 { inside = 0; files++ }
{
    code = ""; rest = $0
    while (rest != "") {                                        # what is left of the line without its comments
        if (inside) {
            end = index(rest, "*/")
            if (!end) break
            rest = substr(rest, end + 2); inside = 0
        }
        begin = index(rest, "/*")
        if (!begin) { code = code rest; break }
        code = code substr(rest, 1, begin - 1); rest = substr(rest, begin + 2); inside = 1
    }
    if (code ~ /^ *# *include/) next
    if (tolower(code) ~ /fairseq|deep_?speed|argonne|bigscience|metaseq|nemo/) { print FILENAME ":" FNR ": names another program: " code; bad = 1 }
}
END {
    if (!files) { print "no files in src: nothing was looked at"; bad = 1 }
    if (!bad) print files " files name no other program"
    exit bad
}' || exit 1
