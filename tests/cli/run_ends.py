"""How runs end and what they keep: --exit-duration-in-mins, the checkpoint with the lowest validation loss (--keep-best), also over
kills, resumes and layouts; Megatron-LM's log lines; the first line of a run."""
import array
import glob
import json
import math
import os
import re
import shutil
import sys

import run


def wanted(good, what, told=""):
    if not good:
        sys.exit(f"{what}\n{told}")


def duration(data, folder):
    out = os.path.join(folder, "minutes")
    words = ["train", "--data-path", data, *run.MODEL, "--ranks", 2, "--threads", 1, "--save", out]
    done = run.jotun(*words, "--train-iters", 1000000, "--exit-duration-in-mins", 0.01)
    step = int(re.search(r"step (\d+): --exit-duration-in-mins 0.01 are over", done.stderr).group(1))
    wanted(f"step {step} is saved in" in done.stderr and open(os.path.join(out, "latest")).read() == f"step_{step:08d}", "not saved", done.stderr)
    done = run.jotun(*words[:-2], "--train-iters", 2, "--exit-duration-in-mins", 1, check=False)
    wanted(done.returncode == 1 and "has no effect without --save" in done.stderr, "taken without --save", done.stderr)


def evaluated(path):
    """step -> validation loss of its last evaluation"""
    return {row["step"]: row["loss"] for row in map(json.loads, open(path)) if row.get("split") == "valid"}


def best_of(out):
    link = os.path.join(out, "best")
    return int(os.readlink(link)[5:]) if os.path.islink(link) else None


def check_best(out):
    """The link names a complete checkpoint, which is the lowest of those evaluated."""
    losses = evaluated(out + ".jsonl")
    least = min(losses, key=losses.get)
    wanted(best_of(out) == least, f"best is {best_of(out)}, the lowest loss is at {least}: {losses}")
    manifest = json.load(open(os.path.join(out, "best", "manifest.json")))
    wanted(manifest["step"] == least and manifest["run"]["valid_loss"] == losses[least], f"the manifest has {manifest['run']}")
    wanted(run.jotun("checkpoint", "verify", os.path.join(out, "best")).returncode == 0, "best is damaged")


def best(data, folder):
    # a learning rate at which the loss falls and then rises
    words = ["train", "--data-path", data, *run.MODEL, "--eval-interval", 4, "--eval-iters", 2, "--split", "80,20,0", "--lr", 0.3,
             "--lr-decay-style", "constant", "--clip-grad", 0, "--keep-best", "--keep-last", 1, "--train-iters", 40, "--save-interval", 7]
    whole = os.path.join(folder, "best")
    run.jotun(*words, "--save", whole, "--metrics", whole + ".jsonl")
    check_best(whole)
    held = sorted(os.path.basename(p) for p in glob.glob(os.path.join(whole, "step_*")))
    wanted(held == sorted({"step_00000040", f"step_{best_of(whole):08d}"}), f"--keep-last 1 keeps {held}")
    for n, layout in enumerate((["--ranks", 2, "--zero-stage", 1], ["--ranks", 4, "--tp", 2, "--pp", 2])):
        out = os.path.join(folder, f"best{n}")
        resumed = [*words, *layout, "--threads", 1, "--save", out, "--load", out, "--metrics", out + ".jsonl"]
        kills = 0
        for fault in ("step:9:kill", "rename:7:kill", "step:14:kill", "sync:60:kill", None):
            done = run.jotun(*resumed, check=False, env=dict(os.environ, JOTUN_FAULT=fault) if fault else None)
            wanted(done.returncode in (0, -9), "a run failed", done.stderr)
            kills += done.returncode == -9
            if best_of(out) is not None:
                run.jotun("checkpoint", "verify", os.path.join(out, "best"))
        wanted(kills >= 3, f"{kills} kills")
        check_best(out)
        wanted(best_of(out) == best_of(whole), f"{layout}: best is {best_of(out)}, on one rank {best_of(whole)}")


