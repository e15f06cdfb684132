#!/usr/bin/env python3
"""Tokenizers composed at random of all components of Hugging Face's library that are read, with its ids and decoded texts.

    tokenizer_compose.py [--seed N] [--count N]          compares jotun with the library
    tokenizer_compose.py --write FILE.jsonl.gz           writes the goldens of text.composed_test, of 200

The components, their members, the models' vocabularies and the properties of added tokens are drawn by the seed, which is printed.
COMPOSED names the test's program, which compares (build/release/bin/text_composed_test).    pip install tokenizers==0.23.3 sentencepiece
"""
import argparse
import base64
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

import comparison

MARK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot|>", "<|im_end|>")          # one would be the end of document

TEXTS = ["", " ", "  ", "a", "Hello, world!", "  two  blanks ", "a\tb\r\nc\n\n  d\n", "don't we'll I'D he's (it) is n't . ? ! , do not",
         "12 345,67 ½ Ⅷ ٣٤", "ﬁ ǅ é é Å ｆｕｌｌ ﷺ ㎏ ℃", "\u00a0x\u3000y\u2028z\u200bw\ufeff", "Привет, МИР! ΑΣ ΟΔΟΣ ς", "你好世界 こんにちは カタカナー 한국어 각",
         "👩\u200d👩\u200d👧 👍🏽 🇸🇪 ❤️", "a" * 70, "=" * 33 + "-" * 21 + " " * 40, "naïve façade — “quoted” …", "x_y->z(a[0], b{1});\n\t\tif (!p) {}",
         MARK + "mark " + MARK * 2 + " marks", "\u0301combining first e\u0301\u0323 \u0323\u0301", "İstanbul ısırık DİYARBAKIR ẞß ſ", "\x00nul\x01\x1b[0m\x7f\x85",
         "שלום עולם مرحبا \u202eabc\u202c", "अनुच्छेद १ ไทย ລາວ ខ្មែរ", "\U0001d400\U0001d7d8 \U00020000 \U0010ffff", "<unk> [UNK] [CLS] <pad> <tool> x<mask>y  <mask>  ",
         "the quick brown fox jumps over the lazy dog", "THE QUICK Brown", "\u1100\u1161\u11a8 \uac00\u11a8", "a.b.c...d?!e", "Ġletters Ċ é Ã©", "</w> end</w>", "##ing ##s",
         "café CAFÉ", "0\u0660\u06f0", "\r\n\r\n", "x\u200dy\u00ad", "\uac00\ud7a3\u3131", "𝒳y", "\u0345\u1fb3 ᾳ", "ŉ ǰ ΐ", "lower UPPER Title"]
ALPHABETS = ["abcde ", "aAbB .,!?'", "eé\u0301\u0323 aä", "αβΣσς ", "你好世a ", "кот КОТ ", " \t\n\r\u00a0\u3000", "0123456789 ٣½", MARK + "ab ", "👍🏽👩\u200d ❤️", "\x00\x01\x7f\u200b\ufeffa ",
             "가각\u1100\u1161", "<unk>[CLS] ", "शि क्ष", "-_()[]{}#$%&*+/=~^|<>", "ﬁﬀ㎏ｆ ", "İIıiſsẞß", "שלאב \u202e", "the cat sat on mat "]
