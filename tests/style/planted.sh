#!/bin/sh
# Each check of this folder passes a small clean tree, and tells of each fault planted into it.
# usage: planted.sh CHECK
here=$(cd "$(dirname "$0")" && pwd)
check=$1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
status=0
plants=0

look() {                                       # the check itself
    if [ -f "$here/$check.py" ]; then python3 "$here/$check.py" "$tree"; else sh "$here/$check.sh" "$tree"; fi
}

compiled() {                                   # compiled NAME TEXT: the object of a file of base
    mkdir -p "$tree/CMakeFiles/module_base.dir/src/base"
    printf '%b' "$2" | cc -c -x c - -o "$tree/CMakeFiles/module_base.dir/src/base/$1.c.o" || status=1
}

clean() {
    rm -rf "$tree/src" "$tree/tests" "$tree/cmake"
    mkdir -p "$tree/src/base" "$tree/src/tensor" "$tree/src/conf" "$tree/src/model" "$tree/src/corpus" "$tree/src/optim" "$tree/src/parallel" "$tree/src/train" "$tree/src/cli" "$tree/tests" "$tree/cmake"
    printf '#include "base/status.h"\n' > "$tree/src/tensor/tensor.h"
    printf '#include "tensor/tensor.h"\n#include "model/model_config.h"\nvoid f(Comm *c)\n{\n    comm_all_reduce(c);      /* <-> tp: all-reduce */\n}\n' > "$tree/src/model/mlp.c"
    printf '#include "base/status.h"\nStatus stage_make(void)\n{\n    return fail(BAD_OPTION, "no stages");\n}\n' > "$tree/src/parallel/stage.c"
    printf 'Status open(void)\n{\n    TRY(file_map());\n}\n\nStatus run(void)\n{\n    TRY(agree(world, open()));\n    TRY(take());             /* same on every rank */\n}\n' > "$tree/src/train/loop.c"
    printf '#include "conf/options.h"\n' > "$tree/src/cli/main.c"
    printf '/* What a status is. */\n/* Two lines that say why. */\ntypedef int Status;\n' > "$tree/src/base/status.h"
    printf '/* A tensor. */\ntypedef struct { int dims; } Tensor;\nint tensor_size(void);\n' > "$tree/src/tensor/shape.h"
    printf 'set(CMAKE_C_FLAGS "-O2")                # never -ffast-math\n' > "$tree/CMakeLists.txt"
    [ "$check" != knots ] || compiled x 'int x;\n'
}

# plant FILE WORDS LINES: with LINES added to FILE the check fails and its answer has WORDS
plant() {
    clean
    printf '%b' "$3" >> "$tree/$1"
    plants=$((plants + 1))
    answer=$(look 2>&1)
    case $?:$answer in
    1:*"$2"*) ;;
    *) echo "$check.sh does not say \"$2\" of $1, but: $answer"; status=1 ;;
    esac
}

# passes FILE LINES: what looks like a fault and is none
passes() {
    clean
    printf '%b' "$2" >> "$tree/$1"
    answer=$(look 2>&1) || { echo "$check.sh refuses $1: $answer"; status=1; }
}

lines() {                                      # lines N TEXT
    awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s\\n", text }'
}

wide() { printf '%*s' "$1" '' | tr ' ' x; }        # wide N: N letters in a line

clean
answer=$(look 2>&1) || { echo "$check.sh refuses a clean tree: $answer"; status=1; }
rm -rf "$tree/src" "$tree/CMakeLists.txt" "$tree/CMakeFiles"
look > /dev/null 2>&1 && { echo "$check.sh is content with an empty tree"; status=1; }

