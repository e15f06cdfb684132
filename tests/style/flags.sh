#!/bin/sh
# No flag that lets a compiler change sums, anywhere in CMake; no function of the C library in training whose last bit differs between
# libraries; nothing in src that aborts in its own way or writes past an end.
# usage: flags.sh ROOT
cd "$1" || exit 1
status=0
told() {                                       # told WHY LINES
    [ -z "$2" ] && return
    echo "$2" | sed "s|^|$1: |"
    status=1
}
made=$(find . \( -name .git -o -name 'build*' \) -prune -o \( -name CMakeLists.txt -o -name '*.cmake' -o -name CMakePresets.json \) -print)
if [ -z "$made" ] || [ ! -d src ]; then
    echo "no CMake files or no src: nothing was looked at"
    exit 1
fi
told "sums would change" "$(echo "$made" | xargs awk '
    { sub(/#.*/, "") }
    /-(ffast-math|Ofast|funsafe-math-optimizations|fassociative-math|freciprocal-math|ffinite-math-only)|--use_fast_math/ {
        print FILENAME ":" FNR ": " $0
    }')"
# GELU by erf is in no model, and what reports print is not computed with. Comments may have formulas.
told "bits of the C library; base/exponential.h and base/sine.h have jotun's own" "$(grep -rnE '(^|[^a-z_.>])(exp|exp2|expm1|log|log2|log1p|pow|sin|cos|tan|tanh|(exp|log|pow|sin|cos|tanh)f)\(' \
    src/tensor/cpu src/model src/parallel src/optim src/data src/train/step.c src/train/step_sums.c src/train/evaluation.c src/base/random.c --include='*.c' --include='*.h' --include='*.inc' |
    grep -vE '^[^:]*:[0-9]+:.*(/\*| \* )')"
told "CHECK says it with words" "$(grep -rnE '# *include *<assert\.h>' src)"
told "no bound on what is written or read" "$(grep -rnE '\<(strcpy|sprintf|vsprintf|gets|atoi|atol|atof)\(' src)"
[ $status = 0 ] && echo "flags and calls are clean"
exit $status
