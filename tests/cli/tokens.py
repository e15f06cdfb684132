"""Whole runs with tokenizers other than bytes: prepare, train, data cat, eval --text and generate agree on one text, and what
does not fit is refused. Small tokenizers of tests/data and tests/golden."""
import gzip
import json
import math
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time

import run

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
KINDS = {                                        # path: comes back whole
    "data/tokenizers/cl100k_small.tiktoken": True,
    "data/tokenizers/llama2.json": True,
    "golden/text/unigram.model": True,
    "data/tokenizers/qwen2.json": True,
}


def expect(what, good):
    if not good:
        sys.exit(what)


def texts():
    rng = random.Random(3)
    words = ["sjö", "häst", "landet", "river", "こんにちは", "hus", "walk", "12", "😀", "träd."]
    return [" ".join(rng.choice(words) for _ in range(rng.randint(1, 30))) for _ in range(40)]


def whole(tokenizer, folder):
    """Documents there and back, a model of them, and its two words about a text"""
    path = lambda name: os.path.join(folder, name)
    lines = texts()
    with open(path("t.txt"), "w") as out:
        out.writelines(line + "\n" for line in lines)
    run.jotun("prepare", "--input", path("t.txt"), "--tokenizer", tokenizer, "--output-prefix", path("p"))
    said = run.jotun("data", "cat", path("p_text_document"), "--tokenizer", tokenizer).stdout
    expect(f"{tokenizer}: data cat: {said[:300]}", said.split("\n")[:-1] == lines)
    run.jotun("train", "--data-path", path("p_text_document"), "--tokenizer", tokenizer, "--train-iters", 2, *run.MODEL,
              "--save", path("ck"))
    evaluated(tokenizer, path("ck"), path("t.txt"))
    generated(tokenizer, path("ck"))


def begun(folder):
    """A tokenizer that puts an id before each text, as Llama 3's does"""
    data = json.load(open(os.path.join(TESTS, "data/tokenizers/qwen2.json")))
    first = 1 + max(max(data["model"]["vocab"].values()), *[token["id"] for token in data["added_tokens"]])
    data["added_tokens"].append({"content": "<begin>", "id": first, "special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False})
    data["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<begin>"}}, {"Sequence": {"id": "A"}}],
                              "pair": [], "special_tokens": {"<begin>": {"ids": [first]}}}
    os.makedirs(os.path.join(folder, "begun"))
    with open(os.path.join(folder, "begun", "t.json"), "w") as out:
        json.dump(data, out)
    return os.path.join(folder, "begun", "t.json")


def evaluated(tokenizer, checkpoint, text):
    row = json.loads(run.jotun("eval", "perplexity", "--load", checkpoint, "--text", text).stdout)
    data = open(text, "rb").read()
    ids = run.jotun("tokenizer", "encode", "--tokenizer", tokenizer, "--input", text).stdout.split()
    first = len(run.jotun("tokenizer", "decode", "--tokenizer", tokenizer, input=ids[0]).stdout.encode())
    expect(f"{tokenizer}: {row}", row["tokens"] == len(ids) - 1 and row["bytes"] == len(data) - first)
    bits = row["loss"] * row["tokens"] / row["bytes"] / math.log(2)
    expect(f"{tokenizer}: {row}", math.isclose(row["bits_per_byte"], bits, rel_tol=1e-12) and
           math.isclose(row["perplexity_per_byte"], 2 ** bits, rel_tol=1e-12) and
           math.isclose(row["perplexity"], math.exp(row["loss"]), rel_tol=1e-12))


def generated(tokenizer, checkpoint):
    done = run.jotun("generate", "--load", checkpoint, "--prompt", "häst こ", "--max-new-tokens", 12, "--seed", 4, errors="replace")
    expect(f"{tokenizer}: generate: {done.stdout}", done.stdout.startswith("häst こ") and done.stdout.endswith("\n") and len(done.stdout) > 8)
    again = run.jotun("generate", "--load", checkpoint, "--prompt", "häst こ", "--max-new-tokens", 12, "--seed", 4, "--tokenizer", tokenizer,
                      errors="replace")
    expect(f"{tokenizer}: generate differs: {again.stdout}", again.stdout == done.stdout)


