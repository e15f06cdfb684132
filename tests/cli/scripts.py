"""Forty-two argument lists and scripts in the manner of public examples of Megatron-LM, Megatron-DeepSpeed and NeMo (tests/conf/scripts):
each is read, written as YAML, shown, run dry at its own size, and trained at reduced size.
   scripts.py [WORD...]      those whose name holds one of the words"""
import os
import re
import sys
import tempfile
import run
from run import corpus, jotun

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conf", "scripts")
run.JOTUN = os.path.abspath(run.JOTUN)
# What a script is called with; the others without arguments.
PLACES = [["checkpoints", "vocab.json", "merges.txt", "data"]]
ARGUMENTS = {"deepspeed_gpt.sh": [["125"], ["350"], ["1.3"], ["6.7"], ["13"]],
             **{f"megatron_gpt_{size}.sh": PLACES for size in ("125m", "350m", "1p3b", "13b", "175b")}}
# What is computed of several keys.
COMPUTED = {"nemo_gpt_126m.yaml": {"lr-decay-iters": "50000", "apply-layernorm-1p": "true", "data-order": "megatron"}}
# Of the layout: one process has one rank.
ONE_RANK = {"tensor-model-parallel-size": 1, "pipeline-model-parallel-size": 1, "context-parallel-size": 1, "expert-model-parallel-size": 1}
# What a run writes goes to the temporary folder, whatever the script says.
WRITTEN = ["save", "load", "tensorboard-dir", "wandb-save-dir", "data-cache-path"]
DROPPED_ON_ONE_RANK = ["pipeline-model-parallel-layout", "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"]
SMALL = {"num-layers": 2, "hidden-size": 32, "ffn-hidden-size": 64, "num-attention-heads": 4, "seq-length": 32, "max-position-embeddings": 32,
         "micro-batch-size": 1, "global-batch-size": 2, "split": "90,10,0", "vocab-size": 257, "tokenizer": "bytes",
         "log-interval": 1, "init-method-std": 0.02}
# What a script has keeps its kind at a size that fits: a duration in samples, a batch that grows within two steps.
IF_THERE = {"train-iters": 2, "train-samples": 4, "lr-warmup-iters": 1, "lr-warmup-samples": 1, "lr-decay-iters": 2, "lr-decay-samples": 4,
            "lr-wsd-decay-iters": 1, "rampup-batch-size": "1 1 2", "step-batch-size-schedule": "0:1~32:2",
            "num-query-groups": 2, "kv-channels": 8, "num-experts": 4, "moe-ffn-hidden-size": 32, "moe-router-topk": 2,
            "moe-shared-expert-intermediate-size": 32, "moe-layer-freq": "[0,1]", "eval-iters": 1,
            "eval-interval": 2, "window-size": "8,0", "save-interval": 2, "exit-interval": 2, "profile-step-start": 1, "profile-step-end": 2,
            "exit-duration-in-mins": 60}


def imported(name):
    """The YAML of a script, whose arguments follow its name. Every option of it is taken, or passed over with a word."""
    file, *arguments = name.split()
    done = jotun("config", "--from-nemo" if file.endswith(".yaml") else "--from-megatron", os.path.join(HERE, file), *arguments,
                 check=False, env={"PATH": os.environ["PATH"]})
    if done.returncode != 0 or "not taken" in done.stderr:
        sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    given = keys_of(done.stdout)
    for option, value in COMPUTED.get(name, {}).items():
        if given.get(option) != value:
            sys.exit(f"{name}: --{option} is {given.get(option)}, not {value}")
    return done.stdout


def keys_of(yaml):
    return dict(re.findall(r"^([\w-]+): (.*?)  # ", yaml, re.M))


def without(yaml, names):
    return "".join(line + "\n" for line in yaml.splitlines() if line.split(":")[0] not in names)


def run_dry(name, yaml, folder):
    """At its own size, on as many ranks as the layout asks for: parameters and memory are printed, no file is opened."""
    given = keys_of(yaml)
    path = os.path.join(folder, "own.yaml")
    with open(path, "w") as out:
        out.write(without(yaml, ["tokenizer"]))
    ranks = 1
    for option in ONE_RANK:
        if option != "expert-model-parallel-size":
            ranks *= int(given.get(option, 1))
    ranks = max(ranks, int(given.get("expert-model-parallel-size", 1)) * int(given.get("pipeline-model-parallel-size", 1)))
    micro = int(given.get("micro-batch-size", 1))
    batch = [] if "global-batch-size" in given and int(given["global-batch-size"]) % (micro * ranks) == 0 else ["--global-batch-size", micro * ranks * 4]
    vocabulary = [] if "vocab-size" in given else ["--vocab-size", 50304]
    words = ["--config", path, "--ranks", ranks, "--tokenizer", "bytes", *vocabulary, *batch]
    shown = jotun("config", *words)
    dry = jotun("train", *words, "--dry-run")
    if "num-layers" not in shown.stdout or "parameters" not in dry.stdout:
        sys.exit(f"{name}: neither shown nor run dry:\n{dry.stdout[:500]}")


def data_words(given, folder, data):
    """The data that it names: made here by --mock-data, a list of files and corpora, or the script's own weights, each with the
    corpus of this test, in the order that the YAML says."""
    if "mock-data" in given:
        return []
    if "data-file-list" not in given:
        words = re.findall(r'[^\[\]", ]+', given.get("data-path") or given["train-data-path"])
        return ["--data-path", *[word if re.fullmatch(r"[\d.]+", word) else data for word in words]]
    path = os.path.join(folder, "list.txt")
    with open(path, "w") as out:
        out.write(f"0.5 {data} one\n0.5 {data} two\n")
    return ["--data-file-list", path]


