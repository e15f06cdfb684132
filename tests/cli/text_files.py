"""Texts as they lie on disks: UTF-16 and UTF-32 by their byte order marks, other encodings by name, and what is none of these named
with file, line and byte, by every command that reads texts; Python's NaN and Infinity in JSON; zstd's long windows; prompts of ids
without a tokenizer. Expected texts are made by Python's codecs."""
import gzip
import json
import os
import random
import shutil
import subprocess
import sys

import run

MARKED = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0", "utf-32-be": b"\0\0\xfe\xff", "utf-8": b"\xef\xbb\xbf"}
NAMED = {"latin1": "caf\xe9 \xfcber\n\xa7 two\n", "cp1252": "\u201cquoted\u201d \u20ac\n", "shift_jis": "\u65e5\u672c\u8a9e text\n\u30c6\u30b9\u30c8\n",
         "euc_kr": "\ud55c\uad6d\uc5b4\n", "koi8_r": "\u0440\u0443\u0441\u0441\u043a\u0438\u0439\n", "utf-16-le": "no mark\n\u00e5\n", "iso2022_jp": "\u65e5\u672c a\n\u8a9e"}
ICONV = {"iso2022_jp": "ISO-2022-JP", "shift_jis": "SHIFT_JIS", "koi8_r": "KOI8-R", "euc_kr": "EUC-KR"}


def expect(what, right):
    if not right:
        sys.exit(what)


