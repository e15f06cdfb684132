"""jotun prepare and jotun data merge against pairs written here from the text of the format, byte by byte:
    prepare.py JOTUN [--numpy] [--megatron]
Twenty corpora: empty documents, one and many keys, every packing, standard input, broken lines passed over, and merges,
of int32 as well, whose parts are written here; and three of a vocabulary of 70,000, whose ids are int32, merged here one
pair after the other. With --numpy the pairs are written by numpy instead of struct, with --megatron by
megatron-core's IndexedDatasetBuilder, if it is installed."""
import base64
import bz2
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

JOTUN = os.path.abspath(sys.argv[1])
NUMPY = "--numpy" in sys.argv
MEGATRON = "--megatron" in sys.argv
EOD = 256
failures = 0


def arrays(kinds):
    """Each (letter, values) as little-endian numbers"""
    if NUMPY:
        import numpy
        return b"".join(numpy.array(values, dtype={"H": "<u2", "i": "<i4", "q": "<i8"}[k]).tobytes() for k, values in kinds)
    return b"".join(struct.pack("<%d%s" % (len(values), k), *values) for k, values in kinds)


def pair_by_megatron(documents, wide):
    import numpy
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    builder = IndexedDatasetBuilder("megatron.bin", dtype=numpy.int32 if wide else numpy.uint16)
    for d in documents:
        builder.add_document([i for s in d for i in s], [len(s) for s in d])
    builder.finalize("megatron.idx")
    return tuple(open("megatron" + ending, "rb").read() for ending in (".bin", ".idx"))


def pair(documents, wide=False):
    """documents: lists of sequences, each a list of ids"""
    if MEGATRON:
        return pair_by_megatron(documents, wide)
    lengths = [len(s) for d in documents for s in d]
    size, letter = (4, "i") if wide else (2, "H")
    pointers, entries, at = [], [0], 0
    for length in lengths:
        pointers.append(at)
        at += length * size
    for d in documents:
        entries.append(entries[-1] + len(d))
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4 if wide else 8, len(lengths), len(entries))
    return (arrays([(letter, [i for d in documents for s in d for i in s])]),
            head + arrays([("i", lengths), ("q", pointers), ("q", entries)]))


def bytes_document(text, eod):
    ids = list(text.encode())
    return [ids + [EOD] * eod] if ids else []


def same(name, prefix, want):
    global failures
    for ending, data in zip((".bin", ".idx"), want):
        got = open(prefix + ending, "rb").read() if os.path.exists(prefix + ending) else None
        if got != data:
            print("%s: %s%s differs: %s bytes, %d wanted" % (name, prefix, ending, got and len(got), len(data)))
            failures += 1


def jotun(*words, stdin=None):
    global failures
    done = subprocess.run([JOTUN, *words], input=stdin, stderr=subprocess.PIPE)
    if done.returncode:
        print(" ".join(words), done.stderr.decode())
        failures += 1


