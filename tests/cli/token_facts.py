"""The file of facts beside a .bin and .idx: what prepare, data merge and data check write, that train, eval and data cat compare it
with the run, and that a pair without it, with another one's or in a directory that cannot be written is read as ever."""
import json
import os
import shutil
import struct
import sys

import run
from run import pair


def expect(what, right):
    if not right:
        sys.exit(what)


def refused(says, *words, code=1, **more):
    done = run.jotun(*words, check=False, **more)
    missing = [s for s in says if s not in done.stderr]
    expect(f"{words}: exit code {done.returncode}, wanted {code} and {missing} in:\n{done.stderr}", done.returncode == code and not missing)


def facts_of(prefix):
    return json.load(open(prefix + ".facts.json"))


def written(folder, data, tokenizer):
    """prepare: the counts are those of the text, which is bytes."""
    text = open(os.path.join(folder, "text.txt"), "rb").read()
    facts = facts_of(data)
    lines = text.count(b"\n")
    want = {"tokens": len(text), "sequences": lines, "documents": lines, "largest": 256}
    expect(f"facts of bytes: {facts}", {k: facts[k] for k in want} == want and facts["tokenizer"]["name"] == "bytes" and facts["options"]["append-eod"] is True)
    info = run.jotun("data", "info", data).stdout
    expect(f"data info: {info}", "tokenizer  bytes (v1: 257 ids" in info and "largest id 256" in info and '"append-eod":true' in info)
    run.jotun("prepare", "--input", os.path.join(folder, "text.txt"), "--tokenizer", tokenizer, "--output-prefix", os.path.join(folder, "other"))
    other = facts_of(os.path.join(folder, "other_text_document"))
    largest = max(int(i) for i in run.jotun("tokenizer", "encode", "--tokenizer", tokenizer, "--input", os.path.join(folder, "text.txt")).stdout.split())
    expect(f"facts of a tokenizer: {other}", other["largest"] == largest and other["tokenizer"]["name"] == tokenizer)


def compared(folder, data, tokenizer):
    train = ["train", *run.MODEL, "--train-iters", 2, "--data-path", data]
    run.jotun(*train, "--tokenizer", "bytes", "--save", os.path.join(folder, "ck"))
    refused(["was made by --tokenizer bytes (v1: 257 ids", f"has --tokenizer {tokenizer} (v1: 27", ".facts.json"], *train, "--tokenizer", tokenizer)
    refused(["its largest id is 256, and the model's vocabulary has 200", "--vocab-size 257 or more"], *train, "--tokenizer", "none", "--vocab-size", 200)
    done = run.jotun(*train, "--tokenizer", "none", "--vocab-size", 200, "--iterations-to-skip", 7, check=False)
    expect(f"with --iterations-to-skip: {done.stderr}", "largest id is 256, beyond the vocabulary of 200" in done.stderr)
    other = os.path.join(folder, "other_text_document")
    for words in (["eval", "perplexity", "--load", os.path.join(folder, "ck"), "--data-path", other], ["data", "cat", other]):
        refused([f"was made by --tokenizer {tokenizer}"], *words)
    run.jotun("data", "cat", other, "--tokenizer", tokenizer)
    run.jotun("eval", "perplexity", "--load", os.path.join(folder, "ck"), "--data-path", data)
    # the facts of another pair, and what is none: a line, and the pair is read as one without
    for facts in (open(other + ".facts.json").read(), "{", '{"format": "jotun tokens", "version": 1}', ""):
        stale = os.path.join(folder, "stale")
        for ending in ".bin", ".idx":
            shutil.copy(data + ending, stale + ending)
        open(stale + ".facts.json", "w").write(facts)
        done = run.jotun("train", *run.MODEL, "--train-iters", 1, "--data-path", stale, "--tokenizer", "bytes")
        expect(f"stale facts: {done.stderr}", f"{stale}.facts.json" in done.stderr and f"it is ignored: remove it, and jotun data check {stale} makes it again" in done.stderr)
        refused([f"remove {stale}.facts.json"], "data", "check", stale)


def foreign(folder):
    """A pair of another program: data check reads all of it and makes the facts."""
    prefix = os.path.join(folder, "foreign")
    pair(prefix, [[1, 2, 3] * 40, [7] * 50, [300, 5]])
    expect("data info of a pair without facts", "largest id 300" in run.jotun("data", "info", prefix).stdout)
    refused(["its largest id is 300, and --tokenizer bytes has 257 ids"], "data", "check", prefix, "--tokenizer", "bytes")
    said = run.jotun("data", "check", prefix).stdout
    expect(f"data check: {said}", "whole" in said and facts_of(prefix) | {"index": 0} == {
        "format": "jotun tokens", "version": 1, "tokens": 172, "sequences": 3, "documents": 3, "largest": 300, "index": 0})
    expect("a second data check", "as" in run.jotun("data", "check", prefix).stdout)
    with open(prefix + ".bin", "r+b") as out:                              # the index is as before
        out.write(struct.pack("<H", 301))
    refused(["its largest id is 300, and that of", "301"], "data", "check", prefix)
    wide = os.path.join(folder, "wide")
    pair(wide, [[70000, 1, 2], [65535]], code=4)
    run.jotun("data", "check", wide)
    expect("int32 tokens", facts_of(wide)["largest"] == 70000)
    pair(os.path.join(folder, "nothing"), [[]])
    run.jotun("data", "check", os.path.join(folder, "nothing"))
    with open(wide + ".idx", "r+b") as out:
        out.seek(34)
        out.write(struct.pack("<i", 4))
    refused([f"{wide}.idx: byte"], "data", "check", wide)


