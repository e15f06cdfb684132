"""What a conversion writes and says beside weights: no tokenizer, another one than the folder's, the command in README.md, the
positions of a model, numbers that are not finite, a signal at the end, other conversions to the same place, messages."""
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import gguf
import run
from hf import GOLDEN, step, tensors
from run import jotun

LLAMA = os.path.join(GOLDEN, "llama")                       # without a tokenizer
SHAPE = """--num-layers 2 --hidden-size 16 --ffn-hidden-size 40 --num-attention-heads 4 --normalization RMSNorm --norm-epsilon 1e-6 --swiglu
    --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights""".split()
SHORT = "--train-iters 1 --global-batch-size 2 --micro-batch-size 2 --lr 0 --min-lr 0 --split 1,0,0".split()


def refused(code, words, *command, **more):
    done = jotun(*command, check=False, **more)
    if done.returncode != code or any(word not in done.stderr for word in words):
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode} and not {code}, or without {words}:\n{done.stderr}")
    return done.stderr


def said(words, *command):
    done = jotun(*command)
    for word in words:
        assert word in done.stderr, f"'{word}' is not in: {done.stderr}"
    return done


def manifest(checkpoint):
    return json.load(open(os.path.join(step(checkpoint), "manifest.json")))


def json_file(*path):
    return json.load(open(os.path.join(*path)))


def without_tokenizer(work, data, text):
    """A model without a tokenizer stays one: ids are read and written, texts are not."""
    at = lambda leaf: os.path.join(work, "none" + leaf)
    said(["has no tokenizer, and none is written; --tokenizer names one"], "convert", "--to", "jotun", "--input", LLAMA, "--output", at(""))
    loads = at(""), "hf:" + LLAMA
    said(["has no tokenizer, and none is written; --tokenizer names one"], "convert", "--to", "hf", "--input", at(""), "--output", at("-hf"))
    assert sorted(os.listdir(at("-hf"))) == ["README.md", "config.json", "generation_config.json", "model.safetensors"]
    assert json_file(at("-hf"), "config.json")["eos_token_id"] is None and "eos_token_id" not in json_file(at("-hf"), "generation_config.json")
    assert "The folder has no tokenizer" in open(at("-hf/README.md")).read()
    jotun("convert", "--to", "hf", "--input", at(""), "--output", at("-named"), "--tokenizer", "bytes")
    assert json_file(at("-named"), "config.json")["eos_token_id"] == 256 and os.path.exists(at("-named/tokenizer.json"))
    jotun("convert", "--to", "gguf", "--input", at(""), "--output", at(".gguf"))
    keys = gguf.Reader(at(".gguf")).keys
    assert {k: v for k, v in keys.items() if k.startswith("tokenizer")} == {"tokenizer.ggml.model": "no_vocab"}, keys
    assert keys["llama.vocab_size"] == 257
    for load in loads:
        refused(1, ["has no tokenizer", "give by --tokenizer", load], "eval", "perplexity", "--load", load, "--text", text)
        refused(1, ["has no tokenizer", "give by --tokenizer", load], "generate", "--load", load, "--prompt", "a")
        losses = [json.loads(jotun("eval", "perplexity", "--load", load, "--data-path", data, *more).stdout)["loss"]
                  for more in ([], ["--tokenizer", "bytes"])]
        assert losses[0] == losses[1]
        jotun("generate", "--load", load, "--prompt", "a", "--max-new-tokens", 1, "--tokenizer", "bytes", errors="replace")
    for i, words in enumerate((["--load", at(""), "--finetune", "--use-checkpoint-args"], ["--load", "hf:" + LLAMA])):
        saved = at(f"-run{i}")
        done = jotun("train", *words, "--data-path", data, *SHORT, "--save", saved)
        assert "record `bytes`" not in done.stderr, done.stderr
        refused(1, ["the tokenizer has none", "--tokenizer"], "train", *words, "--data-path", data, *SHORT, "--reset-position-ids")
        jotun("train", "--load", saved, "--use-checkpoint-args", "--data-path", data, *SHORT, "--train-iters", 2, "--save", saved,
              "--override-opt-param-scheduler")
        for checkpoint in os.path.join(saved, "step_00000001"), os.path.join(saved, "step_00000002"):
            kept = json_file(checkpoint, "manifest.json")
            assert kept["options"]["tokenizer"] == "none" and "tokenizer" not in kept["run"], kept["run"]
        refused(1, ["has no tokenizer", "give by --tokenizer"], "generate", "--load", saved, "--prompt", "a")
    refused(1, ["--tokenizer none does not tell how many ids", "--vocab-size"], "train", "--data-path", data, "--tokenizer", "none",
            "--train-iters", 1)
    refused(1, ["--tokenizer none is for ids"], "prepare", "--input", text, "--tokenizer", "none", "--output-prefix", at("-no"))
    made = at("-made")                                       # tokens without a text
    jotun("train", "--mock-data", "--vocab-size", 64, *run.MODEL, "--train-iters", 1, "--save", made)
    assert manifest(made)["options"]["tokenizer"] == "none"
    jotun("train", "--mock-data", *run.MODEL, "--train-iters", 2, "--load", made, "--save", made, "--override-opt-param-scheduler")
    assert manifest(made)["options"]["vocab-size"] == 64


