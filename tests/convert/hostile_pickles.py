"""Pickles and archives made to harm their reader: each is refused with a message that says why, in bounded memory and time.

    hostile_pickles.py             every one is refused by DUMP
    hostile_pickles.py FOLDER      writes them into a folder, for the fuzzers"""
import io
import os
import pickle
import resource
import struct
import subprocess
import sys

import torch_write as tw
from torch_write import Tensor

PROTO = b"\x80\x02"


def text(word):
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def name(module, word):
    return f"c{module}\n{word}\n".encode()


def integer(value):
    return b"\x8a\x08" + struct.pack("<q", value)


STORAGE = b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + b"K\x04tQ"


def tensor(offset=0, size=b"K\x02\x85", stride=b"K\x01\x85", storage=STORAGE, maker="_rebuild_tensor_v2"):
    """A tensor of 2 of the 4 elements of a storage, or what the arguments make of it."""
    return PROTO + name("torch._utils", maker) + b"(" + storage + integer(offset) + size + stride + b"\x89}tR."


def zip_of(data, storages=(b"\0" * 16,)):
    return tw.archive(data, storages)


def executing():
    """Every way to name and call a function; each would run a command in Python's own reader."""
    word = text("touch /tmp/hostile")
    called = "it names %s.%s"
    posix = called % ("posix", "system")
    return {
        "REDUCE of os.system": (PROTO + name("os", "system") + b"(" + word + b"tR.", "it names os.system"),
        "REDUCE of posix.system": (PROTO + name("posix", "system") + b"(" + word + b"tR.", posix),
        "GLOBAL alone": (PROTO + name("posix", "system") + b".", posix),
        "STACK_GLOBAL": (b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + word + b"\x85R.", posix),
        "STACK_GLOBAL of a dotted name": (b"\x80\x04\x8c\x02os\x8c\x0bpath.system\x93.", "it names os.path.system"),
        "INST": (b"(" + word + b"iposix\nsystem\n.", posix),
        "OBJ": (b"(" + name("subprocess", "Popen") + word + b"o.", "it names subprocess.Popen"),
        "NEWOBJ": (PROTO + name("subprocess", "Popen") + word + b"\x85\x81.", "it names subprocess.Popen"),
        "NEWOBJ_EX": (b"\x80\x04" + name("subprocess", "Popen") + word + b"\x85}\x92.", "it names subprocess.Popen"),
        "eval": (PROTO + name("__builtin__", "eval") + b"(" + text("1") + b"tR.", "it names __builtin__.eval"),
        "exec": (PROTO + name("builtins", "exec") + b"(" + text("1") + b"tR.", "it names builtins.exec"),
        "a function reached by getattr": (PROTO + name("builtins", "getattr") + b"(" + name("builtins", "dict") + text("pop") + b"tR.",
                                          "an attribute of what is not a plain class"),
        "what getattr made, called": (PROTO + name("builtins", "getattr") + b"(" + name("megatron.core", "x") + text("run") + b"tR)R.",
                                      "calls what is not a class or function by name"),
        "copyreg of a function": (PROTO + name("copyreg", "_reconstructor") + b"(" + name("_codecs", "encode") + b"NNtR.", "not a plain class"),
        "EXT1": (PROTO + b"\x82\x01.", "extension registry"),
        "EXT4": (PROTO + b"\x84\x01\0\0\0.", "extension registry"),
        "a call of a text": (PROTO + text("os.system") + b")R.", "calls what is not a class"),
        "a call of a storage class": (PROTO + name("torch", "FloatStorage") + b")R.", "which is not called"),
        "a call without a tuple": (PROTO + name("collections", "OrderedDict") + b"NR.", "without a tuple"),
        "BUILD of a function": (PROTO + name("_codecs", "encode") + b"}b.", "sets the state of what has none"),
        "BUILD of a text": (PROTO + text("a") + b"}b.", "sets the state of what has none"),
        "a name with a terminal's codes": (b"c\x1b[2J\nx\n.", "not a name"),
        "a name without an end": (b"cos", "a line without an end"),
        "a name of a megabyte": (b"c" + b"a" * 1000000 + b"\nx\n.", "longer than 200 bytes"),
        "torch.load within": (PROTO + name("torch.storage", "_load_from_bytes") + b"C\x00\x85R.", "it names torch.storage._load_from_bytes"),
        "torch.hub": (PROTO + name("torch.hub", "load") + b")R.", "it names torch.hub.load"),
        "a subclass that makes itself": (PROTO + name("torch._tensor", "_rebuild_from_type_v2") + b"q\0(h\0N)NtR.", "not made as tensors are"),
    }


