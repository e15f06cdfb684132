"""jotun clean as a person types it: shapes of inputs and outputs, one line for a document, what is damaged, what is refused."""
import bz2
import gzip
import json
import os
import resource
import subprocess
import sys
import unicodedata

import run

failures = []


def check(name, got, wanted):
    if got != wanted:
        failures.append(f"{name}\n  wanted: {wanted!r:.500}\n  got:    {got!r:.500}")


def put(path, data):
    with open(path, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())
    return path


def clean(*words, code=0, says=""):
    done = run.jotun("clean", *words, check=False)
    if done.returncode != code or says not in done.stderr:
        failures.append(f"{words}: exit code {done.returncode}, wanted {code} and {says!r} in\n{done.stderr}")
    return done


def lines(path):
    return [line.rstrip("\n") for line in open(path, encoding="utf-8")]


def shapes():
    put("lines.txt", "Första raden.\r\n\n  \nFörsta raden.\nAndra a\u0308nden\u200b.\n")
    clean("--input", "lines.txt", "--output", "o.txt")
    check("lines: equal once, NFC, invisible characters out", lines("o.txt"), ["Första raden.", "Andra änden."])
    clean("--input", "lines.txt", "--output", "o.txt", "--dedup", "none")
    check("no dedup", lines("o.txt"), ["Första raden.", "Första raden.", "Andra änden."])
    put("oscar.txt", "rad ett\nrad två\n\nett annat dokument\n")
    clean("--input", "oscar.txt", "--output", "o.txt", "--input-format", "paragraphs")
    check("paragraphs; newlines become blanks", lines("o.txt"), ["rad ett rad två", "ett annat dokument"])
    put("a.jsonl.gz", gzip.compress(b'{"id": "x1", "url": "http://a/", "text": "rad ett\\n\\n \\"rad\\" tv\\u00e5\\\\"}\n{"content": "bara text"}\n'))
    clean("--input", "a.jsonl.gz", "oscar.txt", "--output", "o.jsonl", "--input-format", "auto")
    rows = [json.loads(line) for line in lines("o.jsonl")]
    check("JSON lines", rows[0], {"id": "x1", "source": "a.jsonl.gz", "url": "http://a/", "text": 'rad ett\n\n "rad" två\\'})
    check("an id where none is", rows[1], {"id": "a.jsonl.gz:2", "source": "a.jsonl.gz", "text": "bara text"})
    dump = ("<mediawiki><page><title>Häst</title><ns>0</ns><id>7</id><revision><id>1</id><model>wikitext</model><text>'''Hästen''' är ett "
            "[[djur|hovdjur]] med {{formatnum:4}} ben.</text></revision></page><page><title>Diskussion:Häst</title><ns>1</ns><id>8</id>"
            "<revision><text>nej</text></revision></page></mediawiki>")
    put("w.xml.bz2", bz2.compress(dump.encode()))
    clean("--input", "w.xml.bz2", "--output", "o.jsonl")
    rows = [json.loads(line) for line in lines("o.jsonl")]
    check("MediaWiki", [(r["id"], r["title"], r["text"]) for r in rows], [("7", "Häst", "Hästen är ett hovdjur med 4 ben.")])
    check("MediaWiki as text", (clean("--input", "w.xml.bz2", "--output", "w.txt").returncode, lines("w.txt")), (0, ["Hästen är ett hovdjur med 4 ben."]))


def outputs():
    put("many.txt", "".join(f"dokument nummer {i} har sina egna ord {i * 7}\n" for i in range(300)))
    os.mkdir("folder")
    clean("--input", "many.txt", "--output", "folder/", "--shard-bytes", 5000)
    names = sorted(os.listdir("folder"))
    check("a folder of shards", names, [f"shard-{i:05d}.txt" for i in range(3)])
    check("in order", [line for name in names for line in lines(f"folder/{name}")], lines("many.txt"))
    clean("--input", "many.txt", "--output", "folder/", "--shard-bytes", 9000)
    check("what a run before had more of goes", sorted(os.listdir("folder")), [f"shard-{i:05d}.txt" for i in range(2)])
    clean("--input", "many.txt", "--output", "deep/er/z.jsonl.zst", "--shard-bytes", "10K")
    whole = subprocess.run("zstd -dcq deep/er/z-*.jsonl.zst", shell=True, capture_output=True, text=True).stdout
    check("packed shards", [json.loads(line)["text"] for line in whole.splitlines()], lines("many.txt"))
    clean("--input", "many.txt", "--output", "bare", "--format", "txt", "--shard-bytes", "100K")
    check("a name without an ending", lines("bare-00000"), lines("many.txt"))
    put("doc.jsonl", "".join(json.dumps({"text": f"sidhuvud\nunik rad {i}\nsidfot"}) + "\n" for i in range(3)))
    clean("--input", "doc.jsonl", "--output", "o.txt", "--dedup", "lines")
    check("repeated lines", lines("o.txt"), ["sidhuvud unik rad 0 sidfot", "unik rad 1", "unik rad 2"])
    done = clean("--input", "many.txt", "--output", "none.txt", "--dry-run", "--sample", 100)
    check("a dry run writes nothing", (os.path.exists("none.txt"), os.path.exists("none.txt.work")), (False, False))
    check("a sample of about 100", 80 <= int(done.stdout.splitlines()[1].split()[1]) <= 120, True)