def refused(code, says, *words, **more):
    done = run.jotun(*words, check=False, **more)
    expect(f"{words}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{done.stderr}", done.returncode == code and says in done.stderr)


def copy_removed(checkpoint, step):
    """The file at the recorded name is then the tokenizer, as of checkpoints that carry none."""
    shutil.rmtree(os.path.join(checkpoint, f"step_{step:08d}", "tokenizer"))


def moved(place, folder):
    """A checkpoint whose copy of its tokenizer was removed names a file that is no longer there."""
    name = os.path.join(folder, "x.json")
    shutil.copy(os.path.join(TESTS, "data/tokenizers/llama2.json"), name)
    run.jotun("train", "--data-path", os.path.join(place, "p_text_document"), "--tokenizer", name, "--train-iters", 1, *run.MODEL, "--save",
              os.path.join(folder, "moved"))
    os.rename(name, os.path.join(folder, "y.json"))
    run.jotun("generate", "--load", os.path.join(folder, "moved"), "--prompt", "x", errors="replace")
    copy_removed(os.path.join(folder, "moved"), 1)
    refused(1, f"none at {name}, where the tokenizer of the checkpoint was; give it by --tokenizer", "generate", "--load", os.path.join(folder, "moved"), "--prompt", "x")
    run.jotun("generate", "--load", os.path.join(folder, "moved"), "--prompt", "x", "--tokenizer", os.path.join(folder, "y.json"), errors="replace")


def special_tokens(folder):
    tokenizer, text = os.path.join(TESTS, "data/tokenizers/cl100k_small.tiktoken"), os.path.join(folder, "s.txt")
    with open(text, "w") as out:
        out.write("a<|endoftext|>b\n")
    ids = run.jotun("tokenizer", "encode", "--tokenizer", tokenizer, "--parse-special-tokens", "--input", text).stdout.split()
    plain = run.jotun("tokenizer", "encode", "--tokenizer", tokenizer, "--input", text).stdout.split()
    expect(f"special tokens: {ids}, {plain}", len(ids) == 4 and len(plain) > 9 and ids[1] not in plain)
    run.jotun("prepare", "--input", text, "--tokenizer", tokenizer, "--parse-special-tokens", "--output-prefix", os.path.join(folder, "s"))
    size = os.path.getsize(os.path.join(folder, "s_text_document.bin"))
    expect(f"special tokens: {size} bytes", size == 2 * 3)
    refused(1, "--parse-special-tokens: --tokenizer bytes knows no special token", "tokenizer", "encode", "--parse-special-tokens", input="x")


def what_does_not_fit(folder, checkpoint):
    big = os.path.join(TESTS, "data/tokenizers/cl100k_small.tiktoken")
    refused(1, f"--tokenizer {big} has 701 ids, and the model has 257: its token ",
            "generate", "--load", checkpoint, "--prompt", "x", "--tokenizer", big)
    refused(1, "--vocab-size 256 is less than the 257 ids of --tokenizer bytes; give 257 or more", "config", "--vocab-size", 256)
    os.remove(os.path.join(folder, "p_text_document.facts.json"))
    refused(1, "is none of the 257 of --tokenizer bytes; give the one it was prepared with", "data", "cat", os.path.join(folder, "p_text_document"))