def another_tokenizer(work, data, text):
    """Another tokenizer than the folder's is named in a line, and refused where its ids are more than the model's."""
    large, small, folder = (os.path.join(work, n) for n in ("large.json", "small.json", "with-tokenizer"))
    for path, ids in (large, 300), (small, 257):
        jotun("tokenizer", "train", "--input", text, "--vocab-size", ids, "--output", path)
    jotun("convert", "--to", "jotun", "--input", LLAMA, "--output", folder + "-ck", "--tokenizer", "bytes")
    jotun("convert", "--to", "hf", "--input", folder + "-ck", "--output", folder, "--tokenizer", small)
    line = "is taken instead of the tokenizer of"
    left = "--tokenizer none: the tokenizer of %s, and the ids of its special tokens, are left out"
    none = "--tokenizer", "none"
    assert line not in jotun("convert", "--to", "jotun", "--input", folder, "--output", folder + "-own").stderr
    said([line, folder, "--tokenizer bytes (257 ids"], "convert", "--to", "jotun", "--input", folder, "--output", folder + "-other", "--tokenizer", "bytes")
    said([line, "hf:" + folder], "train", "--load", "hf:" + folder, "--tokenizer", "bytes", "--data-path", data, *SHORT)
    said([line, "hf:" + folder], "eval", "perplexity", "--load", "hf:" + folder, "--tokenizer", "bytes", "--text", text)
    said([left % folder], "convert", "--to", "jotun", "--input", folder, "--output", folder + "-none", *none)
    done = said([left % ("hf:" + folder)], "train", "--load", "hf:" + folder, "--data-path", data, *SHORT, *none)
    assert done.stderr.count("are left out") == 1, done.stderr
    done = said([left % (folder + "-ck")], "convert", "--to", "hf", "--input", folder + "-ck", "--output", folder + "-hf-none", *none)
    assert "has no tokenizer" not in done.stderr, done.stderr
    assert "are left out" not in jotun("convert", "--to", "jotun", "--input", LLAMA, "--output", folder + "-none-of-none", *none).stderr
    for words in (("convert", "--to", "jotun", "--input", folder, "--output", folder + "-no"), ("train", "--load", "hf:" + folder, "--data-path", data, *SHORT),
                  ("convert", "--to", "hf", "--input", folder + "-ck", "--output", folder + "-no")):
        refused(1, ["large.json has 2", "ids, and the model", "257", "give "], *words, "--tokenizer", large)
        assert not os.path.exists(folder + "-no")


def card(work, data):
    """README.md has the options that were given, as a command that gives the same configuration; of paths it has the last names."""
    at = lambda leaf: os.path.join(work, "it's a card" + leaf)
    given = ["--num-layers", "2", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length", "16", "--swiglu", "--normalization", "RMSNorm",
             "--disable-bias-linear", "--position-embedding-type", "rope", "--data-path", "0.5", data, "0.5", data, "--data-order", "megatron", "--train-samples", "8",
             "--global-batch-size", "4", "--micro-batch-size", "2", "--lr", "1e-3", "--ranks", "2", "--save", at(""),
             "--sample-prompt", "speed in km/h", "--sample-interval", "100", "--wandb-project", "team/x"]
    jotun("train", *given, env=dict(os.environ, JOTUN_SEED="7"))
    jotun("convert", "--to", "hf", "--input", at(""), "--output", at("-hf"))
    text = open(at("-hf/README.md")).read()
    command = shlex.split(text.split("## Command\n\n```\n")[1].split("\n```")[0])
    assert command[:2] == ["jotun", "train"]
    value = lambda option: command[command.index(option) + 1]                # a text may have a slash as well
    assert (value("--sample-prompt"), value("--wandb-project")) == ("speed in km/h", "team/x"), command
    assert value("--save") == "it's a card", command
    names = {word for word in command if word.startswith("--")}
    assert names == {word for word in given if word.startswith("--")} | {"--seed"}, command
    shown = [[" ".join(line.split()[:2]) for line in jotun("config", *words).stdout.splitlines() if not re.match(" *--(data-path|save) ", line)]
             for words in (command[2:], given + ["--seed", "7"])]
    assert len(shown[0]) > 100 and shown[0] == shown[1], set(shown[0]) ^ set(shown[1])


