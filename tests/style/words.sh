#!/bin/sh
# The repository speaks of itself alone: no paths and hosts of a machine it was written on, nobody who wrote it, no notes left behind.
# A letter in brackets keeps a pattern from finding itself.
# usage: words.sh ROOT
cd "$1" || exit 1
status=0
look() {                                       # look WHY PATTERN
    found=$(grep -rnIiE "$2" . --exclude-dir=.git --exclude=.git --exclude-dir='build*' --exclude-dir=quickstart-out --exclude-dir=__pycache__ | cut -c1-200)
    [ -z "$found" ] && return
    echo "$found" | sed "s|^|$1: |"
    status=1
}
if [ ! -d src ]; then
    echo "no src: nothing was looked at"
    exit 1
fi
look "a path of one machine"  '(^|[^a-z0-9_.$}])/(w[o]rk|r[o]ot|h[o]me/[a-z]+|mnt/[a-z]+|tmp/(s[c]hed|b[u]ild))($|[^a-z0-9_])'
look "a host of one place"    'p[y]thonhosted|p[y]pi\.org|r[e]gistry\.npmjs|c[r]ates\.io|p[r]oxy\.golang|a[r]tifactory|\.i[n]ternal($|[^a-z_])|https?_p[r]oxy|(^|[^0-9.])(1[0]|192\.1[6]8)\.[0-9]+\.[0-9]+'
look "who wrote it"           '(^|[^a-z])(a[s]sistants?|h[e]lpers?|c[h]atgpt|c[l]aude|c[o]pilot|a[n]thropic|co-a[u]thored-by|ai-g[e]nerated)($|[^a-z])|(this|another|previous|earlier|next|last|my) s[e]ssion'
look "a note left behind"     '(^|[^a-z])(t[o]do|f[i]xme|x[x]x|h[a]ck|w[i]p)($|[^a-z])|(^|[^a-z])i[s]sue #?[0-9]'
[ $status = 0 ] && echo "words are clean"
exit $status
