#!/usr/bin/env python3
"""Launch scripts of public repositories, read by `jotun config --from-megatron` and compared with bash and with the program's own arguments.py:

    scripts.py [--json FILE] [--list] [--only TEXT] [--jobs N] FOLDER[@OTHER]...

Checkouts are copied to TMPDIR, which must not be below /tmp, since a script sees nothing else of that. FOLDER is a checkout; OTHER another one whose arguments.py its scripts use, where it has none. Every script that names a program *.py which trains
(PROGRAMS) counts, copies once. Each is run by bash, shut in by bubblewrap with recorders in the place of python, torchrun, srun and their like, which
is independent of jotun's own way; and by jotun. Then:

    taken       jotun takes every option, or ignores it with a reason
    refused     an option is refused; reasons are counted
    other       bash starts another program than GPT's pretraining, and jotun refuses that by its name
    not run     bash reaches no program, or one without a model's size: templates, parts of other scripts

What does not reach that as it is gets what a user would give it (helped, counted by itself): <placeholders> get a path, the positional arguments
that the script reads get a word it compares them with, else a path or 1, and unset variables likewise (see guess).

A script that is taken is compared: layers, hidden size, heads, key and value heads, feed-forward size, sequence, batch sizes, tp, pp, cp, schedule,
optimizer, dropout, precision, ZeRO stage and others (FIELDS) of the YAML, defaults included, with what arguments.py makes of the words that bash gave.
--json writes a line for each script. Exits 1 where one differs, where another program is taken, or where jotun takes a script of which bash starts nothing.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
JOTUN = os.path.abspath(os.environ.get("JOTUN", os.path.join(HERE, "../../build/release/bin/jotun")))
ENDS = (".sh", ".slurm", ".sbatch", ".pbs", ".job", ".bash", ".qsub", ".lsf")
PROGRAMS = re.compile(r"(pretrain_\w+|train_rl|finetune_t0|tasks/main)\.py")
GPT = re.compile(r"(^|/)pretrain_gpt(2|_core|_deepspeed|_alcf)?\.py$")
RECORDED = """python python2 python3 torchrun torchrun_cpu deepspeed accelerate ipython horovodrun srun sbatch salloc mpirun mpiexec mpiexec.hydra jsrun
  aprun ibrun flux prun lrun singularity apptainer docker podman enroot sarus shifter sudo nsys ncu rocprof numactl ssh pdsh scp rsync curl wget pip pip3
  conda mamba sh sleep nohup timeout git nvidia-smi scontrol sinfo module ezpz_launch""".split()

# ---- what bash starts ----

RECORD = r"""#!/bin/bash
# Writes down its words; then starts what it was to start, if that is a program of this kind.
name=${0##*/}
[ "$name" = sbatch ] && export SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_NNODES=1 SLURM_NTASKS=1 SLURM_JOB_NODELIST=node0
{ flock 9; printf 'CALL\0%s\0%s\0' "$name" $#; [ $# -gt 0 ] && printf '%s\0' "$@"; } 9>>/rec/calls >&9
[ "$name" = deepspeed ] && case " $* " in *" --no_python "*) name=a_wrapper ;; esac
case $name in
sh) exec /bin/bash "$@" ;;
sleep) exit 0 ;;
python*|torchrun*|deepspeed|accelerate|ipython|horovodrun|pip*|wget|curl|scp|rsync|git) ;;
*)
  while [ $# -gt 0 ]; do
    case ${1##*/} in
    python|python[23]*|torchrun|deepspeed|accelerate|bash|sh|srun|mpirun|mpiexec|singularity|apptainer|nsys|numactl|env|nohup|timeout) word=${1##*/}; shift; exec "$word" "$@" ;;
    *.sh|*.sbatch|*.slurm) exec /bin/bash "$@" ;;
    esac
    shift
  done
  [ "$name" = sbatch ] && exec /bin/bash ;;
esac
echo 4
"""
PRELUDE = r"""
command_not_found_handle() { case $1 in python*|torchrun|deepspeed|accelerate|srun|mpirun|mpiexec|singularity|apptainer|docker) local n=$1; shift; exec "/rec/bin/$n" "$@";; *) return 0;; esac; }
source() { [ -e "$1" ] && builtin source "$@"; return 0; }
.() { source "$@"; }
unset -f .
for path in $REC_LEARN; do eval "function $path { /rec/bin/${path##*/} \"\$@\"; }"; done  # by a path that is not here
if [ -n "$REC_LENIENT" ]; then
  exit() { return 0; }
  cd() { builtin cd "$@" || return 0; }
  set -TE
  trap 'set +eu' DEBUG
