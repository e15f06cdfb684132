/* What a launch script gives to its program: bash's own words, where they are written, and which of them depend on what this machine
 * answers; in both ways of shutting it in. */
#include "launch.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "compat/bash/trace.h"

static const LaunchWay ways[] = { LAUNCH_NAMESPACES, LAUNCH_LANDLOCK };
static const char *const way_names[] = { "", "namespaces", "Landlock" };

/* What a keeper needs of the kernel: namespaces, in which it can mount. */
static bool has_namespaces(void)
{
    int how = 1;
    pid_t child = fork();
    if (child == 0) {
        int others = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET;
        bool made = unshare(CLONE_NEWUSER | others) == 0 || unshare(others) == 0;
        _exit(!made || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    }
    return child > 0 && waitpid(child, &how, 0) == child && how == 0;
}

static bool has_landlock(void)
{
    return syscall(444, NULL, 0, 1) > 0; /* landlock_create_ruleset(LANDLOCK_CREATE_RULESET_VERSION) */
}

/* By the system's own calls, so that a way that is broken here fails its tests. */
static bool allowed(LaunchWay way)
{
    static int known[3];
    if (!known[way]) {
        known[way] = (way == LAUNCH_NAMESPACES ? has_namespaces() : has_landlock()) ? 1 : -1;
        if (known[way] < 0) print_message("%s: not tested, this machine does not allow it\n", way_names[way]);
    }
    return known[way] > 0;
}

#define EACH_WAY(way) for (size_t w_ = 0; w_ < 2; w_++) for (LaunchWay way = ways[w_], once_ = way; once_ && allowed(way); once_ = 0)

static void scripts_give_words(void **state)
{
    (void)state;
    static const struct { const char *script, *words; } row[] = {
        { "python t.py --a 1", "--a|1" },
        { "A=3\npython t.py --a $A --b ${A} --c \"$A x\" '$A'", "--a|3|--b|3|--c|3 x|$A" },
        { "A=(--x 1 # one\n  --y \"2 3\"\n)\ntorchrun t.py ${A[@]} \"${A[@]}\" ${A[1]} ${#A[@]}", "--x|1|--y|2|3|--x|1|--y|2 3|1|4" },
        { "A=\"--x 1 \\\n --y 2\"\nB=\"$A --z\"\npython t.py $B \"$B\"", "--x|1|--y|2|--z|--x 1  --y 2 --z" },
        { "A=${NOT_SET_HERE:-7}\npython t.py ${A:-8} ${NOT_SET_HERE:+x} ${A:+y} ${Q:=5} $Q", "7|y|5|5" },
        { "G=8; N=$((G*2+1)); python t.py $N $(( (G-2)/3 )) $((G%3)) $((2**10)) $((-G)) $((G>7&&1))", "17|2|2|1024|-8|1" },
        { "F=/a/b/c.tar.gz; python t.py ${F%.*} ${F%%.*} ${F#*/} ${F##*/} ${#F}", "/a/b/c.tar|/a/b/c|a/b/c.tar.gz|c.tar.gz|13" },
        { "X=abC; python t.py ${X^^} ${X,,} ${X^}", "ABC|abc|AbC" },
        { "if [ \"$X\" = y ]; then A=1; else A=2; fi\npython t.py $A", "2" },
        { "X=y\nif [[ $X == y && ! -z $X ]]; then\n A=1\nelif [ 1 -eq 1 ]; then A=3\nelse A=2; fi\npython t.py $A", "1" },
        { "N=13\nif [ $N -eq 7 ]; then L=1\nelif [ $N -eq 13 ]; then if true; then L=2; fi\nelse L=3; fi; python t.py $L", "2" },
        { "case 7B in\n 1B) A=1;;\n 7*|8B) A=2 ;;\n *) A=3;; esac\npython t.py $A", "2" },
        { "set_model() { H=1536; A=\"--n 24\"; }\nH=1\nset_model; python t.py $A --h $H", "--n|24|--h|1536" },
        { "f() { local X=$1 Y; shift; declare Z=$#; Y=5; A+=(\"$X\" \"$@\" $# $Z); }\nX=9 Z=8\nf 1 '2 3'; f 4\npython t.py \"${A[@]}\" $X $Z $1", "1|2 3|1|1|4|0|0|9|8|one" },
        { "g() { [ $1 -eq 0 ] && return 1; A=\"$A $1\"; g $(($1-1)); }\nfunction h () {\n if [ $1 = y ]; then B=2; return; fi\n B=3\n}\ng 3 || C=4\nh y\nif h n; then D=$B; fi\npython t.py $A $B $C $D",
          "3|2|1|3|4|3" },
        { "run() { python t.py \"$@\"; }\nf() { A=1; }\nf() { A=2; }\nf\nrun --a $A", "--a|2" },
        { "f() (\n A=7\n)\nA=1\nf\n{ B=2; }\npython t.py $A $B", "1|2" },
        { "[ -z \"$U\" ] && A=1\n[ -n \"$U\" ] && A=2\n[ 1 -eq 2 ] || B=3\npython t.py $A $B", "1|3" },
        { "export A=1 B=\"2 3\"\ndeclare -a C=(4 5)\nreadonly D=6; python t.py $A $B ${C[@]} $D", "1|2|3|4|5|6" },
        { "A=(1)\nA+=(2 3)\nB=x\nB+=y\npython t.py ${A[*]} $B", "1|2|3|xy" },
        { "CMD=\"torchrun --n 8 t.py --a 1\"\necho $CMD\neval $CMD", "--a|1" },
        { "CMD='python t.py --a \"1 2\"'\nbash -c \"$CMD\"", "--a|1 2" },
        { "srun -N 2 bash -c \"python -u t.py --a 1\" 2>&1 | tee log", "--a|1" },
        { "python t.py --a 1 > out 2>&1 &\nwait", "--a|1" },
        { "cat <<EOF > f\n--no \"$A\"\nEOF\npython t.py --a 1", "--a|1" },
        { "python t.py \\\n  --a 1 \\\n  --b 2 # end\n", "--a|1|--b|2" },
        { "P=${1:-none}; python t.py $P $2 \"$@\"", "one|two|one|two" },
        { "A=\"\"; python t.py $A \"$A\" x''y \"\"", "|xy|" },
        { "python t.py a\\ b \"c\\\"d\" e\\$A $'x' ", "a b|c\"d|e$A|x" },
        { "V=/usr\npython $V/x/t.py --v ${V}/lib", "--v|/usr/lib" },
        { "OPT=1 python t.py --a; time python t.py --b", "--b" },
        { "M=\"--n 4 --h 64\"; A=( $M --s 64 '5 6' )\nbash -c \"python -u t.py ${A[*]} --save x\"", "--n|4|--h|64|--s|64|5|6|--save|x" },
        { "A=(1 \"2 3\"); python t.py \"${A[*]}\" \"$*\" \"x${A[@]}y\" ${A[*]}", "1 2 3|one two|x1|2 3y|1|2|3" },
        { "S=small\ndeclare -A Z=([small]=\"--n 4 --h 64\"\n [\"big\"]='--n 8' )\nZ[huge]=\"--n 9\"\npython t.py ${Z[$S]} \"${Z[big]}\" ${Z[huge]} ${Z[no]:-7} ${#Z[@]}",
          "--n|4|--h|64|--n 8|--n|9|7|3" },
        { "for i in 1 2; do A=9; done; while false; do A=8; done; f() { A=7; }\npython t.py $A", "9" },
        { "A='a b'; python t.py ${A// /_}", "a_b" },
        { "A=2; ((A = 3)); let A=A+2; python t.py $A; (A=1); { B=2; }; python t2.py $B $A", "2|5" },
        { "mkdir -p d/e && cd $_ && python t.py ${PWD##*/}", "e" },                                     /* nothing of ours changes $_ */
        { "export name=q word=w; f() { python t.py $name $word \"$@\"; }; export -f f; srun bash -c 'f 1'", "q|w|1" },
        { "mkdir -p real; printf '#!/bin/sh\nexit 3\n' > real/python; chmod +x real/python; PATH=$PWD/real:$PATH; nohup python t.py 1", "1" },
        { "P=\"/opt/none/bin/python3.11 -u\"; $P t.py 1; (exec /opt/none/bin/python t.py 2 \"$P\")", "2|/opt/none/bin/python3.11 -u" },
        { "env P=/usr/bin/python3 bash -c 'python t.py $P'", "/usr/bin/python3" }, { "env -u Q bash -c 'python t.py \"$@\"' x /usr/bin/python3", "/usr/bin/python3" },
        { "python t.py 1; ml python t.py 2", "1" },
        { "S=small\nwhile [ $# -gt 0 ]; do case $1 in one) S=$2; shift 2 ;; esac; done\npython t.py $S", "two" },
    };
    static const char *const given[] = { "one", "two" };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
            LaunchRecord r;
            assert_ok(launch(&r, way, row[i].script, 2, given));
            assert_string_equal(words_of(&r.call[r.calls - 1]), row[i].words);
            launch_close(&r);
        }
}