def bombs():
    itself, laughs = [], "x"
    itself.append(itself)
    for _ in range(40):
        laughs = [laughs, laughs]
    deep = b"]" * 5000 + b"a" * 4999 + b"."
    chain = b"]q\0" + b"0]h\0aq\0" * 300 + b"."          # each holds the one before
    half = b"]q\0" + b"0]h\0aq\0" * 149                 # the lower half is looked at first, alone
    halves = b"(" + half + b"]h\0aq\0" + b"0]h\0aq\0" * 149 + b"l."
    return {
        "300 levels in two halves": (halves, "deeper than 200"),
        "a list in itself": (pickle.dumps(itself, 2), "contains itself"),
        "a dictionary in itself": (b"}q\0" + text("a") + b"h\0s.", "contains itself"),
        "an object in its state": (PROTO + name("argparse", "Namespace") + b")\x81q\0}" + text("a") + b"h\0sb.", "contains itself"),
        "billion laughs": (pickle.dumps(laughs, 2), "repeat to more than"),
        "5,000 levels": (deep, "deeper than 200"),
        "300 levels by the memo": (chain, "deeper than 200"),
        "100,000 marks": (b"(" * 100000 + b"N.", "ends with"),
        "BINBYTES8 of 2^60 bytes": (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"a.", "bytes are announced"),
        "BINUNICODE of 4 GiB": (PROTO + b"X\xff\xff\xff\xffa.", "bytes are announced"),
        "BYTEARRAY8 of 2^64 - 1": (b"\x80\x05\x96" + b"\xff" * 8 + b"a.", "bytes are announced"),
        "LONG4 of 2 GiB": (PROTO + b"\x8b\xff\xff\xff\x7fa.", "bytes are announced"),
        "a frame of 2^63": (b"\x80\x04\x95" + struct.pack("<Q", 1 << 63) + b"N.", "a frame of"),
        "memo entry 2^32 - 1": (PROTO + b"]r\xff\xff\xff\xff.", "memo entry 4294967295"),
        "a memo entry that is not set": (PROTO + b"h\x05.", "which is not set"),
        "a negative memo entry": (b"Np-1\n.", "negative memo entry"),
        "copies of a set": (PROTO + b"](" + b"N" * 50000 + b"eq\0" + (name("builtins", "set") + b"h\0\x85R0") * 500 + b".", "more than twice"),
        "copies of bytes": (PROTO + text("a" * 50000) + b"q\0" + (name("_codecs", "encode") + b"h\0\x85R0") * 500 + b".", "more than twice"),
        "digits without an end": (b"I" + b"9" * 100000 + b"\n.", "not a number of 64 bits"),
        "a float of 100,000 digits": (b"F" + b"9" * 100000 + b"\n.", "a number of 100000 characters"),
        "an empty stack": (PROTO + b"R.", "empty stack"),
        "a value below a mark": (b"N(a.", "adds to nothing"),
        "a mark that is missing": (b"Nt.", "a mark where there is none"),
        "a key without a value": (b"(Nd.", "a key without a value"),
        "nothing": (b"", "bytes are announced"),
        "no STOP": (b"]", "bytes are announced"),
        "two values": (b"NN.", "ends with 2 values"),
        "protocol 6": (b"\x80\x06N.", "protocol 6"),
        "no opcode": (b"\xff.", "no opcode"),
        "a buffer outside": (b"\x80\x05\x97.", "a buffer outside"),
        "a persistent id as text": (b"Pabc\n.", "a persistent id as text"),
        "a broken escape": (b"S'\\x4'\n.", "a broken escape"),
        "half a surrogate": (b"V\\u12\n.", "a broken \\u"),
    }


