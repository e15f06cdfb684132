#!/usr/bin/env python3
"""datasketch on the pairs of bench_dedup: Jaccard index, recall of both, and its speed. It holds no texts against each
other, so what it finds below the threshold is counted too.  bench_dedup pairs 2000 | vs_datasketch.py"""
import re
import sys
import time
from datasketch import MinHash, MinHashLSH


def shingles(text):
    words = re.findall(r"[^\W_]+", text.lower())
    return {" ".join(words[i:i + 5]).encode() for i in range(len(words) - 4)}


rows = [line.rstrip("\n").split("\t") for line in sys.stdin]
sets = [(shingles(a), shingles(b)) for _, _, a, b in rows]
worst = max(abs(len(a & b) / len(a | b) - float(row[0])) for row, (a, b) in zip(rows, sets))
size, begun = sum(len((a + b).encode()) for _, _, a, b in rows), time.process_time()
lsh, found, hashes = MinHashLSH(num_perm=126, params=(18, 7)), [], []
for a, b in sets:
    pair = [MinHash(num_perm=126), MinHash(num_perm=126)]
    pair[0].update_batch(a)
    pair[1].update_batch(b)
    hashes.append(pair)
for i, (a, _) in enumerate(hashes):
    lsh.insert(i, a)
for i, (_, b) in enumerate(hashes):
    found.append(i in lsh.query(b))
seconds = time.process_time() - begun
print(f"Jaccard indices differ by at most {worst:.7f}")
print(f"datasketch: {size / 1e6 / seconds:.2f} MB/s of CPU time for signatures and buckets alone, shingles not counted")
for low, high in (0, 0.8), (0.8, 0.85), (0.85, 1.01):
    here = [i for i, row in enumerate(rows) if low <= float(row[0]) < high]
    ours, theirs = (sum(int(rows[i][1]) for i in here), sum(found[i] for i in here))
    print(f"Jaccard {low:.2f} to {min(high, 1):.2f}: {len(here)} pairs; jotun {ours / len(here):.4f}, datasketch {theirs / len(here):.4f}")
