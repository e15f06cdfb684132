#!/bin/sh
# All public headers compile together in one translation unit, in either order; and no type, function, enumerator or macro is
# defined in two headers. A forward declaration (typedef struct X X, the struct itself elsewhere) is no second definition, and
# OP is the row macro of ops.def, which each reader defines for itself. Kernels and plug-ins have compilers of their own.
# usage: headers.sh ROOT [CC]
cd "$1/src" || exit 1
command -v ctags > /dev/null || { echo "no ctags: install universal-ctags"; exit 1; }
headers=$(find . -name '*.h' ! -path './tensor/cuda/*' ! -path './comm/mpi/*' | sed 's|^\./||' | sort)
[ -n "$headers" ] || { echo "no headers in src: nothing was looked at"; exit 1; }
status=0
for order in sort 'sort -r'; do
    printf '%s\n' $headers | $order | sed 's|.*|#include "&"|' |
        ${2:-cc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -fsyntax-only -x c - || { echo "the headers do not compile together"; status=1; }
done
twice=$(ctags -x --_xformat='%K %N %F' --kinds-C=+pdtsuegf-mxv --languages=C --langmap=C:.h $headers 2> /dev/null | sort -u | awk '
    $1 == "struct" || $1 == "union" || $1 == "enum" { if ($2 ~ /^__anon/) next }
    $2 == "OP" { next }
    { kind = $1 == "struct" || $1 == "union" ? "struct" : $1 == "prototype" || $1 == "function" ? "function" : $1
      key = (kind == "typedef" ? "typedef " : kind == "struct" ? "struct " : "") $2
      if (!((key, $3) in seen)) { seen[key, $3] = 1; count[key]++; where[key] = where[key] " " $3 }
      names[$2] = names[$2] " " kind }
    END { for (key in count) if (count[key] > 1) print key ":" where[key] }' | sort)
if [ -n "$twice" ]; then
    echo "$twice" | sed 's/^/defined in two headers: /'
    status=1
fi
[ $status = 0 ] && echo "$(printf '%s\n' $headers | wc -l) headers compile together, no name is defined twice"
exit $status
