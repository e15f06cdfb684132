"""jotun langid as a person types it, on a model written here; and beside fastText's own tool, where that is installed, on
models of every loss, whole and quantised, that it trains here."""
import gzip
import math
import os
import random
import struct
import subprocess
import sys

import run

LANGUAGES = {"sv": "och att det som en är på för med inte också någon åker öar", "no": "og at det som en er på for med ikke også noen åker øyer",
             "en": "and that it which a is on for with not also someone goes islands", "fi": "ja että se joka on varten kanssa ei myös joku yötä saarta"}


def model(path):
    """Three words, two labels; softmax of one dimension."""
    words = [("</s>", 0, 0.0), ("hej", 0, 4.0), ("hei", 0, -4.0), ("__label__sv", 1, 1.0), ("__label__no", 1, -1.0)]
    head = struct.pack("<14id3i2q", 793712314, 12, 1, 5, 5, 1, 5, 1, 3, 3, 0, 0, 0, 100, 1e-4, 5, 3, 2, 9, -1)
    entries = b"".join(w.encode() + struct.pack("<Bqb", 0, 9, kind) for w, kind, _ in words)
    matrix = [struct.pack("<B2q%df" % len(rows), 0, len(rows), 1, *rows)
              for rows in ([x for _, kind, x in words if not kind], [x for _, kind, x in words if kind])]
    open(path, "wb").write(head + entries + b"".join(matrix))


def line(mean):
    """What is to be printed where the mean of a line's words is so much."""
    p = 1 / (1 + math.exp(-2 * mean)) + 1e-5
    best, other = ("sv", p) if p > 0.5 else ("no", 1.00002 - p)
    return f"__label__{best} {min(other, 1):g}\n"


def expect(what, wanted, got):
    if wanted != got:
        sys.exit(f"{what}: wanted\n{wanted[:2000]}\ngot\n{got[:2000]}")


def refused(code, says, *words, **more):
    done = run.jotun("langid", *words, check=False, **more)
    if done.returncode != code or says not in done.stderr:
        sys.exit(f"{words}: exit code {done.returncode}, wanted {code} and \"{says}\" in:\n{done.stderr}")


def by_hand(folder):
    lid, text, packed = (os.path.join(folder, name) for name in ("lid.bin", "text.txt", "packed.txt.gz"))
    model(lid)
    lines = {"hej": line(2), "hei hei": line(-8 / 3), "hej hei okänd": line(0), "hei\r": line(-2), "\thej hej\0hej": line(3)}
    # an empty line has its end; line(0) is a tie
    tie = run.jotun("langid", "--model", lid, input="\n").stdout
    lines.update({"hej hei okänd": tie, "": tie, "  ": tie})
    if tie not in ("__label__sv 0.50001\n", "__label__no 0.50001\n"):
        sys.exit(f"an empty line: {tie}")
    chosen = random.Random(3).choices(list(lines), k=300000)
    wanted = "".join(lines[x] for x in chosen)
    open(text, "w", newline="").write("\n".join(chosen))
    with gzip.open(packed, "wt", newline="") as file:
        file.write("\n".join(chosen[:1000]) + "\n")
    expect("one thread", wanted, run.jotun("langid", "--model", lid, "--input", text, "--threads", 1).stdout)
    expect("three threads", wanted, run.jotun("langid", "--model", lid, "--input", text, "--threads", 3).stdout)
    few = "".join(lines[x] for x in chosen[:1000])
    expect("files and standard input", few + lines["hej"] + few,
           run.jotun("langid", "--model", lid, "--input", packed, "-", packed, input="hej").stdout)
    expect("nothing", "", run.jotun("langid", "--model", lid, input="").stdout)
    expect("a line above a block", line(4) + lines["hej"], run.jotun("langid", "--model", lid, input="hej " * 3000000 + "\nhej\n").stdout)
    expect("two labels", 2, run.jotun("langid", "--model", lid, "--top", 5, input="hei\n").stdout.count("__label__"))
    refused(2, "jotun langid needs --model FILE")
    refused(1, "none.bin: cannot be read", "--model", os.path.join(folder, "none.bin"))
    refused(1, "is not a fastText model", "--model", text)
    refused(1, "none.txt: cannot be read", "--model", lid, "--input", os.path.join(folder, "none.txt"))
    refused(1, "--top 0", "--model", lid, "--top", 0)
    with open("/dev/full", "w") as full:
        done = subprocess.run([run.JOTUN, "langid", "--model", lid, "--input", text], stdout=full, stderr=subprocess.PIPE, text=True)
    if done.returncode != 3 or "standard output cannot be written" not in done.stderr:
        sys.exit(f"a full disk: exit code {done.returncode}: {done.stderr}")