/* "2:--x|2:1|3:--y" */
static const char *lines_of(const LaunchCall *c)
{
    static char out[4096];
    size_t used = 0;
    for (int i = 0; i < c->words && used < sizeof out; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%d:%s", i ? "|" : "", c->word[i].line, c->word[i].text);
    return out;
}

static void words_keep_their_lines(void **state)
{
    (void)state;
    static const char text[] = "A=(\n  --x 1\n  --y 2\n)\nB=\"--z 3\"\nif true; then\n  C=\"--q 5\"\nelse\n  C=\"--q 6\"\nfi\n# --w 9\n. ./more.inc\n\ntorchrun \\\n"
                               "  t.py ${A[@]} $B $C $D \\\n  --w";
    put("more.inc", "# of the other file\nD=\"--more 7\"\n");
    EACH_WAY(way) {
        LaunchRecord r;
        assert_ok(launch(&r, way, text, 0, NULL));
        assert_string_equal(lines_of(r.call), "2:--x|2:1|3:--y|3:2|5:--z|5:3|7:--q|7:5|2:--more|2:7|16:--w");
        assert_string_equal(r.call->program, "t.py");
        assert_string_equal(r.call->word[0].file, "run.sh");
        assert_non_null(strstr(r.call->word[8].file, "more.inc"));
        assert_int_equal(r.call->launchers, 1);
        assert_string_equal(r.call->launcher[0].text, "torchrun");
        assert_true(r.call->line >= 14 && r.call->line <= 16);
        launch_close(&r);
    }
}

/* What another machine would answer otherwise is not agreed, and named with the program, the line and the variable. */
typedef struct { const char *script, *word, *decided_by; } Decided;
#define MADE " # a file of the machine or its number of processes is made" /* which Landlock cannot */

/* One word is not agreed, and by what. All faults are printed. */
static void check_decided(const Decided *row, size_t rows)
{
    int faults = 0;
    EACH_WAY(way)
        for (size_t i = 0; i < rows; i++) {
            LaunchRecord r;
            if (way == LAUNCH_LANDLOCK && strstr(row[i].script, MADE)) continue;
            assert_ok(launch(&r, way, row[i].script, 0, NULL));
            const LaunchCall *c = &r.call[r.calls - 1];
            int different = 0, wrong = 0;
            for (int k = 0; k < c->words; k++) {
                const char *by = c->word[k].decided_by;
                if (c->word[k].agreed) continue;
                different++;
                wrong += (row[i].word && strcmp(c->word[k].text, row[i].word)) || (row[i].decided_by && strcmp(by, row[i].decided_by)) || !*by || !strncmp(by, "(run", 4);
                if (wrong) print_error("%s: '%s' by '%s'\n", way_names[way], c->word[k].text, by);
            }
            if (different != 1 || wrong) print_error("%s: %s\n%s: %d words are not agreed\n\n", way_names[way], row[i].script, words_of(c), different), faults++;
            launch_close(&r);
        }
    assert_int_equal(faults, 0);
}

static void answers_decide(void **state)
{
    (void)state;
    static const Decided row[] = {
        { "N=$(nvidia-smi -L | wc -l)\nT=$((N*8))\npython t.py --a 1 --n $T --b 2", "8", NULL },
        { "G=$(scontrol show job)\npython t.py --a 1 --n $G --b 2", "4", "scontrol (run.sh:1, G)" },
        { "G=$(scontrol show job)\nM=x$G\npython t.py --n $M", "x4", "scontrol (run.sh:1, G)" },
        { "python t.py --n $(scontrol show job)", "4", "scontrol (run.sh:1)" },
        { "N=1\nif rocm-smi >/dev/null; then\n  N=2\nfi\npython t.py --n $N", "2", "rocm-smi (run.sh:2)" },
        { "N=$(python -c 'print(3)')\npython t.py --n $N", "4", "python (run.sh:1, N)" },
        { "N=$(nproc)\npython t.py --n p$N", NULL, "nproc (run.sh:1, N)" },
        { "N=$HOSTNAME\npython t.py --n x$N", NULL, "$HOSTNAME (run.sh:1, N)" },
        { "python t.py --n ${PLACE}/x", "/x", "$PLACE, which is not set (run.sh:1)" },
        { "N=$(cat /nowhere/at/all)\npython t.py --n x$N", "x", "cat (run.sh:1, N)" },
        { "[ -f /nowhere/at/all ] && N=1\npython t.py --n x$N", "x", NULL }, { "[ -d /nowhere/at/all ] && N=1\npython t.py --n x$N", "x", NULL },
        { "N=$((SLURM_NNODES * 2))\npython t.py --n $N", "0", "$SLURM_NNODES, which is not set (run.sh:1)" },
        { "N=${SLURM_NNODES:-3}\npython t.py --n $N", "3", "$SLURM_NNODES, which is not set (run.sh:1)" },
        { "M=$(scontrol show hostnames)\nexport W=$SLURM_NTASKS\nN=$((W * 8))\npython t.py --n $N", "0", "$SLURM_NTASKS, which is not set (run.sh:2)" },
        { "N=$((NODES * 2 + 1))\npython t.py --n $N", "1", "$NODES, which is not set (run.sh:1)" },
        { "module load x && N=1 || N=2\npython t.py --n $N", "1", "module (run.sh:1)" },
        { "N=$(awk 'BEGIN { srand(); print int(rand() * 100000) }')\npython t.py --n x$N", NULL, "awk (run.sh:1, N)" },
    };
    check_decided(row, sizeof row / sizeof row[0]);
}

/* The same in all that a few answers give, and otherwise on another machine: conditions, counts, and what nobody makes up. */
static void conditions_decide(void **state)
{
    (void)state;
    static const Decided row[] = {
        /* conditions of what programs answer */
        { "if nvidia-smi --query-gpu=name | head -1 | grep -q H100; then T=8; else T=2; fi\npython t.py --n $T", "2", NULL },
        { "G=$(nvidia-smi --query-gpu=name | head -1)\nT=2; echo \"$G\" | grep -qE 'H[12]00' && T=8\npython t.py --n $T", "2", NULL },
        { "g() { nvidia-smi | head -1; }\ncase \"$(g)\" in\n*H100*) T=8 ;;\n*) T=2 ;;\nesac\npython t.py --n $T", "2", NULL },
        { "T=2; if [[ $(nproc) -gt 5000 ]] && [[ $(nvidia-smi -L | wc -l) -gt 5000 ]]; then T=8; fi\npython t.py --n $T", "2", NULL },
        { "T=2; ls /opt/none/x > /dev/null 2>&1 && T=8\npython t.py --n $T", "2", NULL },
        { "T=$(wc -l < /none/hosts)\npython t.py --n $((T + 1))" MADE, "1", NULL },
        { "A=$(nvidia-smi -L | wc -l); B=$A\nT=2; [ $A -gt 5000 ] && [ $B -gt 5000 ] && T=8\npython t.py --n $T", "2", NULL },
        { "N=$(nvidia-smi -L | wc -l)\nread A <<< \"$N\"\nT=2; [ $A -gt 5000 ] && T=8\npython t.py --n $T", "2", NULL },
        { "N=$(nvidia-smi -L | wc -l)\npython t.py --n $((N / 5000 && N / 6000 ? 8 : 2))", "2", NULL },
        { "N=$(nvidia-smi -L | wc -l)\npython t.py --n $((N / 5000 || N / 6000 ? 8 : 2))", "2", NULL },
        { "N=$(nvidia-smi --list-gpus | wc -l); N=$((N > 0 ? N : 1))\npython t.py --n $N", "1", "nvidia-smi (run.sh:1, N)" },
        { "N=$(nvidia-smi -L | wc -l)\n[ $N -ge 64 ] && T=8\npython t.py --n x$T", "x", "nvidia-smi (run.sh:1, N)" },
        { "N=$(nvidia-smi -L | wc -l)\n[ $((N / 100000)) -ge 2 ] && T=8\npython t.py --n x$T", "x", NULL },
        { "if nvidia-smi | grep -q H100; then T=8; fi\npython t.py --n x$T", "x", "nvidia-smi (run.sh:1)" },
        { "G=$(rocm-smi | grep -c 'MI300X')\npython t.py --n $G", "0", "rocm-smi (run.sh:1, G)" },
        { "N=$(sinfo -h | wc -l)\nif ((N > 100000)); then T=8; fi\npython t.py --n x$T", "x", "sinfo (run.sh:1, N)" },
        { "N=$(scontrol show hostnames | wc -l)\nT=$((N >= 1000000 ? 8 : 4))\npython t.py --n $T", "4", "scontrol (run.sh:1, N)" },
        { "f() { if [ $1 -gt 500000 ]; then T=8; fi; }\nM=$(nvidia-smi --query-gpu=memory.total --format=csv | tail -1)\nf $M\npython t.py --n x$T", "x", NULL },
        { "V=$(python -c 'import torch; print(torch.__version__)')\nif [[ $MODE != x && ${V%%.*} -ge 99999 ]]; then\n T=8\nfi\npython t.py --n x$T", "x", "python (run.sh:1, V)" },
        { "A=1\nlocal_gpus=$(nvidia-smi -L | wc -l)\nif [ $A -eq 2 ]; then T=1\nelif test $local_gpus -eq 3; then T=2\nelse T=3; fi\npython t.py --n $T", "3", "nvidia-smi (run.sh:2, local_gpus)" },
        { "if [[ $(hostname) == *frontier* ]]; then\n N=$(nvidia-smi -L | wc -l)\n if [ $N -ge 64000 ]; then T=8; fi\nfi\npython t.py --n x$T", "x", NULL },
        { "G=$(command -v nvidia-smi && echo 1 || echo 0)\npython t.py --n ${G##*[!0-9]}", "1", NULL },
        /* the same in loops, in comparisons of arithmetic, and in what is chosen by an answer */
        { "N=$(nvidia-smi -L | wc -l)\nwhile [ $N -gt 100000 ]; do T=8; N=0; done\npython t.py --n x$T", "x", "nvidia-smi (run.sh:1, N)" },
        { "N=$(sinfo -h | wc -l)\nuntil ((N < 100000)); do T=8; N=0; done\npython t.py --n x$T", "x", "sinfo (run.sh:1, N)" },
        { "N=$(nvidia-smi -L | wc -l)\nT=$(((N >= 70000) * 2 + 2))\npython t.py --n $T", "2", "nvidia-smi (run.sh:1, N)" },
        { "N=$(nvidia-smi -L | wc -l); T=$(echo $N | awk '{ if ($1 > 10000) print 4; else print 2 }')\npython t.py --n $T", "2", "nvidia-smi (run.sh:1, N)" },
        { "read -r N < <(nvidia-smi -L | wc -l)\n((N >= 10000)) && T=8\npython t.py --n x$T", "x", NULL },
        { "declare -A S=([h100]=4 [a100]=3)\nG=$(nvidia-smi --query-gpu=name | head -1)\nT=${S[$G]:-2}\npython t.py --n $T", "2", "nvidia-smi (run.sh:2, G)" },
        /* variables that nobody sets, counted or compared */
        { "N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)\npython t.py --n $N", "1", "$CUDA_VISIBLE_DEVICES, which is not set (run.sh:1)" },
        { "[ \"$SLURM_NNODES\" -ge 16 ] && T=2\npython t.py --n x$T", "x", "$SLURM_NNODES, which is not set (run.sh:1)" },
        { "N=$(awk -F, '{print NF}' <<< \"x$NODE_IDS\")\npython t.py --n $N", "1", "$NODE_IDS, which is not set (run.sh:1)" },
        { "if [[ $HOST_COUNT -gt 32000 ]]; then T=2; fi\npython t.py --n x$T", "x", "$HOST_COUNT, which is not set (run.sh:1)" },
        { "H=($HOST_LIST)\nN=${#H[@]}\n((N > 1)) && T=2\npython t.py --n x$T", "x", NULL },
        { "[ $# -gt 0 ] || T=$((WORKERS / 1000))\npython t.py --n $T", "0", "$WORKERS, which is not set (run.sh:1)" },
        { "case $SLURM_CLUSTER_NAME in lumi) T=2 ;; *) T=3 ;; esac\npython t.py --n $T", "3", "$SLURM_CLUSTER_NAME, which is not set (run.sh:1)" },
        /* files of the machine, times and numbers that are other ones each time */
        { "N=$(grep -c ^processor /proc/cpuinfo)\npython t.py --n $N", NULL, NULL },
        { "M=$(awk '/MemTotal/ {print $2}' /proc/meminfo)\n[ ${M:-0} -gt 900000000000 ] && T=8\npython t.py --n x$T", "x", NULL },
        { "grep -q avx99 /proc/cpuinfo && T=8\npython t.py --n x$T" MADE, "x", NULL },
        { "N=$(ls /dev/nvidia[0-9] 2>/dev/null | wc -l)\npython t.py --n $N" MADE, "0", NULL },
        { "[ -e /dev/nvidia3 ] && T=8\npython t.py --n x$T", "x", NULL },
        { "N=$(ls -d /sys/class/infiniband/* 2>/dev/null | wc -l)\npython t.py --n $N" MADE, NULL, NULL },
        { "N=$(getconf _NPROCESSORS_ONLN)\npython t.py --n $N", NULL, "getconf (run.sh:1, N)" },
        { "SEED=$((RANDOM % 2))\npython t.py --seed $SEED", NULL, "$RANDOM (run.sh:1, SEED)" },
        { "S=(5)\npython t.py --seed x${S[RANDOM]}", NULL, "$RANDOM (run.sh:2)" }, { "I=$((RANDOM % 8))\nS=(2 4 4 4 2 2 2 2)\npython t.py --seed \"${S[I]}\"", NULL, "$RANDOM (run.sh:1, I)" },
        { "python t.py --seed $(shuf -n 1 -i 0-1)", NULL, "shuf (run.sh:1)" }, { "python t.py --seed $RANDOM", NULL, "$RANDOM (run.sh:1)" }, { "python t.py --seed $(($(date +%s) % 2))", NULL, NULL }, { "python t.py --seed $(($$ % 2))" MADE, NULL, NULL },
        { "S=$(date +%s)\npython t.py --seed $((S / 100000000))", NULL, "date (run.sh:1, S)" }, { "python t.py --seed $((EPOCHSECONDS / 100000))", NULL, "$EPOCHSECONDS (run.sh:1)" },
        { "T=3; [ $(date +%u) = 9 ] && T=8\npython t.py --n $T", "3", NULL }, { "sleep 1; python t.py --n $((SECONDS / 100))", "0", "$SECONDS (run.sh:1)" },
        /* that it is traced */
        { "[[ $- == *x* ]] && T=8\npython t.py --n x$T", "x8", "$-, which says whether bash traces" }, { "case $- in *i*) T=1 ;; *x*) T=2 ;; esac\npython t.py --n x$T", "x2", "$-, which says whether bash traces" },
        { "old=$-\nif [ -z \"${old##*x*}\" ]; then T=8; fi\npython t.py --n x$T", "x8", "$-, which says whether bash traces" }, { "[[ :$SHELLOPTS: == *:xtrace:* ]] && T=8\npython t.py --n x$T", "x8", NULL },
        { "[ -o xtrace ] && T=8\npython t.py --n x$T", "x8", NULL }, { "if shopt -qo xtrace; then T=8; fi\npython t.py --n x$T", "x8", NULL }, { "if set -o | grep -q 'xtrace.*on'; then T=8; fi\npython t.py --n x$T", "x8", NULL },
        /* what is named */
        { "[ -f /none/a ] && T=8\npython t.py --n x$T", "x", "/none/a (run.sh:1)" },
        { "N=$(nvidia-smi -L | wc -l)\nfor ((i=0;i<4;i++)); do [ $i -eq 1 ] && continue; T=$((i*N)); done\npython t.py --n x$T", "x3", "nvidia-smi (run.sh:1, N)" },
        { "A=\"\n --x $LR\n\"\n[ $(nvidia-smi -L | wc -l) -ge 5 ] && A=\"--n 3\"\npython t.py --m $A", "--x", "$LR, which is not set (run.sh:3)" },
        { "coproc nvidia-smi; read -u ${COPROC[0]} N\npython t.py --n $N", "4", NULL },
        /* the host */
        { "case $(hostname) in gpu*) T=2 ;; *) T=3 ;; esac\npython t.py --n $T", "3", "hostname (run.sh:1)" },
        { "if [[ $(hostname) == *frontier* ]]; then T=2; fi\npython t.py --n x$T", "x", "hostname (run.sh:1)" },
        { "T=3\ncase \"$HOSTNAME\" in\n  # of the site\n  x[0-9]*|nid*) T=2 ;;\n  login?) case $1 in a) ;; esac ;;\nesac\npython t.py --n $T", "3", "$HOSTNAME (run.sh:2)" },
        { "if hostname | grep -q lumi; then T=2; fi\npython t.py --n x$T", "x", "hostname (run.sh:1)" },
        { "H=$(hostname -s)\n[[ $H =~ ^nid[0-9]+ ]] && T=2\npython t.py --n x$T", "x", "hostname (run.sh:1, H)" },
        { "M=$(uname -m)\ncase $M in ppc64le|riscv64) T=2 ;; esac\npython t.py --n x$T", "x", "uname (run.sh:1, M)" },
        { "F=(/nowhere/at/all/*.bin)\npython t.py --n ${#F[@]}" MADE, "1", NULL }, { "D=/nowhere/of\nF=($D/*/x_?.bin)\npython t.py --n ${#F[@]}" MADE, "1", NULL }, { "for f in /nowhere/else/part_*.idx; do N=$((N + 1)); done\npython t.py --n $N" MADE, "1", NULL },
    };
    check_decided(row, sizeof row / sizeof row[0]);
}

static void answers_do_not_decide(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "nvidia-smi\nmodule load x\nN=3\npython t.py --n $N", "A=$(date +%Y)\npython t.py --n 1",
        "set -e\ncommand -v nosuch || true\nif [ -z \"$DEPTH\" ]; then DEPTH=4; fi\npython t.py --n ${DEPTH} --m ${WIDTH:-7}",
        "nvidia-smi || exit 1\npython t.py --n 1", "case $- in *i*) N=1 ;; *) N=2 ;; esac\n[[ $- == *i* ]] || N=3$N\nold=$-; set +x\n[[ $old == *x* ]] && set -x\npython t.py --n $N", "python prepare.py && python t.py --n 2", "for i in 1 2 3; do sleep 100; done; python t.py --n 3",
    };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
            LaunchRecord r;
            assert_ok(launch(&r, way, scripts[i], 0, NULL));
            const LaunchCall *c = &r.call[r.calls - 1];
            for (int k = 0; k < c->words; k++)
                if (!c->word[k].agreed) fail_msg("%s\n%s is decided by %s", scripts[i], c->word[k].text, c->word[k].decided_by);
            assert_int_equal(c->others, 0);
            launch_close(&r);
        }
}