fi
"""
MOUNT = """mount -t tmpfs -o size=96m,nr_inodes=40k tmpfs "$1" && cd "$1" && mkdir up work all && mount -t overlay -o "lowerdir=$2,upperdir=up,workdir=work,userxattr" overlay all &&
mount --bind all "$1" || exit 125
cd / && ulimit -t 8 -f 65536 -n 256 -c 0 -u 400; shift 2; exec bwrap "$@" """


class Bash:
    """Runs scripts of one repository. calls(): [(program, words)] of the programs *.py that a run starts."""
    def __init__(self, top, scratch):
        self.top, self.folder = os.path.realpath(top), os.path.join(scratch, "rec")
        os.makedirs(os.path.join(self.folder, "bin"), exist_ok=True)
        os.makedirs(os.path.join(self.folder, "view"), exist_ok=True)
        for name in RECORDED:
            path = os.path.join(self.folder, "bin", name)
            with open(path, "w") as out:
                out.write(RECORD)
            os.chmod(path, 0o755)
        with open(os.path.join(self.folder, "prelude"), "w") as out:
            out.write(PRELUDE)

    def sandbox(self, lenient, variables, learnt):
        args = ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--hostname", "node0", "--new-session", "--die-with-parent",
                "--cap-drop", "ALL"]
        for entry in sorted(os.listdir("/")):
            path = "/" + entry
            if path in ("/proc", "/dev", "/sys", "/tmp", "/run", "/lost+found", "/rec"):
                continue
            args += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path] if os.path.isdir(path) else []
        args += ["--proc", "/proc", "--dev", "/dev", "--size", "33554432", "--tmpfs", "/tmp", "--tmpfs", "/run", "--bind", os.path.join(self.folder, "view"), self.top,
                 "--bind", self.folder, "/rec", "--clearenv", "--setenv", "PATH", "/rec/bin:/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/nowhere",
                 "--setenv", "USER", "user", "--setenv", "BASH_ENV", "/rec/prelude", "--setenv", "REC_LENIENT", "1" if lenient else "", "--setenv", "REC_LEARN", " ".join(learnt)]
        for name, value in variables.items():
            args += ["--setenv", name, value]
        return args

    def calls(self, script, folder, words=(), variables=None, lenient=False, learnt=()):
        record = os.path.join(self.folder, "calls")
        open(record, "w").close()
        inner = self.sandbox(lenient, variables or {}, learnt) + ["--chdir", folder, "bash", script, *words]
        command = ["timeout", "-s", "KILL", "5", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "bash", "-c", MOUNT, "rec", os.path.join(self.folder, "view"), self.top, *inner]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": os.environ["PATH"]}, check=False)
        with open(record, "rb") as file:
            parts = file.read().decode(errors="replace").split("\0")
        found, at = [], 0
        while at + 2 < len(parts):
            if parts[at] != "CALL":
                at += 1
                continue
            count = int(parts[at + 2])
            given = parts[at + 3:at + 3 + count]
            at += 3 + count
            program = next((i for i, w in enumerate(given) if w.endswith(".py") and not w.startswith("-")), None)
            if program is not None and (given[program], given[program + 1:]) not in found:
                found.append((given[program], given[program + 1:]))
        missing = {p for p in re.findall(rb"line \d+: (/[\w./+-]+): No such file", ran.stderr) if os.path.basename(p.decode()) in RECORDED}
        if missing and not found and not learnt:
            return self.calls(script, folder, words, variables, lenient, [p.decode() for p in sorted(missing)])
        return found


# ---- what a user would give ----

def compared_with(text, name):
    """A word that the script compares a variable or positional argument with: in a test, or the first label of a case."""
    variable = r"\"?\$\{?" + name + r"\}?\"?"
    found = re.search(variable + r"\s*(?:==?|-eq)\s*[\"']?([\w.+-]+)", text)
    if found:
        return found.group(1)
    found = re.search(r"case\s+" + variable + r"\s+in\s*\n?\s*\(?[\"']?([\w.+-]+)", text)
    return found.group(1) if found else None


def guess(text, name):
    """A value for a variable that nobody sets: a word that it is compared with, a path for what is called one (GUESSES), else 1."""
    word = compared_with(text, name)
    if word:
        return word
    if re.search(r"^\s*[\"']?\$\{?" + name + r"\}?[\"']?\s*\\?$", text, re.M):
        return ""                                                              # a line of its own: further arguments
    assigned = re.search(r"^\s*(?:export\s+|local\s+|declare\s+)?(\w+)=[\"']?\$\{?" + name + r"\b", text, re.M) if name.isdigit() else None
    called = assigned.group(1) if assigned else name
    if assigned and compared_with(text, called):
        return compared_with(text, called)
    for pattern, value in GUESSES:
        if re.search(pattern, called):
            return value.format(called.lower())
    return "1"


GUESSES = [(r"(?i)(args|opts|options|flags|params)$", ""), (r"(?i)interval|samples|tokens|iters?$|steps?$", "1000000"), (r"(?i)^opt$|optimizer", "adam"),
           (r"(?i)dtype|data_type|precision", "bf16"), (r"(?i)size|num|len|layers|heads|rate|batch|seed|nodes|gpus|rank|port", "1"),
           (r"(?i)path|dir|file|data|root|home|folder|save|load|log|model$|vocab|merge|token|ckpt|checkpoint|work|repo|scratch", "/data/{}")]


def slurm(text):
    """What Slurm sets for a job with the script's own #SBATCH lines."""
    def asked(name, short):
        found = re.search(r"^#SBATCH\s+(?:--" + name + r"[= ]|-" + short + r"\s*)(\d+)", text, re.M)
        return int(found.group(1)) if found else 1
    nodes, tasks = asked("nodes", "N"), asked("ntasks-per-node", "-")
    return {"SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NNODES": str(nodes), "SLURM_NTASKS_PER_NODE": str(tasks), "SLURM_NTASKS": str(nodes * tasks),
            "SLURM_NPROCS": str(nodes * tasks), "SLURM_JOB_NODELIST": "node0", "SLURM_NODELIST": "node0"}


