"""Every option of `jotun train`, changed from its default, changes the configuration that a checkpoint keeps and something that a
user can observe: the metrics, the dry run, a line of the log, or a file. The options are the rows of src/conf/options/*.def.
   option_effects.py [NAME...]       those alone; without JOTUN_FULL a third of all
   option_effects.py --write         writes option_effects.txt, which says how each is observed
An option without a line in option_effects.txt fails the test, and so does one that is not observed as the line says."""
import json
import os
import re
import shutil
import sys
import tempfile
from run import corpus, jotun

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = os.path.join(HERE, "..", "..", "src", "conf", "options")
TABLE = os.path.join(HERE, "option_effects.txt")
BASE = {"num-layers": 2, "hidden-size": 32, "ffn-hidden-size": 64, "num-attention-heads": 4, "seq-length": 32, "micro-batch-size": 2,
        "global-batch-size": 4, "train-iters": 3, "lr": "1e-2", "vocab-size": 260, "device": "cpu", "threads": 1}
SPLITS = "train", "valid", "test"
# The value that an option is changed to, where the next number or word is refused or changes nothing.
VALUES = {
    "model": "jotun-tiny", "window-size": "8,0", "window-attn-skip-freq": 2, "config": "FOLDER/options.yaml", "json-config": "FOLDER/ds.json", "gradient-accumulation-steps": 2, "num-attention-heads": 2,
    "max-position-embeddings": 64, "vocab-size": 300, "num-query-groups": 2, "device": "ref", "tokenizer": "FOLDER/bytes.json",
    "split": "50,50,0", "data-path": "DATA2", "train-data-path": "DATA2", "valid-data-path": "DATA", "test-data-path": "DATA",
    "data-file-list": "FOLDER/list.txt", **{s + "-weighted-split-paths": "t:~1~0.1:0.9~DATA" for s in SPLITS},
    **{s + "-weighted-split-paths-path": "FOLDER/groups.txt" for s in SPLITS}, "num-experts": 4, "moe-layer-freq": 2, "moe-ffn-hidden-size": 32, "moe-router-num-groups": 2,
    "moe-shared-expert-intermediate-size": 32, "moe-router-topk": 1, "moe-router-group-topk": 1, "moe-router-group-best": 1, "moe-expert-capacity-factor": 1,
    "recompute-modules": "mlp", "hierarchical-context-parallel-sizes": "2 2", "loss-scale": 1024, "micro-batch-size": 1, "profile-step-start": 2,
    "pipeline-model-parallel-layout": "Ett|L", "load": "CHECKPOINT", "final-epoch-cut": 0, "mid-level-dataset-surplus": 0.9, "log-interval": 1,
    "eval-iters": 2, "start-eval-at-iter": 2, "iterations-to-skip": 2, "validation-set-names": "one two", "embedding-init-method-std": 0.1, "q-lora-rank": 16, "latent-norm-epsilon": 0.01, "spike-factor": 1.00001, "spike-window": 4, "spike-deviations": 0.01, "min-lr": 0.001, "lr-warmup-init": 0.001, "lr-wsd-decay-samples": 8, "rotary-seq-len-interpolation-factor": 2, "no-rope-freq": "2", "rotary-scaling-factor": 4, "yarn-original-max-position-embeddings": 8,
    "train-samples": 8, "train-tokens": 256, "rampup-batch-size": "2 2 4", "seq-length-warmup": "8 2 8", "step-batch-size-schedule": "0:2~128:4", "exit-duration-in-mins": "1e-6", "yarn-beta-fast": 1.1, "yarn-beta-slow": 0.1, "lamb-max-coeff": 0.011, "onebit-freeze-step": 2, "onebit-factor-max": 0.75, "onebit-factor-min": 1.5, "onebit-factor-threshold": 0.01, "sophia-rho": 100, "sophia-update-interval": 1, "adafactor-eps1": 0.1, "adafactor-eps2": 0.5, "loss-scale-window": 1, "min-loss-scale": 1024, "first-last-layers-bf16": None, "fp8-amax-history-len": 4, "decoder-first-pipeline-num-layers": 1,
    "decoder-last-pipeline-num-layers": 1, "watchdog-seconds": 33, "num-layers-per-virtual-pipeline-stage": 1, "threads": 2, "ranks": 2,
    "microbatch-group-size-per-virtual-pipeline-stage": 4, "seed": 7, "kernels": "portable", "sum-group-size": 2, "eval-interval": 1,
    "eval-global-batch-size": 2, "eval-micro-batch-size": 1, "sample-interval": 2, "sample-prompt": "b", "sample-max-new-tokens": 4, "early-stopping-patience": 1,
    "galore-rank": 4, "galore-update-gap": 1, "precondition-frequency": 1, "max-preconditioner-dim": 40, "shampoo-epsilon": 0.001, "soap-shampoo-beta": 0.5,
}
EXPERTS = {"num-experts": 4, "disable-bias-linear": None}
TWO = {"ranks": 2, "tensor-model-parallel-size": 2}
STAGES = {"ranks": 2, "pipeline-model-parallel-size": 2, "num-layers": 4}
FP8 = {"num-layers": 6}
YARN = {"position-embedding-type": "yarn", "rotary-scaling-factor": 8, "yarn-original-max-position-embeddings": 16, "kv-channels": 32}
RESUMED = {"load": "CHECKPOINT", "train-iters": 6}
# What it needs beside it beyond its WANTS rows. A key that begins with + is given with the changed value alone.
BESIDE = {
    "window-attn-skip-freq": {"window-size": "8,0"}, "num-experts": {"disable-bias-linear": None}, "train-data-path": {"+data-path": "ABSENT", "+split": "ABSENT"},
    "valid-data-path": {"data-path": "ABSENT", "train-data-path": "DATA2", "eval-iters": 1}, "test-data-path": {"data-path": "ABSENT", "train-data-path": "DATA2", "eval-iters": 1},
    "agpt-variables": {"num-query-groups": 2},
    "data-file-list": {"+data-path": "ABSENT", "data-order": "megatron-forks"},
    "shuffle-sample-in-corpus": {"data-path": "ABSENT", "data-file-list": "FOLDER/list.txt", "data-order": "megatron-forks"},
    "blend-sample-in-corpus": {"data-path": "ABSENT", "data-file-list": "FOLDER/list.txt", "data-order": "megatron-forks", "shuffle-sample-in-corpus": None},
    "final-epoch-cut": {"train-iters": 250}, "mid-level-dataset-surplus": {"data-path": "0.5 DATA 0.5 DATA2"}, "tensor-model-parallel-size": {"+ranks": 2},
    "sequence-parallel": TWO, "pipeline-model-parallel-size": {"+ranks": 2}, "context-parallel-size": {"+ranks": 2},
    "cp-comm-type": {"ranks": 2, "context-parallel-size": 2}, "hierarchical-context-parallel-sizes": {"ranks": 4, "context-parallel-size": 4, "cp-comm-type": "p2p", "+cp-comm-type": "a2a+p2p"},
    "expert-model-parallel-size": {**EXPERTS, "ranks": 2}, "expert-tensor-parallel-size": {**EXPERTS, **TWO, "expert-tensor-parallel-size": 1},
    "finetune": RESUMED, "no-load-optim": RESUMED, "no-load-rng": RESUMED, "override-opt-param-scheduler": {**RESUMED, "+lr": 0.02}, "use-checkpoint-opt-param-scheduler": {**RESUMED, "+lr": 0.02},
    "no-save-optim": {"save": "FOLDER/save"}, "eval-iters": {"eval-interval": 1, "eval-iters": 1, "split": "50,50,0"}, "fp8-amax-history-len": {"bf16": None, "fp8-format": "e4m3", "fp8-amax-compute-algo": "max", "fp8-amax-history-len": 2},
    "fp8-amax-compute-algo": {"bf16": None, "fp8-format": "e4m3", "fp8-amax-compute-algo": "most_recent", "fp8-amax-history-len": 2}, "min-loss-scale": {"initial-loss-scale": 1024, "loss-scale-window": 1000},
    "max-preconditioner-dim": {"precondition-frequency": 1}, "shampoo-epsilon": {"precondition-frequency": 1}, "soap-shampoo-beta": {"precondition-frequency": 1, "train-iters": 6},
    "lamb-max-coeff": {"optimizer": "lamb"}, **{"onebit-" + name: {"onebit-freeze-step": 2, "train-iters": 5} for name in ("coeff-beta", "factor-max", "factor-min", "factor-threshold")},
    "onebit-freeze-step": {"train-iters": 5}, "loss-scale-window": {"initial-loss-scale": 1024}, "pipeline-model-parallel-layout": {"ranks": 2, "pipeline-model-parallel-size": 2, "decoder-first-pipeline-num-layers": "ABSENT"},
    "account-for-embedding-in-pipeline-split": {**STAGES, "num-layers": 2, "+num-layers": 3}, "account-for-loss-in-pipeline-split": {**STAGES, "num-layers": 2, "+num-layers": 3},
    "hybrid-shard-size": {"ranks": 4, "zero-stage": 1, "micro-batch-size": 1}, 
    "moe-router-num-groups": {**EXPERTS, "moe-router-group-topk": 1, "moe-router-num-groups": 1, "moe-router-topk": 2},
    "moe-router-group-topk": {**EXPERTS, "moe-router-num-groups": 2, "moe-router-group-topk": 2, "moe-router-topk": 2},
    "moe-router-group-best": {**EXPERTS, "moe-router-num-groups": 2, "moe-router-group-topk": 1, "moe-router-topk": 2},
    "moe-router-load-balancing-type": {**EXPERTS, "moe-aux-loss-coeff": 0.5},
    "moe-router-topk": {**EXPERTS, "moe-router-pre-softmax": None}, "moe-router-enable-expert-bias": {**EXPERTS, "moe-router-score-function": "sigmoid"},
    "moe-expert-capacity-factor": EXPERTS, "moe-token-drop-policy": {**EXPERTS, "moe-expert-capacity-factor": 0.5},
    "profile": {"+profile-step-start": 1, "+profile-step-end": 2}, "profile-step-start": {"profile": "FOLDER/p", "profile-step-end": 2, "profile-step-start": 1},
    "profile-step-end": {"profile": "FOLDER/p", "profile-step-start": 1, "profile-step-end": 1}, "save-interval": {"save": "FOLDER/save"}, "keep-last": {"save": "FOLDER/save", "save-interval": 1},
    "exit-interval": {"save": "FOLDER/save"}, "first-last-layers-bf16": FP8, "num-layers-at-start-in-bf16": FP8, "num-layers-at-end-in-bf16": FP8,
    "recompute-modules": {"recompute-granularity": "selective"}, "sum-group-size": {"ranks": 4, "micro-batch-size": 1},
    "mtp-num-layers": {"position-embedding-type": "none"}, "mtp-loss-scaling-factor": {"position-embedding-type": "none", "mtp-num-layers": 1},
    "reset-position-ids": {}, "eod-mask-loss": {}, "zero-stage": {"ranks": 2}, "grad-reduce-in-bf16": {"ranks": 2, "bf16": None}, "no-overlap": {"ranks": 2, "zero-stage": 3},
}
MANY = {**STAGES, "global-batch-size": 16}
BESIDE.update({name: MANY for name in (
    "num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank microbatch-group-size-per-virtual-pipeline-stage pipeline-schedule "
    "pipeline-extra-warmup decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers").split()})
