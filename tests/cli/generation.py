"""jotun generate and jotun eval perplexity under every layout, in double: the tokens, the logits of --save-logits and the loss
of one rank, as threads and under both MPIs; what they refuse."""
import json
import os
import struct
import subprocess
import sys

import run

LAYOUTS = ["--ranks 2 --tp 2", "--ranks 2 --tp 2 --sp", "--ranks 4 --tp 4", "--ranks 2 --pp 2", "--ranks 4 --pp 4", "--ranks 2", "--ranks 3",
           "--ranks 4 --zero-stage 3", "--ranks 4 --tp 2 --pp 2", "--ranks 4 --tp 2 --sp --zero-stage 3", "--ranks 4 --pp 2 --zero-stage 3",
           "--ranks 8 --tp 2 --sp --pp 2 --zero-stage 3", "--ranks 2 --cp 2", "--ranks 4 --cp 2 --tp 2 --sp --zero-stage 3", "--ranks 4 --cp 2 --pp 2"]
SAMPLINGS = ["--temperature 0", "--top-p 0.9 --seed 7"]
PROMPTS = ["the ra", "t", "jo tun sees the in of", "of jotun", "sees\r", "in in"]


def refused(says, *words):
    done = run.jotun(*words, check=False)
    if done.returncode == 0 or says not in done.stderr:
        sys.exit(f"{' '.join(str(w) for w in words)}: wanted \"{says}\" in:\n{done.stderr}")


SAMPLES = ["--sample-max-new-tokens", 8, "--sample-prompt", *[p.rstrip("\r") for p in PROMPTS]]


def texts_of(metrics):
    return {(row["step"], row["sample"]): (row["prompt"], row["text"]) for row in map(json.loads, open(metrics)) if row.get("split") == "sample"}


def train(folder, name, data, model, prompts):
    """Its samples of text after the last step are what generate makes of the checkpoint."""
    out = os.path.join(folder, name)
    metrics = out + ".jsonl"
    done = run.jotun("train", "--data-path", data, *model, "--lr", 1e-2, "--train-iters", 120, "--device", "ref", "--split", "100,0,0", "--save", out,
                     "--sample-interval", 60, *SAMPLES, "--metrics", metrics)
    made = run.jotun("generate", "--load", out, "--prompt-file", prompts, "--max-new-tokens", 8, "--device", "ref", "--threads", 1, "--temperature", 0)
    wanted = {(120, t["line"]): (t["prompt"], t["text"]) for t in map(json.loads, made.stdout.splitlines())}
    found = {key: texts for key, texts in texts_of(metrics).items() if key[0] == 120}
    if found != wanted or len(texts_of(metrics)) != 2 * len(PROMPTS) or any(json.dumps(text) not in done.stderr for _, text in found.values()):
        sys.exit(f"samples {found}, generate makes {wanted}\n{done.stderr}")
    return out


LOGITS = {}