def megatron_lines(data):
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 12, "--eval-interval", 6, "--eval-iters", 1, "--split", "80,20,0",
             "--log-format", "megatron", "--log-throughput", "--ranks", 2]
    told = run.jotun(*words, "--log-interval", 3).stderr
    line = re.compile(r"^ \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] iteration +(\d+)/ +12 \| consumed samples: +(\d+) \| elapsed time per "
                      r"iteration \(ms\): [\d.]+ \| throughput per GPU \(TFLOP/s/GPU\): \d\.\d \| learning rate: \d\.\d{6}E-\d\d \| global "
                      r"batch size:     8 \| lm loss: (\d\.\d{6}E\+00) \| loss scale: 1\.0 \| grad norm: \d+\.\d{3} \| number of skipped "
                      r"iterations:   0 \| number of nan iterations:   0 \|$", re.M)
    found = line.findall(told)
    wanted([(int(a), int(b)) for a, b, _ in found] == [(n, 8 * n) for n in (1, 3, 6, 9, 12)], "wrong lines", told)
    wanted(re.search(r"^-+\n validation loss at iteration 6 \| lm loss value: \d\.\d{6}E\+00 \| lm loss PPL: \d\.\d{6}E\+0\d \| \n-+$", told, re.M),
           "no validation line", told)
    with run.work_folder() as folder:                       # the loss is the mean over the steps since the line before
        path = os.path.join(folder, "m.jsonl")
        told = run.jotun(*words, "--log-interval", 3, "--metrics", path).stderr
        losses = run.metrics(path)
        for step, _, loss in line.findall(told)[2:]:
            mean = sum(losses[s] for s in range(int(step) - 2, int(step) + 1)) / 3
            wanted(f"{mean:.6E}" == loss, f"step {step}: {loss}, the mean is {mean:.6E}")
    wanted(math.isfinite(mean), "no mean")


def first_line(data):
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 1, "--threads", 1]
    for more, says in (([], "; 1 rank: tp 1, cp 1, dp 1, pp 1, ZeRO 0; "),
                       (["--ranks", 8, "--tp", 2, "--sp", "--pp", 2, "--cp", 2, "--cp-comm-type", "a2a"], "8 ranks: tp 2 with --sp, cp 2 by a2a, dp 1, pp 2 by 1f1b, ZeRO 0; "),
                       (["--ranks", 2, "--pp", 2, "--pipeline-schedule", "zb-h1", "--bf16"], "pp 2 by zb-h1, "),
                       (["--ranks", 2, "--pp", 2, "--num-virtual-stages-per-pipeline-rank", 2], "pp 2 by interleaved of 2 chunks, "),
                       (["--optimizer", "muon", "--bf16"], "device cpu, bf16, muon, ")):
        told = run.jotun(*words, *more).stderr
        wanted(says in told, f"no \"{says}\"", told)


def squares(checkpoint):
    """The sum of squares of all weights, which are the tensors without a second name of their own."""
    total = 0.0
    for path in glob.glob(os.path.join(checkpoint, "*.safetensors")):
        data = open(path, "rb").read()
        size = int.from_bytes(data[:8], "little")
        for name, about in json.loads(data[8:8 + size]).items():
            if name == "__metadata__" or re.search(r"\.(exp_avg|exp_avg_sq|moment\w*|square\w*)$", name):
                continue
            first, end = about["data_offsets"]
            total += sum(x * x for x in array.array({"F64": "d", "F32": "f"}[about["dtype"]], data[8 + size + first:8 + size + end]))
    return total


