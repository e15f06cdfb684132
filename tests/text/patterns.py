#!/usr/bin/env python3
"""Pretokenizer patterns against Hugging Face's tokenizers: patterns.py JOTUN

tests/golden/text/patterns.json has texts and where their pieces end. Here a tokenizer is made whose merges are all pairs of bytes, so
that each cut shows in the ids, and what `jotun prepare` makes of the texts is held against the ids that the pieces have."""
import json
import os
import struct
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "text", "patterns.json")
SAME = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHER = [byte for byte in range(256) if byte not in SAME]
WRITTEN = [chr(byte) if byte in SAME else chr(256 + OTHER.index(byte)) for byte in range(256)]
PAIRS = [(a, b) for a in WRITTEN for b in WRITTEN]                       # the rank of bytes a, b is 256 a + b, their id 256 more


def tokenizer(steps):
    vocab = {token: id for id, token in enumerate(WRITTEN + [a + b for a, b in PAIRS])}
    steps = steps + [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": {"type": "BPE", "vocab": vocab, "merges": [f"{a} {b}" for a, b in PAIRS]}}


def ids_of(piece):
    """The pair of lowest rank first, the leftmost of equals; what is merged merges no more."""
    ids = list(piece.encode())
    while True:
        ranks = [256 * a + b for a, b in zip(ids, ids[1:]) if a < 256 and b < 256]
        if not ranks:
            return ids
        at = next(i for i in range(len(ids)) if ids[i] < 256 and ids[i + 1] < 256 and 256 * ids[i] + ids[i + 1] == min(ranks))
        ids[at:at + 2] = [256 + min(ranks)]


def prepared(jotun, folder, kind):
    prefix = os.path.join(folder, "p")
    done = subprocess.run([jotun, "prepare", "--input", os.path.join(folder, "t.jsonl"), "--tokenizer", os.path.join(folder, kind), "--output-prefix", prefix],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{kind}: {done.stderr}")
    index, ids = (open(f"{prefix}_text_document.{end}", "rb").read() for end in ("idx", "bin"))
    lengths = struct.unpack_from("<%di" % struct.unpack_from("<q", index, 18), index, 34)
    row = struct.unpack("<%di" % (len(ids) // 4), ids)
    return [list(row[sum(lengths[:i]):sum(lengths[:i + 1])]) for i in range(len(lengths))], done.stderr


def main(jotun):
    golden, wrong = json.load(open(GOLDEN)), 0
    with tempfile.TemporaryDirectory(prefix="jotun-test-") as folder:
        with open(os.path.join(folder, "t.jsonl"), "w") as out:
            out.writelines(json.dumps({"text": text}) + "\n" for text in golden["texts"])
        for kind, row in golden["kinds"].items():
            with open(os.path.join(folder, kind + ".json"), "w") as out:
                json.dump(tokenizer(row["steps"]), out)
            begins = row["begins"] or [[0, *ends][:-1] for ends in row["ends"]]
            want = [sum((ids_of(text[a:b]) for a, b in zip(*spans)), []) for text, *spans in zip(golden["texts"], begins, row["ends"])]
            got, said = prepared(jotun, folder, kind + ".json")
            want, texts = zip(*((ids, text) for ids, text in zip(want, golden["texts"]) if ids))        # a document without ids has no sequence
            differ = [ascii(text) for text, a, b in zip(texts, want, got) if a != b]
            if differ or len(want) != len(got) or "PCRE2" in said:
                print(f"{kind}: {len(differ)} of {len(want)} texts differ, {len(got)} came, the first: {differ[:1]} {said}")
                wrong += 1
    return wrong


sys.exit(main(sys.argv[1]))
