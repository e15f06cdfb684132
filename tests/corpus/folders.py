"""Ordinary folders of texts through `jotun clean`: the documents that a person would expect, or a stop that says what would work.

    folders.py              one row of FOLDERS after the other
    folders.py large GB     a wrapped text of so many GB in one file (JOTUN_FULL: 10): its documents, and the memory of the process
"""
import bz2
import gzip
import json
import os
import random
import re
import resource
import subprocess
import sys
import textwrap

import run

WORDS = ("the river had been low all summer and nobody who lived along it could remember a year in which the boats lay so far from "
         "the water while children walked across to where their cousins kept bees").split()


def sentence(rng):
    words = rng.choices(WORDS, k=rng.randint(6, 18))
    return " ".join(words).capitalize() + rng.choice("..!?")


def paragraphs(seed, count):
    rng = random.Random(seed)
    return [" ".join(sentence(rng) for _ in range(rng.randint(2, 7))) for _ in range(count)]


def wrapped(parts, width=72, indent=""):
    """As an editor leaves it: blank lines between, or an indent at each paragraph's beginning and no blank line."""
    fill = [textwrap.fill(p, width, initial_indent=indent, break_on_hyphens=False) for p in parts]
    return ("\n" if indent else "\n\n").join(fill) + "\n"


def joined(parts):
    return "\n\n".join(parts)


def noise(seed, size):
    return random.Random(seed).randbytes(size)


A, B, C = (paragraphs(seed, 60) for seed in (1, 2, 3))
SENTENCES = [sentence(random.Random(100 + i)) for i in range(400)]
NOTES = {f"{i}.txt": f"Note {i}\nremember to {' '.join(WORDS[i:i + 4])}\nand call somebody\n" for i in range(8)}
CODE = {"main.c": "#include <stdio.h>\n\n\n\nint main(void)\n{\n\tint a = 5;\n    return a;\n}\n", "a/run.py": "def f(x):\n    return x\n" * 30}
STANZAS = ["\n".join(s.capitalize() for s in (" ".join(random.Random(i * 4 + k).choices(WORDS, k=7)) for k in range(4))) for i in range(30)]
PLAY = ["\n".join([random.Random(i).choice(["ROMEO:", "First Citizen:"]), *[" ".join(random.Random(i * 9 + k).choices(WORDS, k=6)).capitalize() + "," for k in range(i % 4 + 1)]])
        for i in range(200)]
PAGE = "<html><head><title>x</title><script>var a = '<p>';</script></head><body><h1>Title</h1>%s</body></html>"
MAIL = "From: a@example.org\nTo: b@example.org\nSubject: x\nContent-Transfer-Encoding: base64\n\nSGVqIQ==\n"
MARKDOWN = "# Title\n\n%s\n- one\n- two\n\n```\ncode of a\nprogram\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n%s"