def curve(work, data):
    """The table of losses in README.md has those of training alone."""
    saved, metrics = os.path.join(work, "curve"), os.path.join(work, "curve.jsonl")
    jotun("train", "--load", "hf:" + LLAMA, "--data-path", data, *SHORT, "--train-iters", 4, "--split", "50,50,0", "--eval-interval", 2, "--eval-iters", 1,
          "--metrics", metrics, "--save", saved)
    jotun("convert", "--to", "hf", "--input", saved, "--output", saved + "-hf")
    rows = [json.loads(line) for line in open(metrics)]
    assert any("split" in row for row in rows)
    wanted = [f"| {row['step']} | {row['loss']:.4f} |" for row in rows if "split" not in row]
    assert curve_of(saved + "-hf") == wanted, curve_of(saved + "-hf")
    # A run that began in another folder, with relative paths and a table; the folder of this process has another run's of that name.
    began, here, text = os.path.join(work, "began"), os.path.join(work, "here"), "## Training loss"
    for folder in began, here:
        os.mkdir(folder)
        os.mkdir(folder + "/logs")
    jotun("train", "--load", "hf:" + LLAMA, "--data-path", os.path.abspath(data), *SHORT, "--train-iters", 4, "--split", "50,50,0", "--eval-interval", 2, "--eval-iters", 1,
          "--metrics", "./logs/m.csv", "--save", "./runs/a/", cwd=began)
    with open(here + "/logs/m.csv", "w") as out:
        out.write("step,split,loss\n1,train,77\n")
    convert = lambda leaf, **more: jotun("convert", "--to", "hf", "--input", began + "/runs/a", "--output", began + leaf, cwd=here, **more).stderr
    done = convert("/hf")
    assert f"has the curve of losses of {os.path.realpath(began)}/./logs/m.csv\n" in done and curve_of(began + "/hf") == wanted, done
    shutil.move(began + "/logs/m.csv", began + "/runs/a/m.csv")
    assert "/runs/a/m.csv\n" in convert("/hf-beside") and curve_of(began + "/hf-beside") == wanted
    os.remove(began + "/runs/a/m.csv")
    shutil.rmtree(here + "/logs")
    assert "README.md has no curve of losses: --metrics ./logs/m.csv is no file here" in convert("/hf-none") and text not in open(began + "/hf-none/README.md").read()
    os.mkfifo(began + "/runs/a/m.csv")                                # nobody writes it: nothing waits for it
    assert "has no curve of losses" in convert("/hf-pipe")


def curve_of(folder):
    return open(folder + "/README.md").read().split("## Training loss\n\n| step | loss |\n|---|---|\n")[1].split("\n\n")[0].split("\n")


def stale(work, data):
    """Of several files with weights the one that transformers takes is read (modeling_utils.py of 5.23: the single file of safetensors, its index,
    then those of torch.save), and the others are named."""
    ours = os.path.join(work, "stale-none-ours")
    jotun("convert", "--to", "jotun", "--input", LLAMA, "--output", ours)
    files = sorted(name for name in os.listdir(step(ours)) if name.endswith(".safetensors"))
    for read, held, left in (("model.safetensors", "model.safetensors", "model.safetensors.index.json, pytorch_model.bin.index.json"),
                             ("model.safetensors.index.json", "model-1.safetensors", "pytorch_model.bin.index.json")):
        folder = os.path.join(work, "stale-" + read)
        os.mkdir(folder)
        shutil.copy(os.path.join(LLAMA, "config.json"), folder)
        shutil.copy(os.path.join(LLAMA, "model.safetensors"), os.path.join(folder, held))
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as out:
            json.dump({"weight_map": {name: "model-1.safetensors" for name in tensors(LLAMA)}}, out)
        with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as out:
            out.write("{}")
        line = f"weights are those of {read}, which transformers takes first; not read: {left}\n"
        for words in ("convert", "--to", "jotun", "--input", folder, "--output", folder + "-ours"), ("train", "--load", "hf:" + folder, "--data-path", data, *SHORT):
            assert said([line], *words).stderr.count(line) == 1, words
        for name in files:
            assert open(os.path.join(step(ours), name), "rb").read() == open(os.path.join(step(folder + "-ours"), name), "rb").read(), (read, name)
        assert files