EMPTY = [r"x*", r"\b", r"(?=\p{Lu})"]                                            # regular expressions that match the empty text
REGEXES = EMPTY + [r"\s+", r"\w+", r"[aeiou]", r"\d", r"\p{L}+", r"[^\s\w]+", r" ?\w+", r"(?i:the)", r"\p{Lu}\p{Ll}*|\d{1,2}", r"'s|'t|\s+(?!\S)", r"[\p{P}\p{S}]", r"^a|b$"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


class Composer:
    def __init__(self, seed, library):
        self.random, self.library = random.Random(seed), library
        self.texts = list(TEXTS)
        for _ in range(26):
            letters = "".join(self.random.sample(ALPHABETS, self.random.choice((1, 1, 2, 3))))
            self.texts.append("".join(self.random.choice(letters) for _ in range(self.random.randrange(1, 40))))
        self.charsmaps = [self.charsmap() for _ in range(3)]

    def flip(self, chance=0.5):
        return self.random.random() < chance

    def charsmap(self):
        """The rules of a sentencepiece model that is trained with rules drawn here."""
        sentencepiece = self.library["sentencepiece"]
        lefts = ["a", "e\u0301", "é", "ﬁ", "\u00ad", " ", "\u3000", "A", "B", "가", "ss", "ß", "\u0301", "½", "\t", "x\u200d", "你", "👍", "\r\n", "Ж", "ab"]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rules.tsv"), "w", encoding="utf-8") as out:
                for left in sorted(self.random.sample(lefts, 12)):
                    right = self.random.choice([text for text in ("", "e", "fi", " ", "abc", "\u00e9", left[0], "你好") if text != left])
                    out.write(" ".join(f"{ord(c):X}" for c in left) + "\t" + " ".join(f"{ord(c):X}" for c in right) + "\n")
            with open(os.path.join(folder, "t"), "w") as out:
                out.write("hello world\nthis is text\n" * 20)
            sentencepiece.SentencePieceTrainer.train(input=os.path.join(folder, "t"), model_prefix=os.path.join(folder, "m"), vocab_size=20, hard_vocab_limit=False,
                                                     normalization_rule_tsv=os.path.join(folder, "rules.tsv"), minloglevel=2)
            from sentencepiece import sentencepiece_model_pb2 as model_pb2
            model = model_pb2.ModelProto()
            with open(os.path.join(folder, "m.model"), "rb") as data:
                model.ParseFromString(data.read())
            return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()

    # ---- parts ----

    def pattern(self, empty=True):
        """empty: it may match nothing. A normalizer that puts a text there is refused."""
        strings = [" ", "a", "ab", "é", ".", "  ", "the ", "你", MARK] + [""] * empty
        return {"Regex": self.random.choice(REGEXES if empty else REGEXES[len(EMPTY):])} if self.flip() else {"String": self.random.choice(strings)}

    def normalizer(self):
        r = self.random
        kind = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Replace", "Replace", "Prepend", "BertNormalizer", "Nmt", "ByteLevel", "Precompiled"])
        part = {"type": kind}
        if kind == "Strip":
            part.update(strip_left=self.flip(), strip_right=self.flip())
        elif kind == "Replace":
            content = r.choice(["", " ", MARK, "x", "yz", "é"])
            part.update(pattern=self.pattern(empty=not content), content=content)
        elif kind == "Prepend":
            part.update(prepend=r.choice([MARK, " ", "a", "<s>"]))
        elif kind == "BertNormalizer":
            part.update(clean_text=self.flip(0.7), handle_chinese_chars=self.flip(0.7), strip_accents=r.choice([None, None, True, False]), lowercase=self.flip())
        elif kind == "Precompiled":
            part.update(precompiled_charsmap=r.choice(self.charsmaps))
        return part

    def pre_tokenizer(self):
        r = self.random
        kind = r.choice(["ByteLevel", "ByteLevel", "Split", "Split", "Digits", "Metaspace", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit", "FixedLength", "UnicodeScripts"])
        part = {"type": kind}
        if kind == "ByteLevel":
            part.update(add_prefix_space=self.flip(), trim_offsets=self.flip(), use_regex=self.flip(0.7))
        elif kind == "Split":
            part.update(pattern=self.pattern(), behavior=r.choice(BEHAVIORS), invert=self.flip(0.3))
        elif kind == "Digits":
            part.update(individual_digits=self.flip())
        elif kind == "Metaspace":
            part.update(replacement=r.choice([MARK, MARK, MARK, "_", "Ġ"]), prepend_scheme=r.choice(["always", "first", "never"]), split=self.flip(0.7))
        elif kind == "Punctuation":
            part.update(behavior=r.choice(BEHAVIORS))
        elif kind == "CharDelimiterSplit":
            part.update(delimiter=r.choice([" ", "-", "a", "世"]))
        elif kind == "FixedLength":
            part.update(length=r.randrange(1, 8))
        return part

    def sequence(self, one, key, chances, most):
        count = self.random.choices(range(len(chances)), chances)[0]
        if count == 0:
            return None
        parts = [one() for _ in range(min(count, most))]
        return parts[0] if len(parts) == 1 and self.flip(0.8) else {"type": "Sequence", key: parts}

    def decoder(self, pre_tokenizer):
        r = self.random
        kind = r.choice(["same", "none", "none", "ByteLevel", "Metaspace", "WordPiece", "BPEDecoder", "Strip", "Replace", "llama", "Fuse", "two"])
        metaspace = {"type": "Metaspace", "replacement": r.choice([MARK, MARK, "_"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": True}
        level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        replace = {"type": "Replace", "pattern": self.pattern(), "content": r.choice(["", " ", "x"])}
        strip = {"type": "Strip", "content": r.choice([" ", "a", MARK]), "start": r.randrange(3), "stop": 0}
        word = {"type": "WordPiece", "prefix": r.choice(["##", "##", "@", ""]), "cleanup": self.flip()}
        if kind == "same":
            kinds = {p["type"] for p in (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer or {"type": ""}])}
            kind = "ByteLevel" if "ByteLevel" in kinds else "Metaspace" if "Metaspace" in kinds else "WordPiece"
        marks = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
        llama = {"type": "Sequence", "decoders": [marks, {"type": "ByteFallback"}, {"type": "Fuse"}] + ([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if self.flip() else [])}
        one = {"none": None, "ByteLevel": level, "Metaspace": metaspace, "WordPiece": word, "BPEDecoder": {"type": "BPEDecoder", "suffix": r.choice(["</w>", "a"])},
               "Strip": strip, "Replace": replace, "llama": llama, "Fuse": {"type": "Fuse"}, "two": {"type": "Sequence", "decoders": [replace, r.choice([metaspace, word, level, strip])]}}
        return one[kind]

    # ---- models ----

    def words(self, data):
        """How often the normalizer and pre-tokenizer of the library make each piece of a few texts."""
        t, pieces = self.library["tokenizers"], {}
        read = t.Tokenizer.from_str(json.dumps({**data, "model": {"type": "BPE", "vocab": {}, "merges": []}}))
        for text in ["the cat sat on the mat", "don't stop 12 345", "Hello, world! Привет 你好世界", "naïve café éé", "lower Lowest newer wider"] * 2 + self.random.sample(self.texts, 20):
            text = text.replace("\0", "")                                         # no key of a JSON object has NUL
            text = read.normalizer.normalize_str(text) if read.normalizer else text
            for piece, _ in read.pre_tokenizer.pre_tokenize_str(text) if read.pre_tokenizer else [(text, None)]:
                if piece:
                    pieces[piece[:60]] = pieces.get(piece[:60], 0) + 1
        return pieces

    def merges(self, words, prefix, suffix, count):
        """BPE by the book: the most frequent pair of neighbours becomes a token, again and again."""
        spelt = {word: [("" if i == 0 else prefix) + c + (suffix if i == len(word) - 1 else "") for i, c in enumerate(word)] for word in sorted(words)}
        merges, tokens = [], sorted({token for symbols in spelt.values() for token in symbols})
        for _ in range(count):
            pairs = {}
            for word, symbols in spelt.items():
                for pair in zip(symbols, symbols[1:]):
                    pairs[pair] = pairs.get(pair, 0) + words[word]
            if not pairs:
                break
            left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
            made = left + right[len(prefix):]
            merges.append([left, right])
            tokens += [made] if made not in tokens else []
            for symbols in spelt.values():
                i = 0
                while i < len(symbols) - 1:
                    if (symbols[i], symbols[i + 1]) == (left, right):
                        symbols[i:i + 2] = [made]
                    i += 1
        return tokens, merges

    def train(self, data):
        r = self.random
        kind = r.choice(["BPE", "BPE", "BPE", "WordLevel", "WordPiece", "Unigram"])
        unknown, size, words = r.choice(["<unk>", "[UNK]"]), r.choice([10, 30, 60]), self.words(data)
        if kind == "WordLevel":
            tokens = [unknown] + sorted(words, key=lambda word: (-words[word], word))[:2 * size]
            return {"type": kind, "vocab": self.numbered(dict.fromkeys(tokens)), "unk_token": unknown}
        if kind == "BPE":
            return self.bpe(data, words, unknown, size)
        tokens, _ = self.merges(words, "##" if kind == "WordPiece" else "", "", size)
        tokens = [unknown] + [token for token in tokens if token != unknown and self.flip(0.97)]
        if kind == "WordPiece":
            return {"type": kind, "vocab": self.numbered(tokens), "unk_token": unknown, "continuing_subword_prefix": "##", "max_input_chars_per_word": r.choice([100, 5])}
        coarse = self.flip(0.4)                                                   # many sums are equal
        model = {"type": kind, "unk_id": 0, "vocab": [[token, float(-r.randrange(1, 6)) if coarse else -r.random() * 12] for token in tokens], "byte_fallback": self.flip(0.4)}
        if model["byte_fallback"]:
            model["vocab"] += [[name, -9.0 - i / 7] for i, name in enumerate(BYTES if self.flip(0.8) else BYTES[:200])]
        return model

    def numbered(self, tokens):
        """{token: id}, now and then with holes."""
        step = self.random.choice([1, 1, 1, 1, 1, 1, 3])
        return {token: i * step for i, token in enumerate(tokens)}

    def bpe(self, data, words, unknown, size):
        r = self.random
        levels = '"ByteLevel"' in json.dumps([data["normalizer"], data["pre_tokenizer"]])
        alphabet = sorted(self.library["tokenizers"].pre_tokenizers.ByteLevel.alphabet()) if levels and self.flip(0.8) else []
        prefix, suffix = r.choice(["", "", "", "##", "@"]), r.choice(["", "", "", "</w>"])
        tokens, merges = self.merges(words, prefix, suffix, size)
        known = not alphabet or self.flip(0.2)
        kept = tokens if alphabet else [token for token in tokens if self.flip(0.97)]
        vocab = list(dict.fromkeys(([unknown] if known else []) + alphabet + kept))
        merges = [[a, b] for a, b in merges if a in vocab and b in vocab and a + b[len(prefix):] in vocab]
        if merges and self.flip(0.2):                                             # the last one of a pair counts
            merges.append(r.choice(merges))
        falls = not prefix and not suffix and not alphabet and self.flip(0.4)
        vocab += [name for name in (BYTES if self.flip(0.8) else BYTES[:200]) if name not in vocab] if falls else []
        if self.flip() and not any(" " in a + b for a, b in merges):
            merges = ["#version: 0.2"] * self.flip() + [f"{a} {b}" for a, b in merges]
        return {"type": "BPE", "dropout": r.choice([None, None, 0.0]), "unk_token": unknown if known and self.flip(0.8) else None, "continuing_subword_prefix": prefix or None,
                "end_of_word_suffix": suffix or None, "fuse_unk": self.flip(0.3), "byte_fallback": falls, "ignore_merges": self.flip(0.3), "vocab": self.numbered(vocab), "merges": merges}

    def added(self, model):
        r, found = self.random, []
        vocab = [row[0] for row in model["vocab"]] if isinstance(model["vocab"], list) else list(model["vocab"])
        ids = {token: i for i, token in enumerate(vocab)} if isinstance(model["vocab"], list) else model["vocab"]
        next_id = len(vocab)
        taken = set(ids.values())
        texts = ["<pad>", "<tool>", "[CLS]", "[SEP]", "<mask>", "the", " the", "ab", "你好", "  ", "\n\n", "e\u0301", "Hello", MARK * 2, "a", "İ"] + r.sample(vocab, min(2, len(vocab)))
        for text in r.sample(texts, r.randrange(0, 6)):
            if not text or text in ENDS or any(token["content"] == text for token in found):
                continue
            special = text[0] in "<[" and self.flip(0.8)
            known = text in ids
            if not known and next_id in taken:                                    # a vocabulary with holes
                continue
            found.append({"id": ids[text] if known else next_id, "content": text, "single_word": self.flip(0.2), "lstrip": self.flip(0.2), "rstrip": self.flip(0.2),
                          "normalized": self.flip(0.2 if special else 0.7), "special": special})
            next_id += not known
        return found

    def post_processor(self, added):
        r = self.random
        if not added or self.flip(0.7):
            return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True} if self.flip(0.2) else None
        one, two = r.choice(added), r.choice(added)
        if self.flip(0.3):
            pair = {"sep": [two["content"], two["id"]], "cls": [one["content"], one["id"]]}
            return {"type": "BertProcessing", **pair} if self.flip() else {"type": "RobertaProcessing", **pair, "trim_offsets": True, "add_prefix_space": False}
        special = lambda token: {"SpecialToken": {"id": token["content"], "type_id": 0}}
        text = {"Sequence": {"id": "A", "type_id": 0}}
        single = ([special(one)] if self.flip() else []) + [text] + ([special(two)] if self.flip() else [])
        return {"type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {t["content"]: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]} for t in (one, two)}}

    # ---- a tokenizer and what the library makes of the texts ----

    def compose(self):
        data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
                "normalizer": self.sequence(self.normalizer, "normalizers", (4, 4, 2, 2, 1), 4),
                "pre_tokenizer": self.sequence(self.pre_tokenizer, "pretokenizers", (1, 5, 3, 1), 3), "post_processor": None, "decoder": None}
        data["model"] = self.train(data)
        data["added_tokens"] = self.added(data["model"])
        data["decoder"] = self.decoder(data["pre_tokenizer"])
        data["post_processor"] = self.post_processor(data["added_tokens"])
        return data

    def left_out(self, data):
        """Ids that jotun decodes to nothing: the end of document, and those that are put around a text."""
        text = json.dumps(data["post_processor"] or {})
        post = json.loads(text)
        ids = [x for token in post.get("special_tokens", {}).values() for x in token["ids"] if json.dumps({"id": token["id"]})[1:-1] in json.dumps(post["single"])]
        ids += [post[key][1] for key in ("cls", "sep") if key in post]
        vocab = data["model"]["vocab"]
        names = {row[0]: i for i, row in enumerate(vocab)} if isinstance(vocab, list) else dict(vocab)
        names.update({token["content"]: token["id"] for token in data["added_tokens"]})
        return set(ids) | {names[name] for name in [n for n in ENDS if n in names][:1]}

    def row(self):
        """None: the library does not read, or not train, this composition."""
        try:
            data = self.compose()
            read = self.library["tokenizers"].Tokenizer.from_str(json.dumps(data))
        except BaseException as refused:
            if isinstance(refused, KeyboardInterrupt):
                raise
            return None
        normal = [read.normalizer.normalize_str(t["content"]) if read.normalizer else t["content"] for t in data["added_tokens"] if t["normalized"]]
        if "" in normal or len(set(normal)) < len(normal):                        # the library then takes either of them, or cuts everywhere
            return None
        special = self.flip()
        read.encode_special_tokens = not special
        without = self.left_out(data)
        ids, decoded = [], []
        for text in self.texts:
            try:
                ids.append(read.encode(text).ids)
            except Exception:                                                     # it refuses the text
                ids.append(None)
            except BaseException as panic:
                if isinstance(panic, KeyboardInterrupt):
                    raise
                ids.append(False)
            decoded.append(self.decoded(read, data, text, [i for i in ids[-1] or [] if i not in without]))
        return {"file": data, "special": special, "ids": ids, "decoded": decoded}

    def decoded(self, read, data, text, ids):
        try:
            said = read.decode(ids, skip_special_tokens=False)
        except BaseException as refused:
            if isinstance(refused, KeyboardInterrupt):
                raise
            return False
        broken = "\ufffd" in said and '"ByteFallback"' in json.dumps(data["decoder"])          # the library then shows whole runs of bytes as broken
        own = data["decoder"] is None and data["model"]["type"] == "BPE" and (MARK in json.dumps(data["normalizer"], ensure_ascii=False) or '"ByteLevel"' in json.dumps(data["pre_tokenizer"])
                                                                             or '"Metaspace"' in json.dumps(data["pre_tokenizer"]))
        letters = '"ByteLevel"' in json.dumps(data["decoder"]) and any(not t["content"].isascii() for t in data["added_tokens"])
        return False if broken or own or letters else None if said == text else said


def quiet():
    """Panics of the library are printed from its threads."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--count", type=int, default=200)
    words.add_argument("--write")
    o = words.parse_args()
    seed = o.seed if o.seed is not None else 1 if o.write else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    tokenizers, sentencepiece = comparison.packages("tokenizers", "sentencepiece")
    composer = Composer(seed, {"tokenizers": tokenizers, "sentencepiece": sentencepiece})
    errors = os.dup(2)
    quiet()
    rows, tried = [], 0
    while len(rows) < o.count:
        row, tried = composer.row(), tried + 1
        rows += [row] if row else []
    os.dup2(errors, 2)
    print(f"{tried} compositions, {len(rows)} that the library reads, {len(composer.texts)} texts", flush=True)
    head = {"tokenizers": tokenizers.__version__, "seed": seed, "texts": composer.texts}
    data = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in [head, *rows]).encode()
    path = o.write or os.path.join(tempfile.gettempdir(), f"jotun-composed-{os.getpid()}.jsonl.gz")
    with open(path, "wb") as out:
        out.write(gzip.compress(data, 9, mtime=0))
    program = os.environ.get("COMPOSED", "build/release/bin/text_composed_test")
    done = subprocess.run([program, path])
    if not o.write:
        os.remove(path)
    sys.exit(done.returncode)


main()