def counts(data, folder):
    """Zeros among the gradients and the norm of the weights: each logical parameter once, whatever the layout. Of an untied embedding
    the rows of tokens that no sample has get no gradient; the norm is that of the tensors in the checkpoint. No model has a bias of
    keys, whose gradient is zero but for rounding."""
    experts = ["--num-experts", 4, "--moe-router-topk", 1, "--moe-router-pre-softmax", "--disable-bias-linear"]
    for name, model, layouts in (("gpt", ["--untie-embeddings-and-output-weights", "--vocab-size", 260, "--disable-bias-linear"], ["--ranks 4 --tp 4", "--ranks 4 --tp 2 --sp --pp 2", "--ranks 2 --cp 2", "--ranks 2 --zero-stage 1", "--ranks 4 --pp 2 --zero-stage 3"]),
                                 ("tied", ["--disable-bias-linear"], ["--ranks 4 --pp 4", "--ranks 2 --zero-stage 2", "--ranks 2 --tp 2"]), ("experts", experts, ["--ranks 2 --ep 2", "--ranks 4 --tp 2 --ep 2 --sp"])):
        found = []
        for layout in ["", *layouts]:
            out = os.path.join(folder, "counts")
            shutil.rmtree(out, ignore_errors=True)
            words = ["train", "--data-path", data, *run.MODEL, *model, "--train-iters", 2, "--device", "ref", "--threads", 1, "--log-num-zeros-in-grad", "--log-params-norm",
                     "--log-format", "megatron", "--metrics", os.path.join(out, "m.jsonl"), "--save", out, *layout.split()]
            os.mkdir(out)
            told = run.jotun(*words).stderr
            rows = [json.loads(line) for line in open(os.path.join(out, "m.jsonl"))]
            found.append([(row["num_zeros"], row["params_norm"]) for row in rows])
            wanted(f"| num zeros: {rows[-1]['num_zeros']} | params norm: {rows[-1]['params_norm']:.3f} |" in told, "no line of Megatron-LM's has them", told)
        for one in found:
            wanted(all(a[0] == b[0] and abs(a[1] - b[1]) < 1e-9 for a, b in zip(one, found[0])), f"{name}: {layouts}: {found}")
        if name == "gpt":
            zeros = found[0][0][0]
            wanted(zeros % 32 == 0 and 10 < 260 - zeros // 32 < 25, f"{zeros} zeros")
        norm = math.sqrt(squares(os.path.join(out, "step_00000002")))
        wanted(abs(norm - found[0][1][1]) < 1e-5 * norm, f"{name}: norm {found[0][1][1]}, of the checkpoint {norm}")


def early_stop(data, folder):
    """The run ends after so many evaluations above the lowest; kills and resumes count on, and one that has ended stays so."""
    words = ["train", "--data-path", data, *run.MODEL, "--threads", 1, "--train-iters", 400, "--eval-interval", 2, "--eval-iters", 1, "--split", "30,70,0",
             "--lr", 2e-2, "--lr-decay-style", "constant", "--early-stopping-patience", 3, "--save-interval", 3]
    for name, fault in ("early", None), ("early-killed", "step:8:kill"):
        out = os.path.join(folder, name)
        for _ in range(60):
            done = run.jotun(*words, "--save", out, "--load", out, "--metrics", out + ".jsonl", check=False, env=dict(os.environ, JOTUN_FAULT=fault) if fault else None)
            if done.returncode != -9:
                break
        losses = evaluated(out + ".jsonl")
        steps = sorted(losses)
        lowest, since = math.inf, 0
        for step in steps:
            lowest, since = (losses[step], 0) if losses[step] < lowest else (lowest, since + 1)
            wanted((since == 3) == (step == steps[-1]), f"{since} evaluations at step {step} of {losses}", done.stderr)
        wanted(done.returncode == 0 and f"step {steps[-1]}: 3 evaluations in a row without a validation loss below {lowest:.4f}" in done.stderr and
               open(os.path.join(out, "latest")).read() == f"step_{steps[-1]:08d}" and steps[-1] < 400, f"ends with {done.returncode}, {losses}", done.stderr)
        kept = json.load(open(os.path.join(out, f"step_{steps[-1]:08d}", "manifest.json")))["run"]["evaluations"]
        wanted(kept == {"lowest": lowest, "since": 3}, f"the manifest has {kept}")
    wanted(run.digest(os.path.join(folder, "early", f"step_{steps[-1]:08d}")) == run.digest(os.path.join(out, f"step_{steps[-1]:08d}")), "kills change the weights")
    done = run.jotun(*words, "--save", out, "--load", out)
    wanted("the run has ended; a larger number continues it" in done.stderr and "is saved" not in done.stderr, "trains on", done.stderr)
    done = run.jotun(*words, "--save", out, "--load", out, "--early-stopping-patience", 1000, "--train-iters", steps[-1] + 1)
    wanted(f"step {steps[-1] + 1} is saved" in done.stderr, "does not train on", done.stderr)


def evaluations_made_up(data, folder):
    """An evaluation or a sample that a signal stopped is made by the next start, at the last step too, so that metrics, journal and
    best are those of a run without a signal."""
    words = ["train", "--train-data-path", data, "--valid-data-path", data, "--test-data-path", data, *run.MODEL, "--threads", 1, "--train-iters", 12,
             "--eval-interval", 4, "--eval-iters", 2, "--lr", 1e-2, "--lr-decay-style", "constant", "--keep-best", "--sample-interval", 4,
             "--sample-prompt", "a", "--sample-max-new-tokens", 2, "--tokenizer", "bytes"]
    rows = {}
    for name, fault in ("unstopped", None), ("stopped", "evaluation:3:term"):
        out = os.path.join(folder, name)
        codes, told = [], []
        while not codes or (codes[-1] == 143 and len(codes) < 9):
            done = run.jotun(*words, "--save", out, "--load", out, "--metrics", out + ".jsonl", check=False, env=dict(os.environ, JOTUN_FAULT=fault) if fault else None)
            codes.append(done.returncode)
            told.append(done.stderr)
            if codes == [143]:                              # the second evaluation is due, and the samples behind it
                due = json.load(open(os.path.join(out, "step_00000008", "manifest.json")))["run"]["due"]
                wanted(due == ["valid", "samples"], f"due are {due}")
                wanted(run.jotun("checkpoint", "info", out).stdout.count("\ndue ") == 2, "info does not name what is due")
        wanted(codes == ([143, 143, 143, 0] if fault else [0]), f"exit codes {codes}", "\n".join(told))
        run.jotun("checkpoint", "verify", out)
        manifest = json.load(open(os.path.join(out, "best", "manifest.json")))
        journal = [json.loads(line) for line in open(os.path.join(out, "journal.jsonl"))]
        events = [(e["event"], e["step"], e.get("split"), e.get("loss"), e.get("text")) for e in journal if e["event"] in ("evaluation", "sample")]
        timeless = [{k: v for k, v in json.loads(line).items() if k in ("step", "split", "loss", "text")} for line in open(out + ".jsonl")]
        rows[name] = (timeless, events, best_of(out), manifest["run"], run.digest(os.path.join(out, "step_00000012")))
    wanted("due" not in rows["stopped"][3] and rows["stopped"][2] == 12, f"best: {rows['stopped'][2:]}")
    for stopped, unstopped in zip(rows["stopped"], rows["unstopped"]):
        wanted(stopped == unstopped, f"with signals {stopped}\nwithout {unstopped}")


def memory(data, folder):
    """A run that ends before work that is rare has used less memory than the dry run of a whole one, and says nothing of it."""
    words = ["train", "--data-path", data, *run.MODEL, "--threads", 1]
    kept = os.path.join(folder, "memory")
    for more in (["--optimizer", "shampoo", "--train-iters", 2], ["--optimizer", "soap", "--train-iters", 1],
                 ["--optimizer", "soap", "--train-iters", 3, "--ranks", 2, "--tp", 2, "--save", kept],
                 ["--optimizer", "soap", "--train-iters", 5, "--load", kept],
                 ["--optimizer", "soap", "--train-iters", 2, "--fp16", "--initial-loss-scale", 2 ** 32],
                 ["--train-iters", 2, "--iterations-to-skip", 1, 2], ["--optimizer", "galoreadamw", "--train-iters", 5],
                 ["--train-iters", 9, "--eval-interval", 4, "--eval-iters", 1, "--split", "80,20,0", "--micro-batch-size", 1, "--eval-micro-batch-size", 8,
                  "--exit-interval", 2, "--save", kept + "2"]):
        told = run.jotun(*words, *more).stderr
        wanted("than its dry run predicted" not in told, f"{more}: other memory than predicted", told)


def bits_per_byte(data):
    """With bytes as tokens a target has one byte, and the end of a document none; --eod-mask-loss changes which targets count."""
    words = ["train", "--data-path", data, *run.MODEL, "--train-iters", 2, "--eval-interval", 2, "--eval-iters", 3, "--split", "60,40,0", "--threads", 1,
             "--device", "ref"]
    found = []
    for more in ([], ["--ranks", 2], ["--ranks", 8, "--tp", 2, "--cp", 2, "--pp", 2, "--num-virtual-stages-per-pipeline-rank", 2], ["--ranks", 2, "--pp", 2, "--pipeline-schedule", "zb-v"]):
        with run.work_folder() as folder:
            path = os.path.join(folder, "m.jsonl")
            told = run.jotun(*words, *more, "--metrics", path).stderr
            row = next(r for r in map(json.loads, open(path)) if r.get("split") == "valid")
            wanted(f"perplexity {row['perplexity']:.3f}, {row['bits_per_byte']:.4f} bits per byte" in told, "no bits per byte", told)
            found.append(row["bits_per_byte"])
            # 24 samples of 32 targets; some end a document, so that bytes are fewer than targets
            targets = 24 * 32
            bytes_counted = row["loss"] / math.log(2) * targets / row["bits_per_byte"]
            wanted(abs(bytes_counted - round(bytes_counted)) < 1e-6 and 0.9 * targets < bytes_counted < targets, f"{bytes_counted} bytes of {targets} targets")
    wanted(max(found) - min(found) < 1e-12, f"layouts differ: {found}")


with run.work_folder() as folder:
    data = run.corpus(folder)
    memory(data, folder)
    bits_per_byte(data)
    first_line(data)
    megatron_lines(data)
    duration(data, folder)
    best(data, folder)
    evaluations_made_up(data, folder)
    early_stop(data, folder)
    counts(data, folder)
