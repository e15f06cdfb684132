#!/usr/bin/env python3
"""A Llama-3-like and a Qwen2-like tokenizer on many languages, against tokenizers and tiktoken:

    mixed.py JOTUN           jotun prepare's ids against tests/golden/text/mixed.json; 5 MB of ../shared/data where that is, else
                             and besides 0.4 MB made here
    mixed.py --golden        makes the tokenizers (trained on ../shared/data) and mixed.json anew:
                             pip install tokenizers==0.23.3 tiktoken==0.14.0

The pipelines are those of the published files: Split by the regular expression, ByteLevel, ignore_merges (Llama 3), NFC (Qwen2). The
third tokenizer is cl100k_base's ranks, but for the last, cut by Llama 3's pattern: 100,255 tokens, and int32 ids.
"""
import base64
import glob
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "..", "shared", "data")
GOLDEN = os.path.join(HERE, "..", "golden", "text")
RANKS = os.path.join(SHARED, "gpt2", "cl100k_base.tiktoken")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BLOCKS = [(0x20, 0x7E), (0xA0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x621, 0x64A), (0x660, 0x669), (0x905, 0x939), (0x966, 0x96F),
          (0xE01, 0xE3A), (0x1100, 0x11FF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x300, 0x36F), (0x1F600, 0x1F64F),
          (0x2000, 0x206F), (0x2150, 0x2188), (0x20A0, 0x20BD), (0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0x1D400, 0x1D454), (0x10330, 0x1034A), (0xE0001, 0xE007F)]
PARTS = ["'s", "'LL", "don't", " ", "  ", "\n", "\r\n", "\n\n", "\t", "\u3000", "1234567", "½", " the", "The", "camelCase", "a\u0301", "e\u0323\u0301", "...", "->", "//", "_x",
         "<|endoftext|>", "ſ", "'ſ", "\x00", "\x7f", "\u200d"]


class Draw:
    """What random.random gives is the same in every Python."""
    def __init__(self, seed):
        self.next = random.Random(seed).random

    def of(self, row):
        return row[int(self.next() * len(row))]

    def between(self, low, high):
        return low + int(self.next() * (high + 1 - low))


def odd_documents(size, seed):
    draw, made = Draw(seed), 0
    while made < size:
        text = ""
        while len(text) < draw.between(1, 3000):
            low, high = draw.of(BLOCKS)
            for _ in range(draw.between(1, 12)):
                text += chr(draw.between(low, high))
            text += draw.of(PARTS) * draw.of((1, 1, 1, 2, 40))
        made += len(text.encode())
        yield text


def cut(lines, size, many):
    held, made = [], 0
    for line in lines:
        held.append(line)
        made += len(line.encode())
        if len(held) == many or made > size:
            yield "\n".join(held)
            held = []
        if made > size:
            return


def read(*name):
    return open(os.path.join(SHARED, *name), encoding="utf-8", newline="").read()


def shared_documents():
    for path in sorted(glob.glob(os.path.join(SHARED, "ud", "*.txt"))):
        yield from cut(read("ud", os.path.basename(path)).split("\n"), 120000, 25)
    for name in ("en.head", "no.head", "sv"):
        chapters = (json.loads(line)["text"] for line in open(os.path.join(SHARED, "eltec", name + ".chapters.jsonl"), encoding="utf-8"))
        yield from cut((text[at:at + 8000] for text in chapters for at in range(0, len(text), 8000)), 520000, 1)
    yield from cut(read("wikitext-2", "valid.txt").split("\n"), 520000, 40)
    yield from odd_documents(520000, 2)


def documents(corpus):
    return list(shared_documents() if corpus == "shared" else odd_documents(400000, 1))


def sums(ids_of_documents):
    """Tokens, a sum over all and one of each document"""
    packed = [struct.pack("<%di" % len(ids), *ids) for ids in ids_of_documents]
    return {"tokens": sum(len(p) for p in packed) // 4, "sha256": hashlib.sha256(b"".join(packed)).hexdigest(),
            "documents": "".join("%08x" % zlib.crc32(p) for p in packed)}


# ---- the goldens ----

def trained(pattern, whole, normalizer, special, texts):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE(ignore_merges=whole))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=3000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    data = json.loads(t.to_str())
    if whole:                                           # some tokens by no merge, as a published vocabulary has them
        data["model"]["merges"] = [m for i, m in enumerate(data["model"]["merges"]) if i < 1000 or i % 20]
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return t


