"""Files of torch.save in both formats and of every protocol are read as they were written; where PyTorch is at hand, its own as well."""
import enum
import os
import pickle
import subprocess
import sys

import run
import torch_write as tw
from torch_write import OrderedDict, Tensor

DUMP = os.environ["DUMP"]


def dump(kind, path, data):
    with open(path, "wb") as out:
        out.write(data)
    done = subprocess.run([DUMP, kind, path], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr.strip()


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: read as\n  {got}\ninstead of\n  {wanted}")


def plain(path):
    """Values of every kind, by Python's own writer, in every protocol."""
    text = "a\u00e4\u20ac\U0001f600'\\\n"
    shown = "".join(c if " " <= c <= "~" else "?" * len(c.encode()) for c in text)
    value = [None, True, False, 0, 255, 256, 65536, -1, -2**31, 2**31, -2**63, 2**63 - 1, 1.5, -1e300, "", "abc", text, (), (1,), (1, 2), (1, 2, 3),
             (1, 2, 3, 4), [], [[1]], {}, {"a": 1, "b": {"c": (2,)}}]
    wanted = repr(value).replace(repr(text), f"'{shown}'").replace("(1,)", "(1)").replace("(2,)", "(2)").replace("-1e+300", "-1.0000000000000001e+300")
    for protocol in range(6):
        expect(f"protocol {protocol}", dump("pickle", path, pickle.dumps(value, protocol)), wanted)
        expect(f"protocol {protocol}, bytes", dump("pickle", path, pickle.dumps([b"ab\x00\xff", OrderedDict([("k", 1)])], protocol)),
               "[b'ab??', {'k': 1}]")
        expect(f"protocol {protocol}, set", dump("pickle", path, pickle.dumps({7}, protocol)), "|7|")
    for protocol in range(2, 6):
        expect("big integers", dump("pickle", path, pickle.dumps([2**64, -2**70], protocol)), "[big 9, big 9]")
    expect("Python 2", dump("pickle", path, b"(lp0\nS'a\\x41\\n\\''\np1\naI01\naL5L\naU\x01za."), "['aA?'', True, 5, 'z']")
    shared = ["x"]
    expect("shared", dump("pickle", path, pickle.dumps([shared] * 3, 4)), "[['x'], ['x'], ['x']]")


def tensors(path):
    base = tw.Storage([float(i) for i in range(12)], "float32")
    kind = tw.named("megatron.core.enums", "ModelType")
    value = {
        "f32": Tensor([1, 2, 3, 4, 5, 6], (2, 3)), "bf16": Tensor([1.5, -2.0], (2,), "bfloat16"), "f16": Tensor([0.5], (1,), "float16"),
        "f64": Tensor([0.1], (), "float64"), "none": Tensor([], (0, 4)),
        "transposed": Tensor(None, (3, 4), storage=base, stride=(1, 3)), "row": Tensor(None, (3,), storage=base, offset=4, stride=(1,)),
        "again": Tensor(None, (2, 2), storage=base, offset=1, stride=(0, 1)),
        "parameter": tw.Parameter(Tensor([7.0], (1,))), "steps": Tensor([3], (1,), "int64"),
        "args": tw.Namespace(a=1, kind=kind),
    }
    wanted = ("{'f32': tensor float32 [2, 3] 1 2 3 4 5 6, 'bf16': tensor bfloat16 [2] 1.5 -2, 'f16': tensor float16 [1] 0.5, "
              "'f64': tensor float64 [] 0.1, 'none': tensor float32 [0, 4], "
              "'transposed': tensor float32 [3, 4] 0 3 6 9 1 4 7 10 2 5 8 11, 'row': tensor float32 [3] 4 5 6, "
              "'again': tensor float32 [2, 2] 1 2 1 2, 'parameter': tensor float32 [1] 7, 'steps': tensor int64 [1], "
              "'args': <argparse.Namespace>(() state {'a': 1, 'kind': <megatron.core.enums.ModelType>})}")
    for protocol in range(2, 6):
        for zip64 in False, True:
            expect(f"zip, protocol {protocol}, zip64 {zip64}", dump("torch", path, tw.saved(value, protocol, zip64)), wanted)
        expect(f"older format, protocol {protocol}", dump("torch", path, tw.saved_legacy(value, protocol)), wanted)


def own(path):
    """The same by PyTorch itself."""
    python = os.environ.get("JOTUN_TORCH")
    if not python:
        print("PyTorch's own files: JOTUN_TORCH names no Python, skipped")
        return
    code = """if True:
        import argparse, sys, torch, numpy
        weight = torch.arange(6.).reshape(2, 3)
        value = {"w": weight, "t": weight.t(), "h": weight.bfloat16()[1], "p": torch.nn.Parameter(weight), "s": torch.Size([2]), "n": numpy.float64(2.5),
                 "i": numpy.int64(-3), "args": argparse.Namespace(dtype=torch.bfloat16, device=torch.device("cpu")), "m": torch.nn.Linear(1, 1).state_dict()["bias"].shape}
        torch.save(value, sys.argv[1], _use_new_zipfile_serialization=sys.argv[2] == "zip")
        print(torch.__version__)"""
    for kind in "zip", "older":
        version = subprocess.run([python, "-c", code, path, kind], capture_output=True, text=True, check=True, env={}).stdout.strip()
        expect(f"PyTorch {version}, {kind}", dump("torch", path, open(path, "rb").read()),
               "{'w': tensor float32 [2, 3] 0 1 2 3 4 5, 't': tensor float32 [3, 2] 0 3 1 4 2 5, 'h': tensor bfloat16 [3] 3 4 5, "
               "'p': tensor float32 [2, 3] 0 1 2 3 4 5, 's': (2), 'n': 2.5, 'i': -3, 'args': <argparse.Namespace>(() state "
               "{'dtype': <torch.bfloat16>, 'device': <torch.device>(('cpu'))}), 'm': (1)}")
        print(f"PyTorch {version}, {kind}: read")


def main():
    with run.work_folder() as folder:
        path = os.path.join(folder, "file")
        plain(path)
        tensors(path)
        own(path)
    print("every file is read as it was written")


if __name__ == "__main__":
    sys.exit(main())