# name, files, options, and the documents in any order, or words that the message of a stop has; after a fifth entry, words of the log
FOLDERS = [
    ("wrapped novels", {"a.txt": wrapped(A), "b.txt": wrapped(B, 65)}, (), [joined(A), joined(B)], "2 of the files are one document each"),
    ("novels with indents", {"a.txt": wrapped(A, 70, "  ")}, (), ["\n".join("  " + p for p in A)]),
    ("one as .md", {"a.txt": wrapped(A), "b.md": wrapped(B)}, (), [joined(A), joined(B)]),
    ("with line ends of Windows", {"a.txt": wrapped(A).replace("\n", "\r\n")}, (), [joined(A)]),
    ("compressed", {"a.txt.gz": gzip.compress(wrapped(A).encode()), "b.md.bz2": bz2.compress(wrapped(B).encode())}, (), [joined(A), joined(B)]),
    ("a document on each line", {"a.txt": "\n".join(SENTENCES) + "\n", "b.txt": "\n".join(A) + "\n"}, (), SENTENCES + A),
    ("lines, and a novel", {"a.txt": "\n".join(SENTENCES) + "\n", "b.txt": wrapped(A)}, (), SENTENCES + [joined(A)], "1 have a document on each line (txt)"),
    ("the novel as lines after all", {"b.txt": "One wrapped\nline here\n" * 9 + wrapped(A)}, ("--input-format", "txt", "--dedup", "none"), 18 + len(wrapped(A).split("\n")) - 1 - wrapped(A).count("\n\n")),
    ("paragraphs that are not wrapped", {"a.txt": joined(A) + "\n"}, (), [joined(A)]),
    ("verse", {"a.txt": "\n\n".join(STANZAS) + "\n"}, (), ["\n\n".join(STANZAS)]),
    ("a play", {"input.txt": "\n\n".join(PLAY) + "\n"}, (), ["\n\n".join(PLAY)]),
    ("short notes", NOTES, (), [text.strip() for text in NOTES.values()]),
    ("mixed sizes", {"novel.txt": wrapped(A * 20), **NOTES}, (), [joined(A * 20)] + [text.strip() for text in NOTES.values()]),
    ("notes in Markdown", {"a/n.md": MARKDOWN % (wrapped(A), wrapped(B)), "b/m.markdown": wrapped(C)}, (),
     [MARKDOWN.strip() % (joined(A) + "\n", joined(B)), joined(C)]),
    ("reST, Org and TeX", {"a.rst": wrapped(A), "b.org": "* Heading\n" + wrapped(B), "c.tex": "\\section{X}\n" + wrapped(C)}, (),
     [joined(A), "* Heading\n" + joined(B), "\\section{X}\n" + joined(C)]),
    ("HTML", {"a.html": PAGE % "".join(f"<p>{textwrap.fill(p, 60)}</p>\n" for p in A), "b.htm": PAGE % "<p>One &amp; two</p>"}, (),
     [joined(["Title"] + A), "Title\n\nOne & two"]),
    ("files without endings", {"README": wrapped(A), "LICENSE": wrapped(B), "wiki_00": '<doc id="1" url="u" title="t">\nAn article.\n</doc>\n'}, (),
     [joined(A), joined(B), "An article."]),
    ("JSON lines and notes", {"a.jsonl": "".join(json.dumps({"text": s}) + "\n" for s in SENTENCES), "b.md": wrapped(A)}, (), SENTENCES + [joined(A)]),
    ("UTF-8 and UTF-16", {"a.txt": wrapped(A), "b.txt": wrapped(B).encode("utf-16")}, (), [joined(A), joined(B)]),
    ("in another encoding", {"a.txt": wrapped(A), "b.txt": wrapped(B).replace("river", "\u00e5n").encode("latin-1")}, (), "1 not text in UTF-8 of .* --input-encoding ISO-8859-1"),
    ("and which", {"b.txt": wrapped(B).replace("river", "\u00e5n").encode("latin-1")}, ("--input-encoding", "latin1"), [joined(B).replace("river", "\u00e5n")]),
    ("one file of 5 MB", {"a.txt": wrapped(paragraphs(9, 20000))}, (), ("together", joined(paragraphs(9, 20000)))),
    ("mails", {"1.eml": MAIL, "2.eml": MAIL, "in.mbox": MAIL * 9}, (), "3|2 .eml of .* mails are not decoded"),
    ("mails beside texts", {"in.mbox": MAIL * 500, "a.txt": wrapped(A)}, (), r"[0-9]+ % of the bytes of --input would be skipped: 1 .mbox .* --skip-unreadable"),
    ("without the mails", {"in.mbox": MAIL * 500, "a.txt": wrapped(A)}, ("--skip-unreadable",), [joined(A)], "skipped: 1 .mbox of "),
    ("source code", CODE, (), "--input-format files reads source code too"),
    ("source code that is asked for", CODE, ("--input-format", "files"), [CODE["main.c"].replace("\n\n\n\n", "\n\n\n\n").strip(), CODE["a/run.py"].strip()]),
    ("a few scripts beside texts", {**CODE, "a.txt": wrapped(A * 5)}, (), [joined(A * 5)], "skipped: 1 .py"),
    ("PDF", {"a.pdf": b"%PDF-1.4" + noise(1, 9000), "b.txt": wrapped(A)}, (), "pdftotext FILE"),
    ("pictures", {"a.png": noise(2, 5000), "b.jpg": noise(3, 100)}, (), "no file in this directory is read: 1 .png of "),
    ("a program", {"jotun": b"\x7fELF" + noise(4, 9000)}, (), "no file in this directory is read: 1 not text in UTF-8"),
    ("a small picture beside texts", {"a.png": noise(2, 50), "b.txt": wrapped(A)}, (), [joined(A)], "skipped: 1 .png of "),
    ("XML of another kind", {"a.xml": "<?xml version='1.0'?><book>x</book>"}, (), "--input-format files reads what is no MediaWiki dump"),
    ("a table", {"a.csv": "a,b\n1,2\n"}, (), "duckdb"),
    ("hidden files", {".git/objects/a": noise(5, 90000), ".DS_Store": noise(6, 10), "a.txt": wrapped(A)}, (), [joined(A)], "2 hidden files, links"),
    ("nothing", {}, (), "there is no file in this directory"),
    ("nothing but hidden files", {".a.txt": wrapped(A)}, (), "has only hidden files"),
    ("empty files", {"a.txt": "", "b.md": ""}, (), "no documents in it"),
]