static void empty_values_are_named(void **state)
{
    (void)state;
    static const struct { const char *script, *lacks; } row[] = {
        { "DEPTH=$1\npython t.py --a 1 --n $DEPTH --b 2", "$DEPTH, which run.sh:1 sets to $1 (run.sh:2)" },
        { "python t.py --a 1 --n $3 --b 2", "$3 (run.sh:1)" },
        { "python t.py --a 1 --n $DEPTH --b 2", "$DEPTH, which is not set (run.sh:1)" },
        { "ARGS=\"\n --a 1\n --n ${DEPTH}\n --b 2\"\npython t.py $ARGS", "$DEPTH, which is not set (run.sh:3)" },
        { "DEPTH=$2\nARGS=(\n --a 1\n --n ${DEPTH}\n --b 2\n)\npython t.py ${ARGS[@]}", "$DEPTH, which run.sh:1 sets to $2 (run.sh:4)" },
    };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
            LaunchRecord r;
            assert_ok(launch(&r, way, row[i].script, 0, NULL));
            assert_string_equal(words_of(r.call), "--a|1|--n|--b|2");
            assert_string_equal(r.call->word[2].lacks, row[i].lacks);
            assert_true(r.call->word[3].agreed && r.call->word[4].agreed);
            launch_close(&r);
        }
}