def write_tokenizers():
    from tokenizers import normalizers
    texts = documents("shared")
    made = {"mixed_llama3.json": trained(LLAMA3, True, None, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], texts),
            "mixed_qwen2.json": trained(QWEN2, False, normalizers.NFC(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], texts)}
    for name, t in made.items():
        t.encode_special_tokens = True                  # in a text they are text
        with open(os.path.join(GOLDEN, name), "w") as out:
            json.dump(json.loads(t.to_str()), out, ensure_ascii=False, separators=(",", ":"))
            out.write("\n")
    return {name: lambda text, t=t: t.encode(text, add_special_tokens=False).ids for name, t in made.items()}


def ranks_written(path):
    lines = open(RANKS).read().split("\n")[:-2]
    with open(path, "w") as out:
        out.writelines(line + "\n" for line in lines)
    return {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines}


def golden():
    import tiktoken
    encoders = write_tokenizers()
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as file:
        ranks = ranks_written(file.name)
    encoders["llama3_wide.tiktoken"] = tiktoken.Encoding("wide", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={}).encode_ordinary
    rows = {}
    for corpus in ("shared", "made"):
        texts = documents(corpus)
        rows[corpus] = {"bytes": sum(len(t.encode()) for t in texts)}
        for name, encode in encoders.items():
            if corpus == "shared" or name != "llama3_wide.tiktoken":
                rows[corpus][name] = sums(map(encode, texts))
    with open(os.path.join(GOLDEN, "mixed.json"), "w") as out:
        json.dump(rows, out, indent=1)
        out.write("\n")


# ---- the test ----

def pair_ids(prefix):
    index, data = open(prefix + ".idx", "rb").read(), open(prefix + ".bin", "rb").read()
    code, count = struct.unpack_from("<BQ", index, 17)
    width, letter = (4, "i") if code == 4 else (2, "H")
    at = 0
    for length in struct.unpack_from("<%di" % count, index, 34):
        yield struct.unpack_from("<%d%s" % (length, letter), data, at * width)
        at += length


def wrong(name, got, want):
    if got == want:
        return 0
    rows = [(i, got["documents"][8 * i:8 * i + 8], want["documents"][8 * i:8 * i + 8]) for i in range(len(want["documents"]) // 8)]
    first = next((i for i, a, b in rows if a != b), len(rows))
    print(f"{name}: {got['tokens']} tokens, {want['tokens']} wanted; the first document that differs: {first}")
    return 1


def check(jotun, folder, corpus, want):
    texts, failures = documents(corpus), 0
    if sum(len(t.encode()) for t in texts) != want["bytes"]:
        sys.exit(f"{corpus}: not the texts the goldens were made of")
    with open(os.path.join(folder, "texts.jsonl"), "w") as out:
        out.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    for name in (name for name in want if name != "bytes"):
        path = os.path.join(GOLDEN if name.endswith(".json") else folder, name)
        if name.endswith(".tiktoken"):
            ranks_written(path)
        prefix = os.path.join(folder, "p")
        subprocess.run([jotun, "prepare", "--input", os.path.join(folder, "texts.jsonl"), "--tokenizer", path, "--output-prefix", prefix], check=True,
                       capture_output=True)
        failures += wrong(f"{corpus}, {name}", sums(pair_ids(prefix + "_text_document")), want[name])
        if "qwen2" not in name:                         # NFC does not come back
            said = subprocess.run([jotun, "data", "cat", prefix + "_text_document", "--tokenizer", path], check=True, capture_output=True).stdout
            if said != "".join(text + "\n" for text in texts).encode():
                print(f"{corpus}, {name}: data cat does not give the texts")
                failures += 1
    return failures


def test(jotun):
    want, failures = json.load(open(os.path.join(GOLDEN, "mixed.json"))), 0
    corpora = ["made"] + ["shared"] * os.path.isdir(SHARED)
    with tempfile.TemporaryDirectory() as folder:
        for corpus in corpora:
            failures += check(jotun, folder, corpus, want[corpus])
    print(f"{' and '.join(corpora)}: {failures} differences")
    sys.exit(failures > 0)


golden() if sys.argv[1] == "--golden" else test(os.path.abspath(sys.argv[1]))
