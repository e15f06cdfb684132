"""Token files of llm.c and nanoGPT become a .bin and .idx: the same ids in the same order, a document behind each end id."""
import os
import struct
import sys

import run

END = 256                                             # of the tokenizer `bytes`


def write(path, data):
    with open(path, "wb") as out:
        out.write(data)


def llmc(ids, version, **change):
    header = [change.get("magic", 20240520), version, change.get("count", len(ids))] + [0] * 253
    return struct.pack("<256i", *header) + struct.pack("<%d%s" % (len(ids), "H" if version == 1 else "I"), *ids)


def documents(prefix):
    """Ids of each document, by the index."""
    idx, tokens = open(prefix + ".idx", "rb").read(), open(prefix + ".bin", "rb").read()
    sequences, entries = struct.unpack_from("<QQ", idx, 18)
    lengths = struct.unpack_from("<%di" % sequences, idx, 34)
    firsts = struct.unpack_from("<%dq" % entries, idx, 34 + 12 * sequences)
    ids, at, out = struct.unpack("<%dH" % (len(tokens) // 2), tokens), 0, []
    for first, last in zip(firsts, firsts[1:]):
        count = sum(lengths[first:last])
        out.append(list(ids[at:at + count]))
        at += count
    return out


def merge(folder, *files, check=True, tokenizer=("--tokenizer", "bytes")):
    out = os.path.join(folder, "out")
    done = run.jotun("data", "merge", *tokenizer, "--output-prefix", out, *files, check=check)
    return documents(out) if check else done.stderr


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {str(got)[:500]} instead of {str(wanted)[:500]}")


def refused(what, folder, data, why):
    path = os.path.join(folder, "bad")
    write(path, data)
    said = merge(folder, path, check=False)
    if why not in said:
        sys.exit(f"{what}: {said!r} does not say {why!r}")


def main():
    ids = [END, *b"one", END, *b"and two", END, *b"the rest"]
    cut = [[END], [*b"one", END], [*b"and two", END], [*b"the rest"]]
    long = [i % 250 for i in range(70000)] + [END]
    with run.work_folder() as folder:
        one, two = os.path.join(folder, "one.bin"), os.path.join(folder, "two.bin")
        for version in 1, 2:
            write(one, llmc(ids, version))
            expect(f"llm.c, version {version}", merge(folder, one), cut)
        write(two, struct.pack("<%dH" % len(ids), *ids))
        expect("nanoGPT", merge(folder, two), cut)
        expect("both", merge(folder, one, two), cut + cut)
        write(two, struct.pack("<%dH" % len(long), *long))
        expect("a document longer than a sequence", merge(folder, two), [long])
        expect("a token file beside them", merge(folder, run.corpus(folder), one)[-4:], cut)
        if "needs --tokenizer" not in merge(folder, one, check=False, tokenizer=()):
            sys.exit("a file without a tokenizer is not refused")
        refused("version 3", folder, llmc(ids, 2).replace(b"\x02", b"\x03", 1), "version 3 of llm.c's token files")
        refused("more tokens than there are", folder, llmc(ids, 1, count=1 << 30), "its header says 1073741824 tokens")
        refused("a truncated file", folder, llmc(ids, 1)[:-2], "truncated or damaged")
        refused("half a token", folder, b"abc", "no whole number of uint16 tokens")
        refused("an id that is none", folder, struct.pack("<3H", 1, 2, 257), "token 2 is 257; the tokenizer has 257 ids")
        refused("an id above 2^31", folder, llmc([1, 0xffffffff], 2), "token 1 is 4294967295")
    print("token files of llm.c and nanoGPT are copied")
    return 0


if __name__ == "__main__":
    sys.exit(main())