def special_ids(work, data):
    """Ids that the vocabulary lacks are named, once; below 0 they mean that there is none."""
    folder = os.path.join(work, "far-ids")
    shutil.copytree(LLAMA, folder)
    keys = json_file(folder, "config.json")
    json.dump(dict(keys, eos_token_id=[256, 99999], pad_token_id=-1, bos_token_id=257), open(os.path.join(folder, "config.json"), "w"))
    line = "its vocabulary has no id as large as bos_token_id 257, eos_token_id 99999, which is not taken over"
    for words in ("convert", "--to", "jotun", "--input", folder, "--output", folder + "-ck"), ("train", "--load", "hf:" + folder, "--data-path", data, *SHORT):
        done = said([line], *words)
        assert done.stderr.count(line) == 1, done.stderr
    assert "no id as" not in jotun("convert", "--to", "jotun", "--input", LLAMA, "--output", folder + "-none").stderr
    own = os.path.join(work, "with-tokenizer")               # whose ids are written again
    os.remove(os.path.join(own, "generation_config.json"))
    for i, far in enumerate((99999, [0, 99999])):
        json.dump(dict(json_file(own, "config.json"), eos_token_id=far), open(os.path.join(own, "config.json"), "w"))
        said(["eos_token_id 99999"], "convert", "--to", "jotun", "--input", own, "--output", f"{folder}-own{i}")
        jotun("convert", "--to", "hf", "--input", f"{folder}-own{i}", "--output", f"{folder}-written{i}")
        for name in "config.json", "generation_config.json":
            assert json_file(f"{folder}-written{i}", name)["eos_token_id"] == 0, name


def other_inputs(work, data):
    """A file in place of its folder, and a checkpoint in place of a folder of transformers."""
    gguf_file, checkpoint = os.path.join(work, "none.gguf"), os.path.join(work, "none")
    shard = os.path.join(LLAMA, "model.safetensors")
    for path, words in (gguf_file, ["GGUF is written and not read"]), (shard, ["is a file; give the folder that has it"]):
        for more in [], ["--from", "hf"]:
            refused(1, ["--input " + path, *words], "convert", "--to", "jotun", "--input", path, "--output", path + "-no", *more)
    words = "a checkpoint of jotun, and no folder of transformers", "without hf:"
    refused(1, words, "train", "--load", "hf:" + checkpoint, "--data-path", data, *SHORT)


def positions(work, data):
    """A continued model keeps the positions it was made for, also when it is resumed, and has more where it was trained on more; of a
    new one a person says them."""
    at = lambda leaf: os.path.join(work, "positions" + leaf)
    for length in 16, 128:
        name = at(str(length))
        done = jotun("train", "--load", "hf:" + LLAMA, "--seq-length", length, "--data-path", data, *SHORT, "--save", name)
        assert done.stderr.count("--seq-length 128 is more than the 64 positions that the model of hf:") == (length > 64), done.stderr
        jotun("convert", "--to", "hf", "--input", name, "--output", name + "-hf")
        assert json_file(name + "-hf", "config.json")["max_position_embeddings"] == max(64, length), length
        jotun("convert", "--to", "gguf", "--input", name, "--output", name + ".gguf")
        assert gguf.Reader(name + ".gguf").keys["llama.context_length"] == max(64, length), length
    jotun("train", "--load", at("16"), *SHAPE, "--seq-length", 16, "--data-path", data, *SHORT, "--train-iters", 2, "--override-opt-param-scheduler",
          "--save", at("-resumed"))
    jotun("convert", "--to", "hf", "--input", at("-resumed"), "--output", at("-resumed-hf"))
    assert json_file(at("-resumed-hf"), "config.json")["max_position_embeddings"] == 64
    done = jotun("train", *SHAPE, "--seq-length", 16, "--max-position-embeddings", 48, "--data-path", data, *SHORT, "--save", at("-new"))
    assert "has no effect" not in done.stderr, done.stderr
    jotun("convert", "--to", "hf", "--input", at("-new"), "--output", at("-new-hf"), "--tokenizer", "bytes")
    assert json_file(at("-new-hf"), "config.json")["max_position_embeddings"] == 48
    assert json_file(at("-new-hf"), "tokenizer_config.json")["model_max_length"] == 48