/* What Slurm sets for the #SBATCH lines of a script, by the section OUTPUT ENVIRONMENT VARIABLES of sbatch(1). */
static void lines_of_sbatch_set_variables(void **state)
{
    (void)state;
    static const struct { const char *script, *variables; } row[] = {
        { "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=mi250:8\n#SBATCH --cpus-per-task=7\n",
          "2:SLURM_NNODES=4 2:SLURM_JOB_NUM_NODES=4 3:SLURM_NTASKS_PER_NODE=8 5:SLURM_CPUS_PER_TASK=7 4:SLURM_GPUS_PER_NODE=mi250:8 3:SLURM_NTASKS=32 3:SLURM_NPROCS=32 4:SLURM_GPUS_ON_NODE=8" },
        { "#SBATCH -N 2 -n6 -c 3 # four\n#SBATCH -J \"a b\" -p gpu -A acc -q normal\n",
          "1:SLURM_NNODES=2 1:SLURM_JOB_NUM_NODES=2 1:SLURM_NTASKS=6 1:SLURM_NPROCS=6 1:SLURM_CPUS_PER_TASK=3 2:SLURM_JOB_NAME=a b 2:SLURM_JOB_PARTITION=gpu 2:SLURM_JOB_ACCOUNT=acc 2:SLURM_JOB_QOS=normal" },
        { "#SBATCH --gres=gpu:a100:4,nvme:1\n", "1:SLURM_GPUS_ON_NODE=4" }, { "#SBATCH --gres gpu\n", "1:SLURM_GPUS_ON_NODE=1" },
        { "#SBATCH --gres=gpu:a:2,gpu:b:3\n", "1:SLURM_GPUS_ON_NODE=5" }, { "#SBATCH --gres=gpu:a100\n", "" }, { "#SBATCH --gres=nvme:4\n", "" },
        { "#SBATCH --gpus-per-task=2 --ntasks-per-node 4\n", "1:SLURM_NTASKS_PER_NODE=4 1:SLURM_GPUS_PER_TASK=2 1:SLURM_GPUS_ON_NODE=8" },
        { "#SBATCH --gpus=16\n", "1:SLURM_GPUS=16" }, { "#SBATCH -G 16\n", "1:SLURM_GPUS=16" }, { "#SBATCH --gpus-per-node=a:1,b:2\n", "" },
        { "#SBATCH --nodes=02\n#SBATCH --nodes=03\n", "2:SLURM_NNODES=3 2:SLURM_JOB_NUM_NODES=3" },         /* the last one holds */
        { "#SBATCH --nodes=2\n#SBATCH --nodes=<N>\n", "" }, { "#SBATCH --nodes=2-4\n", "" }, { "#SBATCH -N $N\n", "" }, { "#SBATCH --nodes=many\n", "" },
        { "#SBATCH --ntasks=<N> --ntasks-per-node=4 -N 2\n", "1:SLURM_NNODES=2 1:SLURM_JOB_NUM_NODES=2 1:SLURM_NTASKS_PER_NODE=4" },
        { "##SBATCH --nodes=2\n# SBATCH --nodes=2\n #SBATCH --nodes=2\n#SBATCHED --nodes=2\n", "" },      /* comments */
        { "\n# text\n#SBATCH --nodes=2 --exclusive\nmodule load x\n#SBATCH --nodes=3\n", "3:SLURM_NNODES=2 3:SLURM_JOB_NUM_NODES=2" }, /* behind a command */
        { "#SBATCH --nodes=2\n#SBATCH hetjob\n#SBATCH --nodes=1\n", "" }, { "#SBATCH --partition=a,b --time 3:00 --mem=0\n", "" },
        { "#SBATCH --nodes=2\r\n", "1:SLURM_NNODES=2 1:SLURM_JOB_NUM_NODES=2" }, { "#SBATCH --nodes", "" }, { "#SBATCH", "" },
        { "#SBATCH --array=1-4 --nodes=99999999\n", "" }, { "#SBATCH --job-name=\"$X\"\n", "" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        JobVariable variable[SLURM_VARIABLES];
        Texts texts = { 0 };
        char all[2048] = "";
        int count = slurm_variables(variable, row[i].script, NULL, 0, &texts);
        for (int k = 0; k < count; k++)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%d:%s", k ? " " : "", variable[k].line, variable[k].assignment);
        if (strcmp(all, row[i].variables)) fail_msg("%s\ngives %s\nnot   %s", row[i].script, all, row[i].variables);
        texts_free(&texts);
    }
}

static bool has_note(const LaunchRecord *r, int line, const char *text)
{
    for (int i = 0; i < r->notes; i++)
        if (r->note[i].line == line && strstr(r->note[i].text, text)) return true;
    for (int i = 0; i < r->notes; i++) print_error("%s:%d: %s\n", r->note[i].file, r->note[i].line, r->note[i].text);
    return false;
}

/* They count in the script that is given, unless it submits another job, and the caller's own values come before them. */
static void jobs_know_their_size(void **state)
{
    (void)state;
    static const char lines[] = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\n";
    static const struct { const char *script, *given, *words; bool agreed; int line; } row[] = {
        { "python t.py --n $((SLURM_JOB_NUM_NODES * 2)) --m $SLURM_NTASKS", NULL, "--n|8|--m|32", true, 2 },
        { "python t.py --n ${SLURM_NNODES:-1}", NULL, "--n|4", true, 2 },
        { "python t.py --n $SLURM_NNODES --m $SLURM_NTASKS", "SLURM_NNODES=3", "--n|3|--m|24", true, 3 },
        { "python t.py --n $SLURM_JOB_NUM_NODES --m $SLURM_NTASKS", "SLURM_NTASKS=5", "--n|4|--m|5", true, 2 },
        { "[ -z $SLURM_JOB_ID ] && { sbatch \"$0\"; exit; }\npython t.py --n $SLURM_NNODES", NULL, "--n|4", true, 2 },
        { "python t.py --n ${SLURM_JOB_ID:-1}", NULL, "--n|1", false, 0 },
        { "[ -z $SLURM_JOB_ID ] && { sbatch -N 7 \"$0\"; exit; }\npython t.py --n ${SLURM_NNODES:-1}", NULL, "--n|1", false, 0 },
        { "sbatch <<E\n#SBATCH --nodes 2\npython t.py --n \\${SLURM_NNODES:-1}\nE", NULL, "--n|1", false, 0 },
    };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
            LaunchRecord r;
            char script[1024];
            snprintf(script, sizeof script, "%s%s\n", lines, row[i].script);
            assert_ok(launch(&r, way, script, row[i].given != NULL, &row[i].given));
            assert_string_equal(words_of(r.call), row[i].words);
            for (int k = 0; k < r.call->words; k += 2) assert_true(r.call->word[k].agreed);
            for (int k = 1; k < r.call->words; k += 2)
                if (r.call->word[k].agreed != row[i].agreed) fail_msg("%s\n%s: %s", row[i].script, r.call->word[k].text, r.call->word[k].decided_by);
            if (row[i].line) assert_true(has_note(&r, row[i].line, "by this line of #SBATCH"));
            launch_close(&r);
        }
}

