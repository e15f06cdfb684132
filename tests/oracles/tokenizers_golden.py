#!/usr/bin/env python3
"""Small tokenizers of every known kind, and the ids that Hugging Face's tokenizers and tiktoken give.

    pip install tokenizers==0.23.3 tiktoken==0.14.0 && tests/oracles/tokenizers_golden.py tests/data/tokenizers

Writes <kind>.json or <kind>.tiktoken, and golden.jsonl with {"tokenizer", "text", "ids"}, each text whole.
"""
import base64, json, os, random, sys
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
UP, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
O200K = (f"{LEAD}{UP}*{LOW}+{SHORT}?|{LEAD}{UP}+{LOW}*{SHORT}?|" +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
OWN = r"[A-Z]?[a-z]+|\d+"                                   # none of the known: by PCRE2

TEXTS = [
    "", "a", " ", "  ", "\n", "Hello, world! It's we'll THEY'RE I'd don't 'tis 'S'LL 'ſ 'Re",
    "Det var en gång en flicka, som hette Åsa. »Hör du«, sade hon — 1850-talet, ½ ² Ⅷ kr 12345678.",
    "Привет, мир! Как дела? Съешь ещё этих мягких французских булок, да выпей чаю. 2024 год",
    "こんにちは、世界！お元気ですか？ 漢字かな交じり文 12月34日", "你好，世界。今天天气很好！", "안녕하세요 세계 123",
    "مرحبا بالعالم كيف حالك ١٢٣", "שלום עולם", "नमस्ते दुनिया १२३", "สวัสดีชาวโลก", "Γειά σου Κόσμε",
    "e\u0301 a\u0308 o\u0308\u0323 A\u030a \u1e9b\u0323 \ufb01 \u0958 \u2126 \uac00\u11a8 \u1100\u1161\u11a8 q\u0307\u0323",
    "🌍 👩‍👩‍👧‍👦 🇸🇪 ☃️ ①②③ Ǆ ǅ ǆ ª º ʰ", "camelCase HTTPServer XMLHttpRequest iPhone's IPHONE'S aªBªC ªB ʰAʰ \u0301AB a\u0301B",
    "   three   spaces   ", "tab\tand\ttabs\t\t.\n\n\n  indented\n\tcode\r\n\r\nend  ", "a\u00a0b \u3000c\u2028d \u180ee\x1cf\x85g",
    "if (x == 0) { return foo->bar[i++]; } // comment\n\n\n#include <stdio.h>\n/*** x ***/\n", "!!!???...---///\n/\n//",
    "1 12 123 1234 12345 1,000,000.00 3.14159 ٣٤٥٦", "a" * 70, "ab" * 60, " " * 50 + "x", "é" * 40, "xyz\x00\x01\x02\x7f",
    "<|endofturn|>x <tool> <tool>y  <tool>", "word<mark>word <mark> <mark>", "▁already▁marked ▁", "\ufeffBOM", "ſſ İı ßẞ",
]


def random_texts(count):
    dice = random.Random(7)
    bag = list("aZé ßñ'sdtmlrev019½.,!?-/\n\r\t  \u00a0ДжçÅα中あ한\u0301\u0308ªʰǅ🌍▁<>") + ["'ll", "'RE", " the", "\r\n", "  ", "<tool>"]
    return ["".join(dice.choice(bag) for _ in range(dice.randrange(1, 60))) for _ in range(count)]


def train(pre, normalizer=None, size=700, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet() if "byte_fallback" not in model else []
    special = [f"<0x{b:02X}>" for b in range(256)] if model.get("byte_fallback") else []
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=model.get("unk_token") and
                                  [model["unk_token"], *special] or special, show_progress=False, limit_alphabet=400)
    t.train_from_iterator([text for text in TEXTS if "\0" not in text] * 3, trainer)
    return t


def byte_split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def strip(t, change=lambda json: None):
    """Without the special tokens that training wanted, and changed by hand."""
    data = json.loads(t.to_str())
    data["added_tokens"] = []
    change(data)
    return Tokenizer.from_str(json.dumps(data))


def byte_level(pattern, normalizer=None, change=lambda json: None):
    t = strip(train(byte_split(pattern), normalizer), change)
    t.decoder = decoders.ByteLevel()
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False), AddedToken("<mark>", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("\n\n\n", normalized=False)])
    return t


def llama3():
    def whole(data):
        data["model"]["ignore_merges"] = True
        data["model"]["vocab"]["Hello"] = max(data["model"]["vocab"].values()) + 1     # by no merge
    return byte_level(LLAMA3, change=whole)


def gpt2():
    return strip(train(pre_tokenizers.ByteLevel(add_prefix_space=True)))


def llama2():
    form = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t = strip(train(pre_tokenizers.Metaspace(prepend_scheme="never"), None, byte_fallback=True, fuse_unk=True, unk_token="<unk>"),
              lambda data: data.update(pre_tokenizer=None))
    t.normalizer = form
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def metaspace(scheme, split):
    meta = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    t = strip(train(pre_tokenizers.Metaspace(prepend_scheme=scheme), None, byte_fallback=True, unk_token="<unk>"))
    t.pre_tokenizer = meta
    t.add_tokens([AddedToken("<tool>", normalized=False)])
    return t


def mixed():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(OWN), "isolated"),
                                   pre_tokenizers.Split("'", "merged_with_next"), pre_tokenizers.Split("-", "merged_with_previous"),
                                   pre_tokenizers.Split(Regex(r"[\s]"), "contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return strip(train(pre, normalizers.NFKC()))


def ranks_of(t):
    """tiktoken's form: ids are ranks, the 256 bytes first."""
    data = json.loads(t.to_str())["model"]
    undo = {c: b for b, c in byte_characters().items()}
    order = sorted(data["vocab"], key=lambda token: (len(token) > 1, data["vocab"][token]))
    return {bytes(undo[c] for c in token): rank for rank, token in enumerate(order)}


def byte_characters():
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in same]
    return {**{b: chr(b) for b in same}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def main(folder):
    texts = TEXTS + random_texts(40)
    made = {"llama3": llama3(), "qwen2": byte_level(QWEN2, normalizers.NFC()), "o200k_hf": byte_level(O200K), "gpt2": gpt2(), "llama2": llama2(),
            "metaspace_first": metaspace("first", True), "metaspace_always": metaspace("always", False), "mixed": mixed()}
    with open(os.path.join(folder, "golden.jsonl"), "w") as golden:
        def put(name, text, ids):
            golden.write(json.dumps({"tokenizer": name, "text": text, "ids": ids}, ensure_ascii=False) + "\n")
        for name, t in made.items():
            with open(os.path.join(folder, name + ".json"), "w") as out:
                json.dump(json.loads(t.to_str()), out, ensure_ascii=False, separators=(",", ":"))
            for text in texts:
                put(name + ".json", text, t.encode(text, add_special_tokens=False).ids)
        for name, pattern in (("cl100k", CL100K), ("o200k", O200K)):
            ranks = ranks_of(strip(train(byte_split(LLAMA3 if name == "cl100k" else O200K))))
            t = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
            with open(os.path.join(folder, name + "_small.tiktoken"), "w") as out:
                for token, rank in ranks.items():
                    out.write(f"{base64.b64encode(token).decode()} {rank}\n")
            for text in texts:
                put(name + "_small.tiktoken", text, t.encode_ordinary(text))


main(sys.argv[1])