def merged(folder, data, tokenizer):
    text = os.path.join(folder, "text.txt")
    out = os.path.join(folder, "merged")
    run.jotun("data", "merge", data, data, "--output-prefix", out)
    one, two = facts_of(data), facts_of(out)
    expect(f"merged: {two}", two["tokens"] == 2 * one["tokens"] and two["documents"] == 2 * one["documents"] and
           two["tokenizer"] == one["tokenizer"] and two["options"] == one["options"] and two["largest"] == 256)
    run.jotun("data", "check", out)
    refused(["in one file an id has one meaning"], "data", "merge", data, os.path.join(folder, "other_text_document"), "--output-prefix", out)
    refused(["in one file an id has one meaning"], "data", "merge", data, "--tokenizer", tokenizer, "--output-prefix", out)
    part = os.path.join(folder, "part")
    pair(part, [[1, 2, 3]])
    done = run.jotun("data", "merge", data, part, "--output-prefix", out)
    expect(f"a part without facts: {done.stderr}", "names none" in done.stderr and "tokenizer" not in facts_of(out))
    run.jotun("data", "merge", data, part, "--tokenizer", "bytes", "--output-prefix", out)
    expect("a part whose tokenizer is named", facts_of(out)["tokenizer"]["name"] == "bytes")
    # nanoGPT's file of bare uint16
    raw = os.path.join(folder, "train.bin")
    open(raw, "wb").write(struct.pack("<600H", *([10, 20, 256] * 200)))
    for named in raw, raw[:-4]:
        refused([f"{raw} has no index", f"jotun data merge {raw} --tokenizer T"], "train", *run.MODEL, "--train-iters", 1, "--data-path", named)
    run.jotun("data", "merge", raw, "--tokenizer", "bytes", "--output-prefix", out)
    expect("nanoGPT's tokens", facts_of(out)["largest"] == 256 and facts_of(out)["documents"] == 200)
    run.jotun("train", *run.MODEL, "--train-iters", 1, "--data-path", out)
    expect("the text is as it was", os.path.getsize(text) > 0)


def a_step(folder):
    """Without facts an id beyond the vocabulary stops the step that reads it, whose message leads around it."""
    prefix = os.path.join(folder, "late")
    pair(prefix, [[1, 2, 3, 4] * 200] * 3 + [[1, 260] * 20])
    train = ["train", *run.MODEL, "--data-path", prefix, "--split", "1,0,0", "--train-iters", 9]
    done = run.jotun(*train, check=False)
    says = "outside of the vocabulary of 257"
    expect(f"an id beyond the vocabulary: {done.stderr}", done.returncode == 1 and says in done.stderr and "leaves that step out" in done.stderr)
    steps = []
    while done.returncode == 1 and len(steps) < 9:
        steps.append(int(done.stderr.split("--iterations-to-skip ")[1].split()[0]))
        done = run.jotun(*train, "--iterations-to-skip", *steps, check=False)
    expect(f"steps {steps} left out: {done.stderr}", done.returncode == 0 and len(set(steps)) == len(steps))


def read_only(folder, data):
    """Somebody else's directory: the pair is read, checked and trained on, and nothing is written there."""
    if os.geteuid() != 0:
        return
    place, home = os.path.join(folder, "theirs"), os.path.join(folder, "mine")
    for path in (place, home):
        os.mkdir(path)
        os.chmod(path, 0o755)
    os.chmod(folder, 0o755)
    os.chown(home, 65534, 65534)
    for ending in ".bin", ".idx":
        shutil.copy(data + ending, os.path.join(place, "p" + ending))

    own, run.JOTUN = run.JOTUN, shutil.copy(run.JOTUN, os.path.join(folder, "jotun"))         # which may be where nobody may look

    def nobody():
        os.setgroups([])
        os.setuid(65534)

    more = {"cwd": home, "preexec_fn": nobody}
    said = run.jotun("data", "check", os.path.join(place, "p"), **more).stdout
    expect(f"data check without the right to write: {said}", "whole" in said and "cannot be" in said)
    run.jotun("train", *run.MODEL, "--train-iters", 1, "--data-path", os.path.join(place, "p"), **more)
    run.JOTUN = own
    expect("nothing is written beside the data", sorted(os.listdir(place)) == ["p.bin", "p.idx"])


def main():
    run.JOTUN = os.path.abspath(run.JOTUN)
    with run.work_folder() as folder:
        data = run.corpus(folder)
        tokenizer = os.path.join(folder, "learned.json")
        run.jotun("tokenizer", "train", "--input", os.path.join(folder, "text.txt"), "--vocab-size", 280, "--output", tokenizer)
        written(folder, data, tokenizer)
        compared(folder, data, tokenizer)
        foreign(folder)
        merged(folder, data, tokenizer)
        a_step(folder)
        read_only(folder, data)
        print("facts beside token files: written, compared, made for others, and never needed")
    return 0


sys.exit(main())