def saved_logits(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        shape = json.loads(f.read(size))["logits"]["shape"]
        data = f.read()
    if shape[:2] != [len(PROMPTS), 8] or len(data) != 4 * shape[0] * shape[1] * shape[2] or os.path.exists(path + ".part"):
        sys.exit(f"{path}: shape {shape} of {len(data)} bytes")
    return struct.unpack(f"<{len(data) // 4}f", data)


def same_logits(one, other):
    off = max(abs(a - b) for a, b in zip(LOGITS[one], LOGITS[other]))
    if not off < 1e-6 or max(LOGITS[one]) == 0:
        sys.exit(f"{other}: logits differ by {off} from {one}")


def samples(data, folder):
    """Drawn samples are the same under every layout, and training has the same bits with and without them."""
    experts = ["--num-experts", 4, "--moe-expert-capacity-factor", 1, "--disable-bias-linear"]
    ramp = ["--rampup-batch-size", 4, 4, 24, "--micro-batch-size", 2]
    for model, layouts in ([*ramp], ["--ranks 2 --zero-stage 3", "--ranks 4 --tp 2 --sp --pp 2 --num-virtual-stages-per-pipeline-rank 2", "--ranks 2 --cp 2"]), \
                          (experts, ["--ranks 2 --ep 2"]):
        texts = []
        for layout in ["", *layouts]:
            curves = []
            for more in [], ["--sample-interval", 2, "--sample-temperature", 0.8, *SAMPLES]:
                metrics = os.path.join(folder, "samples.jsonl")
                words = ["train", "--data-path", data, *run.MODEL, *model, "--device", "ref", "--threads", 1, "--train-iters", 5, "--metrics", metrics, *layout.split(), *more]
                if os.path.exists(metrics):
                    os.remove(metrics)
                told = run.jotun(*words).stderr
                if "memory than its dry run" in told:
                    sys.exit(f"{layout}: {told}")
                curves.append([(r["loss"], r["grad_norm"]) for r in map(json.loads, open(metrics)) if "split" not in r])
            texts.append(texts_of(metrics))
            if curves[0] != curves[1] or len(curves[0]) != 5:
                sys.exit(f"{model} {layout}: samples change the training: {curves}")
        if any(t != texts[0] for t in texts) or len(texts[0]) != 2 * len(PROMPTS) or texts[0][2, 5] == texts[0][4, 5]:
            sys.exit(f"{model}: samples under {layouts}: {texts}")
    run.jotun(*words, "--sample-interval", 1000)                              # none is made: its memory is no fault of the dry run
    refused("has no effect without --sample-prompt", "train", "--data-path", data, *run.MODEL, "--train-iters", 2, "--sample-interval", 2)
    refused("is longer than --seq-length 32", *words, "--sample-prompt", "x" * 33, "--position-embedding-type", "rope")
    refused("--sample-prompt number 7 is empty", *words, "--sample-prompt", "")
    refused("leaves nothing of the 32 positions", *words, "--sample-prompt", "x" * 32)


def generate(load, prompts, words, launcher=None):
    done = run.jotun("generate", "--load", load, "--prompt-file", prompts, "--max-new-tokens", 8, "--device", "ref", "--threads", 1,
                     *words.split(), *([] if launcher else ["--save-logits", load + ".logits"]), launcher=launcher)
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    if launcher is None:
        LOGITS[words] = saved_logits(load + ".logits")
    if [t["line"] for t in texts] != list(range(1, len(PROMPTS) + 1)) or [t["prompt"] for t in texts] != [p.rstrip("\r") for p in PROMPTS]:
        sys.exit(f"{words}: not the prompts in their order: {done.stdout}")
    return [t["ids"] for t in texts]


def loss(load, text, words, launcher=None):
    done = run.jotun("eval", "perplexity", "--load", load, "--text", text, "--device", "ref", "--threads", 1, "--micro-batch-size", 2,
                     *words.split(), launcher=launcher)
    told = json.loads(done.stdout)
    return told["tokens"], told["loss"]


def same_loss(one, other, words):
    if one[0] != other[0] or not abs(one[1] - other[1]) <= 1e-12:
        sys.exit(f"eval perplexity {words}: {other}, on one rank {one}")


def under_threads(load, prompts, texts):
    every = 1 if os.environ.get("JOTUN_FULL") else 2                           # the second way to draw and text under every other layout
    for number, sampling in enumerate(SAMPLINGS):
        one = generate(load, prompts, sampling + " --micro-batch-size 1")
        if len({tuple(ids) for ids in one}) < 2:
            sys.exit(f"{sampling}: the texts are the same: {one}")
        for layout in (LAYOUTS + ["--micro-batch-size 4"])[::every if number else 1]:
            if generate(load, prompts, f"{sampling} {layout}") != one:
                sys.exit(f"generate {sampling} {layout}: {generate(load, prompts, f'{sampling} {layout}')}, on one rank {one}")
            same_logits(sampling + " --micro-batch-size 1", f"{sampling} {layout}")
    for number, text in enumerate(texts):
        one = loss(load, text, "")
        for layout in LAYOUTS[::every if number else 1]:
            same_loss(one, loss(load, text, layout), layout)
    print(f"{len(LAYOUTS)} layouts x {len(SAMPLINGS)} ways to draw: the same tokens, and the same loss")


def under_mpi(load, prompts, text):
    for mpi, launcher in run.launchers().items():
        for layout in "--tp 2 --pp 2", "--tp 2 --sp --zero-stage 3", "--cp 2":
            command = launcher + ["4"]
            words = f"{SAMPLINGS[1]} {layout}"
            if generate(load, prompts, words, command) != generate(load, prompts, words + " --ranks 4"):
                sys.exit(f"generate {layout} under {mpi}: other tokens than under threads")
            if loss(load, text, layout, command) != loss(load, text, layout + " --ranks 4"):
                sys.exit(f"eval perplexity {layout} under {mpi}: another loss than under threads")
        print(f"{mpi}: the same tokens and the same loss as under threads")


def errors(load, folder):
    def file_of(content):
        path = os.path.join(folder, "refused.txt")
        with open(path, "w") as out:
            out.write(content)
        return ["generate", "--load", load, "--prompt-file", path]
    refused("is empty; give one prompt on each line", *file_of(""))
    refused("line 2 of --prompt-file", *file_of("a\n\nb\n"))
    refused("of 40 tokens leaves nothing of the 32 positions", *file_of("a\n" + "x" * 40))
    refused("takes one of --prompt S, --prompt-file FILE and --prompt-jsonl FILE", *file_of("a"), "--prompt", "b")
    refused("jotun generate needs --prompt S (the text to continue) or --prompt-file FILE", "generate", "--load", load)
    refused("--zero-stage 2 shards gradients and optimizer states", "generate", "--load", load, "--prompt", "a", "--zero-stage", 2)
    refused("cannot be created", "generate", "--load", load, "--prompt", "a", "--save-logits", os.path.join(folder, "absent", "f"))
    logits = os.path.join(folder, "logits")             # of a run that fails at its end, and in between, nothing is left
    os.mkdir(logits)
    refused("cannot be renamed to " + logits, "generate", "--load", load, "--prompt", "a", "--save-logits", logits)
    with open("/dev/full", "w") as full:
        command = [run.JOTUN, "generate", "--load", load, "--prompt", "a", "--ranks", "2", "--tp", "2", "--save-logits", os.path.join(folder, "full")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode == 0 or "standard output cannot be written" not in done.stderr:
        sys.exit(f"generate --save-logits with a full output: exit code {done.returncode}\n{done.stderr}")
    if left := [name for name in os.listdir(folder) if name.endswith(".part")]:
        sys.exit(f"failures of --save-logits leave {left}")
    lines = os.path.join(folder, "beams.jsonl")
    open(lines, "w").write('{"prompt": "a"}\n{"prompt": "b", "num_beams": 2}\n')
    refused("prompt 2 of " + lines + " wants num_beams 2", "generate", "--load", load, "--prompt-jsonl", lines, "--save-logits", os.path.join(folder, "f"))
    refused("--tp 3 does not divide", "generate", "--load", load, "--prompt", "a", "--ranks", 3, "--tp", 3)


def lines_and_options(load, folder):
    """A line of JSON and the options beside it are one request: what excludes each other as options does so in a line, which is named."""
    path = os.path.join(folder, "asked.jsonl")

    def file_of(*lines):
        with open(path, "w") as out:
            out.write("\n".join(lines))
        return ["generate", "--load", load, "--max-new-tokens", 2, "--threads", 1, "--prompt-jsonl", path]
    plain, beams = '{"prompt": "a"}', '{"prompt": "a", "num_beams": 2%s}'
    for key, value in ("temperature", 0.5), ("top_p", 0.9), ("seed", 3), ("min_p", 0.1), ("presence_penalty", 1):
        option = "--" + key.replace("_", "-")
        refused(f'line 2 of --prompt-jsonl {path}: "{key}" with beam search is not built', *file_of(plain, beams % f', "{key}": {value}'))
        refused(f"line 1 of --prompt-jsonl {path}: {option} with beam search is not built", *file_of(beams % ""), option, value)
        refused(f"{option} with beam search is not built", "generate", "--load", load, "--prompt", "a", "--num-beams", 2, option, value)
    refused("--num-return-sequences 2 with beam search is not built", *file_of(beams % ""), "--num-return-sequences", 2)
    refused("line 1 of --prompt-jsonl " + path + ": logprobs 2 asks", *file_of(beams % ', "logprobs": 2'))
    refused("logprobs 2 asks", *file_of(beams % ""), "--logprobs", 2)
    refused('line 1 of --prompt-jsonl ' + path + ': "length_penalty" has no effect', *file_of('{"prompt": "a", "length_penalty": 3}'))
    run.jotun(*file_of('{"prompt": "a", "length_penalty": 3}'), "--num-beams", 2)
    run.jotun(*file_of(plain, beams % ""), "--length-penalty", 2)
    run.jotun(*file_of('{"prompt": "a", "num_beams": 0, "temperature": 0.5}'), "--num-beams", 2)
    refused("has no effect without --num-beams", "generate", "--load", load, "--prompt", "a", "--length-penalty", 2)
    refused("--stop has an empty text", "generate", "--load", load, "--prompt", "a", "--stop", "")
    refused('"stop" must be a text of at least one character', *file_of('{"prompt": "a", "stop": ""}'))
    refused('"stop" must not have the character \\u0000', *file_of('{"prompt": "a", "stop": "x\\u0000"}'))
    refused('"top_k" must be a whole number from -1 to 16777216', *file_of('{"prompt": "a", "top_k": -2}'))
    refused('"logprobs" must be a whole number from -1 to 64', *file_of('{"prompt": "a", "logprobs": 65}'))
    refused('"presence_penalty" must be a number from -100 to 100', *file_of('{"prompt": "a", "presence_penalty": 101}'))
    if "logprobs" in run.jotun(*file_of('{"prompt": "a", "logprobs": -1}'), "--logprobs", 2).stdout:
        sys.exit("logprobs -1 of a line, as of the option, asks for none")
    refused('"seed" must be a whole number from 0 to 9000000000000000', *file_of('{"prompt": "a", "seed": 1.5}'))
    refused("has no line; each line is a JSON object with \"prompt\"", *file_of(""))
    refused("has no line", *file_of("", " ", ""))
    refused(f"line 2 of --prompt-jsonl {path} is no JSON object: each line is one", *file_of(plain, "", plain))
    made = run.jotun(*file_of(plain, '{"prompt": "a\\u0000b"}', "", " \r", ""))
    wanted = ["a", "a\ufffdb"]                                              # the lines have no NUL
    if [json.loads(line)["prompt"] for line in made.stdout.splitlines()] != wanted:
        sys.exit(f"lines that are blank at the end, NUL: {made.stdout}")


def stops(load, folder):
    """A stop word ends a text before it, for the option and for a line of JSON, as lines and as the one text that is shown as it is made."""
    words = ["--load", load, "--threads", 1, "--temperature", 0, "--max-new-tokens", 16]
    whole = json.loads(run.jotun("generate", *words, "--prompt", PROMPTS[0], "--logprobs", 0).stdout)["text"]
    stop = whole[5:8]
    wanted = whole[:whole.index(stop)]
    path = os.path.join(folder, "stop.jsonl")
    with open(path, "w") as out:
        out.write(json.dumps({"prompt": PROMPTS[0], "stop": ["never", stop]}) + "\n" + json.dumps({"prompt": PROMPTS[0]}) + "\n")
    lines = [json.loads(line) for line in run.jotun("generate", *words, "--prompt-jsonl", path, "--logprobs", 1).stdout.splitlines()]
    if [(t["text"], t["finish_reason"]) for t in lines] != [(wanted, "stop"), (whole, "length")]:
        sys.exit(f"stop word {stop!r}: {lines}")
    if [len(t["logprobs"]) == len(t["top_logprobs"]) == len(t["ids"]) for t in lines] != [True, True] or len(lines[0]["ids"]) >= 16:
        sys.exit(f"ids and log-probabilities of a text that a stop word ends: {lines}")
    shown = run.jotun("generate", *words, "--prompt", PROMPTS[0], "--stop", "never", stop).stdout
    if shown != PROMPTS[0] + wanted + "\n":
        sys.exit(f"stop word {stop!r} of a text that is shown: {shown!r}, wanted {PROMPTS[0] + wanted!r}")


def beyond(gpt, llama, folder):
    """Learned positions end; of rotary ones a line counts the texts that go beyond those of training."""
    path = os.path.join(folder, "long.jsonl")
    with open(path, "w") as out:
        out.write('{"prompt": "a"}\n{"prompt": "%s"}\n{"prompt": "b", "max_tokens": 32}\n' % ("x" * 40))
    words = ["--threads", 1, "--max-new-tokens", 4]
    told = run.jotun("generate", "--load", llama, "--prompt-jsonl", path, *words).stderr
    if "warning: 2 of 3 texts may go beyond the 32 positions that the model was trained with" not in told or f"the first is line 2 of --prompt-jsonl {path}, of 40 tokens and up to 4 new ones" not in told:
        sys.exit(f"texts of positions that were not trained: {told}")
    with open(path, "w") as out:
        out.write('{"prompt": "%s"}\n' % ("x" * 28))
    if "warning" in run.jotun("generate", "--load", llama, "--prompt-jsonl", path, *words).stderr:
        sys.exit("a warning of a text that fits")
    with open(path, "w") as out:
        out.write('{"prompt": "a", "max_tokens": 32}\n')
    refused(f'"max_tokens" 32 is more than the 32 positions the model has learned; beside line 1 of --prompt-jsonl {path} 31 or less', "generate", "--load", gpt, "--prompt-jsonl", path)


def main():
    with run.work_folder() as folder:
        data = run.corpus(folder)
        prompts, texts = os.path.join(folder, "prompts.txt"), []
        with open(prompts, "w", newline="") as out:
            out.write("\n".join(PROMPTS) + "\n")
        # windows of 32 tokens: 5 and a part of one, an odd number; one that is not whole, so that most data ranks have none
        for length in 5 * 32 + 7, 20:
            texts.append(os.path.join(folder, f"held-out-{length}.txt"))
            with open(texts[-1], "w") as out:
                out.write(("sees the ra of jotun in " * 20)[:length])
        for name, model in ("gpt", run.MODEL), ("llama", run.MODEL + run.LLAMA):
            if name == "llama":
                LAYOUTS.remove("--ranks 4 --tp 4")                                        # two key-value heads
            load = train(folder, name, data, model, prompts)
            under_threads(load, prompts, texts)
            under_mpi(load, prompts, texts[0])
            if name == "gpt":
                errors(load, folder)
                lines_and_options(load, folder)
                stops(load, folder)
                samples(data, folder)
        beyond(os.path.join(folder, "gpt"), load, folder)
    return 0


sys.exit(main())
