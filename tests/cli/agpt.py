"""jotun agpt, Argonne's train_aGPT_7B.sh: the commands of its guides (agpt_commands.txt) at reduced size, whose losses are those of the same
run in Megatron-LM's flags; sets of variables (agpt_sets.txt), each with its options or its refusal; the folders of a run; a run that resumes
on another number of ranks; the launcher of a job with several hosts; and names that are mistyped.
   agpt.py [WORD...]      those parts whose name holds one of the words"""
import json
import os
import re
import stat
import subprocess
import sys

import run
from run import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
run.JOTUN = os.path.abspath(run.JOTUN)
LIST = "ALCF/data-lists/aurora/books.txt"
PLAIN = {"PATH": os.environ["PATH"], "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "ASAN_OPTIONS": "detect_leaks=0"}
SMALL = {"HIDDEN": "32", "HEADS": "4", "NUM_KV_HEAD": "2", "FFN_HIDDEN_SIZE": "64", "SEQ": "32", "TRAIN_ITERS": "4", "TRAIN_SPLIT": "80",
         "VAL_SPLIT": "20", "EVAL_INTERVAL": "2", "EVAL_ITERS": "1", "SAVE_INTERVAL": "2"}
# The arguments that the script makes of the first command at this size, for pretrain_gpt_alcf.py.
MEGATRON = f"""--num-layers 10 --hidden-size 32 --num-attention-heads 4 --num-key-value-heads 2 --ffn-hidden-size 64 --seq-length 32
  --max-position-embeddings 512 --swiglu --hidden-dropout 0 --attention-dropout 0 --normalization rmsnorm --disable-bias-linear
  --no-query-key-layer-scaling --use-rotary-position-embeddings --rotary-position-embeddings-theta 50000 --untie-embeddings-and-output-weights
  --init-method-std 0.111803 --bf16 --accumulate-allreduce-grads-in-fp32 --no-bias-dropout-fusion
  --no-masked-softmax-fusion --no-gradient-accumulation-fusion --optimizer adamw --lr 0.0002 --lr-decay-style cosine --lr-warmup-fraction 0.05
  --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 0.00001 --clip-grad 1.0 --deepspeed --zero-stage 1 --no-pipeline-parallel
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --micro-batch-size 1 --global-batch-size 1 --train-iters 4 --ranks 2
  --data-file-list {LIST} --data-order megatron-forks --shuffle-sample-in-corpus --split 80,20,0 --eval-interval 2 --eval-iters 1
  --log-interval 1 --tokenizer none --vocab-size 256000"""

OPTIMIZERS = ("adam adam8bit adamw adamwschedulefree apex.adam apex.sgd ds.fusedlamb ds.onebitlamb galoreadamw galoreadamw8bit "
              "galoreadamw8bitperlayer ipex.fusedlamb ipex.lamb shampoo sgd sgdschedulefree sophiag").split()
# What the fork's programs take beside an optimizer: its adam is torch's, whose decay is in the gradient; its JSON has 1-bit LAMB's numbers, which
# DeepSpeed refuses with ZeRO.
BESIDE = {"adam": " coupled-weight-decay -", "sophiag": " sophia-rho 0.01", "ds.onebitlamb": " zero-stage 0 onebit-freeze-step 1000 lamb-max-coeff 0.3"}


def check(good, *what):
    if not good:
        sys.exit("\n".join(str(w) for w in what))


def agpt(folder, *words, launcher=None, **variables):
    """A process of jotun agpt in the folder, with these variables and no others."""
    command = [*(launcher or []), run.JOTUN, "agpt", *words]
    return subprocess.run(command, cwd=folder, env={**PLAIN, **variables}, capture_output=True, text=True, timeout=300)


def numbers(path):
    """What a step computes: its loss, norm of gradients and learning rate; and evaluations."""
    rows = [json.loads(line) for line in open(path)]
    return [{key: value for key, value in row.items() if key in ("step", "loss", "grad_norm", "lr", "split", "tokens")} for row in rows]


def data(folder):
    prefix = corpus(folder)
    os.makedirs(os.path.join(folder, os.path.dirname(LIST)), exist_ok=True)
    with open(os.path.join(folder, LIST), "w") as out:
        out.write(f"0.5 {prefix} books\n\n0.25 {prefix}.bin wiki\n0.25\t{prefix} books\n")
    with open(os.path.join(folder, "books.txt"), "w") as out:
        out.write(open(os.path.join(folder, LIST)).read())
    for hosts in (2, 16, 40):
        with open(os.path.join(folder, f"hosts{hosts}"), "w") as out:
            out.write("".join(f"x{i}\nx{i}\n" for i in range(hosts)))


def changed(flags, changes):
    """The flags of Megatron-LM with "NAME VALUE" put in ("-": a flag without one), and "-NAME" left out."""
    given = {}
    for word in flags.split():
        if word.startswith("--"):
            name = word[2:]
            given[name] = []
        else:
            given[name].append(word)
    words = iter(changes.split())
    for word in words:
        if word.startswith("-"):
            del given[word[1:]]
        else:
            value = next(words)
            given[word] = [] if value == "-" else [value]
    return [word for name, values in given.items() for word in (f"--{name}", *values)]


def command_lines():
    """(a line of agpt_commands.txt, what it changes in the flags); of the optimizers two, all with JOTUN_FULL."""
    optimizers = OPTIMIZERS if os.environ.get("JOTUN_FULL") else ("adam", "ds.onebitlamb")
    for line in open(os.path.join(HERE, "agpt_commands.txt")):
        if not line.startswith("#"):
            command, _, changes = line.strip().partition(" => ")
            for name in optimizers if "OPTIMIZER" in command else [""]:
                yield command.replace("OPTIMIZER", name), changes.replace("OPTIMIZER", name) + BESIDE.get(name, "")


def commands(folder):
    """The seed's command, its words unchanged, at reduced size, and one with each of its variables; the same runs in Megatron-LM's flags."""
    lines = list(command_lines())
    with open(os.path.join(folder, "train_aGPT_7B.sh"), "w") as out:
        out.write(f'exec {run.JOTUN} agpt --metrics script.jsonl "$@"\n')
    for n, (line, changes) in enumerate(lines):
        own = {"CKPT_DIR": f"command{n}"} if n else {}
        for name in "script", "flags":
            if os.path.exists(os.path.join(folder, f"{name}.jsonl")):
                os.remove(os.path.join(folder, f"{name}.jsonl"))
        done = subprocess.run(["bash", "-c", line], cwd=folder, env={**PLAIN, **SMALL, **own}, capture_output=True, text=True, timeout=600)
        check(done.returncode == 0, line, done.stderr)
        check(n or "2 ranks = TP 2 x PP 1 x SP 1 x 1 data-parallel" in done.stderr, done.stderr)
        flags = subprocess.run([run.JOTUN, "train", "--metrics", "flags.jsonl", *changed(MEGATRON, changes)], cwd=folder, env=PLAIN, capture_output=True, text=True, timeout=600)
        check(flags.returncode == 0, line, changes, flags.stderr)
        ours, theirs = (numbers(os.path.join(folder, f"{name}.jsonl")) for name in ("script", "flags"))
        check(len(ours) >= 6 and ours == theirs, line, "losses of the script's variables and of Megatron-LM's flags:", *zip(ours, theirs))
    print(f"{len(lines)} commands, whose records are equal to those of the flags")


def folders(folder):
    """The folders that the first command has left, with the script's names."""
    name = "7B-ws2-ds-stage1-nl10-hs32-mb1-seq32-gb1-sp1-pp1-tp2-bf16-optadamw-lr0.0002-lwf0.05_ntok0B_flash"
    made = os.path.join(folder, "checkpoints", name)
    there = set(os.listdir(made))
    check({".cache", "tensorboard", "latest", "wandb", "history"} <= there, there)
    check(os.listdir(os.path.join(made, ".cache", "books", "index-cache")), "no cache")
    latest = open(os.path.join(folder, "logs", "latest")).read().split()
    count = len(latest)
    latest = [path for path in latest if path.startswith(f"logs/{name}/")]
    check(latest, "no log of", name)
    check(re.fullmatch(rf"logs/{re.escape(name)}/\d{{8}}-\d{{6}}_2_[\w.-]+/output.log", latest[-1]), latest)
    log = open(os.path.join(folder, latest[-1])).read()
    check(log.startswith("jotun train --num-layers 10 ") and "step 4/4" in log, log)
    kept = agpt(folder, "--dry-run", TP="2", NLAYERS="10", DATA_FILE_LIST=LIST, **SMALL)
    check(kept.returncode == 0 and len(open(os.path.join(folder, "logs", "latest")).read().split()) == count, "a dry run makes folders")
    other = agpt(folder, CKPT_DIR="other", NLAYERS="1", DATA_FILE_LIST=LIST, **{**SMALL, "TOKENIZER_TYPE": "Llama2Tokenizer"})
    check(other.returncode == 0 and "_tokLlama2_flash/" in open(os.path.join(folder, "logs", "latest")).read(), other.stderr)
    again = subprocess.run(["bash", "-c", log.splitlines()[0].replace("jotun", run.JOTUN, 1) + " --dry-run"], cwd=folder, env=PLAIN, capture_output=True, text=True)
    check(again.returncode == 0, log.splitlines()[0], again.stderr)
    print("folders as the script names them")


def resume(folder):
    """The same run on another number of ranks and with another learning rate continues, in the same folder."""
    given = dict(NLAYERS="2", DATA_FILE_LIST=LIST, TOKENIZER_TYPE="Llama2Tokenizer", NO_TENSORBOARD="1", WANDB_DISABLED="1", **SMALL)
    first = agpt(folder, "--exit-interval", "2", **given)
    check(first.returncode == 0, first.stderr)
    other = dict(given, WORLD_SIZE="2", GRAD_ACC_STEPS="1", LR="0.0003", PP="2")
    second = agpt(folder, **other)
    check(second.returncode == 0 and "resumes after step 2" in second.stderr and "LR=0.0003 is ignored" in second.stderr, second.stderr)
    check("step 4/4" in second.stderr and "-ws1-" in re.search(r"(\S+) is resumed, a run of another", second.stderr).group(1), second.stderr)
    check("use-checkpoint-opt" not in second.stderr and "--lr 0.0002; it is kept by train_aGPT_7B.sh without OVERRIDE_CKPT_OPT_PARAM=1" in second.stderr, second.stderr)
    run_folder = re.search(r"(\S+) is resumed, a run of another", second.stderr).group(1)
    new = agpt(folder, **dict(given, LR="0.0004", DTYPE="fp32"))
    check("step 1/4" in new.stderr and "DTYPE=fp32" not in new.stderr, new.stderr)
    new = agpt(folder, **dict(given, LR="0.0005"))
    check(f"a new run begins: {run_folder}, of another" in new.stderr and "step 1/4" in new.stderr, new.stderr)
    longer = agpt(folder, **dict(given, TRAIN_ITERS="6", SAVE_INTERVAL="6"))
    says = "is of a run of --train-iters 4, whose schedule of learning rate and weight decay is kept, --lr-decay-iters 4; it is kept by train_aGPT_7B.sh without OVERRIDE_CKPT_OPT_PARAM=1"
    check(says in longer.stderr, longer.stderr)
    third = agpt(folder, OVERRIDE_CKPT_OPT_PARAM="1", CKPT_DIR=run_folder, **dict(other, TRAIN_ITERS="8"))
    check(third.returncode == 0 and "resumes after step 6" in third.stderr and "lr 3.00e-04" not in third.stderr.split("step 7/8")[0], third.stderr)
    fresh = agpt(folder, CKPT_DIR="fresh", **other)
    check(fresh.returncode == 0 and "step 1/4" in fresh.stderr, fresh.stderr)
    another = agpt(folder, **dict(given, NLAYERS="3"))
    check("step 1/4" in another.stderr, "another model resumes", another.stderr)
    # Tokens are the length of the run, whatever a step has of them.
    tokens = {key: value for key, value in given.items() if key != "TRAIN_ITERS"}
    done = agpt(folder, "--exit-interval", "4", CKPT_DIR="tokens", TRAIN_TOKENS="320", **dict(tokens, SAVE_INTERVAL="4"))
    rest = agpt(folder, CKPT_DIR="tokens", TRAIN_TOKENS="320", WORLD_SIZE="2", **tokens)
    check(rest.returncode == 0 and "step 7/7" in rest.stderr and "10 samples" in rest.stderr.split("step 7/7")[1], done.stderr, rest.stderr)
    print("runs resume on other ranks")


def options_of(folder, variables, words):
    done = subprocess.run([run.JOTUN, "config", "--agpt-variables", *words], cwd=folder, env={**PLAIN, **variables}, capture_output=True, text=True)
    return done, dict(re.findall(r"^  --(\S+) +(\S+)", done.stdout, re.M))


def sets(folder):
    lines = [line.strip() for line in open(os.path.join(HERE, "agpt_sets.txt")) if line.strip() and not line.startswith("#")]
    for line in lines:
        given, wanted = re.split(r" (?==>|!!)", line, maxsplit=1)
        words = given.split()
        first = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
        options = [word for i, word in enumerate(words) if i >= first and not re.match(r"[A-Z_]+=", word)]
        pairs = [word for word in words if re.match(r"[A-Z_0-9]+=", word)]
        variables = dict(DATA_FILE_LIST="books.txt", **{}) | dict(pair.split("=", 1) for pair in pairs)
        if wanted.startswith("!!"):
            done = agpt(folder, *options, **variables)
            check(done.returncode in (1, 2) and wanted[3:] in done.stderr, line, done.returncode, done.stderr)
            as_words = agpt(folder, *pairs, *options, DATA_FILE_LIST="books.txt")
            check(as_words.returncode in (1, 2) and wanted[3:] in as_words.stderr, "as words of the command:", line, as_words.stderr)
            continue
        done, values = options_of(folder, variables, options)
        for pair in wanted[3:].split("; "):
            name, value = pair.split()
            check(values.get(name) == value, line, f"--{name} is {values.get(name)}", done.stdout[:200], done.stderr)
    given = dict(PLAIN, DATA_FILE_LIST="books.txt", TP="2", NLAYERS="10", CKPT_DIR="ck")
    written = [run.JOTUN, "config", "--yaml"]
    first = subprocess.run([*written, "--agpt-variables"], cwd=folder, env=given, capture_output=True, text=True).stdout
    with open(os.path.join(folder, "run.yaml"), "w") as out:
        out.write(first)
    again = subprocess.run([*written, "--config", "run.yaml"], cwd=folder, env=PLAIN, capture_output=True, text=True)
    values = [re.findall(r"^([\w-]+: .*?)  #", text, re.M) for text in (first, again.stdout)]
    check(again.returncode == 0 and len(values[0]) > 50 and values[0] == values[1], "written as YAML:", *sorted(set(values[0]) ^ set(values[1])), again.stderr)
    print(f"{len(lines)} sets of variables")
    return len(lines)


def hosts(folder):
    """Several hosts and no launcher: mpiexec starts jotun agpt with the variables as words; and a real launcher's ranks."""
    tools = os.path.join(folder, "tools")
    os.makedirs(tools, exist_ok=True)
    for name, version in ("mpiexec", "HYDRA build details:"), ("srun", "slurm"):
        path = os.path.join(tools, name)
        with open(path, "w") as out:
            out.write(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{version}"; exit; }}\nprintf "%s\\n" {name} "$@"\n')
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    path = f"{tools}:{PLAIN['PATH']}"
    given = dict(PATH=path, DATA_FILE_LIST="books.txt", TP="4")
    done = agpt(folder, "--lr", "1e-3", PBS_JOBID="12.aurora", PBS_NODEFILE="hosts2", MACHINE="aurora", **given)
    words = done.stdout.split()
    check(words[:9] == ["mpiexec", "-n", "24", "--ppn", "12", "--hostfile", "hosts2", run.JOTUN, "agpt"], words, done.stderr)
    check("TP=4" in words and words[-2:] == ["--lr", "1e-3"] and not any("PATH" in word.split("=")[0] for word in words[9:]), words)
    check("found PBS job 12.aurora on aurora; 2 hosts of hosts2, 12 ranks of each" in done.stderr, done.stderr)
    done = agpt(folder, SLURM_JOB_ID="7", SLURM_NNODES="3", SLURM_NTASKS_PER_NODE="4", **given)
    check(done.stdout.split()[:8] == ["srun", "-N", "3", "-n", "12", "--ntasks-per-node", "4", run.JOTUN], done.stdout, done.stderr)
    done = agpt(folder, PBS_NODEFILE="hosts2", WORLD_SIZE="5", PATH=path, DATA_FILE_LIST="books.txt")
    check("5 ranks do not divide over the 2 hosts of hosts2; give WORLD_SIZE as a multiple of 2" in done.stderr, done.stderr)
    done = agpt(folder, PBS_NODEFILE="hosts2", PATH="/nonexistent", DATA_FILE_LIST="books.txt")
    check("mpiexec cannot be started" in done.stderr and done.returncode == 1, done.stderr)
    done = agpt(folder, PBS_O_WORKDIR="nowhere", DATA_FILE_LIST="books.txt")
    check("PBS_O_WORKDIR=nowhere cannot be entered" in done.stderr, done.stderr)
    for name, launcher in run.launchers().items():
        given = dict(SMALL, CKPT_DIR=f"mpi{name[0]}", TP="2", NLAYERS="2", TOKENIZER_TYPE="Llama2Tokenizer", DATA_FILE_LIST="books.txt")
        done = agpt(folder, launcher=launcher + ["2"], **given)
        check(done.returncode == 0 and f"started by {name}" in done.stderr and done.stderr.count("found ") == 1, name, done.stderr)
        # rank 0 alone reads the file of hosts and looks for checkpoints: the other one's file is not there
        each = [["1", "env", f"PBS_NODEFILE={file}", run.JOTUN, "agpt"] for file in ("hosts2", "nowhere")]
        other = subprocess.run([*launcher, *each[0], ":", launcher[-1], *each[1]], cwd=folder, env={**PLAIN, **given, "CKPT_DIR": f"first{name[0]}"}, capture_output=True, text=True, timeout=300)
        check(other.returncode == 0 and other.stderr.count("2 hosts of hosts2") == 1 and "step 4/4" in other.stderr, name, other.stderr)
        wrong = agpt(folder, launcher=launcher + ["2"], **dict(given, WORLD_SIZE="4"))
        check(wrong.stderr.count("WORLD_SIZE=4, but there are 2 ranks") == 1, name, wrong.stderr)
    print("ranks on several hosts")


def names(folder):
    """Names near to a variable's are told, in the environment, and refused as words; other programs' variables are neither."""
    quiet = agpt(folder, "--dry-run", DATA_FILE_LIST="books.txt", NLAYERS="1", TERM="dumb", HOME="/", SEQUENCE="x", MODEL_PATH="m", HEADERS="h", SHELL="sh", OMP_NUM_THREADS="2", PS1="$")
    check(quiet.returncode == 0 and "is not read" not in quiet.stderr, quiet.stderr)
    told = agpt(folder, "--dry-run", DATA_FILE_LIST="books.txt", NLAYER="1", GLOBAL_BATCHES="8")
    for wrong, right in ("NLAYER", "NLAYERS"), ("GLOBAL_BATCHES", "GLOBAL_BATCH"):
        check(f"{wrong} is no variable of train_aGPT_7B.sh and is not read; did you mean {right}?" in told.stderr, told.stderr)
    for word, says in ("NLAYER=3", "give NLAYERS=3"), ("FOO=1", "docs/options.md lists them"), ("3", "neither NAME=VALUE nor an option"):
        done = agpt(folder, word)
        check(done.returncode in (1, 2) and says in done.stderr, word, done.stderr)
    small = {**SMALL, "TRAIN_ITERS": "1"}
    counted = agpt(folder, "--dry-run", "NLAYERS=3", "--exit-interval", "5", "CKPT_DIR=x", NLAYERS="7", DATA_FILE_LIST="books.txt", **small)
    kept = agpt(folder, "--dry-run", NLAYERS="3", CKPT_DIR="x", DATA_FILE_LIST="books.txt", **small)
    check(counted.returncode == 0 and counted.stdout == kept.stdout, "words after an option are no variables", counted.stderr)
    taken = agpt(folder, "--dry-run", "--tokenizer", "NLAYERS=3", DATA_FILE_LIST="books.txt", **small)
    check("--tokenizer NLAYERS=3: no such file" in taken.stderr, "the value of an option is a variable", taken.stderr)
    for words, says in (["--dry-run", "NLAYER=3"], "give NLAYERS=3"), (["--dry-run", "TOKENIZER_MODEL=bytes"], "or --tokenizer bytes"):
        done = agpt(folder, *words, DATA_FILE_LIST="books.txt", **small)
        check(done.returncode == 1 and says in done.stderr, words, done.stderr)
    tokens = agpt(folder, "--dry-run", TRAIN_TOKENS="1e6", DATA_FILE_LIST="books.txt")
    check("TRAIN_TOKENS=1e6 is no whole number" in tokens.stderr and "less than a step" not in tokens.stderr, tokens.stderr)
    told = agpt(folder, "--help").stdout
    for row in (r"NLAYERS NUM_LAYERS +--num-layers \[32\]", r"LR +--lr \[0.0002\]", r"MODEL_ARCH +a shape: .*", r"--lr X +.*", r"--swiglu +.*",
                r"CKPT_DIR +the folder of .*", r"NO_FLASH_ATTN +ignored: .*", r"--save DIR .*"):
        check(re.search(rf"^  {row}", told, re.M | re.S), "jotun agpt --help lacks", row, told[:3000])
    counted = agpt(folder, "NLAYERS=3", "--dry-run", NLAYERS="7", DATA_FILE_LIST="books.txt", NO_FLASH_ATTN="1")
    check(counted.returncode == 0 and "NO_FLASH_ATTN of Argonne's scripts is ignored" in counted.stderr, counted.stderr)
    print("names")


def main():
    with run.work_folder() as folder:
        data(folder)
        for part in (commands, folders, resume, sets, hosts, names):
            if not sys.argv[1:] or any(word in part.__name__ for word in sys.argv[1:]):
                part(folder)


main()