/* A program is recorded however it is named, and whatever starts it. */
static void programs_are_recorded(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "python t.py --n 1", "python3 -u t.py --n 1", "/usr/bin/python3 t.py --n 1", "/opt/none/bin/python t.py --n 1", "P=/opt/none/bin/python3\n$P t.py --n 1",
        "exec python t.py --n 1", "exec /usr/bin/env python3 t.py --n 1", "export PATH=/usr/bin\npython t.py --n 1", "PATH=/nowhere:/usr/bin:/bin\nexec torchrun t.py --n 1",
        "bash -c 'python t.py --n 1'", "sh -c 'python t.py --n 1'", "eval \"python t.py --n 1\"", "f() { python \"$@\"; }\nf t.py --n 1",
        "python t.py --n 1 &\nwait", "python t.py --n 1 &", "(sleep 1; python t.py --n 1) &", "nohup python t.py --n 1 > log 2>&1 &", "timeout 10 python t.py --n 1",
        "torchrun --nproc_per_node 8 t.py --n 1", "python -m torch.distributed.run --nproc_per_node 8 t.py --n 1", "python -m torch.distributed.launch t.py --n 1",
        "deepspeed --hostfile h t.py --n 1", "accelerate launch --num_processes 8 t.py --n 1", "srun -N 2 --ntasks 8 python t.py --n 1", "srun bash -c \"python t.py --n 1\"",
        "mpirun -n 8 python t.py --n 1", "mpiexec -n 8 --ppn 4 python3 t.py --n 1", "jsrun -n 1 python t.py --n 1", "aprun -n 8 python t.py --n 1",
        "uv run python t.py --n 1", "uv run --no-sync t.py --n 1", "conda run -n env python t.py --n 1", "singularity exec --nv img.sif python t.py --n 1",
        "apptainer exec img bash -c 'torchrun t.py --n 1'", "docker run --rm -v a:b image torchrun t.py --n 1", "podman run image python t.py --n 1",
        "enroot start image python t.py --n 1", "srun singularity exec img bash -c \"deepspeed t.py --n 1\"", "sbatch <<EOF\n#!/bin/bash\nsrun python t.py --n 1\nEOF",
        "sbatch --wrap=\"python t.py --n 1\"", "sbatch --wrap 'python t.py --n 1'", "[ -z $SLURM_JOB_ID ] && { sbatch \"$0\"; exit; }\npython t.py --n 1", "echo 'python t.py --n $1' > job.sh\nsbatch -N 2 job.sh 1", "echo 'python t.py --n 1' > job.sh\nsrun ./job.sh",
        "ssh host \"cd /x; python t.py --n 1\"", "numactl -N 0 python t.py --n 1", "nsys profile -o x python t.py --n 1", "sudo python t.py --n 1", "env -i python t.py --n 1",
        "unset PATH\n/usr/bin/env PATH=/usr/bin python3 t.py --n 1", "python -m t.py --n 1", "echo 't.py --n 1' | xargs python", "my_launcher -x python t.py --n 1",
        "time python t.py --n 1", "trap 'python t.py --n 1' EXIT", "coproc python t.py --n 1; wait", "x=$(python t.py --n 1)", "python t.py --n 1 > /nowhere/to/be/log",
        "cd /nowhere/to/be && true; python t.py --n 1", "command python t.py --n 1", "builtin eval python t.py --n 1", "bash <<< 'python t.py --n 1'", "source <(echo python t.py --n 1)",
        "set -euo pipefail\npython t.py --n 1 2>&1 | tee log", "if ! python t.py --n 1; then exit 3; fi", "[ -n \"\" ] || exec accelerate launch t.py --n 1",
        "C=\"env FOO=1 torchrun\"\n$C t.py --n 1", "run() { \"$@\"; }\nrun env X=1 torchrun t.py --n 1", "X=8 /opt/none/bin/torchrun t.py --n 1", "X='a b' /opt/x/python t.py --n 1", "A=\"b c\" B='d \"e' P=/opt/x/python3.9 /opt/y/torchrun t.py --n 1", "~/none/bin/python t.py --n 1",
        "P=/opt/none/bin/python\nX=0 Y=\"a b\":${P}/x Z=\"\" $P t.py --n 1", "none/bin/python t.py --n 1", "X=1 exec /opt/none/bin/torchrun t.py --n 1",
        "echo 'python t.py --n 1' > job.sh\nenv PYTHON=/usr/bin/python3 bash job.sh 1",
    };
    enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };
    EACH_WAY(way) {
        char *text;
        size_t bytes;
        bool seen[SCRIPTS] = { false };
        FILE *out = open_memstream(&text, &bytes);
        for (int i = 0; i < SCRIPTS; i++) {                      /* each in a subshell, with a number of its own */
            fprintf(out, "(\n");
            for (const char *p = scripts[i]; *p; p++) {
                bool one = p > scripts[i] && *p == '1' && p[-1] == ' ' && (!p[1] || strchr("\n'\" )>&;|", p[1])) && (!strncmp(p - 4, "--n 1", 5) || !strncmp(p - 4, ".sh 1", 5));
                if (one) fprintf(out, "%d", 1000 + i);
                else     fputc(*p, out);
            }
            fprintf(out, "\n)\n");
        }
        fclose(out);
        LaunchRecord r;
        assert_ok(launch(&r, way, text, 0, NULL));
        for (int c = 0; c < r.calls; c++) {
            int i = r.call[c].words == 2 ? atoi(r.call[c].word[1].text) - 1000 : -1;
            if (i < 0 || i >= SCRIPTS || strcmp(r.call[c].program, "t.py")) fail_msg("%s %s", r.call[c].program, words_of(&r.call[c]));
            seen[i] = true;
        }
        for (int i = 0; i < SCRIPTS; i++) {
            /* Landlock makes no folder outside of its own. */
            bool real = strstr(scripts[i], "> /nowhere");
            if (!seen[i] && !(real && way == LAUNCH_LANDLOCK)) fail_msg("%s: not recorded:\n%s", way_names[way], scripts[i]);
        }
        launch_close(&r);
        free(text);
    }
}