def shapes(work, data):
    """The folder's config decides the shape, also where it does not name an option; layers of prediction are not in a folder."""
    train = ["train", "--load", "hf:" + LLAMA, "--data-path", data, *SHORT]
    for option, value, has in ("mtp-num-layers", "1", "0"), ("hidden-size", "32", "16"), ("embedding-multiplier", "2", "1"):
        text = refused(1, [f"--{option} {value}", "hf:" + LLAMA, f"has {has}", "own config decides the shape of the model", f"leave --{option} out"],
                       *train, f"--{option}", value)
        assert "--use-checkpoint-args" not in text, text


def submitted_again(work, data):
    """A run that began with another program's model is continued by the same command; --save of another run is refused as before."""
    saved, other, link = (os.path.join(work, "again" + leaf) for leaf in ("", "-other", "-link"))
    words = ["--data-path", data, *SHORT, "--train-iters", 6, "--lr", 1e-3, "--lr-decay-iters", 6]
    train = ["train", "--load", "hf:" + LLAMA, *words, "--metrics"]
    losses = lambda name: [(row["step"], row["loss"]) for row in map(json.loads, open(name))]
    jotun(*train, saved + "-whole.jsonl", "--log-interval", 1)
    line = f"of a run that began with --load hf:{LLAMA}: that run is continued"
    all_losses = []
    os.symlink(os.path.abspath(LLAMA), link)
    for number, stop, load in (0, 2, LLAMA), (1, 4, LLAMA), (2, 6, link):
        metrics = f"{saved}-{number}.jsonl"
        command = ["train", "--load", "hf:" + load, *words, "--log-interval", 1, "--save", saved, "--exit-interval", stop, "--metrics", metrics]
        told = jotun(*command, *["--finetune"] * (number == 1), *["--ranks", 2, "--tp", 2] * (number == 2)).stderr
        assert (f"--save {saved} holds step {stop - 2} {line.replace(LLAMA, load)}" in told) == (number > 0), told
        all_losses += losses(metrics)
    whole = losses(saved + "-whole.jsonl")
    assert [s for s, _ in all_losses] == [1, 2, 3, 4, 5, 6] and all(abs(a[1] - b[1]) < 1e-5 for a, b in zip(all_losses, whole)), (all_losses, whole)
    assert all_losses[:4] == whole[:4], (all_losses, whole)                  # the layout of the last one is another
    shutil.copytree(LLAMA, other)
    refused(1, ["of another run; give --load"], "train", "--load", "hf:" + other, *words, "--save", saved)
    shape = refused(1, ["--hidden-size 32", "was trained with 16"], *train, saved + "-no", "--save", saved, "--hidden-size", 32)
    assert "that run is continued" in shape, shape


def not_finite(work):
    """NaN and infinity are written as they are, with a line that counts them."""
    broken = os.path.join(work, "broken")
    os.mkdir(broken)
    json.dump(json_file(LLAMA, "config.json"), open(os.path.join(broken, "config.json"), "w"))
    data = bytearray(open(os.path.join(LLAMA, "model.safetensors"), "rb").read())
    (size,) = struct.unpack("<Q", data[:8])
    place = {n: t["data_offsets"] for n, t in json.loads(data[8:8 + size]).items() if n != "__metadata__"}
    first, last = "model.embed_tokens.weight", "model.norm.weight"
    for name, at, value in (first, 0, "nan"), (first, 40, "inf"), (first, -4, "-inf"), (last, 0, "nan"), (last, 4, "70000"):
        begin, end = place[name]
        where = 8 + size + (begin if at >= 0 else end) + at
        data[where:where + 4] = struct.pack("<f", float(value))
    open(os.path.join(broken, "model.safetensors"), "wb").write(data)
    line = "convert: warning: 3 elements of '%s' are NaN or infinite, as are %d of 1 other tensors"
    jotun_ck, out = broken + "-ck", broken + "-out"
    said([line % ("embed.token.weight", 1)], "convert", "--to", "jotun", "--input", broken, "--output", jotun_ck)
    said([line % (first, 1)], "convert", "--to", "hf", "--input", jotun_ck, "--output", out)
    assert tensors(out)[first][2] == tensors(broken)[first][2]
    said([line % (first, 2), "65504"], "convert", "--to", "hf", "--input", jotun_ck, "--output", out + "-f16", "--output-dtype", "f16")
    said([line % ("token_embd.weight", 1)], "convert", "--to", "gguf", "--input", jotun_ck, "--output", out + ".gguf")
    assert "warning" not in jotun("convert", "--to", "jotun", "--input", LLAMA, "--output", out + "-fine").stderr


