"""fairseq's commands: the tutorial of Megatron-11b from raw text to perplexity, in its words (fairseq_commands.txt), with the losses of
the same run in Megatron-LM's flags; the files that fairseq writes (tests/golden/fairseq.json); its log lines; each of its arguments;
what is refused, with the cure; links with the names of its commands."""
import base64
import glob
import gzip
import json
import math
import os
import random
import re
import shlex
import struct
import sys

import run
from fairseq_files import checkpoint, typed_config
from fairseq_words import words
from run import jotun, metrics, work_folder

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = json.load(open(os.path.join(HERE, "..", "golden", "fairseq.json")))
failures = 0


def check(what, right):
    global failures
    if not right:
        failures += 1
        print("wrong:", what)


# ---- files ----

def tool_files(folder):
    """The dictionaries and binaries are fairseq's, whatever the number of threads."""
    golden = GOLDEN["preprocess"]
    at = lambda *x: os.path.join(folder, *x)
    for name in ("train", "test"):
        with open(at(name), "w", encoding="utf-8", newline="") as out:
            out.write(golden[name])
    for i, case in enumerate(golden["cases"]):
        options = []
        for name, value in case["options"].items():
            if name == "srcdict":
                with open(at("given"), "w", encoding="utf-8", newline="") as out:
                    out.write(value)
                value = at("given")
            options += ["--" + name, value]
        said = jotun("fairseq-preprocess", "--only-source", "--trainpref", at("train"), "--testpref", at("test"), "--destdir", at(f"bin{i}"), "--workers", i + 1, *options).stderr
        for name, wanted in case["wanted"].items():
            check(f"{name} of {case['options']}", open(at(f"bin{i}", name), "rb").read() == base64.b64decode(wanted))
        for line, name in zip(case["said"], ("train", "test")):
            check(f"{said!r} has no {line!r}", f"| INFO | fairseq_cli.preprocess | [None] {at(name)}: {line}\n" in said)
            check("preprocess.log", line in open(at(f"bin{i}", "preprocess.log")).read())