BESIDE["microbatch-group-size-per-virtual-pipeline-stage"] = {**MANY, "num-virtual-stages-per-pipeline-rank": 2, "global-batch-size": 24}
BESIDE.update({name: YARN for name in "yarn-original-max-position-embeddings yarn-beta-fast yarn-beta-slow no-yarn-correction-range-round-to-int mscale mscale-all-dim".split()})
WSD = {"lr-decay-style": "WSD", "train-iters": 6}
BESIDE["lr-wsd-decay-style"] = {**WSD, "lr-wsd-decay-iters": 4}
BESIDE["lr-wsd-decay-iters"] = {**WSD, "lr-wsd-decay-iters": 1}
BESIDE["lr-wsd-decay-samples"] = {**WSD, "lr-wsd-decay-samples": 4}
BESIDE["lr-warmup-init"] = {"lr-warmup-iters": 2}
BESIDE["lr-warmup-style"] = {"lr-warmup-iters": 3}
BESIDE["gradient-accumulation-steps"] = {"global-batch-size": "ABSENT", "gradient-accumulation-steps": 1}
BESIDE["json-config"] = {"lr": "ABSENT"}
BESIDE["yarn-beta-fast"] = {**YARN, "rotary-base": 100}
DECAYS = {"start-weight-decay": 0.01, "end-weight-decay": 0.1}
BESIDE["weight-decay-incr-style"] = {"+start-weight-decay": 0.01, "+end-weight-decay": 0.1}
BESIDE["weight-decay-incr-samples"] = {**DECAYS, "weight-decay-incr-style": "linear"}
BESIDE["start-weight-decay"] = BESIDE["end-weight-decay"] = {**DECAYS, "weight-decay-incr-style": "linear"}
LATENT = {"multi-latent-attention": None, "disable-bias-linear": None, "position-embedding-type": "rope", "normalization": "RMSNorm", "qk-layernorm": None}
BESIDE.update({name: LATENT for name in "q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim latent-norm-epsilon".split()})
BESIDE["multi-latent-attention"] = {k: v for k, v in LATENT.items() if k != "multi-latent-attention"}
BESIDE["spike-factor"] = {"+spike-window": 2, "train-iters": 6, "lr": 1}
BESIDE["spike-window"] = {"spike-factor": 1.00001, "spike-window": 2, "train-iters": 6, "lr": 1}
BESIDE["spike-deviations"] = {"+spike-window": 2, "train-iters": 8, "lr": 3}
SETS = {"data-path": "ABSENT", "train-data-path": "DATA2", "valid-data-path": "DATA DATA2", "eval-interval": 1, "eval-iters": 1}
BESIDE["multiple-validation-sets"] = {**SETS, "valid-data-path": "DATA", "+valid-data-path": "DATA DATA2"}
BESIDE["validation-set-names"] = {**SETS, "multiple-validation-sets": None}
PARTS = {"data-path": "ABSENT", "data-order": "megatron-forks", "eval-interval": 1, "eval-iters": 1, "train-weighted-split-paths": "t:~1~0:0.5~DATA2"}
BESIDE.update({split + "-weighted-split-paths" + file: PARTS for split in ("valid", "test") for file in ("", "-path")})
BESIDE.update({"train-weighted-split-paths" + file: {"+data-path": "ABSENT", "+split": "ABSENT", "data-order": "megatron-forks"} for file in ("", "-path")})
BESIDE["full-validation"] = {"eval-interval": 1, "split": "50,50,0"}
BESIDE.update({name: {"eval-interval": 1, "eval-iters": 1, "split": "50,50,0"} for name in "start-eval-at-iter eval-global-batch-size eval-micro-batch-size".split()})
BESIDE["test-mode"] = {"ranks": 2}
BESIDE.update({name: {"tokenizer": "bytes"} for name in ("sample-max-new-tokens", "sample-temperature")})
BESIDE["sample-interval"] = {"tokenizer": "bytes", "sample-interval": 1}
BESIDE["sample-prompt"] = {"tokenizer": "bytes", "sample-prompt": "a"}
BESIDE["early-stopping-patience"] = {"save": "FOLDER/save", "eval-interval": 1, "eval-iters": 1, "split": "50,50,0", "lr": 10, "train-iters": 12}
BESIDE["skip-train"] = {"eval-interval": 1, "eval-iters": 1, "split": "50,50,0"}
BESIDE["mock-data"] = {"+data-path": "ABSENT"}
BESIDE["moe-shared-expert-gate"] = {**EXPERTS, "moe-shared-expert-intermediate-size": 32}
BESIDE["decrease-batch-size-if-needed"] = {"+global-batch-size": 5}
BESIDE["rampup-batch-size"] = BESIDE["step-batch-size-schedule"] = {"micro-batch-size": 1}
BESIDE["lr-schedule-unit"] = {"micro-batch-size": 1, "+global-batch-size": "ABSENT", "+step-batch-size-schedule": "0:2~128:4", "lr-warmup-iters": 3}
BESIDE["train-samples"] = BESIDE["train-tokens"] = {"+train-iters": "ABSENT"}
# Another change than these tests can see, and what tests it.
ELSEWHERE = {
    "exit-on-missing-checkpoint": "cli.options", "dry-run": "plan.dry_run", "use-tp-pp-dp-mapping": "plan.dry_run",
    "draw-schedule": "cli.options", "draw-schedule-svg": "cli.options", "watchdog-seconds": "cli.dead_rank", "distributed-timeout-minutes": "cli.dead_rank", "control-port": "cli.tcp", "device-transport": "train.nccl_shim", "peak-tflops": "cli.report_lines", "gpu": "train.device_says",
    "tokenizer": "cli.options", "mid-level-dataset-surplus": "data.order_test", "no-load-rng": "cli.options", "muon-fp32-matmul-prec": "train.optimizers_test", "min-loss-scale": "cli.precision", "no-check-for-nan-in-loss-and-grad": "cli.spikes", "spike-action": "cli.spikes", "skip-train": "cli.schedule", "use-checkpoint-args": "cli.options",
}