def damage():
    good = "".join(f"rad nummer {i} med lite text som ingen annan har sagt {i * i}\n" for i in range(3000)).encode()
    for name, data in ("cut.txt.gz", gzip.compress(good)[:-3000]), ("cut.txt.bz2", bz2.compress(good, 1)[:-30]):
        put(name, data)
        clean("--input", name, "many.txt", "--output", "o.txt", says=f"skipped: {name}: byte ")
        check(f"{name}: what comes before the damage and the next file are kept", len(lines("o.txt")) > 300, True)
        check(f"{name}: whole lines", set(lines("o.txt")) <= set(good.decode().splitlines() + lines("many.txt")), True)
    put("bomb.txt.gz", gzip.compress(good + b"\0" * (200 << 20)))
    clean("--input", "bomb.txt.gz", "--output", "o.txt", says="a bomb?")
    check("before the bomb", len(lines("o.txt")), 3000)
    put("bad.txt", b"bra rad\nhar \x00 nul\nhar \xff fel\nbra igen\n" + b"x" * 5000 + b"\nsist\n")
    done = clean("--input", "bad.txt", "--output", "o.txt", "--max-document-bytes", 4000, "--dropped", "dropped.jsonl",
                 says="skipped: bad.txt:2: a NUL")
    check("good documents stay", lines("o.txt"), ["bra rad", "bra igen", "sist"])
    check("where", [word in done.stderr for word in ("bad.txt:3: not UTF-8", "bad.txt:5: a document of 5000 bytes")], [True, True])
    check("and why", [(r["rule"], r["line"]) for r in map(json.loads, lines("dropped.jsonl"))],
          [("with NUL", 2), ("not UTF-8", 3), ("too long", 5)])
    clean("--input", "bad.txt", "--output", "o.txt", "--invalid-utf8", "repair")
    check("repaired", lines("o.txt")[1:3], ["har \ufffd nul", "har \ufffd fel"])


def stages():
    put("mixed.txt", "Det här är svenska ord, och inget annat.\nЭто русский текст.\nMoskva (Москва) är en stad.\nkort\n")
    clean("--input", "mixed.txt", "--output", "o.txt", "--charset", "sv")
    check("characters", lines("o.txt"), ["Det här är svenska ord, och inget annat.", "Moskva är en stad.", "kort"])
    clean("--input", "mixed.txt", "--output", "o.txt", "--charset", "sv", "--charset-mode", "strict", "--quality-rules", "words-min=3")
    check("strictly; and a rule", lines("o.txt"), ["Det här är svenska ord, och inget annat."])
    clean("--input", "mixed.txt", "--output", "o.txt", "--charset", "sv,se", "--quality-rules", "stop-words=2")
    check("stop words of the first language", lines("o.txt"), ["Det här är svenska ord, och inget annat.", "Moskva är en stad."])
    put("test.txt", "ett två tre fyra fem sex sju åtta nio tio elva tolv tretton\n")
    put("train.txt", "Noll, ett två tre fyra fem sex sju åtta nio tio elva tolv TRETTON!\nEtt två tre.\n")
    clean("--input", "train.txt", "--output", "o.txt", "--decontaminate", "test.txt")
    check("a test set's words", lines("o.txt"), ["Ett två tre."])