def pack(data, ending):
    if ending == "gz":
        cut = len(data) // 3                      # two members
        return gzip.compress(data[:cut]) + gzip.compress(data[cut:])
    if ending == "bz2":
        cut = len(data) // 2
        return bz2.compress(data[:cut]) + bz2.compress(data[cut:])
    if ending == "zst":
        return subprocess.run(["zstd", "-q"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def text(draw):
    return "".join(draw.choice('abc å\n"\\/\t€😀\x7f\u0000') for _ in range(draw.choice((0, 0, 1, 7, 300, 5000))))


def corpus(number):
    """Rows of {key: text}, and how they are told to jotun"""
    draw = random.Random(number)
    keys = [["text"], ["text"], ["body", "text"], ["c", "a", "b"]][number % 4]
    rows = [{k: text(draw) for k in keys + ["id"]} for _ in range(draw.choice((1, 40, 400)))]
    lines = [json.dumps(row, ensure_ascii=draw.random() < 0.5, separators=draw.choice(((",", ":"), (", ", ": ")))) for row in rows]
    skip = number % 5 == 3
    if skip:
        for _ in range(3):
            lines.insert(draw.randrange(len(lines)), draw.choice(('{"text": "cut', '[1]', '{"id": 1}', "nothing")))
    data = draw.choice(("\n", "\r\n")).join(lines).encode() + draw.choice((b"", b"\n"))
    endings = ["", "gz", "bz2"] + ["zst"] * bool(shutil.which("zstd"))
    return keys, rows, data, endings[number % len(endings)], skip


def prepare_check(number):
    keys, rows, data, ending, skip = corpus(number)
    name, eod, prefix = "corpus %d" % number, number % 2, "p%d" % number
    packed = pack(data, ending)
    words = ["prepare", "--output-prefix", prefix, "--workers", str(1 + number % 3), "--json-keys", *keys]
    words += ["--append-eod"] * eod + ["--on-error", "skip"] * skip
    if number % 6 == 5:
        jotun(*words, "--input", "-", stdin=packed)
    else:
        files = ["in%d.jsonl%s" % (number, ending and "." + ending)] * (1 + number % 2)     # twice: parts in order
        open(files[0], "wb").write(packed)
        rows = rows * len(files)
        jotun(*words, "--input", *files)
    for key in keys:
        same(name, "%s_%s_document" % (prefix, key), pair([bytes_document(row[key], eod) for row in rows]))


def merge_check(number):
    draw, wide, parts, names = random.Random(number), number % 2 == 0, [], []
    for part in range(1 + number):
        documents = [[[draw.randrange(60000) + 70000 * wide for _ in range(draw.randrange(1, 50))] for _ in range(draw.choice((0, 1, 1, 3)))]
                     for _ in range(draw.choice((0, 1, 30)))]
        names.append("part%d_%d" % (number, part))
        for ending, data in zip((".bin", ".idx"), pair(documents, wide)):
            open(names[-1] + ending, "wb").write(data)
        parts += documents
    jotun("data", "merge", *names, "--output-prefix", "merged%d" % number)
    same("merge %d" % number, "merged%d" % number, pair(parts, wide))


# ---- a vocabulary above 65,500: all single bytes, all pairs of them, and words of four letters ----

def wide_vocabulary():
    tokens = [bytes([a]) for a in range(256)] + [bytes([a, b]) for a in range(256) for b in range(256)]
    words = [(b"abcdefghijklm" + b" ")[i % 14:i % 14 + 1] + bytes(97 + i // 14 // 26 ** k % 26 for k in range(3)) for i in range(70000 - len(tokens))]
    tokens += words
    assert len(set(tokens)) == 70000
    with open("gpt2_wide.tiktoken", "w") as out:
        for rank, token in enumerate(tokens):
            out.write("%s %d\n" % (base64.b64encode(token).decode(), rank))
    return {token: rank for rank, token in enumerate(tokens)}


def word_ids(ranks, word):
    """A word that is a token, else neighbours of the lowest rank first, the leftmost of equals."""
    if word in ranks:
        return [ranks[word]]
    parts = [word[i:i + 1] for i in range(len(word))]
    while True:
        near = [(ranks.get(a + b, 1 << 30), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        if not near or min(near)[0] == 1 << 30:
            return [ranks[p] for p in parts]
        at = min(near)[1]
        parts[at:at + 2] = [parts[at] + parts[at + 1]]


def wide_check(number, ranks):
    draw, eod, name = random.Random(100 + number), number % 2, "wide %d" % number
    texts = [" ".join("".join(draw.choice("abcdefgåж"[:6 + number]) for _ in range(draw.randrange(1, 9)))
                      for _ in range(draw.choice((0, 1, 40)))) for _ in range(200)]
    with open("wide.jsonl", "w") as out:
        out.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    documents = []
    for text in texts:
        ids = [i for word in re.findall(r" ?\w+", text) for i in word_ids(ranks, word.encode())]
        documents.append([ids + [70000] * eod] if ids else [])
    assert max(i for d in documents for s in d for i in s) > 65535
    jotun("prepare", "--input", "wide.jsonl", "--tokenizer", "gpt2_wide.tiktoken", "--output-prefix", "w%d" % number, *["--append-eod"] * eod)
    same(name, "w%d_text_document" % number, pair(documents, True))
    said = subprocess.run([JOTUN, "data", "cat", "w%d_text_document" % number, "--tokenizer", "gpt2_wide.tiktoken"], stdout=subprocess.PIPE)
    if said.stdout.decode().split("\n")[:-1] != texts:
        global failures
        print("%s: data cat does not give the texts" % name)
        failures += 1


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for number in range(20):
        prepare_check(number)
    for number in range(5):
        merge_check(number)
    ranks = wide_vocabulary()
    for number in range(3):
        wide_check(number, ranks)
    print("20 corpora, 5 merges and 3 corpora of int32, %d differences" % failures)
sys.exit(failures > 0)