class Row:
    def __init__(self, kind, field, default, low, name, commands):
        self.kind, self.field, self.default, self.low, self.name, self.commands = kind, field, default, low, name, commands
        self.words, self.wants = [], []


def rows():
    """Rows by their field, in the order of the files."""
    found, word = {}, r'"((?:[^"\\]|\\.)*)"'
    for file in sorted(os.listdir(ROWS)):
        last = None
        for line in open(os.path.join(ROWS, file)):
            m = re.match(r"OPT_(\w+)\( *(\w+), *(.*)", line)
            if m:
                kind, field, rest = m.groups()
                texts = re.findall(word, rest)
                if kind in ("INT", "REAL"):
                    low = rest.split(",")[1].strip()
                    default, name = texts[0], texts[1]
                elif kind == "FLAG":
                    default, low, name = "", "", texts[0]
                elif kind == "CHOICE":
                    default, low, name = texts[0], "", texts[1]
                else:
                    default, low, name = texts[0], texts[1], texts[2]
                commands = rest.split(f'"{name}",', 1)[1].split(",")[0].strip()
                found[field] = Row(kind, field, default, low, name, commands)
            m = re.match(r"CHOICE\( *(\w+), *\w+, *" + word, line)
            if m:
                found[m.group(1)].words.append(m.group(2))
            m = re.match(r"(OR_WANTS|WANTS|BUILT_WITH|TRAIN_WANTS|IDLE_WITHOUT|IDLE_BESIDE)\( *(\w+), *(\w+), *" + word, line)
            if m and m.group(1) in ("WANTS", "BUILT_WITH", "TRAIN_WANTS", "IDLE_WITHOUT"):
                found[m.group(2)].wants.append((m.group(3), m.group(4)))
    return found