def storages():
    """Lies about tensors and what they lie in; all in honest archives."""
    two = lambda a, b: integer(a) + integer(b) + b"\x86"
    named = lambda key, count: b"(" + text("storage") + name("torch", "FloatStorage") + text(key) + text("cpu") + integer(count) + b"tQ"
    return {
        "a stride that reaches outside": (tensor(stride=b"K\x04\x85"), "reaches element 4"),
        "an offset outside": (tensor(offset=3), "reaches element 4"),
        "an offset below": (tensor(offset=-1), "reaches element"),
        "a negative stride": (tensor(stride=integer(-1) + b"\x85"), "negative size or stride"),
        "a negative size": (tensor(size=integer(-2) + b"\x85"), "negative size or stride"),
        "strides that overflow": (tensor(size=two(1 << 40, 2), stride=two(1 << 40, 1)), "overflow"),
        "2^80 elements by strides of 0": (tensor(size=two(1 << 40, 1 << 40), stride=two(0, 0)), "than can be counted"),
        "shape and strides of two lengths": (tensor(size=two(1, 1)), "a storage, an offset, a shape and strides"),
        "a tensor without a storage": (tensor(storage=b"N"), "a storage, an offset, a shape and strides"),
        "a text as a size": (tensor(size=text("2") + b"\x85"), "not integers"),
        "9 dimensions": (tensor(size=b"(" + b"K\x01" * 9 + b"t", stride=b"(" + b"K\x01" * 9 + b"t"), "9 dimensions"),
        "a storage beyond its entry": (tensor(storage=named("0", 5)), "a storage of 20 bytes has 16"),
        "a storage of 2^62 elements": (tensor(storage=named("0", 1 << 62)), "impossible size"),
        "a negative storage": (tensor(storage=named("0", -1)), "impossible size"),
        "a storage that is not there": (tensor(storage=named("1", 4)), "is not in the archive"),
        "a storage by a path": (tensor(storage=named("../../etc/passwd", 4)), "is not in the archive"),
        "a storage without a class": (tensor(storage=b"(" + text("storage") + b"N" + text("0") + text("cpu") + b"K\x04tQ"), "without a known type"),
        "a persistent id of another kind": (tensor(storage=b"K\x01Q"), "not a tensor's storage"),
        "a parameter of a text": (PROTO + name("torch._utils", "_rebuild_parameter") + b"(" + text("a") + b"\x88NtR.", "not made of a tensor"),
        "a sparse tensor": (PROTO + name("torch._utils", "_rebuild_sparse_tensor") + b")R.", "it names torch._utils._rebuild_sparse_tensor"),
        "bytes after the pickle": (tensor() + b"N.", "has bytes after its pickle"),
    }


def archives():
    """Directories that lie, around an honest pickle."""
    honest = zip_of(tensor())
    end = honest.rindex(b"PK\5\6")
    first = honest.index(b"PK\1\2")

    def changed(at, data, whole=honest):
        return whole[:at] + data + whole[at + len(data):]

    entries = [("a/data.pkl", tensor()), ("a/data/0", b"\0" * 16)]
    wide = tw.zipped(entries, zip64=True)
    wide64 = wide.rindex(b"PK\6\6")
    local = honest.index(b"archive/data.pkl")
    return {
        "a compressed entry": (tw.zipped(entries, method=8), "compressed"),
        "an encrypted entry": (changed(first + 8, b"\1\0"), "encrypted"),
        "two entries of one name": (tw.zipped(entries + [("a/data/0", b"\1" * 16)]), "have one name"),
        "two pickles": (tw.zipped(entries + [("b/data.pkl", b"N.")]), "two files data.pkl"),
        "no pickle": (tw.zipped([("a/other", b"N.")]), "without data.pkl"),
        "a TorchScript program": (tw.zipped(entries + [("a/constants.pkl", b"N.")]), "TorchScript"),
        "big-endian": (tw.zipped(entries + [("a/byteorder", b"big")]), "big-endian"),
        "a truncated archive": (honest[:-30], "no zip directory"),
        "an entry longer than the file": (changed(first + 20, struct.pack("<II", 1 << 30, 1 << 30)), "bytes, "),
        "an entry before the file": (changed(first + 42, struct.pack("<I", len(honest) - 5)), "where no entry is"),
        "an entry on another": (changed(first + 20, struct.pack("<II", 300, 300)), "overlap"),
        "another name at the data": (changed(local, b"archive/data.plk"), "another name"),
        "more entries than there are": (changed(end + 8, struct.pack("<HH", 60000, 60000)), "cannot have 60000 entries"),
        "fewer entries than there are": (changed(end + 8, struct.pack("<HH", 1, 1)), "more bytes than its 1 entries"),
        "a directory outside": (changed(end + 16, struct.pack("<I", 1 << 31)), "lies outside"),
        "several disks": (changed(end + 4, b"\1\0"), "several disks"),
        "a 64-bit record outside": (changed(wide.rindex(b"PK\6\7") + 8, struct.pack("<Q", 1 << 62), wide), "lies outside"),
        "2^60 entries": (changed(wide64 + 24, struct.pack("<QQ", 1 << 60, 1 << 60), wide), "cannot have"),
        "a 64-bit record that is missing": (changed(wide.rindex(b"PK\6\7"), b"XX", wide), "is missing"),
        "a damaged directory": (changed(first, b"XX"), "is damaged"),
    }