def sentence(dice, language):
    words = LANGUAGES[language].split()
    return " ".join(dice.choice(words) + dice.choice(["", "", "", "en", "s"]) for _ in range(dice.randint(1, 12)))


def fasttext(*words, **more):
    return subprocess.run(["fasttext", *words], check=True, capture_output=True, text=True, timeout=300, **more).stdout


def same_as_fasttext(name, lid, texts):
    wanted = fasttext("predict-prob", lid, "-", "3", input=texts).splitlines()
    got = run.jotun("langid", "--model", lid, "--top", 3, input=texts).stdout.splitlines()
    if len(wanted) != len(got):
        sys.exit(f"{name}: {len(got)} lines, not {len(wanted)}")
    most, ties = 0.0, 0
    for i, (a, b) in enumerate(zip(wanted, got)):
        a, b = a.split(), b.split()
        off = max([0.0, *(abs(min(1, float(x)) - float(y)) for x, y in zip(a[1::2], b[1::2]))])
        most = max(most, off)
        ties += a[::2] != b[::2]
        # ova and ns take sigmoids from a table of 512 steps: many labels tie, and a last bit of a sum moves one of them a step
        if a[::2] != b[::2] and not (name[:3] in ("ova", "ns", "ns,") and off < 2e-5 and len(a) == len(b)):
            sys.exit(f"{name}, line {i + 1}: {b}, not {a}")
    if most > 2e-5 or ties > len(got) / 500:
        sys.exit(f"{name}: probabilities off by {most}, {ties} lines with other labels among equals")
    print(f"{name}: {len(got)} lines as fastText's, {ties} with other labels among equals, probabilities within {most:.1e}")


def trained(lines, folder, texts, loss, *words):
    """Models of one loss, trained and then quantised twice: name and path of each."""
    train, lid = os.path.join(folder, "train.txt"), os.path.join(folder, "trained")
    open(train, "w").write("".join(lines))
    fasttext("supervised", "-input", train, "-output", lid, "-loss", loss, "-dim", "10", "-bucket", "5000", "-thread", "1", "-epoch", "2", *words)
    same_as_fasttext(loss, lid + ".bin", texts)
    output = ["-qout"] if len(lines) > 4000 else []               # which wants 256 labels
    fasttext("quantize", "-input", train, "-output", lid, "-qnorm", "-cutoff", "300", *output)
    same_as_fasttext(loss + ", quantised and pruned", lid + ".ftz", texts)
    fasttext("quantize", "-input", train, "-output", lid, "-dsub", "3", *output)
    same_as_fasttext(loss + ", quantised", lid + ".ftz", texts)


def beside_fasttext(folder):
    dice = random.Random(1)
    chosen = [dice.choice(list(LANGUAGES)) for _ in range(7000)]
    lines = [sentence(dice, language) for language in chosen]
    texts = "".join(line + "\n" for line in lines[4000:]) + "\n \n__label__sv\n__label__xx och\n" + "\xe5" * 400 + "\nzzz\x0bqqq\x0c\u20ac \U0001f600\n"
    few  = [f"__label__{language} {line}\n" for language, line in zip(chosen[:4000], lines)]
    many = [f"__label__{i % 300} {lines[i % 300]} {line}\n" for i, line in enumerate(lines)]
    trained(few,  folder, texts, "hs", "-minn", "2", "-maxn", "4")
    trained(few,  folder, texts, "ns", "-minn", "2", "-maxn", "4", "-wordNgrams", "3")
    trained(many, folder, texts, "hs", "-wordNgrams", "2")
    trained(many, folder, texts, "softmax", "-wordNgrams", "2")
    trained(many, folder, texts, "ova", "-minn", "3", "-maxn", "3", "-wordNgrams", "5")


def main():
    with run.work_folder() as folder:
        by_hand(folder)
        if run.have("fasttext"):
            beside_fasttext(folder)
        else:
            print("fasttext is not installed: nothing to compare with")


sys.exit(main())
