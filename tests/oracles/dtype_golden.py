"""Goldens of tests/tensor/dtype_test.c from ml_dtypes (the types of JAX and TensorFlow) and NumPy:

    pip install numpy ml_dtypes;  dtype_golden.py

For each type it prints the FNV-1a hash of the doubles that all its bit patterns decode to, each as 8 bytes in little-endian order and
a NaN as 0x7ff8000000000000, and what some numbers encode to.
"""
import struct

import ml_dtypes
import numpy as np

TYPES = [("BF16", ml_dtypes.bfloat16, np.uint16), ("F16", np.float16, np.uint16),
         ("F8_E4M3", ml_dtypes.float8_e4m3fn, np.uint8), ("F8_E5M2", ml_dtypes.float8_e5m2, np.uint8)]
NUMBERS = ["0x1p0", "-0x1p0", "0x1.999999999999ap-4", "0x1.921fb54442d18p1", "0x1.bfp8", "0x1.cfp8", "0x1.d1p8", "-0x1.dp8", "0x1.ffcp15",
           "0x1.ffep15", "0x1.ffdffep15", "0x1.dp15", "0x1.efffp15", "0x1.fp15", "0x1p-24", "0x1p-25", "0x1.000002p-25", "0x1.8p-24", "0x1p-10",
           "0x1.8p-10", "0x1.8p-9", "0x1p-17", "0x1.8p-16", "0x1p-133", "0x1p-134", "0x1.8p-133", "0x1.fffp127", "inf", "-inf", "-0x0p0", "0x1p-140"]


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


for name, kind, bits in TYPES:
    every = np.arange(256 ** bits().itemsize, dtype=np.uint32).astype(bits).view(kind).astype(np.float64)
    every[np.isnan(every)] = struct.unpack("<d", struct.pack("<Q", 0x7ff8000000000000))[0]
    print(f"    {{ {name}, 0x{fnv(every.astype('<f8').tobytes()):016x} }},")
for text in NUMBERS:
    with np.errstate(over="ignore"):
        encoded = [np.array([float.fromhex(text)]).astype(np.float32).astype(kind).view(bits)[0] for _, kind, bits in TYPES]
    number = text.replace("inf", "INFINITY")
    print(f"    {{ {number}, {{ " + ", ".join(f"0x{int(e):x}" for e in encoded) + " } },")
