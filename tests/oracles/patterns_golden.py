#!/usr/bin/env python3
"""How Hugging Face's tokenizers cuts texts by the published patterns: pieces, which tests/text/patterns.py holds ours against.

    pip install tokenizers==0.23.3 unicodedata2==16.0.0 && tests/oracles/patterns_golden.py > tests/golden/text/patterns.json

Many characters of the texts are of Unicode 14 to 16, whose classes older tables do not know.
"""
import json, random
import unicodedata2 as unicode
from tokenizers import Regex, pre_tokenizers

UP, LOW, LEAD = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
ISOLATED, KEPT = ("Isolated", False), ("Removed", True)
KINDS = {
    "deepseek": [(pattern, *ISOLATED) for pattern in DEEPSEEK], "deepseek_main": [(DEEPSEEK[2], *ISOLATED)],
    "tekken": [(f"{LEAD}{UP}*{LOW}+|{LEAD}{UP}+{LOW}*|\\p{{N}}{REST}", *ISOLATED)],
    "clip": [(CLIP, *KEPT)], "clip_isolated": [(CLIP, *ISOLATED)], "bloom": [(" ?[^(\\s|[.,!?…。，、।۔،])]+", *ISOLATED)],
    "escaped": [(r"[\u4e00-\u9fff]+|\u00e9", *ISOLATED)],          # by PCRE2, which writes the escape otherwise
}
BLOCKS = [(0x0EB9, 0x0EBD), (0x1B4E, 0x1B4F), (0x1B7F, 0x1B80), (0x1C89, 0x1C8B), (0x2B97, 0x2B98), (0x2FFC, 0x3000), (0xA7CB, 0xA7CE), (0xA7DA, 0xA7DD),
          (0x10570, 0x10578), (0x105C0, 0x105C8), (0x10D40, 0x10D50), (0x10EC2, 0x10EC5), (0x11380, 0x11388), (0x113B8, 0x113BC), (0x116D0, 0x116D4),
          (0x11BF0, 0x11BF4), (0x11F00, 0x11F04), (0x11F50, 0x11F54), (0x13460, 0x13464), (0x16100, 0x16104), (0x16D70, 0x16D74), (0x1CC00, 0x1CC04),
          (0x1CCF0, 0x1CCF4), (0x1E030, 0x1E034), (0x1E4D0, 0x1E4D4), (0x1E4F0, 0x1E4F4), (0x1E5D0, 0x1E5D4), (0x1E5F1, 0x1E5F5), (0x1FAE8, 0x1FAEA),
          (0x31350, 0x31354), (0x2EBF0, 0x2EBF4)]
BAG = list("aZé ßñ'sdtmlrev019½.,!?-/\n\r\t  \u00a0ДжçÅα中あ한\u0301\u0308ªʰǅ🌍▁<>|()…。，、।۔،#_\x01") + ["'ll", "'RE", " the", "\r\n", "  ", "Ab", "1234"]


def texts():
    dice = random.Random(5)
    new = [chr(point) for low, high in BLOCKS for point in range(low, high) if unicode.category(chr(point)) != "Cn"]
    yield from ("", " ", "\n", "a", "1", "x" * 40, " " * 9 + "x", "12345678", "#foo #fåo .Bar", "½a 1a", "camelCase HTTPServer", "don't DON'T 'sx", "( a", " (b", "a , b")
    for at in range(0, len(new), 5):
        yield "".join(dice.choice(["", "a", " ", "A", "1", ".", " a", "#", "\n"]) + point for point in new[at:at + 5])
    for _ in range(120):
        yield "".join(dice.choice(BAG) for _ in range(dice.randrange(1, 30)))
    for _ in range(60):
        yield "".join(dice.choice(BAG) + dice.choice(new) for _ in range(6))


def json_of(steps):
    return [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert} for pattern, behavior, invert in steps]


def main():
    rows, names = list(texts()), {"Isolated": "isolated", "Removed": "removed"}
    made = {"texts": rows, "kinds": {}}
    for kind, steps in KINDS.items():
        cut = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), names[behavior], invert) for pattern, behavior, invert in steps])
        made["kinds"][kind] = {"steps": json_of(steps), "ends": [[end for _, (_, end) in cut.pre_tokenize_str(text)] for text in rows],
                               "begins": [[begin for _, (begin, _) in cut.pre_tokenize_str(text)] for text in rows] if kind == "clip" else None}
    print(json.dumps(made, ensure_ascii=False, separators=(",", ":")))


main()