def training_words():
    """The names of command sets that hold FOR_TRAIN, by the #define lines."""
    text = open(os.path.join(ROWS, "..", "options.def")).read() + "".join(open(os.path.join(ROWS, f)).read() for f in os.listdir(ROWS))
    sets, names = dict(re.findall(r"^#define ([A-Z_]+) +\((.*?)\)", text, re.M)), {"FOR_TRAIN", "FOR_ANY"}
    for _ in sets:
        names |= {name for name, value in sets.items() if names & set(re.split(r"[^A-Z_]+", value))}
    return names


TRAINS = training_words()


def of_training(row):
    return bool(TRAINS & set(re.split(r"[^A-Z_]+", row.commands)))


def changed(row, folder):
    if row.name in VALUES:
        return [] if VALUES[row.name] is None else str(VALUES[row.name]).split(" ")
    if row.kind == "FLAG":
        return []
    if row.kind == "CHOICE":
        return [next(w for w in row.words if w != row.default)]
    if row.kind == "INT":
        return [str(2 * int(float(row.default)) if row.default and float(row.default) > 0 else max(1, int(float(row.low)) + 1))]
    if row.kind == "REAL":
        return [f"{float(row.default) / 2 if row.default and float(row.default) > 0 else 0.25:g}"]
    if row.kind in ("PATH", "PATHS"):
        return ["FOLDER/file-" + row.name]
    return ["x"]