static void files_are_read_at_the_call(void **state)
{
    (void)state;
    static const char text[] = "Z=1\nCFG=ds.json\ncat <<EOT > $CFG\n{ \"stage\": $Z }\nEOT\nsed -i 's/1/2/' ds.json\npython t.py --c $CFG\necho gone > $CFG\n"
                               "echo $(nvidia-smi) > other.json\npython t.py --c=other.json\n";
    EACH_WAY(way) {
        LaunchRecord r;
        assert_ok(launch(&r, way, text, 0, NULL));
        assert_int_equal(r.calls, 2);
        assert_int_equal(r.call[0].files, 1);
        assert_string_equal(r.call[0].made[0].path, "ds.json");
        assert_string_equal(r.call[0].made[0].text, "{ \"stage\": 2 }\n");
        assert_int_equal(r.call[0].made[0].line, 3);
        assert_true(r.call[0].made[0].agreed);
        assert_false(r.call[1].made[0].agreed);
        assert_int_equal(access("ds.json", F_OK), -1);
        launch_close(&r);
    }
}

/* Where bash stops before the call, a second run skips failures and says which. */
static void failures_are_skipped(void **state)
{
    (void)state;
    static const struct { const char *script; int line; const char *note; } row[] = {
        { "set -e\nsource missing.sh\npython t.py --n 1", 2, "source missing.sh failed here with exit code 1" },
        { "set -eu\necho $NOT_THERE\npython t.py --n 1", 0, NULL },
        { "if [ $# -lt 1 ]; then\n  exit 1\nfi\npython t.py --n 1", 2, "exit 1 was skipped" },
        { "cd /nowhere || exit 2\npython t.py --n 1", 1, "cd /nowhere failed here with exit code 1" },
        { ". ./missing.sh\npython t.py --n 1", 1, "./missing.sh failed here" },
        { "cp /nowhere/x y\npython t.py --n 1", 1, "cp /nowhere/x y failed here" },
    };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
            LaunchRecord r;
            assert_ok(launch(&r, way, row[i].script, 0, NULL));
            assert_string_equal(words_of(r.call), "--n|1");
            if (row[i].note && !has_note(&r, row[i].line, row[i].note)) fail_msg("%s", row[i].script);
            launch_close(&r);
        }
}