def help_for(text):
    """(positional words, variables) that the script reads and does not set."""
    plain = re.sub(r"(^|\s)#.*", "", text)
    outside = re.sub(r"awk\s+'[^']*'", "", plain)
    if not re.search(r"^\s*\w+\s+\"?\$@", outside, re.M):                       # else a function has the script's own
        outside = re.sub(r"^[ \t]*(?:function[ \t]+[\w-]+[ \t]*(?:\(\))?|[\w-]+[ \t]*\(\))[ \t]*\n?\{.*?^[ \t]*\}", "", outside, flags=re.M | re.S)
    numbers = [int(pair[0] or pair[1]) for pair in re.findall(r"\$(?:\{([1-9]\d?)|([1-9]))", outside)]
    words = [guess(plain, str(i)) for i in range(1, max(numbers, default=0) + 1)]
    reads, writes = {}, {}
    for found in re.finditer(r"\$\{?([A-Za-z_]\w*)", plain):
        reads.setdefault(found.group(1), found.start())
    for inner in re.finditer(r"\$\(\(([^()]*)", plain):                        # names need no $ there
        for name in re.findall(r"[A-Za-z_]\w*", inner.group(1)):
            reads[name] = min(reads.get(name, len(plain)), inner.start())
    for found in re.finditer(r"(?:^|[\s;({])(?:export\s+|local\s+|readonly\s+|declare\s+(?:-\w+\s+)?)?([A-Za-z_]\w*)\+?=|\bfor\s+(\w+)\s+in|\bread\s+(?:-\w+\s+)*(\w+)", plain):
        writes.setdefault(next(filter(None, found.groups())), found.start())
    read = {name for name, at in reads.items() if at < writes.get(name, len(plain))}
    own = {"PATH", "HOME", "USER", "PWD", "OLDPWD", "BASH_SOURCE", "RANDOM", "SECONDS", "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH", "IFS", "LINENO", "BASH_VERSION"}
    job = slurm(text)
    return words, {name: job.get(name) or guess(plain, name) for name in sorted(read - own) if not name.startswith("BASH")}


