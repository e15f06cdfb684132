"""What traffic.py knows of parameters: which tensors a unit has on a rank, how they lie in a block, and which elements of it each data rank updates; and the bytes
of collectives.

    h hidden   V words   E experts, X of them on a rank   t tp   d ranks among which a block is sharded
"""
from collections import namedtuple

# latent: of multi-head latent attention the ranks of queries (0: none) and of keys and values, channels of a head that are rotated and that
# are not, channels of a value.
# experts 0: layers are dense; expert_ffn, topk and shared_ffn (the width of an expert that all tokens take; 0: none) are of a layer of experts, of which there
# is one in every expert_every layers, the first of these
# mtp: depths of multi-token prediction, units behind the head, each with a layer like the last one
Shape = namedtuple("Shape", "layers hidden ffn heads groups head_dim vocabulary positions sequence bias tied learned gated centred experts expert_ffn topk qkv_bias "
                   "qk_norm placement latent shared_ffn expert_every embedding_norm mtp",
                   defaults=(0, 0, 0, False, "", "before", None, 0, 1, False, 0))
CUT, COPIED, KV = "cut", "copied", "kv"               # by tp; the same on all tp ranks; key-value heads, perhaps in copies
SHARED = "shared"                                     # the same on all tp ranks, each of which has the gradient of its own heads
ALIGN = 128                                           # elements at whose multiples matrices begin

# count: elements here. joined: directly behind the one before. matrices: of a transformer layer, here; 0: an embedding, a head, a vector. whole: logical matrices.
# sides: rows and columns of each of these, columns 1 of a vector; and the blocks of Adam-mini (2406.16793): heads of query and key, else rows; of a bias elements,
# of a gain one. across: a matrix that tp cuts has some of the columns here, else some of the rows.
Tensor = namedtuple("Tensor", "kind count joined matrices whole sides across", defaults=(False, 0, 1, None, False))


def gain(kind, count, size):
    return Tensor(kind, count, sides=(size, 1, 1))


def bias(kind, count, size, joined=False):
    return Tensor(kind, count, joined, sides=(size, 1, size))


def matrix(kind, count, rows, columns, joined=False, blocks=0, across=False):
    return Tensor(kind, count, joined, 1, sides=(rows, columns, blocks or rows), across=across)


CODES = 256                                           # elements of a matrix that share a scale of 8-bit states (2110.02861)


def code_granule(x):
    """Elements here of a matrix that is updated alone: those of whole blocks of codes; all of a matrix that is cut within a block, or that is an expert and ends within one."""
    each = x.count // x.matrices
    return each if codes_cut(x) or (x.matrices > 1 and each % CODES) else CODES


