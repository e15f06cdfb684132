"""All of a part of WikiText-2 with GPT-2's vocabulary: detokenizer, encoder and preprocessor write the bytes that fairseq's own tools write
(tests/golden/fairseq.json). A test of its own, since the data is in no package: without it this is skipped."""
import hashlib
import json
import os
import sys

import run

HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = json.load(open(os.path.join(HERE, "..", "golden", "fairseq.json")))["wikitext-2"]
DATA = os.path.join(os.environ.get("JOTUN_SHARED", os.path.join(HERE, "../../../shared")), "data")
raw, gpt2 = os.path.join(DATA, "wikitext-2", "test.txt"), os.path.join(DATA, "gpt2")
if not os.path.exists(raw) or not os.path.exists(gpt2):
    print("skipped: JOTUN_SHARED names no folder with data/wikitext-2 and data/gpt2")
    sys.exit(run.SKIP)
wrong = []
with run.work_folder() as folder:
    at = lambda x: os.path.join(folder, x)
    with open(at("detok"), "w", encoding="utf-8", newline="") as out:
        out.write(run.jotun("fairseq-detok", raw).stdout)
    run.jotun("fairseq-bpe-encoder", "--encoder-json", os.path.join(gpt2, "encoder.json"), "--vocab-bpe", os.path.join(gpt2, "vocab.bpe"), "--inputs", at("detok"),
              "--outputs", at("bpe"))
    run.jotun("fairseq-preprocess", "--only-source", "--trainpref", at("bpe"), "--destdir", folder)
    wrong = [name for name, digest in WANTED.items() if hashlib.sha256(open(at(name), "rb").read()).hexdigest() != digest]
print(f"other bytes than fairseq's: {', '.join(wrong)}" if wrong else "all right")
sys.exit(bool(wrong))