def folder_of(script, text, top):
    """Where the script is started: its own folder, or the top of the checkout where that alone has a file that it names."""
    own = os.path.dirname(script)
    named = re.findall(r"(?:^|[\s;])(?:source|\.|bash|sh|python3?(?:\s+-u)?|cat)\s+[\"']?(?:\./)?([\w.][\w./-]*)|[\s\"'=](?:\./)?((?:\.\./)*[\w-]+(?:/[\w-]+)*\.(?:py|json|sh))\b", text)
    files = [a or b for a, b in named]
    here, above = (sum(os.path.exists(os.path.join(place, f)) for f in files) for place in (own, top))
    return top if above > here else own


def without_placeholders(text):
    return re.sub(r"(?<!<)<[A-Za-z][^<>\n|&;()$]*>", "/data/placeholder", text)


# ---- what jotun makes of it ----

class Answer:
    """One run of jotun config. why: its refusals, [text]; values: option -> text, defaults included."""
    def __init__(self, script, folder, words=(), variables=None):
        env = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
        command = [JOTUN, "config", "--from-megatron", *[f"{name}={value}" for name, value in (variables or {}).items()], script, *words]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, cwd=folder, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            self.code, self.why, self.values, self.said = -1, ["no answer in 120 s"], {}, ""
            return
        self.code, self.said = ran.returncode, ran.stderr
        self.why = re.findall(r"^# \S*?(?::\d+)?: not taken: (.*)", ran.stdout, re.M)
        if self.code and not self.why:
            self.why = [line.split("jotun: ", 1)[-1] for line in ran.stderr.strip().splitlines()[-1:]]
        self.values = {k: v.strip('"') for k, v in re.findall(r"^(?:# )?([a-z0-9][\w-]*): (.*?)  # ", ran.stdout, re.M)}


REASONS = [(r"\$\w+|\$\{|positional|lacks|decide|not run or not understood|is empty|unset", "what this machine or this call lacks"),
           (r"placeholder", "a placeholder"), (r"needs a value", "an option without a value"),
           (r"weighted-split-paths", "parts of data sets (--train-weighted-split-paths)"), (r"its router draws", "experts of DeepSpeed"),
           (r"curriculum|random-ltd|data-efficiency|all samples have --seq-length", "curricula"), (r"distillation", "distillation"),
           (r"are not given|is not given", "what the original requires is not given"), (r"JSON", "DeepSpeed's JSON"),
           (r"is no option of jotun.*(did you mean|--help)", "unknown option"), (r"no command line|is started|starts no|reaches no", "no call is reached")]


def reason(text):
    return next((name for pattern, name in REASONS if re.search(pattern, text)), None) or re.sub(r"^(--[\w-]+).*", r"\1", text)[:70]


# ---- what the original makes of it ----