#define assert_says(call, code, text) do {                                                  \
        assert_int_equal(call, code);                                                        \
        if (!strstr(fail_text(), text)) fail_msg("no \"%s\" in \"%s\"", text, fail_text());   \
    } while (0)

static void wrong_scripts(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } row[] = {
        { "echo hello\n", "run.sh: bash runs it, failures and exits skipped, and it starts no Python program" },
        { "", "it starts no Python program" }, { "\npython t.py \"a\n", "run.sh:2: bash cannot read it: unexpected EOF while looking for matching" },
        { "X=<Specify path>\npython t.py\n", "run.sh:1: bash cannot read it: syntax error" }, { "X=<Specify path>\npython t.py\n", "put a value in the place of <Specify path>" },
        { "fi\npython t.py\n", "run.sh:1: bash cannot read it: syntax error" }, { "--a 'x\n", "run.sh:1: a ' is not closed" },
        { "#!/usr/bin/env -S zsh -l\nargs=(--bf16 --lr 1)\npython t.py $args\n", "run.sh:1: it is a script for zsh" },
        { "#! /bin/tcsh\nset HS = 256\npython t.py $HS\n", "run.sh:1: it is a script for tcsh" },
    };
    LaunchRecord r;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_says(launch(&r, LAUNCH_ANY_WAY, row[i].text, 0, NULL), BAD_FILE, row[i].says);
        launch_close(&r);
    }
    LaunchInput in = { .script = "/nowhere/x.sh" };
    assert_says(launch_record(&r, &in), BAD_FILE, "/nowhere/x.sh");
    launch_close(&r);
}

