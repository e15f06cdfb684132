"""Launch scripts and lists of arguments by `jotun config --from-megatron`, each with the values that bash gives or the refusal that names what is
missing. One script for each kind of fault that readers of scripts have had; and the cases of ../shared, where that folder is there."""
import os
import re
import sys
import tempfile

import run

run.JOTUN = os.path.abspath(run.JOTUN)
SHARED = os.environ.get("JOTUN_SHARED", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")) + "/cases"
SIZES = "--hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --lr 1e-4 --data-path tokens"
GPT = f"torchrun pretrain_gpt.py {SIZES} --train-iters 10"
JSON = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": STAGE}}'
# What it shows, script, words behind it, exit code, options of the YAML (None: not written), what is said.
CASES = [
    ("digits with underscores", f"S=4_000\ntorchrun pretrain_gpt.py {SIZES} --num-layers 2 --global-batch-size 4 --train-samples $S --lr-decay-samples 3_000", [], 0,
     {"train-samples": "4000", "lr-decay-samples": "3000"}, ""),
    ("a long substitution of a file that is missing",
     f"LIST=$(cat /somewhere/with/a/path/that/is/longer/than/sixty/bytes/mixture_of_parts.txt)\nC=\"pretrain_gpt.py {SIZES.replace(' --data-path tokens', '')} --num-layers 2 --train-iters 10 --data-path $LIST --split 9,1,0\"\nsrun bash -c \"python $C\"",
     [], 1, {"split": "9,1,0", "num-layers": "2", "data-path": None}, "--data-path has no value: $LIST"),
    ("options of the script, defaults", "OPTIONS", [], 0, {"num-layers": "3", "tensor-model-parallel-size": "1"}, ""),
    ("options of the script, given", "OPTIONS", ["--", "--layers", "12", "--tp", "2"], 0, {"num-layers": "12", "tensor-model-parallel-size": "2"}, ""),
    ("options of the script, without --", "OPTIONS", ["--layers", "12"], 0, {"num-layers": "12"}, ""),
    ("let", f"L=2\nlet L=L*4\n{GPT} --num-layers $L", [], 0, {"num-layers": "8"}, ""),
    ("double parentheses", f"L=2\n((L += 5))\n{GPT} --num-layers $L", [], 0, {"num-layers": "7"}, ""),
    ("a file that is sourced", f"L=2\n. ./sizes.inc\n{GPT} --num-layers $L", [], 0, {"num-layers": "9"}, ""),
    ("case in a loop", f"L=2\nfor m in big; do case $m in big) L=5 ;; esac; done\n{GPT} --num-layers $L", [], 0, {"num-layers": "5"}, ""),
    ("eval with an empty variable", f"R=\"{GPT} --num-layers 2 --log-interval 7 ${{more}}\"\neval $R", [], 0, {"log-interval": "7"}, ""),
    ("JSON made of a template", f"sed s/STAGE/2/ template.json > made.json\ndeepspeed pretrain_gpt.py {SIZES} --num-layers 2 --train-iters 10 --deepspeed --deepspeed_config made.json", [], 0,
     {"zero-stage": "2"}, ""),
    ("JSON changed in its place", f"cat > made.json <<E\n{JSON.replace('STAGE', '1')}\nE\nsed -i 's/\"stage\": 1/\"stage\": 2/' made.json\ndeepspeed pretrain_gpt.py {SIZES} --num-layers 2 --train-iters 10 --deepspeed --deepspeed_config made.json",
     [], 0, {"zero-stage": "2"}, ""),
    ("JSON named by the job", f"c=./d.$JOB.json\ncat <<E > $c\n{JSON.replace('STAGE', '1')}\nE\nsrun bash -c \"python pretrain_gpt.py {SIZES} --num-layers 2 --train-iters 10 --deepspeed --deepspeed_config ${{c}}\"", [], 0,
     {"zero-stage": "1"}, ""),
    ("JSON that depends on the machine", f"echo '{JSON}' | sed s/STAGE/$(nvidia-smi -L | wc -l)/ > made.json\ndeepspeed pretrain_gpt.py {SIZES} --num-layers 2 --train-iters 10 --deepspeed --deepspeed_config made.json", [], 1,
     {"zero-stage": None, "num-layers": "2"}, "the JSON that is written depends on"),
    ("a here-document of sbatch", f"R=\"{GPT} --num-layers 2\"\nsbatch <<E\n#!/bin/bash\n#SBATCH -N 2\nsrun bash -c \"${{R}}\"\nE", [], 0, {"num-layers": "2"}, ""),
    ("a comment in a continued line", f"torchrun pretrain_gpt.py --hidden-size 64 \\\n  # --num-layers 9 \\\n  --num-layers 4 --seq-length 64", [], 1, {"num-layers": None}, "--num-layers"),
    ("letters taken away", f"T=32_000\nT=${{T//_}}\ntorchrun pretrain_gpt.py {SIZES} --num-layers 2 --global-batch-size 4 --train-samples $((T/64))", [], 0, {"train-samples": "500"}, ""),
    ("a value set in a loop", f"L=2\nfor m in a; do L=5; done\n{GPT} --num-layers $L", [], 0, {"num-layers": "5"}, ""),
    ("unset", f"L=4\nunset L\n{GPT} --num-layers ${{L:-5}}", [], 0, {"num-layers": "5"}, ""),
    ("a subshell", f"L=4\n(L=9)\n{GPT} --num-layers $L", [], 0, {"num-layers": "4"}, ""),
    ("positional arguments", f"L=$1\n{GPT} --num-layers $L --save $2", ["6", "ck"], 0, {"num-layers": "6", "save": "ck"}, ""),
    ("positional arguments that are missing", f"L=$1\n{GPT} --num-layers $L --save $2", ["6"], 1, {"num-layers": "6", "save": None}, "--save has no value: $2 (CASE:2) is empty"),
    ("the environment", f"{GPT} --num-layers ${{L:-2}} --lr-warmup-iters $W", ["L=6", "W=1"], 0, {"num-layers": "6", "lr-warmup-iters": "1"}, ""),
    ("what this machine lacks", f"N=$(scontrol show hostnames | wc -l)\n{GPT} --num-layers 2 --global-batch-size $((N * 8))", [], 1, {"global-batch-size": None, "num-layers": "2"},
     "--global-batch-size: '8' depends on scontrol (CASE:1, N)"),
    ("a size of the job that its #SBATCH lines say", f"#!/bin/bash\n#SBATCH --nodes=4 --gpus-per-node=2\n{GPT} --num-layers 2 --global-batch-size $((SLURM_NNODES * SLURM_GPUS_ON_NODE))", [], 0,
     {"global-batch-size": "8"}, "CASE:2: SLURM_NNODES is 4 by this line of #SBATCH"),
    ("a size of the job that is given", f"#!/bin/bash\n#SBATCH --nodes=4\n{GPT} --num-layers 2 --global-batch-size $((SLURM_NNODES * 2))", ["SLURM_NNODES=3"], 0, {"global-batch-size": "6"}, ""),
    ("a place by what this machine lacks", f"{GPT} --num-layers 2 --save $SCRATCH/run_$(hostname)", [], 0, {"num-layers": "2"}, "--save depends on"),
    ("a name by what this machine lacks", f"{GPT} --num-layers 2 --wandb-project p --wandb-exp-name run-$(nvidia-smi -L | wc -l)", [], 0, {"num-layers": "2"}, "--wandb-exp-name depends on nvidia-smi"),
    ("a run that has not begun", f"if [[ -f /none/ck/latest_checkpointed_iteration.txt ]]; then A=\"--load /none/ck\"; else A=\"--load /none/base --finetune\"; fi\n{GPT} --num-layers 2 $A", [], 0,
     {"finetune": "true", "load": "/none/base"}, "is not there, as before the first start"),
    ("an option by a file that this machine lacks", f"if [[ -f /none/fast ]]; then A=--bf16; fi\n{GPT} --num-layers 2 $A", [], 1, {"bf16": None}, "--bf16 is given or not by"),
    ("a script that submits itself", f"if [ -z $SLURM_JOB_ID ]; then\n sbatch \"$0\"\n exit\nfi\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, ""),
    ("a program beside the training", f"python tools/preprocess_data.py --input x\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, ""),
    ("another program by a condition", f"if grep -q X /none/list; then torchrun finetune.py; else {GPT} --num-layers 2; fi", [], 1, {"num-layers": "2"},
     "whether pretrain_gpt.py or finetune.py (CASE:1) is started first depends on grep (CASE:1)"),
    ("a tool, or nothing, by a condition", f"[ -f /none/old ] && {{ python tools/checkpoint/convert.py; exit; }}\n[ -d /none/stop ] && exit 1\n[ -d /none/data ] || python tools/preprocess_data.py\n{GPT} --num-layers 2", [], 0,
     {"num-layers": "2"}, ""),
    ("another training before it by a condition", f"[ $(nvidia-smi -L | wc -l) -ge 64 ] && {GPT} --num-layers 9 --bf16\n{GPT} --num-layers 2", [], 1, {"num-layers": "2"},
     "whether pretrain_gpt.py or pretrain_gpt.py (CASE:1) is started first depends on nvidia-smi (CASE:1)"),
    ("trainings in the background by a count", f"for ((i = 0; i < $(nvidia-smi -L | wc -l); i++)); do {GPT} --num-layers 2 --save run_0$((i * 0)) & done", [], 0, {"num-layers": "2"}, ""),
    ("a module in its place by a condition", f"nvidia-smi || {{ python -m pip install x; exit 1; }}\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"},
     "CASE:2: with another answer of nvidia-smi (CASE:1), pip (CASE:1) is started instead of pretrain_gpt.py"),
    ("a program in its place by a condition", f"[ $(nvidia-smi -L | wc -l) -lt 1 ] && {{ python cleanup.py; exit 1; }}\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, "cleanup.py (CASE:1) is started instead of pretrain_gpt.py"),
    ("a program in a folder that is not known", f"torchrun $M/pretrain_gpt.py {SIZES} --train-iters 10 --num-layers $(nvidia-smi -L | wc -l)", [], 1, {"num-layers": None}, "--num-layers: '1' depends on nvidia-smi (CASE:1)"),
    ("another program", f"torchrun pretrain_bert.py {SIZES} --num-layers 2 --train-iters 10", [], 1, {"num-layers": None}, "pretrain_bert.py pretrains BERT, which is not built"),
    ("an unknown program", f"torchrun train.py {SIZES} --num-layers 2 --train-iters 10", [], 1, {"num-layers": None}, "give --program-is-gpt if it is one"),
    ("an option by what this machine lacks", f"if nvidia-smi; then MORE=--bf16; fi\n{GPT} --num-layers 2 $MORE", [], 1, {"bf16": None}, "--bf16: '--bf16' depends on nvidia-smi (CASE:1)"),
    ("an option that another machine would give", f"nvidia-smi || MORE=--bf16\n{GPT} --num-layers 2 $MORE", [], 1, {"bf16": None}, "--bf16 is given or not by nvidia-smi (CASE:1)"),
    ("an empty variable behind a flag", f"{GPT} --num-layers 2 --bf16 $MORE", [], 0, {"bf16": "true"}, "$MORE, which is not set (CASE:1) is empty and is left out"),
    ("failures that are skipped", f"set -e\nsource /etc/none/env.sh\ncd /none || exit 1\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, "source /etc/none/env.sh failed here"),
    ("another program before a failure", f"set -e\npython prepare.py\nsource /etc/none/env.sh\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, "source /etc/none/env.sh failed here"),
    ("another program, and no failure", f"set -e\npython prepare.py", [], 1, {"num-layers": None}, "prepare.py"),
    ("an escape in an argument", f"{GPT} --num-layers 2 --save \"$(printf 'a\\033[31mb')\" --wrong \"$(printf '\\033]0;x\\007')\"", [], 1, {"num-layers": "2"}, ""),
    ("trainings in the background", f"for lr in 1 2 3; do\n {GPT} --num-layers 2 --save run_$lr --init-method-std 0.0$lr &\ndone\nwait", [], 0, {"save": "run_1", "init-method-std": "0.01"},
     "is started 2 more times: CASE:2 with --save run_2 --init-method-std 0.02, CASE:2 with --save run_3"),
    ("trainings on several lines", f"N=$(nvidia-smi -L | wc -l)\n{GPT} --num-layers 2 --save a &\n{GPT} --num-layers 2 --save b --micro-batch-size $N &\n{GPT} --num-layers 2 --save a &", [], 0,
     {"save": "a", "micro-batch-size": "1"}, "is started 2 more times: CASE:3 with --save b"),
    ("the same training on each host", f"for h in a b; do ssh $h \"{GPT} --num-layers 2\" & done; wait", [], 0, {"num-layers": "2"}, "is started 1 more time: CASE:1 with the same options"),
    ("a condition of the host's answers", f"if [ $(nvidia-smi -L | wc -l) -ge 64 ]; then M=--bf16; fi\n{GPT} --num-layers 2 $M", [], 1, {"num-layers": "2", "bf16": None}, "--bf16 is given or not by nvidia-smi (CASE:1)"),
    ("a condition that changes nothing", f"if [ $(nvidia-smi -L | wc -l) -ge 64 ]; then echo many; fi\ncase $(hostname) in a*) module load x ;; b*) exit 1 ;; esac\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, ""),
    ("a condition whose other outcome does not end", f"N=$(nvidia-smi -L | wc -l)\n[ $N -lt 5000 ] || while :; do :; done\n{GPT} --num-layers 2", [], 1, {"num-layers": "2"}, "not all could be run with their other outcome"),
    ("more conditions than are tried", "N=$(nvidia-smi -L | wc -l)\n" + "".join(f"[ $N -eq {1000 + i} ] && A={i}\n" for i in range(20)) + f"[ $N -eq 2000 ] && M=--bf16\n{GPT} --num-layers 2 $M", [], 1, {"num-layers": "2"},
     "not all could be run with their other outcome"),
    ("a default beside a missing file", f"source ./env.sh\n{GPT} --num-layers 2 --global-batch-size ${{GBS:-8}}", [], 1, {"global-batch-size": None, "num-layers": "2"}, "$GBS, which ./env.sh might set, a file that is missing (CASE:2)"),
    ("an assigned default beside a missing file", f"D=$(dirname $0)\n. $D/conf/sizes.sh\nL=${{L:-4}}\n{GPT} --num-layers $L", [], 1, {"num-layers": None}, "conf/sizes.sh might set, a file that is missing"),
    ("a default beside a file that is sourced if it is there", f"[ -f \"./env.sh\" ] && . ./env.sh\n{GPT} --num-layers 2 --global-batch-size ${{GBS:-8}}", [], 1, {"global-batch-size": None, "num-layers": "2"},
     "$GBS, which ./env.sh might set"),
    ("the same on two lines, elsewhere", f"D=/none/etc\nif [[ -r $D/env.sh ]]; then\n  source $D/env.sh\nfi\n{GPT} --num-layers ${{L:-4}}", [], 1, {"num-layers": None}, "$L, which /none/etc/env.sh might set"),
    ("a default beside a missing file, without a message", f"source ./env.sh 2>/dev/null || true\n{GPT} --num-layers ${{L:-4}}", [], 1, {"num-layers": None}, "$L, which ./env.sh might set"),
    ("a default beside a tested file, in other quotes", f"F=./env.sh\nif [ -f \"$F\" ]; then\n  # of this machine\n\n  echo yes\n\n  . \"${{F}}\"\nfi\n{GPT} --num-layers ${{L:-4}}", [], 1, {"num-layers": None}, "$L, which ./env.sh might set"),
    ("a default beside a tested file, without its folder", f"test -e env.sh && source ./env.sh\n{GPT} --num-layers ${{L:-4}}", [], 1, {"num-layers": None}, "$L, which env.sh might set"),
    ("a default beside a file that the script writes", f"mkdir '/tmp/a b'; echo L=5 > '/tmp/a b/env.sh'; . '/tmp/a b/env.sh'; cd '/tmp/a b'; . ./env.sh; . /dev/stdin <<< N=1\n{GPT} --num-layers $L --seed ${{SEED:-4}}", [], 0,
     {"num-layers": "5", "seed": "4"}, ""),
    ("a default beside a file that another machine sources", f"if [ $(hostname) = gpu ]; then source conf/gpu.sh; fi\n{GPT} --num-layers ${{L:-4}}", [], 1, {"num-layers": None}, "$L, which conf/gpu.sh might set"),
    ("a default beside a file that is there", f"[ -f ./sizes.inc ] && . ./sizes.inc\n{GPT} --num-layers $L --seed ${{SEED:-4}}", [], 0, {"num-layers": "9", "seed": "4"}, ""),
    ("a default beside a missing profile", f"[ -f /none/.bashrc ] && source /none/.bashrc\n[ -f none.json ] || echo none\n{GPT} --num-layers ${{L:-4}}", [], 0, {"num-layers": "4"}, ""),
    ("a default beside a missing environment", f"source venv/bin/activate\n. /etc/profile.d/modules.sh\n{GPT} --num-layers ${{L:-4}}", [], 0, {"num-layers": "4"}, ""),
    ("a default beside a missing file, given", f"source ./env.sh\n{GPT} --num-layers 2 --global-batch-size ${{GBS:-8}}", ["GBS=4"], 0, {"global-batch-size": "4"}, ""),
    ("a random seed", f"SEED=$RANDOM\n{GPT} --num-layers 2 --seed $SEED", [], 1, {"seed": None}, "depends on $RANDOM (CASE:1, SEED)"),
    ("a seed of the time", f"{GPT} --num-layers 2 --seed $((SECONDS + EPOCHSECONDS % 1000))", [], 1, {"seed": None}, "SECONDS (CASE:1)"),
    ("a seed of awk", f"{GPT} --num-layers 2 --seed $(awk 'BEGIN {{ srand(); print int(rand() * 100000) }}')", [], 1, {"seed": None}, "depends on awk (CASE:1)"),
    ("a random element in arithmetic", f"S=(7 5 5 5 5 5 5 5); I=$((RANDOM % 8))\n{GPT} --num-layers 2 --seed $((S[$I]))", [], 1, {"seed": None}, "$RANDOM (CASE:1, I)"),
    ("a random element by its expression", f"S=(7 5 5 5 5 5 5 5)\n{GPT} --num-layers 2 --seed $((S[RANDOM % 8]))", [], 1, {"seed": None}, "$RANDOM (CASE:2)"),
    ("a name in arithmetic of two lines", f"L=$((\n LAYERS * 2 ))\n{GPT} --num-layers 2 --seed $((1 + L))", [], 1, {"seed": None}, "$LAYERS, which is not set (CASE:2)"),
    ("a name that arithmetic sets", f"((N = (GPUS > 8) ? 3 : 5))\n{GPT} --num-layers 2 --seed $N", [], 1, {"seed": None}, "$GPUS, which is not set (CASE:1)"),
    ("a key in arithmetic", f"declare -A P; P[x]=3\nP[y]=$((P[x] + EXTRA))\n{GPT} --num-layers 2 --seed ${{P[y]}}", [], 1, {"seed": None}, "$EXTRA, which is not set (CASE:2)"),
    ("a loop of twelve turns", f"N=$(nvidia-smi -L | wc -l)\nfor i in $(seq 0 11); do A=$((i * N)); done\n{GPT} --num-layers 2 --seed $A", [], 1, {"seed": None}, "depends on nvidia-smi (CASE:1, N)"),
    ("a flag of $- beside a word with an x", f"case $- in *i*) export N=1 ;; *) export N=2 ;; esac\necho $- | grep -q i && export N=5\n{GPT} --num-layers 2 --seed $N", [], 0, {"seed": "2"}, ""),
    ("whether bash traces", f"case $- in *x*) export N=1 ;; *) export N=2 ;; esac\n{GPT} --num-layers 2 --seed $N", [], 1, {"seed": None}, "depends on $-, which says whether bash traces"),
    ("a failing git", f"TAG=$(git describe --tags 2>/dev/null)\n{GPT} --num-layers 2 --save $TAG", [], 1, {"save": None}, "$TAG, which CASE:1 sets by TAG=$(git describe --tags 2>/dev/null), and that failed with exit code"),
    ("a failing reader", f"L=$(cat layers.txt)\n{GPT} --num-layers $L", [], 1, {"num-layers": None}, "sets by L=$(cat layers.txt), and that failed with exit code 1"),
    ("a byte order mark", f"\ufeffL=3\n{GPT} --num-layers ${{L:-2}}", [], 1, {"num-layers": None}, "CASE:1: it begins with a byte order mark"),
    ("a byte order mark before a list", f"\ufeff{SIZES} --num-layers 4 --train-iters 10", [], 0, {"num-layers": "4"}, ""),
    ("a dash of a word processor", f"{GPT} --num-layers 2 \u2013min-lr 1e-5", [], 1, {"min-lr": None}, "begins with a dash of a word processor (U+2013)"),
    ("a stray word", f"{GPT} --num-layers 2 $(nvidia-smi -L | wc -l)", [], 1, {"num-layers": None}, "behind --num-layers the word '1' depends on nvidia-smi (CASE:1)"),
    ("more of a list with other answers", f"[ $(nvidia-smi -L | wc -l) -ge 64 ] && MORE=more\n{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path 1 tokens $MORE", [], 1, {"num-layers": "2"},
     "more is given or not by nvidia-smi (CASE:1)"),
    ("more of a list of a file that is missing", f"{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path 1 tokens $(cat /none/list)", [], 1, {"num-layers": "2"}, "is given or not by cat (CASE:1)"),
    ("more of a list before its first", f"S=(5)\n{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path ${{S[RANDOM]}} tokens", [], 1, {"num-layers": "2"}, "5 is given or not by $RANDOM (CASE:2)"),
    ("more of a list of an exit code", f"if ! python -c 'import te'; then MORE='2 other'; fi\n{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path 1 tokens $MORE", [], 1, {"num-layers": "2"}, "2 is given or not by python (CASE:1)"),
    ("more of a list of a large count", f"N=$(nvidia-smi -L | wc -l); P=(1 tokens)\nfor ((i = 100; i < N; i += 900)); do P+=(2 other); done\n{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path ${{P[@]}}", [], 1,
     {"num-layers": "2"}, "2 is given or not by nvidia-smi (CASE:1, N)"),
    ("more of a list with the letters of a name that is not set", f"[ $(nvidia-smi -L | wc -l) -ge 64 ] && MORE=/x/DATA/b\n{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path 1 tokens $MORE --save $DATA/x", [], 1, {"num-layers": "2"},
     "/x/DATA/b is given or not by nvidia-smi (CASE:1)"),
    ("more of a list that is not set", f"{GPT.replace('--data-path tokens', '')} --num-layers 2 --data-path 1 tokens $MORE", [], 0, {"num-layers": "2"}, "$MORE, which is not set (CASE:1) is empty and is left out"),
    ("a long dash in a list", f"{SIZES} --train-iters 10 \u2014num-layers 2", [], 1, {"num-layers": None}, "begins with a dash of a word processor (U+2014)"),
    ("backticks in a list", f"{SIZES} --num-layers 2 --train-iters 10 --save `date`", [], 1, {"num-layers": None}, "CASE:1: `date` needs a shell"),
    ("a redirection in a list", f"{SIZES} --num-layers 2\n--train-iters 10 2>&1 | tee log", [], 1, {"num-layers": None}, "CASE:2: 2>&1 needs a shell"),
    ("an abbreviation", f"{GPT} --num-lay 2", [], 1, {"num-layers": None}, "did you mean --num-layers?"),
    ("an abbreviation in a list", f"{SIZES} --num-layers 2 --train-it 10", [], 1, {"train-iters": None}, "did you mean --train-iters?"),
    # Texts of a script are no formats of printf; this one's own name has some, too.
    ("%: places", f"{GPT} --num-layers 2 --load '%d%s%n' --save $(hostname)/%s%n", [], 0, {"load": "%d%s%n"}, "--save depends on"),
    ("%: what this machine lacks", f"N=$(scontrol %s%n | wc -l)\n{GPT} --num-layers 2 --seed $N%s%n", [], 1, {"seed": None}, "%s%n' depends on scontrol (CASE:1, N)"),
    ("%: what is empty", f"{GPT} --num-layers 2 --seed ${{none}} '--wrong%s%n'", [], 1, {"num-layers": "2"}, "--wrong%s%n"),
    ("%: placeholders", f"P=<%s%n>\n{GPT} --num-layers 2", [], 1, {}, "put a value in the place of <%s%n>"),
    ("%: programs", f"srun --x=%s%n python '%s%n/train.py' {SIZES} --num-layers 2", [], 1, {"num-layers": None}, "%s%n/train.py"),
    ("%: launchers", f"srun --x=%s%n python pretrain_gpt.py {SIZES} --num-layers 2 --train-iters 5", [], 0, {"num-layers": "2"}, "is started by: srun --x=%s%n"),
    ("%: failures", f"set -e\nsource /etc/none/%s%n.sh\n{GPT} --num-layers 2", [], 0, {"num-layers": "2"}, "source /etc/none/%s%n.sh failed here"),
    ("%: keys of a JSON", f"echo '{{\"%s%n\": 1, \"optimizer\": {{\"type\": \"%s%n\"}}}}' > '%s%n.json'\n{GPT} --num-layers 2 --deepspeed_config %s%n.json", [], 1, {"num-layers": "2"}, "%s%n of DeepSpeed's JSON is not known"),
    ("a list", f"# arguments\n{SIZES} \\\n --num-layers 4 --train-iters 10", [], 0, {"num-layers": "4"}, ""),
]
OPTIONS = "TP=1\nL=3\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --tp) TP=\"$2\"; shift 2 ;;\n    --layers) L=\"$2\"; shift 2 ;;\n    *) exit 1 ;;\n  esac\ndone\n" + GPT + " --num-layers $L --tensor-model-parallel-size $TP"
# Of the folder of shared cases: words behind the script, exit code, options, what is said.
OF_SHARED = {
    "s01_underscores.sh": ([], 0, {"train-samples": "2000", "lr-decay-samples": "2000", "lr-warmup-samples": "100"}, ""),
    "s02_long_substitution.sh": ([], 1, {"split": "9,1,0", "data-path": None}, "--data-path has no value"),
    "s03_option_loop.sh": (["--", "--depth", "30", "--width-tp", "4"], 0, {"num-layers": "30", "tensor-model-parallel-size": "4"}, ""),
    "s04_let.sh": ([], 0, {"num-layers": "5"}, ""), "s05_double_paren.sh": ([], 0, {"num-layers": "6"}, ""), "s06_sourced.sh": ([], 0, {"num-layers": "6"}, ""),
    "s07_loop_case.sh": ([], 0, {"num-layers": "6"}, ""), "s08_eval_unset.sh": ([], 0, {"log-interval": "5"}, ""), "s09_template_sed.sh": ([], 0, {"zero-stage": "2", "micro-batch-size": "1"}, ""),
    "s13_sbatch_heredoc.sh": ([], 0, {"num-layers": "2"}, ""), "s14_comment_in_continuation.sh": ([], 1, {"num-layers": None}, "--num-layers"),
    "s15_drop_underscores.sh": ([], 0, {"train-samples": "1000"}, ""), "s16_loop_constant.sh": ([], 0, {"num-layers": "6"}, ""), "s20_unset.sh": ([], 0, {"num-layers": "6"}, ""),
    "s22_subshell.sh": ([], 0, {"num-layers": "3"}, ""), "s27_json_changed.sh": ([], 0, {"zero-stage": "2"}, ""), "s28_json_job_name.sh": ([], 0, {"zero-stage": "1", "micro-batch-size": "1"}, ""),
}


def judge(name, path, words, code, options, says, before=()):
    done = run.jotun("config", "--from-megatron", *before, path, *words, check=False, env={"PATH": os.environ["PATH"]})
    text = done.stdout + done.stderr
    given = dict(re.findall(r'^([\w-]+): "?(.*?)"?  # ', done.stdout, re.M))
    says = says.replace("CASE", path)
    wrong = {k: given.get(k) for k, v in options.items() if given.get(k) != v}
    if any(ord(c) < 32 and c != "\n" or 0x7f <= ord(c) < 0xa0 for c in text):
        yield f"{name}: a control character is printed: {text!r}"
    if done.returncode != code or wrong or says not in text:
        yield f"{name}: exit code {done.returncode}, {wrong} instead of {options}, wanted {says!r}\n{done.stderr}\n{done.stdout[:600]}"


def elsewhere():
    """A script that goes to its own folder, from another one."""
    files = {"case.sh": f"cd \"$(dirname \"$0\")\"\nsource ./default.inc\n{GPT} --num-layers $D", "default.inc": "D=${D:-8}"}
    for file, text in files.items():
        with open(file, "w") as out:
            out.write(text + "\n")
    os.mkdir("other")
    os.chdir("other")
    yield from judge("a default in a file beside the script", "../case.sh", [], 0, {"num-layers": "8"}, "")
    os.chdir("..")
    os.rmdir("other")
    for file in files:
        os.remove(file)


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for file, text in (("sizes.inc", "L=9\n"), ("template.json", JSON)):
            with open(file, "w") as out:
                out.write(text)
        before = sorted(os.listdir("."))
        for name, script, words, code, options, says in CASES:
            file = "case%s%n.sh" if name.startswith("%") else "case.sh"
            with open(file, "w") as out:
                out.write((OPTIONS if script == "OPTIONS" else script) + "\n")
            faults += judge(name, file, words, code, options, says)
            os.remove(file)
        faults += elsewhere()
        if sorted(os.listdir(".")) != before:
            faults.append(f"the scripts have left {os.listdir('.')}")
    os.chdir("/")
    shared = 0
    for file, (words, code, options, says) in OF_SHARED.items() if os.path.isdir(SHARED) else []:
        faults += judge(file, os.path.join(SHARED, file), words, code, options, says)
        shared += 1
    print(f"{len(CASES)} cases; " + (f"{shared} of {os.path.normpath(SHARED)}" if shared else "the folder of shared cases is not there"))
    sys.exit("\n".join(faults) or 0)


main()
