#!/usr/bin/env python3
"""Added and special tokens, with every mixture of what Hugging Face's tokenizers knows of them, and the ids it gives.

    pip install tokenizers==0.23.3 && tests/oracles/added_golden.py tests/data/tokenizers

Takes the tokenizers of tokenizers_golden.py, adds tokens and writes added_<kind>.json, and added.jsonl with
{"tokenizer", "text", "special", "ids"}: special tokens taken for their ids, or as text.
"""
import json, os, random, sys
from tokenizers import AddedToken, Tokenizer, normalizers

TOKENS = [("<|endoftext|>", dict(special=True, normalized=False)), ("<s>", dict(special=True, normalized=True)),
          ("<pad>", dict(special=True, normalized=False, lstrip=True, rstrip=True)),
          ("<one>", dict(special=True, normalized=False, single_word=True)),
          ("<left>", dict(lstrip=True, normalized=False)), ("<right>", dict(rstrip=True, normalized=False)),
          ("word", dict(single_word=True, normalized=False)), ("wordy", dict(normalized=False)), ("ord", dict(normalized=False)),
          ("<norm>", dict(normalized=True)), ("ﬁx", dict(normalized=True)), ("Å", dict(normalized=True, single_word=True)),
          ("two words", dict(normalized=True)), (" lead", dict(normalized=True)), ("\n\n", dict(normalized=False)), ("\n", dict(normalized=True, rstrip=True)),
          ("<s", dict(normalized=False)), ("<|end", dict(normalized=False, rstrip=True)), ("ab", dict(normalized=True, lstrip=True, single_word=True))]
BAG = [t for t, _ in TOKENS] * 2 + ["a", "b", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "_", "½", "é", "e\u0301", "Å", "ﬁ", "fix", "\u200d", "①", "Ⓐ", "中", ".",
                                "<", "|>", "s>", "words", "‿", "▁", "the", "-"]


def texts(count):
    dice = random.Random(11)
    return ["".join(dice.choice(BAG) for _ in range(dice.randrange(1, 14))) for _ in range(count)]


def main(folder):
    with open(os.path.join(folder, "added.jsonl"), "w") as golden:
        for kind in ("qwen2", "llama2", "metaspace_first", "metaspace_always"):
            data = json.load(open(os.path.join(folder, kind + ".json")))
            data["added_tokens"] = []
            t = Tokenizer.from_str(json.dumps(data))
            if kind == "qwen2":
                t.normalizer = normalizers.NFKC()
            t.add_tokens([AddedToken(text, **flags) for text, flags in TOKENS])
            name = f"added_{kind}.json"
            with open(os.path.join(folder, name), "w") as out:
                json.dump(json.loads(t.to_str()), out, ensure_ascii=False, separators=(",", ":"))
            t = Tokenizer.from_file(os.path.join(folder, name))
            for text in texts(160):
                for special in (True, False):
                    t.encode_special_tokens = not special
                    ids = t.encode(text, add_special_tokens=False).ids
                    golden.write(json.dumps({"tokenizer": name, "text": text, "special": special, "ids": ids}, ensure_ascii=False) + "\n")


main(sys.argv[1])