class Original:
    """arguments.py of a checkout, in a process of its own."""
    def __init__(self, folder):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "original_arguments.py"), os.path.realpath(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.turn = threading.Lock()
        self.answer = json.loads(self.process.stdout.readline() or '{"unusable": "it ends at once"}')

    def usable(self):
        return "usable" in self.answer

    def parse(self, words):
        try:
            with self.turn:
                print(json.dumps(words), file=self.process.stdin, flush=True)
                return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            return {"error": "arguments.py ended"}


def first(*names):
    return lambda a: next((a[n] for n in names if a.get(n) is not None), None)


def kv_heads(a):
    if a.get("attention_head_type") == "multiquery":
        return 1
    if "num_key_value_heads" in a:
        return a["num_key_value_heads"] or a.get("num_attention_heads")
    return a.get("num_query_groups") if a.get("group_query_attention") else a.get("num_attention_heads")


def position(a):
    kind = a.get("position_embedding_type") or "learned_absolute"
    if a.get("use_rotary_position_embeddings"):
        kind = "rope"
    if a.get("no_position_embedding") or a.get("add_position_embedding") is False and kind == "learned_absolute":
        kind = "none"
    if a.get("multi_latent_attention") and kind == "rope":              # MLATransformerConfig
        kind = a.get("rope_type") or "yarn"
    return {"rotary": "rope", "absolute": "learned_absolute"}.get(kind, kind)


def given(name):
    """Counts only where the script has it."""
    return lambda a: a.get(name)


def experts(a):
    value = a.get("num_experts") or 0
    value = max(value) if isinstance(value, list) else value
    return 0 if value == 1 else value


def zero_stage(a):
    if a.get("deepspeed") or "zero_stage" in a and a.get("deepspeed_config"):
        return None                                                            # DeepSpeed's JSON has the last word
    return 1 if a.get("use_distributed_optimizer") else None


def warmup_default(name):
    return lambda a: a.get(name) or None


FIELDS = {  # key of the YAML: (value of the original's arguments, kind)
    "num-layers": first("num_layers", "encoder_num_layers"), "hidden-size": first("hidden_size"), "num-attention-heads": first("num_attention_heads"),
    "num-query-groups": kv_heads, "ffn-hidden-size": first("ffn_hidden_size"), "kv-channels": first("kv_channels"), "seq-length": first("seq_length", "encoder_seq_length"),
    "micro-batch-size": first("micro_batch_size", "batch_size"), "tensor-model-parallel-size": first("tensor_model_parallel_size"),
    "pipeline-model-parallel-size": first("pipeline_model_parallel_size"), "context-parallel-size": lambda a: a.get("ds_sequence_parallel_size") if a.get("ds_sequence_parallel_size", 1) > 1 else a.get("context_parallel_size"),
    "lr": first("lr"), "min-lr": first("min_lr"), "lr-decay-style": first("lr_decay_style"), "lr-warmup-iters": warmup_default("lr_warmup_iters"),
    "lr-warmup-samples": warmup_default("lr_warmup_samples"), "lr-warmup-fraction": first("lr_warmup_fraction", "warmup"), "lr-decay-iters": first("lr_decay_iters"),
    "lr-decay-samples": first("lr_decay_samples"), "weight-decay": first("weight_decay"), "adam-beta1": first("adam_beta1"), "adam-beta2": first("adam_beta2"),
    "adam-eps": first("adam_eps"), "clip-grad": first("clip_grad"), "hidden-dropout": first("hidden_dropout"), "attention-dropout": first("attention_dropout"),
    "init-method-std": first("init_method_std"), "norm-epsilon": first("norm_epsilon", "layernorm_epsilon"), "seed": first("seed"), "bf16": first("bf16"), "fp16": first("fp16"),
    "swiglu": lambda a: bool(a.get("swiglu")) or bool(a.get("t5_swiglu")) or a.get("glu_activation") == "swiglu", "position-embedding-type": position, "num-experts": experts, "zero-stage": zero_stage,
    "untie-embeddings-and-output-weights": lambda a: bool(a.get("untie_embeddings_and_output_weights")), "disable-bias-linear": lambda a: a.get("add_bias_linear") is False,
    "sequence-parallel": first("sequence_parallel"), "normalization": lambda a: {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}.get(str(a.get("normalization") or "layernorm").lower()),
    "rotary-base": lambda a: a.get("rotary_base") or a.get("rope_theta") or a.get("rotary_theta") or a.get("rotary_position_embeddings_theta"), "rotary-percent": first("rotary_percent"),
    "qk-layernorm": first("qk_layernorm"), "moe-router-topk": lambda a: a.get("moe_router_topk") if experts(a) else None, "split": lambda a: a.get("split") if a.get("data_path") else None,
    "train-iters": lambda a: a.get("train_iters") if not a.get("train_samples") and not a.get("train_tokens") else None,
    "sgd-momentum": first("sgd_momentum"), "initial-loss-scale": first("initial_loss_scale"), "loss-scale-window": first("loss_scale_window"), "hysteresis": first("hysteresis"),
    "global-batch-size": first("global_batch_size"), "z-loss-coeff": first("z_loss_strength"),
}
# What jotun writes of a pair in other words, with a remark.
OTHER_WORDS = {"train-samples", "train-tokens"}


def number(text):
    try:
        return float(str(text).replace("_", ""))
    except ValueError:
        return None


def same(key, ours, theirs):
    if key == "split":
        weights = [[float(n) for n in re.findall(r"[\d.]+", str(v))] for v in (ours, theirs)]
        return all(math.isclose(a / sum(weights[0]), b / sum(weights[1]), abs_tol=1e-9) for a, b in zip(*weights))
    if isinstance(theirs, bool):
        return (ours == "true") == theirs
    a, b = number(ours), number(theirs)
    if a is not None and b is not None:
        return math.isclose(a, b, rel_tol=1e-9)
    return str(ours).lower() == str(theirs).lower()


def differences(answer, original, words):
    """[(key, jotun's, theirs)] of the fields that both have."""
    a, found = original["values"], []
    json_given = any(w.replace("-", "_").startswith("__deepspeed_config") for w in words)
    for key, value_of in FIELDS.items():
        theirs, ours = value_of(a), answer.values.get(key)
        if theirs is None or ours is None:
            continue
        if json_given and key in ("clip-grad", "bf16", "fp16", "zero-stage", "initial-loss-scale", "loss-scale-window", "hysteresis", "micro-batch-size", "global-batch-size", "lr",
                                  "weight-decay", "adam-beta1", "adam-beta2", "adam-eps", "lr-decay-style", "min-lr", "lr-warmup-iters", "lr-decay-iters"):
            if key not in given_keys(words):
                continue                                                       # the JSON may say it
        if key == "global-batch-size" and key not in given_keys(words):
            continue                                                           # micro-batch size x data-parallel ranks
        if key in ("train-iters", "lr-decay-iters") and a.get("train_samples") or key == "lr-decay-samples" and a.get("train_iters"):
            continue
        if key == "sequence-parallel" and answer.values.get("tensor-model-parallel-size") == "1":
            continue                                                           # it counts for nothing
        if key in ("initial-loss-scale", "loss-scale-window", "hysteresis") and not a.get("fp16"):
            continue
        if key.startswith("rotary-") and position(a) not in ("rope", "yarn"):
            continue
        if not same(key, ours, theirs):
            found.append((key, ours, theirs))
    return found


def given_keys(words):
    return {w[2:].split("=")[0].replace("_", "-") for w in words if w.startswith("--")}


# ---- one script ----

def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def judge(script, bash, original):
    """{kind, helped, why, ...} of a script."""
    text = read(script)
    words, variables = help_for(text)
    folder = folder_of(script, text, bash.top)
    tries = [(False, script, [], {})]
    copy = os.path.join(os.path.dirname(script), ".helped." + os.path.basename(script))
    tries.append((True, copy, words, variables))
    result = {}
    try:
        for helped, path, positional, environment in tries:
            if helped:
                with open(copy, "w") as out:
                    out.write(without_placeholders(text))
            job = {**(slurm(text) if "#SBATCH" in text else {}), **environment}    # which jotun reads out of the script itself
            calls = bash.calls(path, folder, positional, job)
            lenient = not any(PROGRAMS.search(p) for p, _ in calls)
            if lenient:
                calls = bash.calls(path, folder, positional, job, lenient=True) or calls
            trains = [c for c in calls if GPT.search(c[0])]
            part = trains and not any(re.match(r"--(encoder-)?num-layers|--use-checkpoint-args|--config", w) for _, words_ in trains for w in words_)
            answer = Answer(path, folder, positional, environment)
            now = {"helped": helped, "lenient": lenient, "calls": [c[0] for c in calls][:6], "code": answer.code, "why": answer.why}
            if part and answer.code:
                now["kind"], now["part"] = "not run", True
            elif trains:
                now["kind"] = "taken" if answer.code == 0 else "refused"
                if answer.code == 0 and original and original.usable():
                    compared = [original.parse(w) for _, w in trains]
                    usable = [(differences(answer, c, w)) for c, (_, w) in zip(compared, trains) if "values" in c]
                    now["compared"] = bool(usable)
                    now["original"] = next((c.get("error") or c.get("checks") for c in compared if c.get("error") or c.get("checks")), None)
                    if usable and all(usable):                                 # of several calls one has to agree
                        now["differs"] = min(usable, key=len)
            elif any(c for c in calls):
                now["kind"] = "other"
                if answer.code == 0:
                    now["differs"] = [("program", "taken", calls[0][0])]
            else:
                now["kind"] = "not run"
                if answer.code == 0:
                    now["differs"] = [("program", "taken", "bash starts nothing")]
            better = not result or now["kind"] == "taken" or result["kind"] == "not run" and now["kind"] != "not run"
            if better or result["kind"] == now["kind"] == "refused" and len(now["why"]) < len(result["why"]):
                result = now
            if now.get("differs") or now["kind"] in ("taken", "other"):
                break
    finally:
        if os.path.exists(copy):
            os.remove(copy)
    return result


def scripts_of(folder):
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != ".git")
        for file in sorted(files):
            path = os.path.join(where, file)
            if os.path.splitext(file)[1] in ENDS and not os.path.islink(path) and not file.startswith(".helped.") and PROGRAMS.search(read(path)):
                yield path


