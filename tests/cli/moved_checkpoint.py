"""A checkpoint that was moved and copied works where its original, its tokenizer and the working directory of its training are gone;
a damaged or missing copy of the tokenizer is named with the way out; a folder of a speedrun opens as its checkpoint."""
import glob
import json
import os
import shutil
import subprocess
import sys
import urllib.request

import run

JOTUN = os.path.abspath(run.JOTUN)
run.JOTUN = JOTUN
TEXT = "in the ra jo tun sees of the\n"


def jotun(*words, cwd, **more):
    return run.jotun(*words, cwd=cwd, **more)


def refused(what, *words, cwd):
    done = run.jotun(*words, cwd=cwd, check=False)
    missing = [w for w in what if w not in done.stderr]
    if done.returncode != 1 or missing:
        sys.exit(f"{words}: exit code {done.returncode}, wanted 1 and {missing} in:\n{done.stderr}")


def pair_of(json_file, folder):
    """The same tokenizer as vocab.json and merges.txt, with a config beside them."""
    model = json.load(open(json_file))["model"]
    os.makedirs(folder)
    json.dump(model["vocab"], open(os.path.join(folder, "vocab.json"), "w"))
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    open(os.path.join(folder, "merges.txt"), "w").write("#version: 0.2\n" + "\n".join(merges) + "\n")
    json.dump({"tokenizer_class": "GPT2Tokenizer", "model_max_length": 32}, open(os.path.join(folder, "tokenizer_config.json"), "w"))