failures = []


def make(folder, files):
    os.mkdir(folder)
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data if isinstance(data, bytes) else data.encode())


def fault(folder, files, options, wanted, logged=""):
    """What is wrong; "" where nothing is."""
    make(folder, files)
    out = folder + ".jsonl"
    done = run.jotun("clean", "--input", folder, "--output", out, *options, check=False)
    if isinstance(wanted, str):
        return "" if done.returncode == 1 and re.search(wanted, done.stderr) else f"exit code {done.returncode}, wanted a stop with {wanted!r}"
    if done.returncode:
        return f"exit code {done.returncode}"
    got = [json.loads(line)["text"] for line in open(out, encoding="utf-8")]
    if isinstance(wanted, int):
        return "" if len(got) == wanted else f"{len(got)} documents instead of {wanted}"
    if isinstance(wanted, tuple):
        same = "\n\n".join(got) == wanted[1]
        return "" if same and len(got) > 1 else f"{len(got)} documents, which are {'' if same else 'not '}the text"
    if sorted(got) != sorted(wanted):
        odd = [text for text in got if text not in wanted][:1] + [text for text in wanted if text not in got][:1]
        return f"{len(got)} documents instead of {len(wanted)}; those that differ begin\n" + "\n".join(f"{text[:600]!r}" for text in odd)
    return "" if logged in done.stderr else f"the log does not say {logged!r}:\n{done.stderr}"


def large(gigabytes):
    """Memory does not grow with the file, which is many documents that end with paragraphs."""
    with run.work_folder() as folder:
        path, out, size = os.path.join(folder, "a.txt"), os.path.join(folder, "o.jsonl.zst"), 0
        text = [wrapped(paragraphs(seed, 2000)).encode() + b"\n" for seed in range(9)]
        with open(path, "wb") as file:
            while size < gigabytes * 1e9:
                size += file.write(b"%d\n\n" % size + random.choice(text))
        done = subprocess.run([run.JOTUN, "clean", "--input", path, "--output", out, "--dedup", "none", "--report", os.path.join(folder, "r.json")],
                              stderr=subprocess.PIPE, text=True)
        documents = json.load(open(os.path.join(folder, "r.json")))["written"]["documents"] if done.returncode == 0 else 0
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(f"{size} bytes: {documents} documents, {most:.2f} GB of memory")
        if done.returncode or abs(documents - size / (4 << 20)) > 2 + documents / 20 or most > 2:
            sys.exit(f"exit code {done.returncode}\n{done.stderr}")


def main():
    if sys.argv[1:2] == ["large"]:
        return large(float(sys.argv[2]))
    with run.work_folder() as folder:
        for i, (name, *row) in enumerate(FOLDERS):
            why = fault(os.path.join(folder, str(i)), *row)
            if why:
                failures.append(f"{name}: {why}")
    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(FOLDERS)} folders")
    if os.environ.get("JOTUN_FULL"):
        large(10)


main()