KINDS = "taken", "refused", "other", "not run"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json"), parser.add_argument("--list", action="store_true"), parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    if not options.folders or not shutil.which("bwrap"):
        print("no checkout is given" if shutil.which("bwrap") else "bubblewrap (bwrap) is not installed")
        return 77
    seen, results, originals, kept = set(), [], {}, threading.Lock()
    if options.json:
        open(options.json, "w").close()
    with tempfile.TemporaryDirectory() as scratch:
        for place in options.folders:
            folder, _, other = place.partition("@")
            copy = os.path.join(scratch, os.path.basename(os.path.normpath(folder)))
            shutil.copytree(folder, copy, symlinks=True)
            library = os.path.realpath(other or folder)
            has = [p for p in ("megatron/arguments.py", "megatron/training/arguments.py") if os.path.exists(os.path.join(library, p))]
            if library not in originals:
                originals[library] = Original(library) if has else None
            names = []
            for script in scripts_of(copy):
                digest = hashlib.sha1(read(script).encode(errors="replace")).hexdigest()
                if digest not in seen and options.only in os.path.relpath(script, scratch):
                    names.append(script)
                    seen.add(digest)
            rooms = queue.SimpleQueue()
            for job in range(options.jobs):
                rooms.put(Bash(copy, os.path.join(scratch, f"of-{job}-" + os.path.basename(copy))))

            def one(script):
                room = rooms.get()
                try:
                    row = {"script": os.path.relpath(script, scratch), "repository": os.path.basename(copy), **judge(os.path.realpath(script), room, originals[library])}
                finally:
                    rooms.put(room)
                with kept:
                    results.append(row)
                    if options.json:                                           # a line for each, as they come
                        with open(options.json, "a") as out:
                            print(json.dumps(row), file=out)
                    print(".", end="", file=sys.stderr, flush=True)
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
                list(jobs.map(one, names))
            shutil.rmtree(copy)
    print(file=sys.stderr)
    return report(results, options.list)