def another_tokenizer(folder, data):
    """A checkpoint whose vocabulary is larger than its tokenizer's goes with that tokenizer alone, whatever the number of ids."""
    gpt2, llama2 = (os.path.join(TESTS, "data/tokenizers", name) for name in ("gpt2.json", "llama2.json"))       # of 700 ids each
    own, copy, checkpoint = (os.path.join(folder, name) for name in ("own.json", "copy.json", "padded"))
    shutil.copy(gpt2, own)
    if os.path.exists(data + ".facts.json"):                                # which says that bytes made them
        os.remove(data + ".facts.json")
    run.jotun("train", "--data-path", data, "--tokenizer", own, "--vocab-size", 5000, "--train-iters", 1, *run.MODEL, "--save", checkpoint)
    generate = ["generate", "--load", checkpoint, "--prompt", "x", "--max-new-tokens", 2]
    run.jotun(*generate, errors="replace")
    for other in llama2, "bytes":
        for words in generate, ["eval", "perplexity", "--load", checkpoint, "--text", os.path.join(folder, "text.txt")]:
            refused(1, f"is not the one that {checkpoint}/step_00000001 was trained with, {own} (700 ids", *words, "--tokenizer", other)
    os.rename(own, copy)
    run.jotun(*generate, "--tokenizer", copy, errors="replace")
    shutil.copy(llama2, own)
    run.jotun(*generate, errors="replace")
    copy_removed(checkpoint, 1)
    refused(1, "the file was changed: say by --tokenizer where an unchanged one is", *generate)
    resumed_with_another(data, checkpoint, own, copy)


def recorded(checkpoint, step):
    with open(os.path.join(checkpoint, f"step_{step:08d}", "manifest.json")) as manifest:
        return json.load(manifest)["run"]["tokenizer"]


def resumed_with_another(data, checkpoint, changed, unchanged):
    """A run goes on with another tokenizer only where a person names it; else what the checkpoint has of its tokenizer stays."""
    train = ["train", "--data-path", data, *run.MODEL, "--load", checkpoint, "--save", checkpoint]
    refused(1, "the file was changed: say by --tokenizer where an unchanged one is", *train, "--use-checkpoint-args", "--train-iters", 2)
    refused(1, "the file was changed: say by --tokenizer where an unchanged one is", *train, "--vocab-size", 5000, "--train-iters", 2)
    first = recorded(checkpoint, 1)
    done = run.jotun(*train, "--use-checkpoint-args", "--tokenizer", unchanged, "--train-iters", 2)
    expect(f"a tokenizer that moved: {done.stderr}", "--tokenizer" not in done.stderr and
           recorded(checkpoint, 2) == {**first, "name": unchanged, "files": [{**first["files"][0], "file": os.path.basename(unchanged)}]})
    done = run.jotun(*train, "--use-checkpoint-args", "--tokenizer", changed, "--train-iters", 3)
    expect(f"another tokenizer: {done.stderr}", f"--tokenizer {changed} (v1: 700 ids" in done.stderr and
           f"was {unchanged} ({first['fingerprint']})" in done.stderr and recorded(checkpoint, 3)["fingerprint"] != first["fingerprint"])
    copy_removed(checkpoint, 3)
    with open(changed) as file:
        json_of = json.load(file)
    with open(changed, "w") as file:
        json.dump({**json_of, "normalizer": None}, file)
    third = recorded(checkpoint, 3)
    done = run.jotun(*train, "--use-checkpoint-args", "--train-iters", 4)
    expect(f"other rules: {done.stderr}", "has the tokens and merges of the one that" in done.stderr and recorded(checkpoint, 4)["fingerprint"] == third["fingerprint"])


def sleeps(process):
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"


def polls(process):
    """Whether it is in poll(., 1, 10), in which a log line waits (base/log.c); False where the kernel does not say."""
    try:
        with open(f"/proc/{process}/syscall") as call:
            words = call.read().split()
        return platform.machine() == "x86_64" and words[0] == "7" and [int(w, 16) for w in words[2:4]] == [1, 10]
    except (OSError, ValueError, IndexError):
        return False


def saved_meanwhile(checkpoint, words):
    """What a run says that finds the first step, waits in a line that nobody reads, and meanwhile another run has saved the second; its exit code"""
    newer, hidden, latest = (os.path.join(checkpoint, name) for name in ("step_00000002", "hidden", "latest"))
    os.rename(newer, hidden)
    with open(latest, "w") as file:
        file.write("step_00000001")
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in 4096, 1:                        # until the pipe is full
        try:
            while True:
                os.write(write, b" " * size)
        except BlockingIOError:
            pass
    os.set_blocking(write, True)
    child = subprocess.Popen([run.JOTUN, *words], stdout=subprocess.DEVNULL, stderr=write)
    os.close(write)
    waits = 0
    while child.poll() is None and waits < 20:
        waits = 20 if polls(child.pid) else waits + 1 if sleeps(child.pid) else 0
        time.sleep(0.01)
    child.send_signal(signal.SIGSTOP)           # so that the time it waits for a reader is its own and not this machine's
    os.rename(hidden, newer)
    with open(latest, "w") as file:
        file.write("step_00000002")
    child.send_signal(signal.SIGCONT)
    with open(read, errors="replace") as said:
        text = said.read().strip()
    return text, child.wait()