def served(load, cwd):
    """The completion that a server gives: its text."""
    port = os.path.join(cwd, "port")
    server = subprocess.Popen([JOTUN, "serve", "--load", load, "--port", "0"], cwd=cwd, stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if "http://" in line:
                address = line[line.index("http://"):].split()[0].rstrip("/,;")
                break
        else:
            sys.exit("serve ended without an address")
        body = json.dumps({"prompt": "the", "max_tokens": 4, "temperature": 0}).encode()
        with urllib.request.urlopen(urllib.request.Request(address + "/v1/completions", body, {"Content-Type": "application/json"}), timeout=60) as answer:
            return json.load(answer)["choices"][0]["text"]
    finally:
        server.terminate()
        server.wait()


def answers(load, cwd):
    """What generate and eval say of a checkpoint from this directory."""
    text = os.path.join(cwd, "held_out.txt")
    open(text, "w").write(TEXT)
    made = jotun("generate", "--load", load, "--prompt", "the", "--max-new-tokens", 4, "--temperature", 0, cwd=cwd).stdout
    loss = json.loads(jotun("eval", "perplexity", "--load", load, "--text", text, cwd=cwd).stdout)["loss"]
    os.remove(text)
    return made, loss


def works_anywhere(folder, data, tokenizer, kind):
    """Everything that reads a checkpoint, in an empty directory, after all that it was made from is gone."""
    home, away, copied, empty = (os.path.join(folder, f"{kind}-{n}") for n in ("home", "away", "copied", "empty"))
    for path in (home, empty):
        os.makedirs(path)
    carried = os.path.join(home, "tok" + os.path.splitext(tokenizer)[1])
    (shutil.copytree if os.path.isdir(tokenizer) else shutil.copy)(tokenizer, carried)
    name = os.path.basename(carried)
    save = ["train", "--data-path", data, *run.MODEL, "--tokenizer", name, "--vocab-size", 300, "--save", "ck", "--train-iters", 4, "--save-interval", 2, "--keep-last", 1]
    jotun(*save, cwd=home)
    steps = sorted(os.listdir(os.path.join(home, "ck")))
    if [s for s in steps if s.startswith("step_")] != ["step_00000004"]:
        sys.exit(f"--keep-last 1 keeps {steps}")
    before = answers("ck", home)
    digest = run.digest(os.path.join(home, "ck", "step_00000004"))
    os.rename(os.path.join(home, "ck"), away)
    shutil.copytree(away, copied)
    shutil.rmtree(home)
    for load in (away, copied, os.path.join(copied, "step_00000004")):
        if answers(load, empty) != before:
            sys.exit(f"{kind}: {load} answers otherwise than where it was trained")
    shutil.rmtree(away)
    if served(copied, empty) not in before[0]:
        sys.exit(f"{kind}: serve answers otherwise than generate: {before[0]!r}")
    jotun("checkpoint", "verify", copied, cwd=empty)
    jotun("convert", "--to", "hf", "--input", copied, "--output", "hf", cwd=empty)
    jotun("convert", "--to", "gguf", "--input", copied, "--output", "model.gguf", cwd=empty)
    if answers("hf:hf", empty)[0] != before[0]:
        sys.exit(f"{kind}: the folder of transformers answers otherwise")
    more = ["train", "--data-path", data, *run.MODEL, "--vocab-size", 300, "--load", copied, "--save", copied, "--train-iters", 6, "--save-interval", 2]
    jotun(*more, cwd=empty)
    jotun(*more, "--use-checkpoint-args", cwd=empty)
    if run.digest(os.path.join(copied, "step_00000004")) != digest:
        sys.exit(f"{kind}: resuming changed the step that it began with")
    files = [glob.glob(os.path.join(copied, step, "tokenizer", "*")) for step in ("step_00000004", "step_00000006")]
    if not files[0] or [os.stat(f).st_ino for f in sorted(files[0])] != [os.stat(f).st_ino for f in sorted(files[1])]:
        sys.exit(f"{kind}: the files of the step after are no links to those before: {files}")
    return copied, empty


def damage(copied, empty, data):
    newest = os.path.join(copied, "step_00000006")
    file = glob.glob(os.path.join(newest, "tokenizer", "tok.json"))[0]
    kept = open(file, "rb").read()
    generate = ["generate", "--load", copied, "--prompt", "the", "--max-new-tokens", 1]
    os.remove(file)
    open(file, "wb").write(kept[:-2] + b" " + kept[-1:])
    refused([file, "another checksum", "--tokenizer"], *generate, cwd=empty)
    refused([file, "another checksum", "--tokenizer"], "convert", "--to", "hf", "--input", copied, "--output", "x", cwd=empty)
    refused([file, "1 of 2 checkpoints"], "checkpoint", "verify", copied, cwd=empty)
    open(file, "wb").write(kept[:-5])
    refused([file, "bytes, the manifest says"], *generate, cwd=empty)
    os.remove(file)
    refused([file, "tok.json", "--tokenizer"], *generate, cwd=empty)
    given = os.path.join(empty, "given.json")
    open(given, "wb").write(kept)
    jotun(*generate, "--tokenizer", given, cwd=empty)
    other = json.loads(kept)
    merges = other["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]
    json.dump(other, open(given, "w"))
    refused(["is not the one that", "was trained with"], *generate, "--tokenizer", given, cwd=empty)
    # a run that resumes with a whole tokenizer saves that, and no link to the damaged one of the step before
    before = os.path.join(copied, "step_00000004")
    open(os.path.join(before, "tokenizer", "tok.json"), "wb").write(kept[:-2] + b" " + kept[-1:])
    again = os.path.join(empty, "tok.json")
    open(again, "wb").write(kept)
    jotun("train", "--data-path", data, *run.MODEL, "--vocab-size", 300, "--load", before, "--tokenizer", again, "--save", copied, "--train-iters", 8, "--save-interval", 4, cwd=empty)
    jotun("checkpoint", "verify", os.path.join(copied, "step_00000008"), cwd=empty)
    renamed = os.path.join(copied, "step_00000007")
    os.rename(os.path.join(copied, "step_00000008"), renamed)
    refused([f"{renamed}: its manifest is that of step 8"], "checkpoint", "verify", renamed, cwd=empty)


def older(folder, data, tokenizer):
    """A checkpoint whose copy is gone has the tokenizer at the recorded name, or where --tokenizer says; another one is refused."""
    home, there, empty = (os.path.join(folder, f"older-{n}") for n in ("home", "there", "empty"))
    os.makedirs(home)
    os.makedirs(empty)
    shutil.copy(tokenizer, os.path.join(home, "tok.json"))
    jotun("train", "--data-path", data, *run.MODEL, "--tokenizer", "tok.json", "--vocab-size", 300, "--save", "runs/ck", "--train-iters", 2, cwd=home)
    shutil.rmtree(os.path.join(home, "runs", "ck", "step_00000002", "tokenizer"))
    wanted = answers("runs/ck", home)
    os.rename(home, there)
    generate = ["generate", "--load", os.path.join(there, "runs/ck"), "--prompt", "the", "--max-new-tokens", 4, "--temperature", 0]
    refused(["tok.json", "where the tokenizer of the checkpoint was", "--tokenizer"], *generate, cwd=empty)
    if jotun(*generate, "--tokenizer", os.path.join(there, "tok.json"), cwd=empty).stdout != wanted[0]:
        sys.exit("a checkpoint answers otherwise from another directory")
    other = json.load(open(os.path.join(there, "tok.json")))
    other["model"]["merges"].reverse()
    json.dump(other, open(os.path.join(empty, "tok.json"), "w"))                    # the name leads to another tokenizer
    refused(["is not the one that", "--tokenizer"], *generate, cwd=empty)


def speedrun_folder(folder, copied, empty):
    out = os.path.join(folder, "texts.speedrun")
    os.makedirs(out)
    json.dump({}, open(os.path.join(out, "speedrun.json"), "w"))
    shutil.copytree(copied, os.path.join(out, "checkpoint"))
    if answers(out, empty) != answers(os.path.join(out, "checkpoint"), empty):
        sys.exit("a speedrun's folder answers otherwise than its checkpoint")
    jotun("checkpoint", "info", out, cwd=empty)
    jotun("checkpoint", "verify", out, cwd=empty)
    jotun("convert", "--to", "hf", "--input", out, "--output", "speedrun-hf", cwd=empty)


def hub_names(folder, data):
    """A name of the hub, or of a preset, is no directory to begin new weights in without a word."""
    train = ["train", "--data-path", data, *run.MODEL, "--tokenizer", "none", "--vocab-size", 300, "--train-iters", 1]
    for name in "gpt2", "gpt2-xl", "meta-llama/Llama-3.2-1B", "qwen3-0.6b", "EleutherAI/pythia-70m":
        refused([f"--load {name}: ", "nothing is downloaded", "--load hf:FOLDER"], *train, "--load", name, cwd=folder)
    for name in "runs/gpt", "optimizer-test", "./gpt2":
        jotun(*train, "--load", name, cwd=folder)
    jotun(*train, "--load", "gpt2", "--save", "gpt2", cwd=folder)
    jotun(*train, "--load", "gpt2", cwd=folder)


def main():
    with run.work_folder() as folder:
        run.corpus(folder)
        tokenizer = os.path.join(folder, "learned.json")
        run.jotun("tokenizer", "train", "--input", os.path.join(folder, "text.txt"), "--vocab-size", 280, "--output", tokenizer)
        pair_of(tokenizer, os.path.join(folder, "pair"))
        run.jotun("prepare", "--input", os.path.join(folder, "text.txt"), "--tokenizer", tokenizer, "--append-eod", "--output-prefix", os.path.join(folder, "learned"))
        data = os.path.join(folder, "learned_text_document")
        older(folder, data, tokenizer)
        hub_names(folder, data)
        works_anywhere(folder, data, os.path.join(folder, "pair"), "pair")
        copied, empty = works_anywhere(folder, data, tokenizer, "json")
        speedrun_folder(folder, copied, empty)
        damage(copied, empty, data)
        print("a checkpoint moved and copied, its original, tokenizer and directory gone: generate, serve, eval, convert and train work")
    return 0


sys.exit(main())