def train(name, yaml, folder, data):
    given = keys_of(yaml)
    path, curve = os.path.join(folder, "small.yaml"), os.path.join(folder, "curve")
    gone = DROPPED_ON_ONE_RANK + ["train-data-path", "valid-data-path", "test-data-path", "data-path"]
    with open(path, "w") as out:
        out.write(without(yaml, gone))
    if os.path.exists(curve):
        os.remove(curve)
    order = "megatron-forks" if name.startswith("deepspeed") else "megatron"
    if given.get("data-order") != (None if "mock-data" in given else order):
        sys.exit(f"{name}: samples are in the order {given.get('data-order')}")
    words = ["--config", path, *data_words(given, folder, data), "--metrics", curve, "--profile=" + os.path.join(folder, "trace") if "profile" in given else ""]
    for option, value in {**ONE_RANK, **SMALL, **{k: v for k, v in IF_THERE.items() if k in given}}.items():
        words += [f"--{option}", *[word.replace("~", " ") for word in str(value).split(" ")]]
    for option in WRITTEN:
        if option in given:
            place = "ck" if option in ("save", "load") else option
            words += [f"--{option}", os.path.join(folder, place + "-" + name.replace(" ", "-"))]
    jotun("train", *[w for w in words if w != ""])
    losses = [float(re.search(r'"loss": ?([-\d.e+]+)', line).group(1)) for line in open(curve) if '"loss"' in line and "valid" not in line]
    if len(losses) < 2 or not all(3 < loss < 9 for loss in losses):
        sys.exit(f"{name}: losses {losses}")


# Keys that NeMo's model files may have, what becomes of them, and what is said.
NEMO_KEYS = [
    ("", {"clip-grad": "0"}, "trainer.gradient_clip_val is missing"),                             # PyTorch Lightning's default is None
    ("trainer: {gradient_clip_val: null}", {"clip-grad": "0"}, "is missing"),
    ("trainer: {gradient_clip_val: 0.5}", {"clip-grad": "0.5"}, ""),
    ("model: {tokenizer: {library: megatron, type: GPT2BPETokenizer, vocab_file: bpe/vocab.json, merge_file: bpe/merges.txt}}", {"tokenizer": "bpe"}, ""),
    ("model: {tokenizer: {library: sentencepiece, vocab_file: bpe/vocab.json, model: m.model}}", {"tokenizer": "m.model"}, "reads only model"),
    ("model: {position_embedding_type: rope, rotary_percentage: 0.5}", {"rotary-percent": "0.5"}, ""),
    ("model: {position_embedding_type: learned_absolute, rotary_percentage: 0.5}", {"rotary-percent": None}, "it has no effect"),
    ("model: {rotary_percentage: 1.00, position_embedding_type: rope}", {"rotary-percent": None}, "the whole head"),
    ("model: {activation: geglu}", {"geglu": "true"}, ""),
    ("model: {activation: fast-geglu, openai_gelu: yes}", {"geglu": "true", "gelu-approximate": "tanh"}, ""),
    ("model: {activation: quick-geglu, openai_gelu: true}", {"quick-geglu": "true", "gelu-approximate": None}, "no GELU"),
    ("model: {bias_activation_fusion: False}", {"gelu-approximate": "none"}, ""),
    ("model: {openai_gelu: True, bias_activation_fusion: False}", {"gelu-approximate": "tanh"}, "by tanh"),
    ("model: {activation: fast-swiglu, bias_activation_fusion: False}", {"swiglu": "true", "gelu-approximate": None}, "no GELU"),
    ("model: {ffn_dropout: 0}", {}, "ffn_dropout of NeMo is ignored"),
    ("model: {ffn_dropout: 0.00}", {}, "ffn_dropout of NeMo is ignored"),
    ("model: {ffn_dropout: 0.1}", None, "there is no dropout inside the MLP"),
    ("model: {bias: no, qkv_bias: false}", {"disable-bias-linear": "true"}, ""),
    ("model: {bias: on}", {"disable-bias-linear": None}, "it is the default"),
    ("model: {activation: reglu}", None, "give gelu, squared-relu, fast-swiglu, geglu or quick-geglu"),
]


def nemo_keys(folder):
    path = os.path.join(folder, "keys.yaml")
    for text, wanted, said in NEMO_KEYS:
        with open(path, "w") as out:
            out.write(text + "\n")
        done = jotun("config", "--from-nemo", path, check=False)
        got = keys_of(done.stdout)
        if (done.returncode == 0) != (wanted is not None) or said not in done.stdout + done.stderr or any(got.get(k) != v for k, v in (wanted or {}).items()):
            sys.exit(f"{text}: exit code {done.returncode}, {got}; expected {wanted} and {said!r}\n{done.stdout[:900]}\n{done.stderr}")


def main():
    calls = [" ".join([file, *arguments]) for file in sorted(os.listdir(HERE)) for arguments in ARGUMENTS.get(file, [[]])]
    names = [n for n in calls if not sys.argv[1:] or any(w in n for w in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder:
        data = corpus(folder)
        work = os.path.join(folder, "work")
        os.mkdir(work)
        os.chdir(work)                                    # where a relative path of a script would be written
        for name in names:
            yaml = imported(name)
            run_dry(name, yaml, folder)
            train(name, yaml, folder, data)
            if os.listdir(work):
                sys.exit(f"{name} leaves {', '.join(os.listdir(work))} in the working directory; WRITTEN lacks the option that names it")
        nemo_keys(folder)
        os.chdir(HERE)
    print(f"{len(names)} scripts read, shown, run dry and trained at reduced size")
    if not sys.argv[1:] and len(names) < 42:
        sys.exit(f"there are {len(names)} scripts; 42 were promised")


main()
