#!/bin/sh
# At least one line in ten of src is a comment, and no line is wider than 110 columns. Wider may be what is read as a row:
# rows of .def files and of tables (a line that begins with { or an upper-case row macro). Generated tables (unicode_table.c) count in neither.
# usage: comments.sh ROOT
cd "$1/src" || exit 1
find . -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.def' \) ! -name unicode_table.c | sed 's|^\./||' | sort | xargs awk '
FNR == 1 { open = 0 }
/^[ \t]*$/ { next }
{
    lines++
    text = $0; sub(/^[ \t]+/, "", text)
    if (open || text ~ /^\/[*\/]/) comments++
    at = 0; rest = $0                            # is a comment open at the end of this line?
    while (1) {
        if (!open) { i = index(rest, "/*"); if (!i) break; rest = substr(rest, i + 2); open = 1 }
        i = index(rest, "*/"); if (!i) break; rest = substr(rest, i + 2); open = 0
    }
    row = FILENAME ~ /\.def$/ || text ~ /^\{/ || text ~ /^[A-Z][A-Z_]+\(/ || text ~ /^#define/
    if (length($0) > 110 && !row) { print FILENAME ":" FNR ": " length($0) " columns; 110 is the limit"; bad = 1 }
}
END {
    if (!lines) { print "no lines in src: nothing was looked at"; exit 1 }
    printf "%d lines, %.1f%% of them comments\n", lines, 100 * comments / lines
    if (comments * 10 < lines) { print "fewer than one line in ten is a comment; say why the code is as it is, in sentences"; bad = 1 }
    exit bad
}' || exit 1