def codes_cut(x):
    each, (rows, columns, _) = x.count // x.matrices, x.sides
    if each == rows * columns:
        return False
    return columns % CODES > 0 or (each // rows) % CODES > 0 if x.across else each % CODES > 0


def ceil(x, y):
    return -(-x // y)


# ---- the collectives, bytes that leave one of n ranks (a ring moves as much) ----

def all_gather(n, part, width):                       # (n - 1) / n of the result, which is n parts
    return (n - 1) * part * width


def reduce_scatter(n, count, width):                  # (n - 1) / n S
    assert count % n == 0
    return (n - 1) * (count // n) * width


SUM_GROUP = 8                                         # --sum-group-size


def all_reduce(n, rank, count, width, sum_group=SUM_GROUP):
    """2 (n - 1) / n S where n divides. Else rank r sums elements [r q, (r + 1) q), q = ceil(count / n), the last ranks fewer or
    none: it sends away what it does not sum, and n - 1 times what it does. All ranks together: 2 (n - 1) S.
    Above sum_group ranks a sum goes to one member of each other group, the one with the index of the sum's rank modulo the members,
    and from each member on to the others of its group."""
    q = ceil(count, n)
    part = [max(0, min(count, (p + 1) * q) - min(count, p * q)) for p in range(n)]
    groups = [range(n)[g:g + sum_group] for g in range(0, n, sum_group)]
    mine = next(g for g in groups if rank in g)
    passed_on = [rank] + [p for p in range(n) if p not in mine and mine[p % sum_group % len(mine)] == rank]
    gathered = part[rank] * (len(groups) - 1) + sum(part[p] for p in passed_on) * (len(mine) - 1)
    return (count - part[rank] + gathered) * width


# ---- tensors of a block, as they lie on one tp rank ----

def word_block(s, t):                                 # rows of the vocabulary, padded to a multiple of t (1909.08053, section 3)
    return [Tensor(CUT, ceil(s.vocabulary, t) * s.hidden, sides=(s.vocabulary, s.hidden, s.vocabulary))]


def is_mtp(s, unit):
    return unit > s.layers + 1


def has_layer(s, unit):
    return 1 <= unit <= s.layers or is_mtp(s, unit)


def has_experts(s, unit):
    return s.experts > 0 and has_layer(s, unit) and (min(unit, s.layers) - 1) % s.expert_every == 0


def mlp_tensors(s, t, width):
    if width == 0:
        return []
    up = [matrix(CUT, width // t * s.hidden, width, s.hidden, joined) for joined in ([False, True] if s.gated else [False])]
    up += [bias(CUT, x.count // s.hidden, width, x.joined) for x in up] if s.bias else []
    return up + [matrix(CUT, s.hidden * width // t, s.hidden, width, across=True)]


def value_width(s):
    return s.latent[4] if s.latent else s.head_dim


def attention_matrices(s):
    """Weights of a layer's attention."""
    queries = s.heads * s.head_dim
    if not s.latent:
        return s.hidden * (2 * queries + 2 * s.groups * s.head_dim)
    query, pair, rotated, others, value = s.latent
    up = s.heads * ((others + value) * pair + value * s.hidden)
    return (query * (s.hidden + queries) if query else s.hidden * queries) + s.hidden * (pair + rotated) + up


def latent_tensors(s, t):
    """2405.04434, section 2.1: what is projected down is whole on every tp rank, which has the gradient of its own heads; up is cut by heads."""
    query, pair, rotated, others, value = s.latent
    h, heads = s.hidden, s.heads // t
    keys, of_pair = matrix(SHARED, (pair + rotated) * h, pair + rotated, h, query > 0), gain(SHARED, pair, pair)
    up, queries = matrix(CUT, heads * (others + value) * pair, s.heads * (others + value), pair), s.heads * s.head_dim
    if query == 0:
        return [keys, matrix(CUT, heads * s.head_dim * h, queries, h, True, s.heads), of_pair, up]
    return [matrix(SHARED, query * h, query, h), keys, gain(SHARED, query, query), of_pair, matrix(CUT, heads * s.head_dim * query, queries, query, blocks=s.heads), up]


def unit_block(s, t, unit):
    """Matrices that one product reads are joined: query, key and value, gate and up, and their biases. A layer of experts has the router in the MLP's place, behind the shared expert's."""
    h, queries, pairs = s.hidden, s.heads * s.head_dim, max(s.groups // t, 1) * s.head_dim
    norm = [gain(COPIED, h, h)] + ([bias(COPIED, h, h)] if s.centred else [])        # bias where the mean is taken off
    if unit == 0:
        return ([Tensor(COPIED, s.positions * h, sides=(s.positions, h, s.positions))] if s.learned else []) + (norm if s.embedding_norm else [])
    if unit == s.layers + 1:
        return ([] if s.tied else word_block(s, t)) + norm
    keys = s.groups * s.head_dim
    heads = [(CUT, queries // t, False, queries, s.heads), (KV, pairs, True, keys, s.groups), (KV, pairs, True, keys, keys)]
    matrices = [matrix(kind, rows * h, whole, h, joined, blocks) for kind, rows, joined, whole, blocks in heads]
    vectors = [bias(kind, rows, whole, joined) for kind, rows, joined, whole, _ in heads] if s.bias or s.qkv_bias else []
    vectors += {"head": [gain(SHARED, s.head_dim, s.head_dim)] * 2, "all": [gain(CUT, queries // t, queries), gain(KV, pairs, keys)]}.get(s.qk_norm, [])
    behind = [bias(COPIED, h, h)] if s.bias else []             # biases behind a row-parallel matrix are copied
    out = [matrix(CUT, h * s.heads * value_width(s) // t, h, s.heads * value_width(s), across=True)]
    if s.latent:
        matrices, vectors = latent_tensors(s, t), []
    project, ends = ([matrix(CUT, 2 * h * h // t, h, 2 * h, across=True)], 3 * norm) if is_mtp(s, unit) else ([], [])        # of 2 h channels; norms of both halves, last norm
    before, after = norm if s.placement != "after" else [], norm if s.placement != "before" else []
    if has_experts(s, unit):
        return matrices + vectors + out + mlp_tensors(s, t, s.shared_ffn) + project + [matrix(COPIED, s.experts * h, s.experts, h)] + before + behind + after + before + after + ends
    return matrices + vectors + out + mlp_tensors(s, t, s.ffn) + project + before + behind + after + before + behind + after + ends


def expert_block(s, etp, ep):
    """The experts of a layer: up, gate where there is one, and down, each X matrices one below the other."""
    held = s.experts // ep
    up, down = ((s.expert_ffn, s.hidden, s.expert_ffn), (s.hidden, s.expert_ffn, s.hidden))
    return [Tensor(CUT, held * s.expert_ffn // etp * s.hidden, False, held, s.experts, sides, sides is down) for sides in ([up, up, down] if s.gated else [up, down])]


def places(rows):
    """Where each tensor of a block begins, and last where the block ends, the holes between its tensors included."""
    at, begin = 0, []
    for x in rows:
        at = at if x.joined else ceil(at, ALIGN) * ALIGN
        begin.append(at)
        at += x.count
    return begin + [ceil(at, ALIGN) * ALIGN]


def elements(rows):
    return places(rows)[-1]


def runs_of(rows):
    """[kind, first, end) of neighbours of one kind."""
    runs = []
    for x, at in zip(rows, places(rows)):
        if runs and runs[-1][0] == x.kind:
            runs[-1][2] = at + x.count
        else:
            runs.append([x.kind, at, at + x.count])
    return runs


# ---- who updates which elements ----

def snapped(rows, at, granule):
    """The end of a matrix, or of a part of one that is updated alone, next to element `at`, of two that are as near the later one; elements of other tensors are ends themselves. What is between two
    tensors belongs to the one before."""
    begin = places(rows)
    for x, first, after in zip(rows, begin, begin[1:]):
        if at >= after:
            continue
        size = granule(x) if x.matrices else 1
        low = first + (at - first) // size * size
        high = low + size if low + size < first + x.count else after
        return low if at - low < high - at else high
    return begin[-1]


def whole_matrix(x):
    return x.count // x.matrices


def borders(blocks, d, granule):
    """Of each block where the shards of d ranks begin, and the end of the last one. Shards are equal, the last ones with padding; unless matrices are updated as
    a whole: then the first r ranks together own as near to r / d of this block and those before it as ends of matrices allow."""
    found, ahead = [], [0] * (d + 1)
    for rows in blocks:
        count = elements(rows)
        if d == 1 or not (granule and any(x.matrices for x in rows)):
            found.append([r * ceil(count, d) for r in range(d + 1)])
            continue
        begin = [0]
        for r in range(1, d + 1):
            share = count * r // d
            wanted = share - ahead[r]
            end = count if r == d or wanted >= count else 0 if wanted <= 0 else snapped(rows, wanted, granule)
            begin.append(max(end, begin[-1]))
            ahead[r] += begin[r] - share
        found.append(begin)
    return found