case $check in
layers)
    plant src/base/file.h    'upward: base/file.h:1:'          '#include "tensor/tensor.h"\n'
    plant src/base/file.c    'upward: base/file.c:1:'          '#include "train/loop.h"\n'
    plant src/tensor/x.cu    'upward: tensor/x.cu:1:'          '#include "comm/comm.h"\n'
    plant src/parallel/x.c   'upward: parallel/x.c:1:'         '#include "optim/lr.h"\n'
    plant src/corpus/x.c     'upward inside corpus'            '#include "corpus/clean/document_filter.h"\n'
    plant src/model/x.c      'only cli and compat include conf'         '#include "conf/options.h"\n'
    plant src/model/x.c      'no module of the tree'            '#include "utils/lists.h"\n'
    plant src/utils.c        'no module of the tree'            '#include "base/status.h"\n'
    plant src/model/x.c      'an include without its directory'     '#include "mlp.h"\n'
    plant src/tensor/tensor.h 'a circle of includes'           '#include "tensor/tensor.h"\n' ;;
other_programs)
    plant src/train/x.c      'names another program'   'static int deepspeed_steps;\n'
    plant src/conf/x.def     'names another program'   'CHOICE( log_format, x, "Fairseq" ) /* a\n' 
    plant src/cli/x.c        'names another program'   '/* NeMo */ int f(void) { return deep_speed; }\n'
    passes src/cli/x.c       '/* as fairseq\n * and NeMo */\n#include "compat/fairseq/fairseq.h"\nint f(void);\n' ;;
knots)
    ring() {                                   # ring N: files x1 to xN, each of which calls the next and xN the first
        rm -rf "$tree/CMakeFiles"
        for i in $(seq "$1"); do compiled "x$i" "void x$((i % $1 + 1))(void);\nvoid x$i(void) { x$((i % $1 + 1))(); }\n"; done
    }
    bounded() { python3 "$here/knots.py" "$tree" base 3; }
    ring 4
    plants=$((plants + 1))
    answer=$(bounded 2>&1) && { echo "knots.py is content with a circle of 4 files: $answer"; status=1; }
    case $answer in *"a circle of 4 files"*"3 is the bound"*) ;; *) echo "knots.py does not name the circle: $answer"; status=1 ;; esac
    compiled x4 'void x1(void);\nvoid (*const x4[])(void) = { x1 };\n'
    compiled x3 'extern void (*const x4[])(void);\nvoid x3(void) { x4[0](); }\n'
    plants=$((plants + 1))
    bounded > /dev/null 2>&1 && { echo "knots.py does not follow a table of functions"; status=1; }
    ring 3
    answer=$(bounded 2>&1) || { echo "knots.py refuses a circle of 3 files: $answer"; status=1; } ;;
sizes)
    plant src/model/x.c      'src/model/x.c:2: a function of 81 lines' "void f(void)\n{\n$(lines 81 '    g();')}\n"
    plant src/model/x.c      'a function of 81 lines'          "/* long: of another */\n\nvoid f(void)\n{\n$(lines 81 '    g();')}\n"
    passes src/model/x.c                                       "/* long: one formula after the other */\nvoid f(void)\n{\n$(lines 81 '    g();')}\n"
    passes src/model/x.c                                       "void f(void)\n{\n$(lines 80 '    g();')}\n" ;;
headers)
    plant src/model/x.h      'defined in two headers: typedef Tensor'   'typedef struct { int n; } Tensor;\n'
    plant src/model/x.h      'defined in two headers: tensor_size'   'int tensor_size(void);\n'
    plant src/model/x.h      'do not compile together'         'enum { tensor = 1, tensor = 2 };\n'
    passes src/model/x.h                                       'typedef struct Tensors Tensors;\nint tensor_count(Tensors *t);\n' ;;
terms)
    plant src/model/x.c      'use the standard term (tests/style/terms.txt): src/model/x.c:1'   'Re''cipe x;\n'
    plant src/model/x.c      'use the standard term'           '/* the planner with its Ha''nds tied */\n'
    plant src/model/x.c      'use the standard term'           '    be''lt_open(&b, B''elt);\n'
    passes src/model/x.c                                       '/* a recipes book */ int belts, settled_down;\n' ;;
comments)
    plant src/model/x.c      'model/x.c:1: 111 columns'        "int $(wide 107)\n"
    plant src/model/x.c      'fewer than one line in ten'      "$(lines 200 'int x;')\n"
    plant src/model/x.c      'model/x.c:1: '            "    f((X){ .x = $(wide 120) });\n"
    passes src/model/x.c                                       "    { \"row\", $(wide 120) },\n" ;;