def long_text(folder):
    """A text of many pieces, with a line longer than one, is that of its lines, in memory that does not grow with it; damage is seen."""
    at = lambda x: os.path.join(folder, x)
    line, count, words_of_long = "the cat sat \n", 1 << 20, 1 << 20
    with open(at("text"), "w") as out:
        out.write(line * count + "cat " * words_of_long + "\n" + "sat \n" * 9 + "the")
    with open(at("given"), "w") as out:
        out.write("the 3\ncat 2\nsat 1\n")
    process = run.subprocess.Popen([run.JOTUN, "fairseq-preprocess", "--only-source", "--testpref", at("text"), "--srcdict", at("given"), "--destdir", at("bin"), "--workers", "2"],
                                   stderr=run.subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wanted = struct.pack("<4H", 4, 5, 6, 2) * count + struct.pack("<H", 5) * words_of_long + struct.pack("<H", 2) + struct.pack("<2H", 6, 2) * 9 + struct.pack("<2H", 4, 2)
    check("a long text", status == 0 and open(at("bin/test.bin"), "rb").read() == wanted)
    check(f"{used.ru_maxrss} KiB of memory", os.environ.get("TEST_SANITIZE") or used.ru_maxrss < 64 << 10)
    whole = gzip.compress(line.encode() * 5000)
    with open(at("cut.gz"), "wb") as out:
        out.write(whole[:len(whole) // 2])
    for command in (["fairseq-detok", at("cut.gz")], ["fairseq-preprocess", "--only-source", "--testpref", at("cut.gz"), "--srcdict", at("given"), "--destdir", at("cut")]):
        done = jotun(*command, check=False)
        check(f"{command}: {done.stderr}", done.returncode == 1 and "cut.gz" in done.stderr)
    check("no files of a damaged text", not os.path.exists(at("cut/test.bin")))


def detokenizer(folder):
    golden, path = GOLDEN["detok"], os.path.join(folder, "words")
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(golden["text"])
    check("detokenized text", jotun("fairseq-detok", path).stdout == golden["wanted"])
    check("detokenized standard input", jotun("fairseq-detok", input=golden["text"]).stdout == golden["wanted"])


def encoder_files(folder):
    for name, content in GOLDEN["bpe"]["files"].items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(content)


def encoder(folder):
    golden = GOLDEN["bpe"]
    at = lambda x: os.path.join(folder, x)
    encoder_files(folder)
    with open(at("text"), "w", encoding="utf-8", newline="") as out:
        out.write(golden["text"])
    files = "--encoder-json", at("encoder.json"), "--vocab-bpe", at("vocab.bpe")
    jotun("fairseq-bpe-encoder", *files, "--inputs", at("text"), "--outputs", at("ids"), "--keep-empty", "--workers", 3)
    check("ids of all lines", open(at("ids")).read() == golden["all"])
    left_out = jotun("fairseq-bpe-encoder", *files, "--inputs", at("text"), "--outputs", at("ids"))
    check("ids of lines that are not empty", open(at("ids")).read() == golden["filled"])
    check(left_out.stderr, f"[EMPTY] filtered {golden['all'].count(chr(10)) - golden['filled'].count(chr(10))} lines" in left_out.stderr)
    # many parts, with lines that are left out in all of them
    with open(at("long"), "w", encoding="utf-8", newline="") as out:
        out.write(golden["text"] * 500)
    done = jotun("fairseq-bpe-encoder", *files, "--inputs", at("long"), "--outputs", at("long.ids"), "--workers", 3)
    check("ids of a long text", open(at("long.ids")).read() == golden["filled"] * 500)
    lines = golden["all"].count("\n") * 500
    check(done.stderr, done.stderr.count("processed ") == lines // 10000 and f"[EMPTY] filtered {lines - golden['filled'].count(chr(10)) * 500} lines" in done.stderr)


# ---- the tutorial ----

def raw_text(path):
    rng = random.Random(8)
    nouns = ["the", "cat", "there", "at", "é", "river", "Jones", "'s", ",", ".", "(", ")", "@-@", "@,@", "5", "\""]
    with open(path, "w", encoding="utf-8") as out:
        for i in range(160):
            out.write(" \n" if i % 5 == 1 else f" = = {rng.choice(nouns)} = = \n" if i % 5 == 0 else " " + " ".join(rng.choice(nouns) for _ in range(rng.randint(3, 14))) + " \n")


def dictionary(path, ids):
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as out:
        out.writelines(f"{i} {1000 - i}\n" for i in range(ids))


def same_losses(name, folder, one, other):
    a, b = (metrics(os.path.join(folder, x)) for x in (one, other))
    check(f"{name}: {len(a)} and {len(b)} losses differ", len(a) > 4 and a == b)


def tutorial(folder):
    """Each step in the tutorial's words, with python -m's module as the command of jotun's."""
    os.chdir(folder)
    os.mkdir("wikitext-103-raw")
    raw_text("wikitext-103-raw/wiki.test.raw")
    encoder_files(".")
    dictionary("megatron_11b/dict.txt", 267)                        # the vocabulary of the encoder, so that no word is unknown
    step = words("detokenize")
    with open(step[-1], "w") as out:
        out.write(jotun("fairseq-detok", *step[3:-2]).stdout)
    jotun("fairseq-bpe-encoder", *words("encode")[3:])
    said = jotun(*words("binarize", "binarize: also for training")).stderr
    check(said, said.count(" 0.0% replaced by <unk>") == 3)
    # the dictionary's 271 ids become a multiple of 8 for each of 8 ranks
    places = {"DATA_PATH": "wikitext103-bin", "IDS": 320}
    trained = jotun(*words("train", "train: smaller", **places), "--metrics", "a.jsonl").stderr
    jotun(*words("train: in Megatron-LM's flags", **places)[1:], "--metrics", "b.jsonl")
    same_losses("8 ranks", ".", "a.jsonl", "b.jsonl")
    told = shlex.split(re.search("the same: jotun (.*)", trained).group(1))
    jotun(*told, "--metrics", "c.jsonl", "--save", "third", "--load", "third")
    same_losses("the line in the log", ".", "a.jsonl", "c.jsonl")
    places["IDS"] = 272
    jotun(*words("train", "train: smaller", "train: on two data-parallel ranks", **places), "--metrics", "d.jsonl", "--save-dir", "none")
    flags = words("train: in Megatron-LM's flags", "train: on two data-parallel ranks, in Megatron-LM's flags", **places)[1:]
    at = flags.index("--valid-data-path")                           # evaluations, and what belongs to them
    jotun(*flags[:at], *[w for w in flags[at + 2:] if w != "--full-validation"], "--metrics", "e.jsonl", "--save", "fifth")
    same_losses("2 x 2 ranks", ".", "d.jsonl", "e.jsonl")
    check("no checkpoint", not os.path.exists("none"))
    log_lines(trained)
    evaluation(places)
    resume(places)


def log_lines(text):
    """fairseq's lines, field for field."""
    number = r"[0-9.e+-]+"
    fields = ["loss", "ppl", "wps", "ups", "wpb", "bsz", "num_updates", "lr", "gnorm", "loss_scale", "train_wall", "wall"]
    date = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| INFO \| "
    inner = re.findall(date + r"train_inner \| epoch (\d{3}):  ( *\d+) / (\d+) " + ", ".join(f"{f}=({number})" for f in fields) + "$", text, re.M)
    check(f"{len(inner)} lines within epochs", [int(x[1]) % 5 for x in inner] and len(inner) == 4)
    check("steps of an epoch", len({x[2] for x in inner}) == 1 and all(len(x[1]) >= 5 for x in inner))
    row = dict(zip(fields, inner[0][3:]))
    check(f"{row}", abs(float(row["ppl"]) - 2 ** float(row["loss"])) < 0.01 * float(row["ppl"]) and row["num_updates"] == "5" and row["wpb"] == "64" and row["bsz"] == "2")
    steps = metrics("a.jsonl")
    mean = sum(steps[i] for i in range(1, 6)) / 5 / math.log(2)
    check(f"{row['loss']} is not the mean {mean} of five steps", abs(float(row["loss"]) - mean) < 6e-4)
    check("the epoch's line", re.search(date + r"train \| epoch 001 \| " + r" \| ".join(f"{f} {number}" for f in fields) + "$", text, re.M))
    check("the line of validation", re.search(date + rf"valid \| epoch 001 \| valid on 'valid' subset \| loss {number} \| ppl {number} \| num_updates \d+ \| best_loss {number}$", text, re.M))


def padded_lines(folder):
    """fairseq's figures where samples are shorter than --tokens-per-sample: tokens without padding, the learning rate of the next update, norms as means over
    updates, losses over tokens, and evaluations by the names of their subsets. On one rank, on two with half of the samples each, and on two with half of the model."""
    lengths = [4, 2, 9, 5, 1, 3, 8, 2, 6, 7]
    for name, lines in ("text", lengths), ("one", [3]):
        with open(os.path.join(folder, name), "w") as out:
            out.writelines(" ".join("abcdefghij"[:n]) + "\n" for n in lines)
    at = lambda x: os.path.join(folder, x)
    jotun("fairseq-preprocess", "--only-source", "--trainpref", at("text"), "--validpref", at("one"), "--testpref", at("text"), "--destdir", at("bin"))
    base = [w.replace("DATA", at("bin")) for w in TRAIN[:-1]] + ["--decoder-layers", "1", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16", "--decoder-attention-heads", "2", "--dropout", "0",
            "--attention-dropout", "0", "--share-decoder-input-output-embed", "--tokens-per-sample", "16", "--sample-break-mode", "eos", "--lr", "0.05", "--warmup-updates", "40", "--no-save", "--max-update", "10"]
    of = lambda name, row: float(re.search(rf"\b{name}[= ]([0-9.e+-]+)", row)[1])
    for n, more in enumerate((["--batch-size", "2"], ["--batch-size", "1", "--distributed-world-size", "2"], ["--batch-size", "2", "--distributed-world-size", "2", "--model-parallel-size", "2"])):
        said = jotun(*base, *more, "--log-interval", 1, "--metrics", at(f"{n}.jsonl"), "--valid-subset", "valid,test", "--validate-interval-updates", 10).stderr
        inner, epochs = (re.findall(rf"\| {logger} \| (epoch .*)", said) for logger in ("train_inner", "train"))
        rates = [of("lr", row) for row in inner]
        check(f"{more}: {rates}", len(rates) == 10 and all(abs(rate - 0.05 * k / 40) < 1e-9 for k, rate in enumerate(rates, 1)))
        tokens, all_of = [of("wpb", row) for row in inner], sum(lengths) + len(lengths)              # each with its end of a sentence
        check(f"{more}: {tokens} tokens", sum(tokens[:5]) == sum(tokens[5:]) == all_of and [of("wpb", row) for row in epochs] == [round(all_of / 5, 1)] * 2)
        steps = {row["step"]: row for row in map(json.loads, open(at(f"{n}.jsonl"))) if "grad_norm" in row}
        mean = sum(steps[k]["loss"] * tokens[k - 1] for k in range(6, 11)) / all_of / math.log(2)
        check(f"{more}: {epochs[1]}, mean {mean}", abs(of("loss", epochs[1]) - mean) < 6e-4 and abs(of("gnorm", epochs[1]) - sum(steps[k]["grad_norm"] for k in range(6, 11)) / 5) < 6e-4)
        check(f"{more}: {said}", all(f"| INFO | {s} | epoch 002 | valid on '{s}' subset | loss " in said for s in ("valid", "test")))
    # alone, a subset has its name too
    check("--valid-subset test", "| INFO | test | epoch 002 | valid on 'test' subset | loss " in jotun(*base, "--valid-subset", "test", "--validate-interval-updates", 10).stderr)


def evaluation(places):
    """The line of fairseq-eval-lm, and what jotun eval perplexity says of the same windows."""
    done = jotun(*words("evaluate", "evaluate: smaller", DATA_PATH="wikitext103-bin/"))
    bits, ppl = map(float, re.search(r"\| INFO \| fairseq_cli.eval_lm \| Loss \(base 2\): ([0-9.]+), Perplexity: ([0-9.]+)$", done.stdout, re.M).groups())
    tokens = int(re.search(r"Evaluated ([0-9,]+) tokens in [0-9.]+s \([0-9.]+ tokens/s\)", done.stdout).group(1).replace(",", ""))
    size = os.path.getsize("wikitext103-bin/test.bin") // 2
    check(f"{tokens} tokens are not the {size} of the file", tokens == size)
    check(done.stdout, f"wikitext103-bin/ test {(size + 11) // 12:,} examples" in done.stdout and "num. model params: " in done.stdout)
    told = shlex.split(re.search("the same: jotun (.*)", done.stderr).group(1))
    told += ["--log-format", "jotun"]
    result = json.loads(jotun(*told).stdout)
    check(f"{result} is not {ppl}", abs(result["perplexity"] - ppl) < 0.006 and abs(result["bits_per_token"] - bits) < 6e-5 and result["tokens"] == size)
    raw = "wikitext-103-raw/wiki.test.raw"
    original = len(open(raw, encoding="utf-8").read().strip().split(" "))
    for count in (["--original-text", raw], ["--original-tokens", original]):
        line = re.search(r"perplexity ([0-9.e+]+); renormalized: 2 \^ \(log2\(\1\) x ([0-9,]+) / ([0-9,]+)\) = ([0-9.e+]+)\n",
                         jotun(*words("evaluate", "evaluate: smaller", DATA_PATH="wikitext103-bin"), *count).stderr)
        check("the renormalized perplexity", line and [line[2], line[3]] == [f"{size:,}", f"{original:,}"] and
              abs(float(line[4]) - 2 ** (math.log2(float(line[1])) * size / original)) < 1e-8 * float(line[4]))
    per_word = json.loads(jotun(*told, "--original-text", raw).stdout)
    check(f"{per_word}", per_word["original_tokens"] == original and
          abs(per_word["perplexity_per_original_token"] - per_word["perplexity"] ** (size / original)) < 1e-9 * per_word["perplexity_per_original_token"])
    # layouts change no token that is counted
    for more in (["--distributed-world-size", "1", "--model-parallel-size", "1"], ["--distributed-world-size", "4", "--model-parallel-size", "1", "--batch-size", "3"]):
        other = jotun(*words("evaluate", "evaluate: smaller", DATA_PATH="wikitext103-bin"), *more)
        check(other.stdout, f"Perplexity: {ppl:.2f}" in other.stdout and f"Evaluated {size:,} tokens" in other.stdout)
    for mode in ("eos", "complete", "complete_doc"):
        done = jotun(*words("evaluate", "evaluate: smaller", DATA_PATH="wikitext103-bin"), "--sample-break-mode", mode, "--context-window", "0")
        check(f"{mode}: {done.stdout}", abs(float(re.search("Perplexity: ([0-9.]+)", done.stdout).group(1)) - ppl) < 0.2 * ppl)


# ---- the model, transcribed from fairseq's TransformerDecoder ----

def tensors(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        data = open(path, "rb").read()
        size = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + size]).items():
            if name == "__metadata__" or t["dtype"] != "F32":
                continue
            begin, end = (8 + size + x for x in t["data_offsets"])
            values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
            columns = t["shape"][1] if len(t["shape"]) == 2 else len(values)
            found[name] = [values[i:i + columns] for i in range(0, len(values), columns)] if len(t["shape"]) == 2 else values
    return found


def layer_norm(x, gain, bias):
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    return [(v - mean) * scale * g + b for v, g, b in zip(x, gain, bias)]


def linear(x, weight, bias):
    return [sum(a * b for a, b in zip(x, row)) + c for row, c in zip(weight, bias)]


def attention(w, rows, heads):
    q, k, v = ([linear(x, w[f"attention.{n}.weight"], w[f"attention.{n}.bias"]) for x in rows] for n in ("query", "key", "value"))
    width, out = len(rows[0]) // heads, []
    for t in range(len(rows)):
        row = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = [math.exp(sum(a * b for a, b in zip(q[t][part], k[u][part])) * width ** -0.5) for u in range(t + 1)]
            row += [sum(s * v[u][part][c] for u, s in enumerate(scores)) / sum(scores) for c in range(width)]
        out.append(linear(row, w["attention.out.weight"], w["attention.out.bias"]))
    return out


def log_probabilities(w, ids, layers, heads):
    table = w["embed.token.weight"]
    d = len(table[0])
    rate = [math.exp(-k * math.log(10000) / (d // 2 - 1)) for k in range(d // 2)]
    rows = [[x * math.sqrt(d) + p for x, p in zip(table[i], [f((t + 2) * r) for f in (math.sin, math.cos) for r in rate])] for t, i in enumerate(ids)]
    for n in range(layers):
        block = {k[len(f"blocks.{n}."):]: v for k, v in w.items() if k.startswith(f"blocks.{n}.")}
        norm = lambda i: [layer_norm(x, block[f"norm{i}.gain"], block[f"norm{i}.bias"]) for x in rows]
        rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, attention(block, norm(1), heads))]
        hidden = [[v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in linear(x, block["mlp.up.weight"], block["mlp.up.bias"])] for x in norm(2)]
        rows = [[a + b for a, b in zip(x, linear(y, block["mlp.down.weight"], block["mlp.down.bias"]))] for x, y in zip(rows, hidden)]
    out = []
    for x in rows:
        logits = linear(layer_norm(x, w["final.gain"], w["final.bias"]), table, [0] * len(table))
        total = math.log(sum(math.exp(v) for v in logits))
        out.append([v - total for v in logits])
    return out


def transcription(data):
    """Perplexity with a context window, by the windows of LMContextWindowDataset and a model in plain Python, within 1e-5."""
    layers, heads, size, context = 2, 2, 24, 10
    folder = os.path.join(os.path.dirname(data), "small")
    jotun(*[w.replace("DATA", data) for w in TRAIN[:-1]], "--decoder-layers", layers, "--decoder-embed-dim", "8", "--decoder-ffn-embed-dim", "12", "--decoder-attention-heads",
          heads, "--share-decoder-input-output-embed", "--tokens-per-sample", size, "--warmup-updates", "3", "--lr", "0.05", "--max-update", "20", "--save-dir", folder)
    weights = tensors(glob.glob(os.path.join(folder, "step_*20"))[0])
    part = os.path.join(folder, "part")                             # the first lines of the test text, so that Python is quick
    os.mkdir(part)
    stream = open(os.path.join(data, "test.bin"), "rb").read()[:300]
    ids = struct.unpack(f"<{len(stream) // 2}H", stream)
    open(os.path.join(part, "test.bin"), "wb").write(stream)
    open(os.path.join(part, "test.idx"), "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQiq", 1, 8, 1, len(ids), 0))
    done = jotun("fairseq-eval-lm", part, "--path", folder, "--tokens-per-sample", size, "--context-window", context, "--batch-size", "3")
    previous, score, source = [], 0.0, (2,) + ids[:-1]
    for begin in range(0, len(ids), size - context):
        block = list(source[begin:begin + size - context])
        row = previous[max(0, len(previous) + len(block) - size):] + block
        rows = log_probabilities(weights, row, layers, heads)[len(row) - len(block):]
        score += sum(p[t] for p, t in zip(rows, ids[begin:]))
        previous = row[-context:]
    wanted, found = 2 ** (-score / len(ids) / math.log(2)), float(re.search("jotun: perplexity ([0-9.]+)", done.stderr).group(1))
    check(f"perplexity {found} is not the {wanted} of the transcription", abs(found - wanted) < 1e-5 * wanted)


# ---- checkpoints of fairseq's own ----

def own_checkpoints(data):
    """A file of fairseq's, or its parts of model parallelism, is evaluated, converted to the same bytes, states of the optimizer too, and trained
    on; its arguments are a Namespace or, in newer files, dictionaries or omegaconf's objects; models that are not built are refused."""
    folder = os.path.dirname(data)
    small = ["--decoder-layers", "2", "--decoder-embed-dim", "8", "--decoder-ffn-embed-dim", "12", "--decoder-attention-heads", "2", "--tokens-per-sample", "24",
             "--warmup-updates", "30", "--lr", "0.05"]
    base = [w.replace("DATA", data) for w in TRAIN[:-3]] + small
    args = {"decoder_layers": 2, "decoder_embed_dim": 8, "decoder_ffn_embed_dim": 12, "decoder_attention_heads": 2, "tokens_per_sample": 24, "dropout": 0.1,
            "attention_dropout": 0.1, "decoder_normalize_before": True, "activation_fn": "gelu"}
    shared = {"share_decoder_input_output_embed": True}
    tied = ["--share-decoder-input-output-embed"]
    for n, (more, own, parts, legacy, states, cfg) in enumerate((
            (tied, shared, 1, False, "each", None), (tied, shared, 2, True, "flat", dict),
            (["--decoder-learned-pos", "--no-scale-embedding", "--activation-fn", "relu"], {"decoder_learned_pos": True, "no_scale_embedding": True, "activation_fn": "relu"}, 1, False, "flat",
             typed_config),
            (["--activation-fn", "gelu_fast"], {"activation_fn": "gelu_accurate", "share_decoder_input_output_embed": False}, 2, False, "each", typed_config))):
        save, file = os.path.join(folder, f"own{n}"), os.path.join(folder, f"theirs{n}.pt")
        jotun(*base, *more, "--max-update", 4, "--save-dir", save)
        all_tensors = tensors(glob.glob(os.path.join(save, "step_*4"))[0])
        weights = {name: rows for name, rows in all_tensors.items() if ".exp_avg" not in name}
        checkpoint(file, all_tensors, {**args, **own}, parts, legacy=legacy, states=states, cfg=cfg)
        told = [re.search("perplexity ([0-9.]+)", jotun("fairseq-eval-lm", os.path.join(folder, "small", "part"), "--path", path, "--tokens-per-sample", 24, "--context-window", 10).stderr)[1]
                for path in (save, file)]
        check(f"{more}: {told}", told[0] == told[1])
        input = file if parts == 1 else file.replace(".pt", "-model_part-0.pt")
        for given, wanted in ([], all_tensors), (["--no-save-optim"], weights):
            jotun("convert", "--from", "fairseq", "--to", "jotun", "--input", input, "--output", save + "-back" + "".join(given), *given)
            back = glob.glob(os.path.join(save + "-back" + "".join(given), "step_*4"))[0]
            check(f"{more}: tensors {given}", len(wanted) > 20 and tensors(back) == wanted)
            check(f"{more}: updates", given or json.load(open(os.path.join(back, "manifest.json")))["updates"] == 4)
        for given in [], ["--reset-optimizer"]:
            on = jotun(*base, *more, "--max-update", 6, "--restore-file", file, *given, "--no-save", "--metrics", os.path.join(folder, "on.jsonl"))
            rates = [(row["step"], round(row["lr"], 12)) for row in map(json.loads, open(os.path.join(folder, "on.jsonl"))) if "grad_norm" in row]
            check(f"{more}: {rates}", "fairseq:" + file in on.stderr and "resumes after step 4" in on.stderr and rates == [(k, round(0.05 * (k - 1) / 30, 12)) for k in (5, 6)])
            check(f"{more}: {on.stderr}", ("the optimizer states begin at 0" in on.stderr) == bool(given))
            os.remove(os.path.join(folder, "on.jsonl"))
    finetune(folder, base + tied, os.path.join(folder, "theirs0.pt"))
    other_sizes(folder, base + tied + ["--decoder-attention-heads", "4", "--dropout", "0", "--attention-dropout", "0"],
                {**args, **shared, "decoder_attention_heads": 4, "dropout": 0.0, "attention_dropout": 0.0})
    wrong = os.path.join(folder, "wrong.pt")
    all_tensors = tensors(glob.glob(os.path.join(folder, "own0", "step_*4"))[0])
    weights = {name: rows for name, rows in all_tensors.items() if ".exp_avg" not in name}
    for state, says in (({"state": {}, "param_groups": []}, "its optimizer has no state of"), ({"state": {0: {"step": 4}}, "param_groups": [{"params": [0]}]}, "has no exp_avg")):
        checkpoint(wrong, weights, {**args, **shared}, 1, states=state)
        done = jotun(*base, *tied, "--max-update", 6, "--restore-file", wrong, "--no-save", check=False)
        check(done.stderr, done.returncode == 1 and says in done.stderr and "; its states are not read; --no-load-optim continues without its optimizer states" in done.stderr)
    for change, says in ({"adaptive_input": True}, "its argument adaptive_input is on"), ({"activation_fn": "swish"}, "its activation_fn swish is not built; models with relu, gelu"), \
            ({"decoder_layers": None}, "its arguments have no whole number decoder_layers"), ({"adaptive_softmax_cutoff": "10000,20000"}, "its output layer has an adaptive softmax (10000,20000)"), \
            ({"scale_heads": True}, "its argument scale_heads is on"), ({"base_layers": 1}, "its argument base_layers is on"):
        for cfg in None, dict, typed_config:
            checkpoint(wrong, weights, {**args, **shared, **change}, 1, cfg=cfg)
            done = jotun("fairseq-eval-lm", os.path.join(folder, "small", "part"), "--path", wrong, check=False)
            check(f"{change}: {done.stderr}", done.returncode == 1 and f"{wrong}: {says}" in done.stderr)


def other_sizes(folder, base, args):
    """Parts of one model-parallel size are trained on at any other, though the dictionary would be filled up to another multiple of 8 x size there; so
    is a folder of jotun's own."""
    save, file, metrics = os.path.join(folder, "sizes"), os.path.join(folder, "sizes.pt"), os.path.join(folder, "sizes.jsonl")
    parallel = lambda n: ["--model-parallel-size", n, "--distributed-world-size", n]
    jotun(*base, *parallel(4), "--max-update", 4, "--save-dir", save)
    all_tensors = tensors(glob.glob(os.path.join(save, "step_*4"))[0])
    rows = len(all_tensors["embed.token.weight"])
    ids = 4 + len(open(os.path.join(base[1], "dict.txt")).read().splitlines())
    check(f"{rows} rows of {ids} ids: other sizes have as many", rows % 32 == 0 and ids + 7 < rows)
    checkpoint(file, all_tensors, args, 4, states="each")
    for given in ["--restore-file", file, "--no-save"], ["--restore-file", save, "--no-save"]:
        losses = []
        for size in 1, 2, 4:
            if os.path.exists(metrics):
                os.remove(metrics)
            done = jotun(*base, *parallel(size), *given, "--max-update", 5, "--metrics", metrics)
            losses += [row["loss"] for row in map(json.loads, open(metrics)) if "grad_norm" in row]
            check(f"{size} {given}: {done.stderr}", "resumes after step 4" in done.stderr)
        check(f"losses of other sizes: {losses}", len(losses) == 3 and all(abs(loss - losses[0]) < 1e-4 for loss in losses))


def finetune(folder, base, file):
    """A new run begins with another's weights at step 0; once it has a checkpoint it goes on from that."""
    save = os.path.join(folder, "tuned")
    first = jotun(*base, "--max-update", 2, "--finetune-from-model", file, "--save-dir", save)
    check(first.stderr, "fairseq:" + file in first.stderr and "num_updates 2 " in first.stderr and "resumes after" not in first.stderr)
    again = jotun(*base, "--max-update", 3, "--finetune-from-model", file, "--save-dir", save)
    check(again.stderr, f"--finetune-from-model {file} is not read: the run continues from its checkpoint in {save}" in again.stderr and "resumes after step 2" in again.stderr)
    from_ours = jotun(*base, "--max-update", 2, "--finetune-from-model", save, "--no-save", "--save-dir", save + "-none")
    check(from_ours.stderr, "num_updates 2 " in from_ours.stderr)
    for more, says in ((["--restore-file", save], "both say what the run begins with"), (["--reset-optimizer"], "--finetune-from-model and --reset-optimizer: a run that begins"),
                       (["--finetune-from-model", "none.pt"], "--finetune-from-model none.pt: no such file or folder; give a checkpoint of fairseq's own")):
        done = jotun(*base, "--max-update", 2, "--finetune-from-model", file, "--save-dir", save + "-none", *more, check=False)
        check(f"{more}: {done.stderr}", done.returncode == 1 and says in done.stderr)


def frequencies(data):
    """--update-freq 1,3,4 as fairseq: an epoch has ceil(samples / batch) updates, the learning rate counts updates, whatever their batches; and the same run in
    Megatron-LM's flags."""
    base = [w.replace("DATA", data) for w in TRAIN[:-3]] + ["--decoder-layers", "2", "--decoder-embed-dim", "8", "--decoder-ffn-embed-dim", "12", "--decoder-attention-heads", "2",
                                                             "--tokens-per-sample", "24", "--warmup-updates", "9", "--lr", "0.05", "--share-decoder-input-output-embed"]
    samples = -(-os.path.getsize(os.path.join(data, "train.bin")) // 2 // 24)
    steps = [-(-samples // (4 * f)) for f in (1, 3, 4, 4)]
    done = jotun(*base, "--update-freq", "1,3,4", "--max-epoch", 4, "--distributed-world-size", 2, "--metrics", "f.jsonl", "--save-dir", "freqs")
    rows = [row for row in map(json.loads, open("f.jsonl")) if "grad_norm" in row]
    wanted = [0.05 * min(n / 9, math.sqrt(9 / n) if n > 9 else 1) for n in range(sum(steps))]
    check(f"{len(rows)} steps, not {steps}", len(rows) == sum(steps) and all(abs(row["lr"] - lr) < 1e-12 for row, lr in zip(rows, wanted)))
    tokens = [24 * 4 * f for f, count in zip((1, 3, 4, 4), steps) for _ in range(count)]
    check("tokens of steps", [row["tokens"] for row in rows] == [sum(tokens[:i + 1]) for i in range(len(tokens))])
    ends = [int(n) for n in re.findall(r"\| train \| epoch \d{3} .* num_updates (\d+) ", done.stderr)]
    check(f"epochs end at {ends}", ends == [sum(steps[:i + 1]) for i in range(4)] and "epochs have different numbers of steps" in done.stderr)
    told = shlex.split(re.search("the same: jotun (.*)", done.stderr).group(1))
    check(f"{told}", "--lr-schedule-unit" in told and told[told.index("--step-batch-size-schedule") + 1].startswith(f"0:4 {24 * 4 * steps[0]}:12 "))
    jotun(*told, "--metrics", "g.jsonl", "--save", "third-f", "--load", "third-f")
    same_losses("a batch by epoch", ".", "f.jsonl", "g.jsonl")
    # a run that goes on in the second epoch has the same learning rates and losses
    cut = steps[0] + 2
    jotun(*base, "--update-freq", "1,3,4", "--max-epoch", 4, "--distributed-world-size", 2, "--metrics", "h.jsonl", "--save-dir", "cut", "--save-interval-updates", cut, "--exit-interval", cut)
    jotun(*base, "--update-freq", "(1, 3, 4, 4)", "--max-epoch", 4, "--distributed-world-size", 2, "--metrics", "h.jsonl", "--save-dir", "cut")
    same_losses("a batch by epoch, continued", ".", "f.jsonl", "h.jsonl")


def resume(places):
    """A run goes on from --save-dir, as fairseq's does from checkpoint_last.pt."""
    longer = jotun(*words("train", "train: smaller", **dict(places, IDS=320)), "--max-update", "26", "--metrics", "a.jsonl")
    check("a run that goes on", set(metrics("a.jsonl")) == set(range(1, 27)) and "step 26 is saved" in longer.stderr)


# ---- arguments ----

def arguments(folder):
    """None of fairseq's arguments is unknown: each is taken, passed over with a word, or refused with a cure."""
    counts = {"taken": 0, "ignored": 0, "refused": 0}
    for command, given in GOLDEN["arguments"].items():
        for name, flag in given.items():
            done = jotun(command, folder, "--task", "language_modeling", f"--{name}", *([] if flag else ["7"]), check=False)
            check(f"--{name} of {command}: {done.stderr}", "is no argument of" not in done.stderr and done.returncode > 0)
            kind = "refused" if re.search(rf"--{name}\S* .*(refused|is not known|is not two numbers|is not built)", done.stderr) else \
                   "ignored" if f"--{name}" in done.stderr and " is ignored: " in done.stderr else "taken"
            counts[kind] += 1
    print("fairseq's arguments:", counts)
    check(f"{counts}", counts["taken"] > 90)


TRAIN = ["fairseq-train", "DATA", "--task", "language_modeling", "--arch", "transformer_lm_megatron", "--optimizer", "adam", "--lr-scheduler", "inverse_sqrt",
         "--batch-size", "2", "--max-update", "5", "--dry-run"]
EVAL = ["fairseq-eval-lm", "DATA", "--path", "ck"]
TRAINED = ["fairseq-eval-lm", "DATA", "--path", "DATA/../megatron_11b", "--tokens-per-sample", "32"]
REFUSED = [
    (TRAIN + ["--adam-betas", "0.9"], '--adam-betas 0.9 is not two numbers from 0 to below 1; give "(0.9, 0.98)"'),
    (TRAIN + ["--adam-betas", "(0.9, 1.2)"], "--adam-betas (0.9, 1.2) is not two numbers"),
    (TRAIN + ["--adam-beta", "(0.9, 0.98)"], "--adam-beta is no argument of fairseq-train; did you mean --adam-betas?"),
    (TRAIN + ["--max-update", "many"], "--max-update many is not a whole number; give a value from 0 to"),
    (TRAIN + ["--batch-size", "0"], "--batch-size 0 is out of range; give a value from 1"),
    (TRAIN + ["--update-freq", "1,x"], "--update-freq 1,x: give a whole number from 1 on, or up to 40 of them with commas between"),
    (TRAIN + ["--update-freq", "1,2", "--sample-break-mode", "eos"], "--update-freq 1,2: which step begins an epoch is known only of --sample-break-mode none and token files; give one number, and"
     ' --step-batch-size-schedule "0:2 TOKENS:4"'),
    (TRAIN + ["--update-freq", "1,2", "--step-batch-size-schedule", "0:2 64:4"], "--update-freq 1,2 and --step-batch-size-schedule both change the batch during a run; leave one out"),
    (TRAIN + ["--task", "translation"], "--task translation: only language models are trained; give --task language_modeling"),
    (TRAIN + ["--arch", "transformer_lm_wiki103"], "--arch transformer_lm_wiki103 is not known; give one of transformer_lm, "),
    (TRAIN + ["--activation-fn", "swish"], "--activation-fn swish is refused: the MLP has ReLU (relu), GELU by erf (gelu)"),
    (TRAIN + ["--criterion", "adaptive_loss"], "--criterion of fairseq-train is refused: the loss is the cross entropy of the next token; give cross_entropy"),
    (TRAIN + ["--lr-scheduler", "tri_stage"], "--lr-scheduler tri_stage is not built; give inverse_sqrt, polynomial_decay, cosine or fixed"),
    (TRAIN + ["--warmup-updates", "0"], "--warmup-updates 0: inverse_sqrt decays from the end of its warm-up"),
    (TRAIN + ["--sample-break-mode", "line"], "--sample-break-mode line is not known; give overlapping, none, complete, complete_doc or eos"),
    (TRAIN + ["--model-parallel-size", "3", "--distributed-world-size", "3"], "--model-parallel-size 3"),
    (TRAIN + ["--distributed-world-size", "3", "--model-parallel-size", "2"], "--distributed-world-size 3"),
    (TRAIN + ["--decoder-attention-heads", "7"], "--decoder-attention-heads 7"),
    (TRAIN + ["--max-tokens", "100"], "--max-tokens 100 is less than the 1024 tokens of a sample (--tokens-per-sample); give that or more"),
    (TRAIN + ["--restore-file", "a.pt"], "--restore-file a.pt: no such file; checkpoints of fairseq-train here are folders"),
    (TRAIN + ["--fp16", "--bf16"], "--fp16"),
    (TRAIN + ["--share-decoder-input-output-embed=1"], "--share-decoder-input-output-embed takes no value in fairseq; leave =1 out"),
    (TRAIN + ["--lr"], "--lr needs a value"),
    (TRAIN + ["other"], "fairseq-train needs one folder of data, that of fairseq-preprocess --destdir, and 2 are given"),
    (TRAIN[:1] + TRAIN[2:], "fairseq-train needs one folder of data"),
    (TRAIN[:1] + ["nowhere"] + TRAIN[2:], "nowhere/dict.txt: no such file; fairseq-preprocess writes the dictionary there"),
    (TRAIN[:1] + ["DATA:DATA"] + TRAIN[2:], "several folders, which fairseq reads in turn"),
    ([w for w in TRAIN if w not in ("--optimizer", "adam")], "fairseq-train needs --optimizer: adam, or sgd"),
    ([w for w in TRAIN if w not in ("--max-update", "5")], "fairseq-train needs --max-update or --max-epoch"),
    ([w for w in TRAIN if w not in ("--batch-size", "2")], "fairseq-train needs --batch-size, the samples of a rank, or --max-tokens"),
    (EVAL + ["--context-window", "1024"], "--context-window 1024 leaves no token of --tokens-per-sample 1024"),
    (TRAINED + ["--original-tokens", "5", "--original-text", "DATA/dict.txt"], "--original-tokens and --original-text both say how many words there are; leave one out"),
    (TRAINED + ["--original-text", "DATA/nowhere"], "DATA/nowhere: cannot be read"),
    (EVAL + ["--output-word-probs"], "--output-word-probs of fairseq-eval-lm is refused"),
    (TRAINED[:-2], "--tokens-per-sample is by default 1024, which is more than the 32 positions of the model of --path: fairseq leaves such windows out; give --tokens-per-sample 32"),
    (TRAINED[:-1] + ["53", "--context-window", "20"], "--tokens-per-sample 53 without --context-window, which is more than the 32 positions of the model of --path: fairseq leaves such windows out;"
     " give --tokens-per-sample 52"),
    (TRAINED + ["--max-tokens", "10"], "--max-tokens 10 is less than the 32 tokens of a sample (--tokens-per-sample); give that or more"),
    (EVAL[:3] + ["missing.pt"], "--path missing.pt: no such file, and . holds no checkpoint; give a file of fairseq's own (model.pt), or the folder that fairseq-train --save-dir wrote"),
    (EVAL, "--path ck: holds no checkpoint; give a file of fairseq's own"),
    (EVAL + ["--gen-subset", "other"], "DATA/other.idx: no such file; --gen-subset is other. fairseq-preprocess writes train, valid and test"),
    (EVAL[:1] + ["nowhere"] + EVAL[2:], "nowhere/test.idx: no such file; by default --gen-subset is test. fairseq-preprocess writes"),
    (TRAIN + ["--train-subset", "other"], "DATA/other.idx: no such file; --train-subset is other. fairseq-preprocess writes"),
    (TRAIN + ["--valid-subset", "valid,other"], "DATA/other.idx: no such file; --valid-subset is other. fairseq-preprocess writes"),
    (EVAL[:2], "fairseq-eval-lm needs --path"),
    (["fairseq-preprocess", "--trainpref", "x"], "needs --only-source"),
    (["fairseq-preprocess", "--only-source"], "needs --trainpref, of which it makes the dictionary, or --srcdict"),
    (["fairseq-preprocess", "--only-source", "--trainpref", "x", "--source-lang", "en"], "--source-lang of fairseq-preprocess is refused: one language is prepared"),
    (["fairseq-preprocess", "--only-source", "--trainpref", "x", "--dataset-impl", "lazy"], "fairseq's older format is read only by jotun data; give mmap"),
    (["fairseq-preprocess", "--only-source", "--srcdict", "DATA/train.bin"], ": not a word and its count with a blank between"),
    (["fairseq-preprocess", "--only-source", "--trainpref", "DATA/dict.txt", "--destdir", "DATA"], "DATA/dict.txt: is there already; give it as --srcdict"),
    (["fairseq-bpe-encoder"], "needs --encoder-json and --vocab-bpe"),
    (["fairseq-bpe-encoder", "--encoder-json", "x", "--vocab-bpe", "x", "--inputs", "a", "b", "--outputs", "c", "d"], "--inputs has 2 files and --outputs 2; give one of each"),
    (["fairseq-detok", "DATA/no_utf8"], "DATA/no_utf8:1: byte 3 of the line is 0xFF, which is not UTF-8"),
    (["fairseq-detok", "DATA/nul"], "DATA/nul:1: byte 1 of the line is NUL, which no text here may have; jotun clean --invalid-utf8 repair"),
]


def refusals(data):
    for name, content in ("no_utf8", b"a b\xff\n"), ("nul", b"a\0\xff\n"):
        open(os.path.join(data, name), "wb").write(content)
    for given, wanted in REFUSED:
        done = jotun(*[w.replace("DATA", data) for w in given], check=False)
        check(f"{' '.join(given)}: {done.stderr!r} has no {wanted!r}", done.returncode > 0 and wanted.replace("DATA", data) in done.stderr)


def conversions(data):
    """What follows from several arguments, as the line in the log says."""
    base = TRAIN[:-1] + ["--fp16", "--dry-run", "--arch", "transformer_lm_gpt", "--decoder-layers", "1", "--tokens-per-sample", "64"]
    for more, wanted, unwanted in (
            (["--batch-size", "12"], "--micro-batch-size 8 --global-batch-size 8 ", None),
            (["--max-tokens", "300", "--required-batch-size-multiple", "1", "--batch-size", "9"], "--micro-batch-size 4 ", None),
            (["--update-freq", "4", "--distributed-world-size", "2"], "--global-batch-size 16 ", None),
            (["--update-freq", "4", "--distributed-world-size", "2"], "--loss-scale-window 2048 ", None),
            (["--lr-scheduler", "fixed", "--lr", "0.5", "--warmup-updates", "5"], "--lr 0.5 --lr-decay-style constant --lr-warmup-iters 4 --lr-warmup-init 0.1 ", None),
            (["--lr-scheduler", "polynomial_decay", "--total-num-update", "50", "--warmup-updates", "3"], "--lr-decay-style linear --lr-warmup-iters 3 --lr-decay-iters 50 ", None),
            (["--lr-scheduler", "cosine", "--min-lr", "0.01", "--warmup-updates", "2"], "--min-lr 0.01 --lr-decay-style cosine --lr-warmup-iters 2 --lr-warmup-init 0.01 ", None),
            (["--activation-fn", "relu"], "--relu ", "--gelu-approximate none"),
            (["--arch", "transformer_lm"], "--relu ", None),
            (["--activation-fn", "gelu_fast"], "--gelu-approximate tanh ", None),
            (["--decoder-learned-pos", "--no-scale-embedding"], "--position-embedding-type learned_absolute ", "--embedding-multiplier 27"),
            ([], "--untie-embeddings-and-output-weights ", None),
            (["--share-decoder-input-output-embed"], "--vocab-size 271 ", "--untie-embeddings"),
            (["--max-epoch", "2", "--max-update", "0"], "--train-iters ", None),
            (["--optimizer", "sgd", "--momentum", "0.5"], "--optimizer sgd ", "--adam-eps-uncorrected"),
            (["--zero-sharding", "os", "--keep-best-checkpoints", "1", "--log-format", "json"], "--zero-stage 1 ", None),
            (["--threads", "2"], "--threads 2 ", None)):
        done = jotun(*[w.replace("DATA", data) for w in base], *more, check=False)
        line = re.search("the same: (.*)", done.stderr)
        said = line.group(1) + " " if line else done.stderr
        check(f"{more}: {said}", bool(line) and wanted in said and not (unwanted and unwanted in said))


def links(folder):
    """The program called by the name of a command is that command."""
    for name in ("fairseq-train", "fairseq-preprocess", "fairseq-eval-lm", "fairseq-bpe-encoder", "fairseq-detok"):
        os.symlink(os.path.abspath(run.JOTUN), os.path.join(folder, name))
    call = lambda name, *w, **more: run.subprocess.run([os.path.join(folder, name), *w], capture_output=True, text=True, **more)
    check("fairseq-detok", call("fairseq-detok", input="a @-@ b\n").stdout == "a-b\n")
    check("fairseq-train", "fairseq-train needs one folder of data" in call("fairseq-train").stderr)
    check("--help", call("fairseq-preprocess", "--help").stdout.startswith("Usage: jotun fairseq-preprocess"))
    for name, has, lacks in (("fairseq-train", ("--adam-betas TEXT", "--decoder-layers N", "--max-update N"), ("--gen-subset",)),
                             ("fairseq-eval-lm", ("--context-window N", "--path TEXT", "--tokens-per-sample N"), ("--adam-betas", "--decoder-layers"))):
        lines = call(name, "--help").stdout.split("options of jotun")[0]
        check(f"{name} --help", all(f"\n  {word} " in lines for word in has) and not any(word in lines for word in lacks))


def json_lines(data):
    done = jotun(*[w.replace("DATA", data) for w in TRAIN[:-1]], "--decoder-layers", "1", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16", "--decoder-attention-heads",
                 "2", "--tokens-per-sample", "16", "--no-save", "--log-format", "json", "--log-interval", "2", "--clip-norm", "1e-3", "--warmup-updates", "3", "--lr", "1e-3")
    rows = [json.loads(x) for x in re.findall(r"\| INFO \| train_inner \| ({.*})$", done.stderr, re.M)]
    check(f"{rows}", [r["num_updates"] for r in rows] == ["2", "4"] and rows[0]["epoch"] == 1 and rows[0]["clip"] == "100" and 0 < rows[0]["update"] < rows[1]["update"])


def main():
    here = os.getcwd()
    run.JOTUN = os.path.abspath(run.JOTUN)
    with work_folder() as folder:
        for part in (tool_files, long_text, detokenizer, encoder, links, padded_lines):
            sub = os.path.join(folder, part.__name__)
            os.mkdir(sub)
            part(sub)
        sub = os.path.join(folder, "tutorial")
        os.mkdir(sub)
        tutorial(sub)
        data = os.path.join(sub, "wikitext103-bin")
        os.chdir(folder)
        refusals(data)
        conversions(data)
        json_lines(data)
        transcription(data)
        own_checkpoints(data)
        frequencies(data)
        arguments(data)
        os.chdir(here)
    print(f"{failures} wrong" if failures else "all right")
    sys.exit(1 if failures else 0)


main()