def report(results, everything):
    print(f"{'repository':42} {'scripts':>7}" + "".join(f"{k:>9}" for k in KINDS) + f"{'helped':>8}{'compared':>9}{'differ':>7}")
    for repository in [*dict.fromkeys(r["repository"] for r in results), "all"]:
        rows = [r for r in results if repository in ("all", r["repository"])]
        taken = [r for r in rows if r["kind"] == "taken"]
        print(f"{repository:42.42} {len(rows):7}" + "".join(f"{sum(r['kind'] == k for r in rows):9}" for k in KINDS) +
              f"{sum(r['helped'] for r in taken):8}{sum(r.get('compared', False) for r in taken):9}{sum('differs' in r for r in rows):7}")
    gpt = [r for r in results if r["kind"] in ("taken", "refused")]
    taken = sum(r["kind"] == "taken" for r in gpt)
    print(f"of {len(gpt)} scripts that start GPT pretraining {taken} are taken whole: {100 * taken / max(len(gpt), 1):.1f}%")
    reasons = collections.Counter(name for r in results if r["kind"] == "refused" for name in {reason(w) for w in r["why"]})
    print("reasons of those refused (a script may have several):")
    for name, count in reasons.most_common():
        print(f"  {count:5} {name}")
    for r in results:
        if "differs" in r:
            print("DIFFERS", r["script"], "; ".join(f"{k}: jotun {o}, original {t}" for k, o, t in r["differs"]))
        if r["kind"] == "not run":
            print("a part of other scripts:" if r.get("part") else "not run by bash:", r["script"])
        if everything and r["kind"] == "refused":
            print("refused:", r["script"], *["\n      " + w[:260] for w in r["why"][:12]])
    return any("differs" in r for r in results)


if __name__ == "__main__":
    sys.exit(main())