agreements)
    plant src/model/x.c      'no early return within a step: model/x.c:3'    'void f(void)\n{\n    TRY(g());\n}\n'
    plant src/optim/x.c      'no early return within a step'   'int f(void)\n{\n    return fail(BAD_OPTION, "no");\n}\n'
    plant src/parallel/stage_executor.c 'no early return within a step'  'int f(void)\n{\n    if (x) return fail(BAD_OPTION, "no");\n}\n'
    plant src/train/step.c   'no early return within a step'   'int f(void)\n{\n    TRY(g());\n}\n'
    plant src/train/x.c      'neither agreed'                  'int f(void)\n{\n    TRY(g());\n    h();      /* <-> world */\n}\n'
    plant src/train/x.c      'neither agreed'                  'int f(void)\n{\n    TRY(agree(world, g()));\n    TRY(g());\n}\n'
    plant src/cli/x.c        'neither agreed'                  'int f(void)\n{\n    if (x) TRY(g());\n    return trainer_load(t, path);\n}\n'
    passes src/cli/x.c                                         'int f(void)\n{\n    TRY(trainer_open(t));\n    TRY(agree(world, g()));\n}\nint h(void)\n{\n    TRY(g());\n}\n' ;;
comm_marks)
    plant src/model/x.c      'no mark <-> on a line which talks: model/x.c:1'  '    comm_all_gather(c, q, y, x);\n'
    plant src/train/x.c      'no mark'                         '    p = comm_recv_begin(c, q, x, 1);\n'
    plant src/parallel/x.c   'no mark'                         '    if (x) y = tp_leave_backward(tp, y, keep);      /* all-gather */\n'
    plant src/model/x.c      'no mark'                         '    ring_forward(run, layer, save, qkv);\n'
    passes src/model/x.c                                       'void ring_forward(const Run *run)\n{\n}\n' ;;
flags)
    plant CMakeLists.txt     'sums would change: ./CMakeLists.txt:2'           'add_compile_options(-ffast-math)\n'
    plant cmake/x.cmake      'sums would change'               'set(CMAKE_C_FLAGS_RELEASE "-Ofast")\n'
    plant cmake/x.cmake      'sums would change'               'set(flags --use_fast_math)\n'
    plant src/model/x.c      'bits of the C library'           '    double y = exp(x);\n'
    passes src/model/x.c                                       '    double y = natural_exp(x);       /* exp(x) */\n'
    plant src/model/x.c      'CHECK says it with words'        '#include <assert.h>\n'
    plant src/model/x.c      'no bound'                        '    strcpy(x, y);\n'
    plant src/model/x.c      'no bound'                        '    int n = atoi(x);\n'
    plant src/model/x.c      'no bound'                        '    return sprintf(x, "%%s", y);\n'
    passes src/model/x.c                                       '    snprintf(x, n, "%%s", y); fgets(x, n, f);\n' ;;
words)
    plant src/model/x.c      'a path of one machine: ./src/model/x.c:1'        '/* see /wo''rk/main */\n'
    plant cmake/x.cmake      'a path of one machine'           'set(x "/ho''me/anna/x")\n'
    plant src/model/x.c      'a host of one place'             '/* from py''pi.org */\n'
    plant src/model/x.c      'a host of one place'             '/* at 10''.0.0.7 */\n'
    plant src/model/x.c      'who wrote it'                    '/* the hel''per said so */\n'
    plant src/model/x.c      'who wrote it'                    '/* in this ses''sion */\n'
    plant tests/x.sh         'a note left behind'              '# TO''DO: later\n'
    plant src/model/x.c      'a note left behind'              '/* iss''ue #12 */\n'
    passes src/model/x.c                                       '    Arena session;  f = "/tmp/jotun-XXXXXX";  x = "${root}/work";  version 1.10.2\n' ;;
*)
    echo "no check $check"
    exit 1 ;;
esac
[ $status = 0 ] && echo "$check.sh tells of $plants faults planted"
exit $status
