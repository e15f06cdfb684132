"""Random numbers of src/base/random.h, which are functions of (key, index): Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011), FNV-1a, the finalizer of
splitmix64, and a permutation by a Feistel network. Written from the papers and from what random.h says of keys and lanes."""
MASK = 2 ** 64 - 1


def philox(key, index):
    """Four words of 32 bits."""
    c, k = [index & 0xffffffff, index >> 32, 0, 0], [key & 0xffffffff, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def finalized(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def mix(a, b):
    golden = 0x9E3779B97F4A7C15
    return finalized((finalized((a + golden) & MASK) + b + golden) & MASK)


def key(seed, name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    return mix(seed, h)


def uniform(key, index):
    """The upper 53 of the first 64 bits, in [0, 1)."""
    low, high = philox(key, index)[:2]
    return ((high << 32 | low) >> 11) * 2.0 ** -53


def permuted(key, n, i):
    """Element i of a permutation of n: 8 rounds over twice as many bits as needed, again while the result is n or more."""
    half = 1
    while half < 32 and 2 ** (2 * half) < n:
        half += 1
    while True:
        left, right = i >> half, i & (2 ** half - 1)
        for turn in range(8):
            left, right = right, left ^ mix(key + turn & MASK, right) & 2 ** half - 1
        i = left << half | right
        if i < n:
            return i
