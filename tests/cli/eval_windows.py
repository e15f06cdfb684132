"""jotun eval perplexity --window-overlap beside a reckoning of its own: the loss of each window of Megatron-LM's --overlapping-eval is that of
its text alone, evaluated in one piece, less that of the targets which the windows before it have counted. A window without
targets is refused, and what is said of a loss that is not finite is true."""
import json
import os
import struct
import sys

import run

SEQUENCE = 12
TEXT = "It was a bright cold day in April, and the clocks were striking."


def nats(load, text, overlap=0, *more):
    """The sum of the losses of all targets of the text, and their number."""
    path = os.path.join(os.path.dirname(load), "text.txt")
    with open(path, "w") as out:
        out.write(text)
    said = json.loads(run.jotun("eval", "perplexity", "--load", load, "--text", path, "--device", "ref", "--threads", 1, "--window-overlap", overlap, *more).stdout)
    return said["loss"] * said["tokens"], said["tokens"]


def reckoned(load, overlap):
    stride, sum_, targets = SEQUENCE - overlap, 0, 0
    for k in range(len(TEXT)):
        window = TEXT[k * stride:k * stride + SEQUENCE + 1]                       # so many predictions and one id more
        counted = 0 if k == 0 else overlap
        if len(window) - 1 <= counted:
            break
        sum_ += nats(load, window)[0] - (nats(load, window[:counted + 1])[0] if counted else 0)
        targets += len(window) - 1 - counted
        if k * stride + SEQUENCE + 1 >= len(TEXT):
            break
    return sum_, targets


def with_head(folder, load, value):
    """A folder of Hugging Face whose output layer has 5 elements of this value."""
    hf = os.path.join(folder, f"hf{value}")
    run.jotun("convert", "--input", load, "--to", "hf", "--output", hf, "--tokenizer", "bytes", "--output-dtype", "f32")
    path = os.path.join(hf, "model.safetensors")
    data = bytearray(open(path, "rb").read())
    size = struct.unpack("<Q", data[:8])[0]
    name = next(n for n in json.loads(data[8:8 + size]) if n.endswith(("lm_head.weight", "wte.weight")))
    at = 8 + size + json.loads(data[8:8 + size])[name]["data_offsets"][0] + 4 * 32 * ord("a")
    data[at:at + 20] = struct.pack("<5f", *[value] * 5)
    open(path, "wb").write(data)
    return hf


def refused(says, *words):
    done = run.jotun("eval", "perplexity", *words, check=False)
    if done.returncode != 1 or says not in done.stderr:
        sys.exit(f"{words}: exit code {done.returncode}, wanted 1 and \"{says}\" in {done.stderr}")


with run.work_folder() as folder:
    load = os.path.join(folder, "ck")
    data = run.corpus(folder)
    train = ["train", "--data-path", data, *run.MODEL, "--seq-length", SEQUENCE, "--train-iters", 2, "--tokenizer", "bytes"]
    run.jotun(*train, "--save", load)
    for overlap in 0, 1, SEQUENCE // 2, SEQUENCE - 2, SEQUENCE - 1:
        found, tokens = nats(load, TEXT, overlap)
        wanted, targets = reckoned(load, overlap)
        if tokens != targets or targets != len(TEXT) - 1 or abs(found - wanted) > 1e-9 * wanted:
            sys.exit(f"overlap {overlap}: {found} nats of {tokens} tokens, and by windows alone {wanted} of {targets}")
    text = os.path.join(folder, "text.txt")
    for words, window in ((["--window-overlap", SEQUENCE], SEQUENCE), (["--window-overlap", SEQUENCE + 1], SEQUENCE), (["--window-overlap", 999], SEQUENCE),
                          (["--context-window", 1, "--window-overlap", 1], 1)):
        refused(f"--window-overlap {words[-1]} leaves no token of a window of {window} (--context-window {window}", "--load", load, "--text", text, *words)
    refused("--window-overlap 12 leaves no token", "--load", load, "--data-path", data, "--sample-break-mode", "none", "--window-overlap", 12)
    for value, says in ((float("nan"), "is not finite: 5 of its weights are NaN or infinite; load an earlier checkpoint"),
                        (3e38, "is not finite, though all its weights are finite numbers: activations exceed the range of fp32\n")):
        refused(says, "--load", "hf:" + with_head(folder, load, value), "--text", text, "--tokenizer", "bytes")