static void lists_are_not_run(void **state)
{
    (void)state;
    static const struct { const char *text, *words; } row[] = {
        { "# words alone\n--a 1 \\\n--b '2 3'\n# more\n --c ([0]*3) ", "1:--a|1:1|3:--b|3:2 3|5:--c|5:([0]*3)" },
    };
    LaunchRecord r;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_ok(launch(&r, LAUNCH_ANY_WAY, row[i].text, 0, NULL));
        assert_string_equal(lines_of(r.call), "2:--a|2:1|3:--b|3:2 3|5:--c|5:([0]*3)");
        launch_close(&r);
    }
    assert_ok(launch(&r, LAUNCH_ANY_WAY, "--a $X 'a$b' \"$(date)\"\n", 0, NULL));
    assert_true(r.call->word[0].agreed && !r.call->word[1].agreed && r.call->word[2].agreed && !r.call->word[3].agreed);
    launch_close(&r);
}

/* What a script may not write is named, line by line. */
static void refused_writes_are_named(void **state)
{
    (void)state;
    EACH_WAY(way) {
        LaunchRecord r;
        assert_ok(launch(&r, way, "echo x > /usr/lib/none-of-jotun\nmkdir /usr/none-of-jotun\npython t.py --n 1\n", 0, NULL));
        assert_true(has_note(&r, 0, "/usr/lib/none-of-jotun"));
        assert_true(has_note(&r, 0, "/usr/none-of-jotun"));
        launch_close(&r);
    }
}

/* A folder that is too large for a copy can be read, and not written. */
static void large_folders_are_read(void **state)
{
    (void)state;
    if (!allowed(LAUNCH_LANDLOCK)) return;
    LaunchRecord r;
    assert_int_equal(system("head -c 80000000 /dev/zero > large"), 0);
    assert_ok(launch(&r, LAUNCH_LANDLOCK, "N=$(stat -c %s large)\necho x > new\npython t.py --n $N\n", 0, NULL));
    assert_string_equal(words_of(r.call), "--n|80000000");
    assert_true(has_note(&r, 0, "is above 64 MiB, so that it was not copied and was read-only"));
    assert_true(has_note(&r, 0, "new: Permission denied"));
    launch_close(&r);
    assert_int_equal(remove("large"), 0);
}

/* Where neither way is allowed nothing is run, and the message names the way out. */
static void nothing_is_run_unless_shut_in(void **state)
{
    (void)state;
    int how;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 444, 3, 0),                         /* landlock_create_ruleset */
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1),                 /* namespaces */
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof code / sizeof *code, code };
        LaunchRecord r;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(77);
        Status status = launch(&r, LAUNCH_ANY_WAY, "echo x > ran\npython t.py --n 1\n", 0, NULL);
        bool   says   = strstr(fail_text(), "is not run, because this machine allows nothing to shut it in") && strstr(fail_text(), "jotun config --record FOLDER");
        _exit(status == BAD_OPTION && says && access("ran", F_OK) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(how == 0 || WEXITSTATUS(how) == 77);
}

/* A person's own run with recorders gives the same words, and everything in it is agreed. */
static void own_runs_are_read(void **state)
{
    (void)state;
    char command[9000];
    LaunchRecord r;
    put("own.sh", "N=$(nvidia-smi)\nsrun bash -c \"torchrun t.py --n $N \\\n  --m 1\"\n");
    assert_ok(launch_offer(command, sizeof command, "recorders"));
    assert_int_equal(launch_offer(command + 4000, 4000, "recorders"), BAD_FILE);
    snprintf(command + strlen(command), sizeof command - strlen(command), " own.sh > /dev/null 2>&1");
    assert_int_equal(system(command), 0);
    LaunchInput in = { .script = "recorders" };
    assert_ok(launch_record(&r, &in));
    assert_string_equal(words_of(r.call), "--n|4|--m|1");
    assert_int_equal(r.call->word[2].line, 3);
    assert_true(r.call->word[1].agreed);
    launch_close(&r);
}

/* NAME=value is the environment's, before and among the arguments; all that follows -- is an argument. */
static void words_of_a_command_line(void **state)
{
    (void)state;
    static const char *const words[] = { "one", "B=1", "B=2", "--", "--depth", "C=3" };
    EACH_WAY(way) {
        LaunchRecord r;
        setenv("SECRET_OF_OURS", "hidden", 1);
        assert_ok(launch(&r, way, "python t.py \"$@\" $B $C x${SECRET_OF_OURS}", 6, words));
        assert_string_equal(words_of(r.call), "one|--depth|C=3|2|x");
        assert_true(has_note(&r, 0, "SECRET_OF_OURS is set in the environment"));
        launch_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_give_words), cmocka_unit_test(words_keep_their_lines), cmocka_unit_test(answers_decide), cmocka_unit_test(conditions_decide), cmocka_unit_test(answers_do_not_decide),
        cmocka_unit_test(empty_values_are_named), cmocka_unit_test(lines_of_sbatch_set_variables), cmocka_unit_test(jobs_know_their_size), cmocka_unit_test(programs_are_recorded), cmocka_unit_test(files_are_read_at_the_call),
        cmocka_unit_test(failures_are_skipped), cmocka_unit_test(wrong_scripts), cmocka_unit_test(lists_are_not_run), cmocka_unit_test(words_of_a_command_line),
        cmocka_unit_test(refused_writes_are_named), cmocka_unit_test(large_folders_are_read),
        cmocka_unit_test(nothing_is_run_unless_shut_in), cmocka_unit_test(own_runs_are_read),
    };
    if (!allowed(LAUNCH_NAMESPACES) && !allowed(LAUNCH_LANDLOCK)) return 77;
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(test_folder());
    return status;
}