def older():
    """The older format: storages behind the pickles."""
    honest = tw.saved_legacy({"a": Tensor([1, 2], (2,)), "b": Tensor([3], (1,))})
    at = len(honest) - (8 + 4) - (8 + 8)
    return {
        "a storage of 2^61 elements": (honest[:at] + struct.pack("<Q", 1 << 61) + honest[at + 8:], "is longer than"),
        "a storage too short": (honest[:at] + struct.pack("<Q", 1) + honest[at + 8:at + 12] + honest[at + 16:], "has 4 in the file"),
        "a truncated file": (honest[:-10], "it ends before storage 1"),
        "bytes at the end": (honest + b"x", "after the last storage"),
        "another magic number": (pickle.dumps(1 << 80, 2) + honest[14:], "not of torch.save"),
        "another version": (honest.replace(b"M\xe9\x03.", b"M\xea\x03.", 1), "version 1002"),
        "a plain pickle": (pickle.dumps({"a": 1}, 2), "not a file of torch.save"),
        "a text file": (b"weights\n", "neither of the two formats"),
    }


def all_files():
    """(kind, what, bytes, a part of the message)"""
    for group, kind, inside in (executing, "torch", zip_of), (bombs, "torch", zip_of), (storages, "torch", zip_of), (archives, "torch", None), \
            (older, "torch", None):
        for what, (data, why) in group().items():
            yield what, inside(data) if inside else data, why


def limits():
    if not os.environ.get("SANITIZE"):                    # a sanitizer's shadow is terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def costs(path):
    """The memory that pickle.h states, for what takes the most of it."""
    most, size = 150, 2 << 20
    parts = {"lists": b"]", "numbers": b"N", "marks": b"(", "tuples of one": b"\x85", "lists of one": b"]Na", "objects": b"h\0)R", "memo entries": b"\x94",
             "copies": b"2", "values by the memo": b"h\0"}
    for what, part in parts.items():
        with open(path, "wb") as out:
            out.write(name("argparse", "Namespace") + b"q\0" + part * (size // len(part)) + b".")
        child = subprocess.Popen([os.environ["DUMP"], "pickle", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1) or usage.ru_maxrss * 1024 > most * size + (48 << 20) or usage.ru_utime > 10:
            sys.exit(f"{what}: exit code {child.returncode}, {usage.ru_maxrss >> 10} MiB and {usage.ru_utime:.1f} s for {size >> 20} MiB")


def main():
    if len(sys.argv) > 1:
        tw.SUMS = False
        for i, (_, data, _) in enumerate(all_files()):
            with open(os.path.join(sys.argv[1], "hostile%d" % i), "wb") as out:
                out.write(data)
        return 0
    import run
    count = 0
    with run.work_folder() as folder:
        path = os.path.join(folder, "file.pt")
        for what, data, why in all_files():
            with open(path, "wb") as out:
                out.write(data)
            done = subprocess.run([os.environ["DUMP"], "torch", path], capture_output=True, text=True, timeout=120, preexec_fn=limits)
            said = done.stdout.strip()
            if done.returncode != 1 or not said.startswith("refused: ") or why not in said or done.stderr:
                sys.exit(f"{what}: exit code {done.returncode}, said {said[:600]!r} {done.stderr[-1500:]!r}; expected to be refused with {why!r}")
            count += 1
        if not os.environ.get("SANITIZE"):
            costs(path)
    print(f"{count} hostile files are refused, each with its reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
