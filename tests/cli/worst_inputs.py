"""The worst files for the readers of jotun clean: each costs time that is linear in its size, and memory that is bounded.
Processor time is compared, of four times the bytes with once the bytes, so that a busy machine changes nothing."""
import bz2
import json
import os
import random
import resource
import subprocess
import sys

import run

BYTES = 250000
WHOLE = ("ref references gallery timeline math chem ce score graph chart mapframe maplink hiero imagemap inputbox syntaxhighlight source pre"
         " templatedata templatestyles indicator categorytree includeonly style script section nowiki").split()
RULES = ["--charset", "sv", "--quality", "gopher,repetition,c4,fineweb", "--quality-rules", "words-min=off,words-max=off", "--dedup", "lines",
         "--dedup-normalization", "words", "--near-threshold", "0.8"]


def again(text, size):
    return (text * (size // len(text) + 1))[:size]


def nested(opens, closes, size):
    return again(opens, size // 2) + again(closes, size // 2)


WIKITEXT = {
    "[[": lambda n: again("[[", n), "[[a|": lambda n: again("[[a|", n), "[[ ]]": lambda n: nested("[[a", "]]", n),
    "[[ blank ]]": lambda n: nested("[[\n\n", "]]", n), "[File": lambda n: again("[[File:", n), "[http": lambda n: again("[http://", n),
    "{{": lambda n: again("{{a|", n), "{{ }}": lambda n: nested("{{nowrap|x", "}}", n), "{{convert": lambda n: nested("{{convert|", "}}", n),
    "{{{ }}}": lambda n: nested("{{{", "}}}", n), "{{[[ }}": lambda n: nested("{{[[", "}}", n), "{{|||": lambda n: "{{nowrap|" + again("|", n) + "}}",
    "{|": lambda n: again("{|\n", n), "{| |}": lambda n: nested("{|\n", "|}\n", n), ":{|": lambda n: again(":{|", n), " |}": lambda n: "{|\n" + again(" |}", n),
    "<!--": lambda n: again("<!--", n), "<ref>": lambda n: again("<ref>", n), "<ref ": lambda n: again("<ref ", n),
    "<table>": lambda n: nested("<table>", "</table>", n), "<all><b>": lambda n: "".join(f"<{t}>" for t in WHOLE) + again("<b>", n),
    "<all>": lambda n: again("".join(f"<{t}>" for t in WHOLE), n), "<nowiki>&": lambda n: "<nowiki>" + again("&lt;", n) + "</nowiki>",
    "&name;": lambda n: again("&abcdef;", n), "'": lambda n: again("'", n), "_": lambda n: again("_", n), "==": lambda n: again("== a ==\n", n),
    "( )": lambda n: nested("( ", ") ", n), "( ,": lambda n: again("( , ; ) ", n), "blanks": lambda n: "a" + again(" ", n) + "a",
}
TEXTS = {
    "one word": lambda n: again("a", n), "words": lambda n: again("a ", n), "brackets": lambda n: again("[1", n), "dots": lambda n: again('."', n),
    "foreign ( )": lambda n: nested("(д", ")", n), "marks": lambda n: "a" + again("\u0301\u0323", n), "invisible": lambda n: again("\u200b", n),
    "lines": lambda n: again("a\n", n), "no lines": lambda n: again("\n", n) + "a", "paragraphs": lambda n: again("a\n\n", n),
}
LINES = {
    "deep": lambda n: '{"text":"a","x":' + "[" * n + "]" * n + "}", "2040 deep": lambda n: '{"x":' + "[" * 2040 + "]" * 2040 + "}\n" * (n // 4096),
    "keys": lambda n: "{" + ",".join(f'"k{i}":1' for i in range(n // 9)) + ',"text":"a"}', "same key": lambda n: "{" + ",".join(['"text":"\\u0041"'] * (n // 16)) + "}",
    "escapes": lambda n: '{"text":"' + "\\u00e5" * (n // 6) + '"}', "long id": lambda n: json.dumps({"text": "a", "id": "x" * n}),
}


def page(text):
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<page><title>a</title><ns>0</ns><id>1</id><revision><text>{text}</text></revision></page>\n"


def files():
    """name, ending, what makes it of so many bytes"""
    for name, make in WIKITEXT.items():
        yield name, "xml", lambda n, make=make: page(make(n)).encode()
    for name, make in TEXTS.items():
        yield name, "jsonl", lambda n, make=make: json.dumps({"text": make(n)}, ensure_ascii=False).encode()
    for name, make in LINES.items():
        yield name, "jsonl", lambda n, make=make: make(n).encode()
    yield "<page>", "xml", lambda n: b"<page>" * (n // 6)
    yield "pages that do not end", "xml", lambda n: b"<page><title>a</title><text>aaaa" * (n // 32)
    yield "bzip2 beginnings", "txt.bz2", lambda n: b"BZh91AY&SY" * (n // 10)
    yield "one endless line", "txt", lambda n: b"\xff" * n


def spent(words, **more):
    """Processor seconds and peak of memory in bytes"""
    child = subprocess.Popen([run.JOTUN] + words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **more)
    said = child.stderr.read().decode()
    status, used = os.wait4(child.pid, 0)[1:]
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{words}: {status}\n{said}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, said


def cleaned(folder, ending, data, *more):
    path = f"{folder}/worst.{ending}"
    open(path, "wb").write(data)
    return spent(["clean", "--restart", "--input", path, "--output", f"{folder}/out.jsonl", "--workers", "2", *more])


def linear(folder):
    usual = cleaned(folder, "xml", page(again("ord [[a|b]] ''c'' {{d|e}}. ", 4 * BYTES)).encode(), *RULES)[0]
    count = 0
    for name, ending, make in files():
        once, four = (cleaned(folder, ending, make(size), *RULES)[0] for size in (BYTES, 4 * BYTES))
        if four > 8 * once + 0.5 or four > 20 * usual + 0.5:
            sys.exit(f"\"{name}\": {once:.2f} s for {BYTES} bytes, {four:.2f} s for four times as many; usual markup takes {usual:.2f} s")
        count += 1
    print(f"{count} files, linear in their sizes and at most 20 times as slow as usual markup")


def small_members(folder):
    """bzip2 members that are shorter than what is read at once, unpacked ahead: memory does not grow with the file."""
    letters = random.Random(1)
    member, peaks = bz2.compress(bytes(letters.randrange(97, 123) for _ in range(50000)) + b"\n"), []
    for count in 200, 2000:
        with open(f"{folder}/many.txt.bz2", "wb") as out:
            for _ in range(count):
                out.write(member)
        peaks.append(spent(["clean", "--input", f"{folder}/many.txt.bz2", "--output", f"{folder}/out.jsonl", "--workers", "2"])[1])
    print(f"{200 * len(member) >> 20} and {2000 * len(member) >> 20} MiB of small bzip2 members: {peaks[0] >> 20} and {peaks[1] >> 20} MiB of memory")
    if peaks[1] > peaks[0] + (32 << 20):
        sys.exit("memory grows with the file")


def refused(folder):
    """What no memory is spent on: a window of 2 GiB, a bomb, a list that is none."""
    frame = b"\x28\xb5\x2f\xfd\x00"
    block = ((9 << 3) | 1).to_bytes(3, "little") + b"hej hopp\n"
    bomb = ((131072 << 3) | 2).to_bytes(3, "little") + b"a"
    open(f"{folder}/long.list", "wb").write(b"a" * 1000000)
    for says, ending, data in (("whose window is above the limit of 2^27 bytes", "txt.zst", frame + b"\xa8" + block), ("a bomb?", "txt.zst", frame + b"\x88" + bomb * 20000)):
        said = cleaned(folder, ending, data)[2]
        if says not in said:
            sys.exit(f"wanted \"{says}\": {said}")
    for path in f"{folder}/long.list", "/dev/zero":
        said = spent(["clean", "--input", f"@{path}", "--output", f"{folder}/out.jsonl"],
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))[2]
        if "a line that can be no path" not in said:
            sys.exit(f"wanted a refusal of @{path}: {said}")
    print("a large window, a bomb and lists without lines are refused")


def main():
    checks = [linear, small_members, refused]
    with run.work_folder() as folder:
        for check in checks:
            if len(sys.argv) < 2 or check.__name__ in sys.argv[1:]:
                check(folder)
    return 0


sys.exit(main())