def put(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as out:
        out.write(data)
    return path


def refused(says, *words, code=1, **more):
    done = run.jotun(*words, check=False, **more)
    missing = [s for s in says if s not in done.stderr]
    expect(f"{words}: exit code {done.returncode}, wanted {code} and {missing} in:\n{done.stderr}", done.returncode == code and not missing)


def documents(folder, path, *more):
    """What prepare makes of a file: its documents."""
    prefix = os.path.join(folder, "out")
    run.jotun("prepare", "--input", path, "--output-prefix", prefix, *more)
    return run.jotun("data", "cat", prefix + "_text_document").stdout


def some_text(seed, lines):
    """Letters of one to four bytes, and lines longer and shorter than buffers."""
    rng = random.Random(seed)
    letters = "abc xyz\u00e5\u00f6\u4e2d\u6587\u0416\U0001f600\U00010348"
    return "".join("".join(rng.choice(letters) for _ in range(rng.choice([1, 7, 100, 3000]))).strip() + "|\n" for _ in range(lines))


def marked(folder):
    for codec, mark in MARKED.items():
        for lines in 3, 400:
            text = some_text(lines, lines)
            data = mark + text.encode(codec)
            expect(f"{codec}, {lines} lines", documents(folder, put(folder, "m.txt", data)) == text)
            expect(f"{codec}, {lines} lines, packed", documents(folder, put(folder, "m.txt.gz", gzip.compress(data, 1))) == text)
        rows = [{"text": "a\u00e5\U0001f600", "n": 1}, {"text": "two"}]
        data = mark + "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode(codec)
        expect(f"{codec} JSON", documents(folder, put(folder, "m.jsonl", data)) == "a\u00e5\U0001f600\ntwo\n")
        done = run.jotun("prepare", "--input", "-", "--output-prefix", os.path.join(folder, "std"), check=False, input=None, stdin=open(os.path.join(folder, "m.jsonl"), "rb"))
        expect(f"{codec} on standard input: {done.stderr}", "2 documents" in done.stderr)
    run.jotun("clean", "--input", put(folder, "c.txt", MARKED["utf-16-le"] + "One line of words \u00e5.\n".encode("utf-16-le")), "--output", os.path.join(folder, "c.jsonl"))
    expect("clean", json.loads(open(os.path.join(folder, "c.jsonl")).read())["text"] == "One line of words \u00e5.")


def named(folder):
    for codec, text in NAMED.items():
        path = put(folder, "n.txt", text.encode(codec))
        said = documents(folder, path, "--input-encoding", ICONV.get(codec, codec.replace("-le", "le")))
        expect(f"--input-encoding {codec}: {said!r}", said == text.rstrip("\n") + "\n")
    for codec, mark in MARKED.items():
        path = put(folder, "marked.txt", mark + text.encode(codec))
        if codec != "utf-16-le":
            refused(["--input-encoding says utf-16le"], "prepare", "--input", path, "--output-prefix", os.path.join(folder, "x"), "--input-encoding", "utf-16le")
        refused([f"{path}:1: it begins with the byte order mark of {codec.upper().replace('-LE', 'LE').replace('-BE', 'BE')}", "--input-encoding says latin1"],
                "prepare", "--input", path, "--output-prefix", os.path.join(folder, "x"), "--input-encoding", "latin1")
    for name in "klingon", "latin1//IGNORE", "latin1//TRANSLIT":
        refused([f"--input-encoding {name}: this system's C library knows no such encoding"], "prepare", "--input", path, "--output-prefix", os.path.join(folder, "x"), "--input-encoding", name)


def broken(folder):
    latin = put(folder, "b.txt", b"one\ncaf\xe9 two\n")
    out = os.path.join(folder, "x")
    says = [f"{latin}:2: byte 3 of the line is 0xE9, which is not UTF-8; --input-encoding names another encoding"]
    refused(says, "prepare", "--input", latin, "--output-prefix", out)
    refused(says, "tokenizer", "train", "--input", latin, "--vocab-size", 300, "--output", out + ".json")
    done = run.jotun("prepare", "--input", latin, "--output-prefix", out, "--on-error", "skip")
    expect("--on-error skip", says[0] in done.stderr and "1 documents" in done.stderr)
    expect("a NUL is a character", documents(folder, put(folder, "nul.txt", b"a\0b c\n")) == "a\0b c\n")
    run.jotun("tokenizer", "train", "--input", latin, "--input-encoding", "latin1", "--vocab-size", 260, "--output", out + ".json")
    for data, line, what in ((b"\xff\xfea\0\n\0b\0\0\xd8c\0", 2, "begins no character in UTF-16LE"), (b"\xff\xfea\0\n\0b\0\x00\xd8", 2, "cut off in UTF-16LE"),
                             (b"\xfe\xff\0a\0", 1, "cut off in UTF-16BE"), (b"\xff\xfe\0\0a\0\0\0\0\0\x11\0", 1, "begins no character in UTF-32LE")):
        path = put(folder, "w.txt", data)
        refused([f"{path}:{line}: byte ", what], "prepare", "--input", path, "--output-prefix", out)
    path = put(folder, "unmarked.txt", "plain words\n".encode("utf-16-le"))
    refused([f"{path}:1: byte 1 is a NUL", "--input-encoding UTF-16LE"], "prepare", "--input", path, "--output-prefix", out)
    path = put(folder, "cut.txt.gz", gzip.compress(b"\xff\xfe" + ("word \u00e5\n" * 90000).encode("utf-16-le"))[:-300])
    refused([f"{path}: byte"], "prepare", "--input", path, "--output-prefix", out)


def json_of_python(folder):
    path = put(folder, "nan.jsonl", (json.dumps({"text": "kept", "score": float("nan")}) + "\n" + json.dumps({"more": [float("inf"), float("-inf"), -1], "text": "kept too"}) + "\n").encode())
    expect("NaN", documents(folder, path) == "kept\nkept too\n")
    for word in "nan", "-NaN", "Inf", "+Infinity", "Infinityx", "-Inf":
        refused(["not a JSON object at byte"], "prepare", "--input", put(folder, "bad.jsonl", b'{"text": "a", "x": %s}\n' % word.encode()), "--output-prefix", os.path.join(folder, "x"))
    refused(["the value of the key is not a string"], "prepare", "--input", put(folder, "bad.jsonl", b'{"text": NaN}\n'), "--output-prefix", os.path.join(folder, "x"))


def windows(folder):
    """Frames that zstd --long=31 writes for a text whose size it does not know."""
    zstd = shutil.which("zstd")
    if not zstd:
        print("no zstd here: long windows are not tried")
        return
    text = "".join(f'{{"text": "document {i}"}}\n' for i in range(50)).encode()
    for log in 28, 31:
        data = subprocess.run([zstd, "-q", "--ultra", f"--long={log}", "-c"], input=text, capture_output=True, check=True).stdout
        path = put(folder, f"w{log}.jsonl.zst", data + data)                           # two frames
        refused(["whose window is above the limit of 2^27 bytes", "--zstd-window-log N"], "prepare", "--input", path, "--output-prefix", os.path.join(folder, "x"))
        expect(f"a window of 2^{log}", documents(folder, path, "--zstd-window-log", log).count("document") == 100)
        run.jotun("clean", "--input", path, "--zstd-window-log", log, "--output", os.path.join(folder, f"w{log}.jsonl"))


def with_a_model(folder):
    """eval --text, prompt files and langid's lines are texts as well."""
    out = os.path.join(folder, "ck")
    data = run.corpus(folder)
    run.jotun("train", "--data-path", data, *run.MODEL, "--train-iters", 2, "--save", out)
    text = "in the ra \u00e5 jo tun sees of the\n" * 3
    losses = set()
    for name, encoded, more in (("e.txt", text.encode(), []), ("e16.txt", MARKED["utf-16-be"] + text.encode("utf-16-be"), []),
                                ("e8.txt", MARKED["utf-8"] + text.encode(), []), ("e1.txt", text.encode("latin1"), ["--input-encoding", "latin1"])):
        result = json.loads(run.jotun("eval", "perplexity", "--load", out, "--text", put(folder, name, encoded), *more).stdout)
        losses.add(result["loss"])
        said = run.jotun("generate", "--load", out, "--prompt-file", os.path.join(folder, name), "--max-new-tokens", 1, "--temperature", 0, *more).stdout
        losses.add(said)
    expect(f"the same text in four encodings: {losses}", len(losses) == 2)
    latin = os.path.join(folder, "e1.txt")
    for words in (["eval", "perplexity", "--text"], ["generate", "--prompt-file"]):
        refused([f"{latin}:1: byte 10 of the text is 0xE5, which is not UTF-8"], *words, latin, "--load", out)
    refused(["--input-encoding latin1 is of a file that is read as text"], "eval", "perplexity", "--load", out, "--data-path", data, "--input-encoding", "latin1", code=2)


def ids_without_a_tokenizer(folder):
    out = os.path.join(folder, "ids")
    data = os.path.join(folder, "text_text_document")
    run.jotun("train", "--data-path", data, *run.MODEL, "--vocab-size", 257, "--tokenizer", "none", "--train-iters", 2, "--save", out)
    prompts = put(folder, "i.jsonl", b'{"ids": [1, 2, 3]}\n{"ids": [256], "logprobs": 2}\n')
    generate = ["generate", "--load", out, "--max-new-tokens", 3, "--temperature", 0]
    rows = [json.loads(line) for line in run.jotun(*generate, "--prompt-jsonl", prompts).stdout.splitlines()]
    expect(f"ids: {rows}", len(rows) == 2 and all(len(r["ids"]) == 3 and max(r["ids"]) < 257 and "text" not in r for r in rows) and len(rows[1]["logprobs"]) == 3)
    # the same weights with a tokenizer: the same ids
    with_bytes = os.path.join(folder, "with_bytes")
    run.jotun("train", "--data-path", data, *run.MODEL, "--vocab-size", 257, "--tokenizer", "bytes", "--train-iters", 2, "--save", with_bytes)
    again = [json.loads(line) for line in run.jotun("generate", "--load", with_bytes, "--max-new-tokens", 3, "--temperature", 0, "--prompt-jsonl", put(folder, "j.jsonl", b'{"ids": [1, 2, 3]}\n')).stdout.splitlines()]
    expect(f"{again} beside {rows[0]}", again[0]["ids"] == rows[0]["ids"])
    run.jotun(*generate, "--prompt-jsonl", prompts, "--save-logits", os.path.join(folder, "logits"))
    refused(["which is text, and there is no tokenizer", '"ids"'], *generate, "--prompt-jsonl", put(folder, "k.jsonl", b'{"prompt": "a"}\n'))
    refused(["has a stop, which is text"], *generate, "--prompt-jsonl", put(folder, "k.jsonl", b'{"ids": [1], "stop": "a"}\n'))
    refused(["the id 257"], *generate, "--prompt-jsonl", put(folder, "k.jsonl", b'{"ids": [257]}\n'))
    refused(["lines of --prompt-jsonl do without one"], *generate, "--prompt", "a")


def main():
    with run.work_folder() as folder:
        marked(folder)
        named(folder)
        broken(folder)
        json_of_python(folder)
        windows(folder)
        with_a_model(folder)
        ids_without_a_tokenizer(folder)
        print("texts: byte order marks, named encodings, broken bytes, Python's JSON, long windows, ids without a tokenizer")
    return 0


sys.exit(main())
