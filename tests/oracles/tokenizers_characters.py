#!/usr/bin/env python3
"""Writes src/text/pretokenize/characters_table.c: what Hugging Face's library does with each character.

    pip install tokenizers==0.23.3 unicodedata2==18.0.0 && tests/oracles/tokenizers_characters.py > src/text/pretokenize/characters_table.c

The library's components follow different versions of Unicode (its `\\w` 16, numbers and lower case 17, punctuation and control
characters a version of ten years before), so each component is asked about each character, and no version is computed from another.
"""
import sys

import tokenizers
import unicodedata2 as unicode
from tokenizers import normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
whitespace, punctuation, scripts = pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation(), pre_tokenizers.UnicodeScripts()
digits = pre_tokenizers.Digits()
lower, marks = normalizers.Lowercase(), normalizers.StripAccents()
cleaning = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)


def pieces(split, text):
    return [piece for piece, _ in split.pre_tokenize_str(text)]


def ranges(points):
    made = []
    for c in points:
        if made and c == made[-1][1] + 1:
            made[-1][1] = c
        else:
            made.append([c, c])
    return made


def print_ranges(name, points):
    made = ranges(points)
    print(f"const CharacterRange {name}[] = {{")
    for at in range(0, len(made), 5):
        print("    " + " ".join(f"{{ 0x{a:X}, 0x{b:X} }}," for a, b in made[at:at + 5]))
    print(f"}};\nconst int {name}_count = sizeof {name} / sizeof {name}[0];\n")


def lower_runs():
    """Characters at equal distances whose lower case is at one distance; the one with two letters is written in characters.c."""
    runs = []
    for c in POINTS:
        text = lower.normalize_str(chr(c))
        if len(text) != 1:
            assert c == 0x130 and text == "i\u0307", (c, text)
            continue
        if ord(text) == c:
            continue
        distance = ord(text) - c
        last = runs[-1] if runs else None
        if last and last[2] == distance and c - last[1] in (1, 2) and last[3] in (0, c - last[1]):
            last[1], last[3] = c, c - last[1]
        else:
            runs.append([c, c, distance, 0])
    return runs


def script_ranges():
    """[first, last, number of the script]; characters of no script, which end no piece, are left out."""
    examples, made = [], []
    same = lambda a, b: len(pieces(scripts, a + b)) == 1
    for c in POINTS:
        text = chr(c)
        if not pieces(scripts, text):
            continue
        recent = [made[-1][2]] if made else []
        number = next((i for i in recent + list(range(len(examples))) if same(examples[i], text)), None)
        if number is None:
            number = len(examples)
            examples.append(text)
        if made and made[-1][1] == c - 1 and made[-1][2] == number:
            made[-1][1] = c
        else:
            made.append([c, c, number])
    assert len(examples) < 256
    return made


def newer():
    """Characters that the library's tables of normalization do not know: those that it does not decompose; marks that it does not
    put in order; and those that make a character which it does not compose, but for U+0307, which makes others that it does."""
    nfc, nfd, nfkd = normalizers.NFC(), normalizers.NFD(), normalizers.NFKD()
    whole, starters = [], set()
    for c in POINTS:
        text, order = chr(c), unicode.combining(chr(c))
        if unicode.normalize("NFKD", text) != text and nfkd.normalize_str(text) == text:
            whole.append(c)
        pair = f"a\u0301{text}" if order < 230 else f"a{text}\u0334"
        if order and nfd.normalize_str(pair) == pair:
            starters.add(c)
        parts = unicode.decomposition(text).split()
        pair = "".join(chr(int(part, 16)) for part in parts) if len(parts) == 2 and parts[0][0] != "<" else ""
        if pair and unicode.normalize("NFC", pair) == text != nfc.normalize_str(pair):
            starters |= set(map(ord, pair)) - {0x307}
    return whole, sorted(starters)


def main():
    print(f"/* Written by tests/oracles/tokenizers_characters.py from tokenizers {tokenizers.__version__}; not by hand. */")
    print('#include "text/pretokenize/characters.h"\n')
    print_ranges("characters_word", [c for c in POINTS if len(pieces(whitespace, f"a{chr(c)}a")) == 1])
    print_ranges("characters_punctuation", [c for c in POINTS if len(pieces(punctuation, f"a{chr(c)}a")) == 3])
    print_ranges("characters_numeric", [c for c in POINTS if len(pieces(digits, f"a{chr(c)}a")) == 3])
    print_ranges("characters_mark", [c for c in POINTS if not marks.normalize_str(chr(c))])
    print_ranges("characters_nonspacing", [c for c in POINTS if not accents.normalize_str(chr(c))])
    print_ranges("characters_control", [c for c in POINTS if cleaning.normalize_str(f"a{chr(c)}") == "a"])
    whole, starters = newer()
    print_ranges("characters_whole", whole)
    print_ranges("characters_starter", starters)
    pages = [0] * 68
    for c in whole + starters:
        pages[c >> 14] |= 1 << (c >> 8 & 63)
    print("const uint64_t characters_newer_page[68] = {")
    for at in range(0, 68, 5):
        print("    " + " ".join(f"0x{bits:X}," for bits in pages[at:at + 5]))
    print("};\n")
    runs = lower_runs()
    print("const LowerRun characters_lower[] = {")
    for at in range(0, len(runs), 4):
        print("    " + " ".join(f"{{ 0x{a:X}, 0x{b:X}, {d}, {max(step, 1)} }}," for a, b, d, step in runs[at:at + 4]))
    print("};\nconst int characters_lower_count = sizeof characters_lower / sizeof characters_lower[0];\n")
    made = script_ranges()
    print("const ScriptRange characters_script[] = {")
    for at in range(0, len(made), 5):
        print("    " + " ".join(f"{{ 0x{a:X}, 0x{b:X}, {s} }}," for a, b, s in made[at:at + 5]))
    print("};\nconst int characters_script_count = sizeof characters_script / sizeof characters_script[0];")


sys.exit(main())