def companions(row, all_rows, folder, seen=()):
    """Words that the option needs: those of its WANTS rows, and of theirs."""
    words = {}
    for field, value in row.wants:
        other = all_rows[field]
        if other.name == row.name or field in seen:
            continue
        words.update({k.lstrip("+"): v for k, v in companions(other, all_rows, folder, (*seen, field)).items()})
        first = re.split(r"[ ,]", value)[0]
        if other.kind == "FLAG":
            words[other.name] = None
        elif other.kind == "CHOICE":
            if other.default not in re.split(r"[ ,]+", value):
                words[other.name] = first
        elif re.match(r"\d", first):
            if not other.default or float(other.default) < float(first):
                words[other.name] = first
        else:
            words[other.name] = " ".join(changed(other, folder))
    if any("experts" == field for field, _ in row.wants):
        words.update(EXPERTS)
    words.update(BESIDE.get(row.name, {}))
    return words


def command(options):
    words = []
    for name, value in options.items():
        words += [f"--{name}"] + ([] if value is None else [w.replace("~", " ") for w in str(value).split(" ")])          # ~: a blank in a word
    return words


def files_of(folder):
    found = set()
    for path, _, names in os.walk(folder):
        for n in names:
            size = os.path.getsize(os.path.join(path, n)) if n.endswith((".safetensors", ".npy")) else 0
            found.add(f"{os.path.relpath(os.path.join(path, n), folder)} {size}")
    return found


