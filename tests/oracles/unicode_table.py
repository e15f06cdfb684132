#!/usr/bin/env python3
"""Writes src/text/unicode_table.c: the class of every code point, as two stages of 256.

    pip install unicodedata2==16.0.0 && tests/oracles/unicode_table.py > src/text/unicode_table.c

The version is the one that the encoders our ids are held against follow; it stands in what is written.
"""
import unicodedata2 as unicode

ROW = 256
LETTER, UPPER, LOWER, NUMBER, SPACE, SYMBOL, MARK = 1, 2, 4, 8, 16, 32, 6         # unicode.h; MARK is both cases and no letter
WHITE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
CASES = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": UPPER | LOWER, "Lo": UPPER | LOWER}


def class_of(point):
    if point in WHITE:
        return SPACE
    category = unicode.category(chr(point))
    if category in CASES:
        return LETTER | CASES[category]
    return {"N": NUMBER, "M": MARK, "P": SYMBOL, "S": SYMBOL}.get(category[0], 0)


def main():
    rows, pages = {}, []
    for start in range(0, 0x110000, ROW):
        row = "".join(chr(ord("@") + class_of(point)) for point in range(start, start + ROW))
        pages.append(rows.setdefault(row, len(rows)))
    other = pages[-1]
    while pages[-1] == other:
        pages.pop()
    assert len(rows) <= 256
    print(f"/* Written by tests/oracles/unicode_table.py from Unicode {unicode.unidata_version}; not by hand. */")
    print('#include "text/unicode.h"\n')
    print(f'const char unicode_version[] = "{unicode.unidata_version}";\n')
    print(f"const uint8_t unicode_page[{len(pages)}] = {{")
    for at in range(0, len(pages), 25):
        print("    " + " ".join(f"{page}," for page in pages[at:at + 25]))
    print("};\nconst int unicode_pages = sizeof unicode_page;\n")
    print(f"const char unicode_row[{len(rows)}][{ROW}] = {{")
    for row in rows:
        print("\n".join(f'    "{row[at:at + 128]}"' for at in range(0, ROW, 128)) + ",")
    print("};")


main()