def sought():
    """Test sets and bad words are known in whatever form their files have them."""
    text = "Här är åtta små öar vid ån där älgar går över ängar på våren när snön töat bort"
    put("train.txt", text + " idag\nEtt annat dokument.\n")
    for form in unicodedata.normalize("NFD", text), text.replace("ängar", "än\u00adgar").replace("små", "sm\u200bå"):
        put("test.txt", form + "\nför kort\n")
        clean("--input", "train.txt", "--output", "o.txt", "--decontaminate", "test.txt", says="1 texts of --decontaminate have fewer than 13 words")
        check("a test set in another form", lines("o.txt"), ["Ett annat dokument."])
    for form in "NFC", "NFD":
        put("bad.txt", unicodedata.normalize(form, "öar") + "\n")
        clean("--input", "train.txt", "--output", "o.txt", "--bad-words", "bad.txt")
        check(f"bad words, no other rule, {form}", lines("o.txt"), ["Ett annat dokument."])


def labels():
    """Labels of a model are any words; JSON stays JSON."""
    if not run.have("fasttext"):
        return
    strange = "a\"b\\c<" + "å" * 60
    with open("learn.txt", "w") as out:
        for i in range(200):
            out.write(f"__label__{strange} kort rad {i % 7}\n__label__\\ long line {i % 7}\n")
    subprocess.run(["fasttext", "supervised", "-input", "learn.txt", "-output", "strange", "-dim", "2", "-bucket", "100", "-verbose", "0",
                    "-thread", "1"], check=True, stderr=subprocess.DEVNULL)
    put("train.txt", "kort rad 1\nkort rad 2\nlong line 3\n")
    clean("--input", "train.txt", "--output", "o.jsonl", "--lang-model", "strange.bin", "--lang", "\\", "--lang-threshold", 0, "--report", "r.json",
          "--dropped", "d.jsonl")
    told = [json.loads(line)["language"] for name in ("o.jsonl", "d.jsonl") for line in open(name)]
    check("labels as they are", sorted(set(told) - {strange, "\\"}), [])
    check("in the report too", sum(v["documents"] for v in json.load(open("r.json"))["languages"].values()), 3)


def refusals():
    clean("--input", "many.txt", code=2, says="jotun clean needs --output")
    clean("--output", "o.txt", code=2, says="jotun clean needs --input")
    clean("--input", "missing.txt", "--output", "o.txt", code=1, says="missing.txt")
    clean("--input", "many.txt", "--output", "o.pdf", code=1, says="ends neither in .txt nor in .jsonl")
    clean("--input", "many.txt", "--output", "o.txt.gz", code=1, says="written plain or as .zst")
    clean("--input", "many.txt", "--output", "o.txt", "--format", "jsonl", code=1, says="its name says otherwise")
    clean("--input", "many.txt", "--output", "o.txt", "--format", "u16", code=1, says="give txt or jsonl")
    clean("--input", "many.txt", "--output", "o.txt", "--lang", "sv", code=1, says="--lang-model FILE")
    clean("--input", "many.txt", "--output", "o.txt", "--lang", "sv", "--lang-model", "many.txt", code=1, says="many.txt")
    clean("--input", "many.txt", "--output", "o.txt", "--charset", "qq", code=1, says="qq")
    clean("--input", "many.txt", "--output", "o.txt", "--quality", "gopher", code=1, says="the rule stop-words needs a language")
    clean("--input", "many.txt", "--output", "o.txt", "--near-bands", 4, code=1, says="has no effect without --near-threshold J")
    clean("--input", "many.txt", "--output", "o.txt", "--memory", "much", code=1, says="not a number of bytes")
    clean("--input", "many.txt", "--output", "o.txt", "--dry-run", "--pairs", "p", code=1, says="--dry-run writes no")
    for more in ["--clusters", "c"], ["--pairs", "c"], ["--dedup-normalization", "words"]:
        clean("--input", "many.txt", "--output", "o.txt", "--dedup", "none", *more, code=1, says=f"{' '.join(more)} has no effect without --dedup exact")
    clean("--input", "many.txt", "--output", "o.txt", "--drop-warnings", "noisy", "noisyy", code=1, says="--drop-warnings noisyy is none of")
    put("bad.txt", "fult\n")
    clean("--input", "many.txt", "--output", "o.txt", "--bad-words", "bad.txt", "--quality-rules", "bad-words=off", code=1, says="leave one of them out")
    put("asked.jsonl", '{"content": "ett prov som ingen ska ha sett av dem som övar sig på svar"}\n')
    clean("--input", "many.txt", "--output", "o.txt", "--decontaminate", "asked.jsonl", code=1, says="--json-keys")
    clean("--input", "many.txt", "--output", "o.txt", "--decontaminate", "asked.jsonl", "--json-keys", "content")
    os.remove("o.txt")
    put("empty.txt", "\n\n")
    clean("--input", "empty.txt", "--output", "o2.txt", code=1, says="no documents in it")
    os.mkdir("o3.txt.work")
    put("o3.txt.work/mine", "x")
    clean("--input", "many.txt", "--output", "o3.txt", code=1, says="holds other files")
    check("nothing is left behind", [os.path.exists("o2.txt.work"), os.path.exists("o.txt.work"), os.listdir("o3.txt.work")], [False, False, ["mine"]])