def stable(text, folder):
    """Lines without what differs from run to run: times, speeds, memory, paths."""
    lines = []
    for line in text.replace(folder, "").splitlines():
        if "the fp32 peak" in line or "FLOP/s, the" in line:
            continue
        line = re.sub(r"  [\d.]+ \w+ left|  [\d.]+ tokens/s|  data [\d.]+ \w+|  [\d.]+ .?FLOP/s|  MFU .*| in [\d.]+ \w+", "", line)
        lines.append(line)
    return lines


def observe(options, data, name):
    """What a run leaves: its metrics, dry run, log, files and the saved options."""
    folder = tempfile.mkdtemp(dir=os.path.dirname(data))
    words = {**BASE, "data-path": "DATA", "metrics": "FOLDER/metrics", "save": "FOLDER/save", **options}
    for key, value in list(words.items()):
        if value == "ABSENT":
            del words[key]
        elif value is not None:
            words[key] = str(value).replace("FOLDER/bytes.json", os.path.join(os.path.dirname(data), "bytes.json")).replace("CHECKPOINT", os.path.join(os.path.dirname(data), "checkpoint")).replace("FOLDER", folder).replace("DATA2", data + "2").replace("DATA", data)
    with open(os.path.join(folder, "options.yaml"), "w") as out:
        out.write("lr: 1e-3\nweight-decay: 0.3\n")
    with open(os.path.join(folder, "ds.json"), "w") as out:
        out.write('{"gradient_clipping": 1, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}')
    with open(os.path.join(folder, "list.txt"), "w") as out:
        out.write(f"0.5 {data} a\n0.3 {data}2 b\n0.2 {data} b\n")
    with open(os.path.join(folder, "groups.txt"), "w") as out:
        out.write(f'"t: 0.5 0:0.9 {data}, 0.3 0.1:1 {data}2"\n')
    done = jotun("train", *command(words), check=False, cwd=folder)
    dry = jotun("train", *command(words), "--dry-run", check=False, cwd=folder)
    saved, curve = {}, []
    steps = [s for s in sorted(os.listdir(words["save"])) if s.startswith("step_")] if os.path.isdir(words.get("save") or "") else []
    if steps:
        saved = json.load(open(os.path.join(words["save"], steps[-1], "manifest.json"))).get("options", {})
    if os.path.exists(words["metrics"]):
        curve = [{k: v for k, v in json.loads(line).items() if not re.search("second|mfu|hfu|memory|bytes", k)} for line in open(words["metrics"])]
    log = [line for line in stable(done.stderr + done.stdout, folder) if f"--{name}" not in line]
    result = {"metrics": curve, "dry": stable(dry.stdout, folder), "log": log, "files": files_of(folder)}
    shutil.rmtree(folder)
    return done, saved, result