def interrupted(work):
    """A signal after the last weights are written: what the message says is what happens. The process is held at a sync of the disk, of
    the file or folder before it gets its name, or of the name."""
    source = os.path.join(work, "none")
    for to, sync, named in ("gguf", 1, False), ("gguf", 2, False), ("gguf", 3, True), ("hf", 7, False), ("hf", 8, False), ("hf", 9, True):
        output = os.path.join(work, f"interrupted-{to}-{sync}")
        child = subprocess.Popen([run.JOTUN, "convert", "--to", to, "--input", source, "--output", output], stderr=subprocess.PIPE, text=True,
                                 env=dict(os.environ, JOTUN_FAULT=f"sync:{sync}:stop"))
        while open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGCONT)
        text = child.stderr.read()
        assert child.wait() == (0 if named else 130) and "removes what is not complete" in text, (child.returncode, text)
        assert ("nothing is written" in text) == (not named) and (f": {output}\n" in text) == named, text
        left = [name for name in os.listdir(work) if "interrupted" in name]
        assert left == [os.path.basename(output)] * named, left
        if named:
            (shutil.rmtree if to == "hf" else os.remove)(output)


def places(work):
    """What a killed conversion left is removed by the next one, but not what another one is writing; messages name --output."""
    source, output = os.path.join(work, "none"), os.path.join(work, "busy")
    words = ["convert", "--to", "hf", "--input", source, "--output", output]
    child = subprocess.Popen([run.JOTUN, *words], stderr=subprocess.DEVNULL, env=dict(os.environ, JOTUN_FAULT="sync:3:stop"))
    while open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.01)
    hidden = os.path.join(work, ".busy.part")
    refused(1, [f"--output {output}: another conversion is writing it"], *words)
    assert os.listdir(hidden)
    child.kill()
    child.wait()
    jotun(*words)
    assert not os.path.exists(hidden) and os.path.exists(os.path.join(output, "config.json"))
    for to in "hf", "gguf", "jotun":
        source_of = LLAMA if to == "jotun" else source
        text = refused(1, ["--output /proc/x: cannot be made"], "convert", "--to", to, "--input", source_of, "--output", "/proc/x")
        assert ".part" not in text, text
    text = refused(1, ["/proc/x: cannot be created"], "tokenizer", "train", "--input", os.path.join(work, "text.txt"), "--vocab-size", 260, "--output", "/proc/x")
    assert ".part" not in text, text
    cut = os.path.join(work, "cut")
    os.mkdir(cut)
    whole = open(os.path.join(LLAMA, "config.json")).read()
    open(os.path.join(cut, "config.json"), "w").write(whole[:len(whole) // 2])
    refused(1, [os.path.join(cut, "config.json"), "line ", "the file is cut off there; copy or download it again"], "convert", "--to", "jotun",
            "--input", cut, "--output", cut + "-no")
    text = refused(1, ["has no checkpoint, and --exit-on-missing-checkpoint was given"], "train", "--mock-data", *run.MODEL, "--train-iters", 1,
                   "--load", os.path.join(work, "absent"), "--exit-on-missing-checkpoint")
    assert "parameters" not in text, text                    # before memory is taken


def main(work):
    data, text = run.corpus(work), os.path.join(work, "text.txt")
    without_tokenizer(work, data, text)
    another_tokenizer(work, data, text)
    card(work, data)
    curve(work, data)
    stale(work, data)
    special_ids(work, data)
    other_inputs(work, data)
    positions(work, data)
    shapes(work, data)
    submitted_again(work, data)
    not_finite(work)
    interrupted(work)
    places(work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