def limited():
    """A file that may not grow on is named, as on a full disk, and the run goes on where there is room."""
    put("wide.txt", "".join(f"{i * i} rad nummer {i}\n" for i in range(40000)))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, resource.RLIM_INFINITY))
    done = run.jotun("clean", "--input", "wide.txt", "--output", "limited.txt", check=False, preexec_fn=limit)
    check("named", (done.returncode, "cannot be written: File too large" in done.stderr), (3, True))
    clean("--input", "wide.txt", "--output", "limited.txt")
    check("goes on", lines("limited.txt"), lines("wide.txt"))


def at_once():
    """Of runs that begin at the same moment each does all, or says that another works there."""
    for _ in range(25):
        runs = [subprocess.Popen([run.JOTUN, "clean", "--input", "many.txt", "--output", "once.txt"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True) for _ in range(3)]
        told = [(r.communicate()[1], r.returncode) for r in runs]
        check("told", [words for words, code in told if code and "another run is working" not in words], [])
        check("the same documents", (all(code for _, code in told), lines("once.txt")), (False, lines("many.txt")))
    check("no work is left", os.path.exists("once.txt.work"), False)


def places():
    """What is read is never written over, and no file is written twice."""
    text = "".join(f"dokument nummer {i % 50}\n" for i in range(100))
    put("corpus.txt", text)
    os.makedirs("shards", exist_ok=True)
    put("shards/shard-00000.txt", text)
    for option in "--output", "--dropped", "--pairs", "--clusters", "--report":
        more = [] if option == "--output" else ["--output", "o.txt"]
        clean("--input", "corpus.txt", option, "./corpus.txt", *more, code=1, says=f"{option} ./corpus.txt: is also an input")
    clean("--input", "many.txt", "--output", "o.txt", "--decontaminate", "corpus.txt", "--dropped", "corpus.txt", code=1, says="is also an input")
    clean("--input", "shards", "--output", "shards/", code=1, says="shard-00000.txt: is also an input")
    check("inputs are as they were", [open(path).read() == text for path in ("corpus.txt", "shards/shard-00000.txt")], [True, True])
    clean("--input", "corpus.txt", "--output", "o.txt", "--dropped", "x.jsonl", "--pairs", "./x.jsonl", code=1, says="is also the file of --dropped")
    clean("--input", "corpus.txt", "--output", "o.jsonl", "--report", "./o.jsonl", code=1, says="is also the file of --report")
    done = clean("--input", "corpus.txt", "--output", "o.txt", "--report", "/dev/stdout")
    check("a report to a device has no page", ('"kept": {"documents": 50' in done.stdout, os.path.exists("/dev/stdout.html")), (True, False))
    clean("--input", "corpus.txt", "--output", "o.txt", "--report", "r.html", code=1, says="is also the file of --report")
    os.mkfifo("pipe.txt")
    clean("--input", "corpus.txt", "--output", "pipe.txt", code=1, says="--output pipe.txt: is not a regular file")
    os.makedirs("named.txt", exist_ok=True)
    clean("--input", "corpus.txt", "--output", "named.txt", code=1, says="--output named.txt: is a directory")
    check("nothing is left behind", [name for name in os.listdir(".") if name.endswith(".txt.work") and name != "o3.txt.work"], [])


def main():
    run.JOTUN = os.path.abspath(run.JOTUN)
    with run.work_folder() as folder:
        os.chdir(folder)
        for part in shapes, outputs, damage, stages, sought, labels, refusals, places, limited, at_once:
            part()
        os.chdir("/")
    if failures:
        sys.exit("\n".join(failures))
    return 0


sys.exit(main())