def try_option(row, all_rows, data, folder):
    """(how it is observed, None) or (None, why not)"""
    beside = companions(row, all_rows, folder)
    value = changed(row, folder)
    plain = {k: v for k, v in beside.items() if k[0] != "+" and k != row.name}
    plain.update({k: v for k, v in BESIDE.get(row.name, {}).items() if k == row.name})
    was_done, was_saved, was = observe(plain, data, row.name)
    options = {**plain, **{k[1:]: v for k, v in beside.items() if k[0] == "+"}}
    options[row.name] = " ".join(value) if value else None
    done, saved, now = observe(options, data, row.name)
    said = f"--{row.name} {' '.join(value)} beside {' '.join(command(beside))}"
    if done.returncode or was_done.returncode:
        return None, f"{said}: {(done.stderr if done.returncode else was_done.stderr).strip().splitlines()[-1]}"
    if saved and saved.get(row.name) == was_saved.get(row.name):
        return None, f"{said}: the saved configuration has {saved.get(row.name)} as before"
    how = [kind for kind in ("metrics", "dry", "log", "files") if now[kind] != was[kind]]
    return (how, None) if how else (None, f"{said}: nothing observable changes")


def table():
    lines = [line.split() for line in open(TABLE) if line.strip() and not line.startswith("#")] if os.path.exists(TABLE) else []
    return {line[0]: line[1:] for line in lines}


def main():
    write = "--write" in sys.argv
    names = [a for a in sys.argv[1:] if a != "--write"]
    all_rows, known, failed, count = rows(), table(), [], 0
    whole = os.environ.get("JOTUN_FULL") or write or names
    with tempfile.TemporaryDirectory() as folder:
        data = corpus(folder)
        os.makedirs(os.path.join(folder, "other"))
        os.rename(corpus(os.path.join(folder, "other"), seed=6) + ".bin", data + "2.bin")
        os.rename(os.path.join(folder, "other", "text_text_document.idx"), data + "2.idx")
        jotun("tokenizer", "train", "--input", os.path.join(folder, "text.txt"), "--vocab-size", 260, "--output", os.path.join(folder, "bytes.json"))
        jotun("train", *command({**BASE, "data-path": data, "save": os.path.join(folder, "checkpoint")}))
        for i, row in enumerate(r for r in all_rows.values() if of_training(r)):
            if names and row.name not in names:
                continue
            if row.name in ELSEWHERE:
                continue
            if not write and row.name not in known:
                failed.append(f"--{row.name} has no line in tests/cli/option_effects.txt; option_effects.py --write makes it")
                continue
            if not whole and i % 3:
                continue
            how, why = try_option(row, all_rows, data, folder)
            count += 1
            if why:
                failed.append(why)
            elif write:
                known[row.name] = how
                print(row.name, *how, flush=True)
            elif known[row.name][0] not in how:
                failed.append(f"--{row.name}: not observed in {known[row.name][0]} but in {', '.join(how)}")
    if write and not names:
        with open(TABLE, "w") as out:
            out.write("# Where a change of each option is observed, written by option_effects.py --write: the first word has to hold.\n")
            for name in sorted(known):
                out.write(f"{name} {' '.join(known[name])}\n")
    print(f"{count} options changed, {len(ELSEWHERE)} elsewhere: {', '.join(ELSEWHERE)}")
    if failed:
        sys.exit("\n".join(failed))


main()