def found_once(folder, data):
    """Options and weights are of one step, though another run saves meanwhile: this one waits in a line that it says of its tokenizer."""
    tokenizer, checkpoint = os.path.join(folder, "a\ttab.json"), os.path.join(folder, "once")
    shutil.copy(os.path.join(TESTS, "data/tokenizers/mixed.json"), tokenizer)
    run.jotun("train", "--data-path", data, "--tokenizer", tokenizer, "--train-iters", 2, *run.MODEL, "--save", checkpoint, "--save-interval", 1)
    expect(f"a name with a tab: {recorded(checkpoint, 2)}", recorded(checkpoint, 2)["name"] == tokenizer)
    for _ in range(8):                          # a run waits for half a second, which a busy machine may need to see it
        text, code = saved_meanwhile(checkpoint, ["train", "--data-path", data, "--load", checkpoint, "--use-checkpoint-args", "--use-checkpoint-opt-param-scheduler",
                                                  "--train-iters", "3"])
        if "lines are missing" not in text:
            break
    expect(f"a checkpoint saved meanwhile: {text}", code == 0 and f"resumes after step 1 of {checkpoint}/step_00000001" in text)


def packed_text(checkpoint, folder):
    """Its bytes were once taken for text."""
    name = os.path.join(folder, "t.txt.gz")
    with gzip.open(name, "wb") as out:
        out.write(b"some text\n")
    refused(1, "it is compressed by gzip", "eval", "perplexity", "--load", checkpoint, "--text", name)


def written_anew(folder):
    """A run that goes on with other data under the same name says so, and says nothing of the same data."""
    text, prefix, checkpoint = (os.path.join(folder, name) for name in ("n.txt", "n", "n_ck"))
    line = "the same number of bytes again"
    for steps, word, says in (1, "first", False), (2, "first", False), (3, "other", True):
        with open(text, "w") as out:
            out.writelines(f"{line} {word} {i:02d}\n" for i in range(40))
        run.jotun("prepare", "--input", text, "--output-prefix", prefix)
        done = run.jotun("train", "--data-path", prefix + "_text_document", "--train-iters", steps, *run.MODEL, "--save", checkpoint, "--load",
                         checkpoint)
        told = f"resumes with {prefix}_text_document (.bin " in done.stderr and "the token file was replaced" in done.stderr
        expect(f"data of step {steps}: {done.stderr}", told == says)


def main():
    with run.work_folder() as folder:
        for kind in KINDS:
            place = os.path.join(folder, kind)
            os.makedirs(place)
            whole(os.path.join(TESTS, kind), place)
            if "unigram" in kind:
                refused(1, "has no ids in --tokenizer", "generate", "--load", os.path.join(place, "ck"), "--prompt", "  ")
        whole(begun(folder), os.path.join(folder, "begun"))
        special_tokens(folder)
        written_anew(folder)
        moved(os.path.join(folder, "data/tokenizers/llama2.json"), folder)
        data = run.corpus(folder)
        run.jotun("train", "--data-path", data, "--train-iters", 1, *run.MODEL, "--save", os.path.join(folder, "bytes"))
        packed_text(os.path.join(folder, "bytes"), folder)
        refused(1, "leave the weight out", "train", "--data-path", 1, data, "--train-iters", 1, *run.MODEL)
        another_tokenizer(folder, data)
        found_once(folder, data)
        what_does_not_fit(os.path.join(folder, "data/tokenizers/qwen2.json"), os.path.join(folder, "bytes"))
    return 0


sys.exit(main())
