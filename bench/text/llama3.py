"""A tokenizer.json like Llama 3's: its pre-tokenizer and ignore_merges before the ids of cl100k_base.tiktoken, which have as many letters and
merges. For measurements, where Llama 3's own file may not be copied:   llama3.py cl100k_base.tiktoken OUT.json"""
import base64
import json
import sys

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def letters():
    """The character of each byte in the vocabulary."""
    plain = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or b >= 174]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def halves(token, rank):
    """The two tokens that make this one by merges of lower rank."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best = min((rank.get(parts[i] + parts[i + 1], len(rank)), i) for i in range(len(parts) - 1))
        if best[0] >= rank[token]:
            return None
        i = best[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def main():
    rank = {base64.b64decode(token): int(number) for token, number in (line.split() for line in open(sys.argv[1], "rb"))}
    letter = letters()
    def word(token): return "".join(letter[b] for b in token)
    pairs = [halves(token, rank) for token in sorted(rank, key=rank.get) if len(token) > 1]
    added = [{"id": len(rank) + i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
             for i, text in enumerate(("<|begin_of_text|>", "<|end_of_text|>"))]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "ignore_merges": True, "vocab": {word(t): n for t, n in rank.items()}, "merges": [" ".join(map(word, p)) for p in pairs if p]}
    with open(sys.argv[2], "w") as out:
        json.dump({"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
                   "decoder": level, "model": model}, out, ensure_ascii=False)


main()
