"""What optimizers add to traffic.py's formulas: sums over whole tensors, Muon's exchange of whole matrices, gradients of matrices that all ranks which cut them
need, the largest magnitudes of 8-bit blocks that are cut, and the compressed all-reduce of 1-bit LAMB's momenta. Elementwise ones send nothing."""
from traffic_blocks import CODES, CUT, all_gather, all_reduce, ceil, code_granule, codes_cut, places, whole_matrix

SIGNS = "ds.onebitlamb"                               # the steps that are counted come after its freeze, and the one after that
NARROW = 2                                            # bytes of an element of Muon's iterations, but on a ref run
# Numbers of each logical matrix that all ranks of a stage need: LAMB's norms of weights and update (1904.00962), Muon's norm of the momentum; others none.
# 1-bit LAMB, 2104.06069, has the norms of an update with and without decay, and a maximum. Adafactor has those of rows and columns of matrices in a first message, of weights and update in a second one (1804.04235, algorithms 4 and 5); Adam-mini of blocks.
NUMBERS = {"lamb": [lambda x: 2], "ipex.lamb": [lambda x: 2], "muon": [lambda x: 1 if x.matrices else 0], "adam-mini": [lambda x: x.sides[2]],
           SIGNS: [lambda x: 2, lambda x: 1], "adafactor": [lambda x: x.sides[0] + x.sides[1] if x.sides[1] > 1 else 0, lambda x: 2]}


# Those whose matrices of layers are updated alone as a whole, or, as 8-bit Adam's, by blocks.
WHOLE = ("galoreadamw", "galoreadamw8bit", "shampoo", "soap")
GRANULES = dict({name: whole_matrix for name in WHOLE}, muon=whole_matrix, adam8bit=code_granule)


def norms_traffic(sums, at):
    """Messages in the type of master weights, which is that of gradients. Of all tensors; with Muon of the matrices of layers, the rest has AdamW. Experts are
    matrices of their own."""
    stage = at.layout.tp * at.layout.cp * at.dp
    for numbers in NUMBERS.get(at.optimizer, []):
        count = sum(x.whole * numbers(x) for bucket in at.buckets for x in bucket.rows)
        if stage > 1 and count > 0:
            sums.add("tp+dp+cp", "all-reduce", 1, all_reduce(stage, at.at_in_stage, count, at.width.gradient, at.sum_group))


def matrices_cut(at, experts, wanted=lambda x: True, of=lambda x, each: each):
    """Elements here of each matrix that tp has cut, or of experts etp, and that this data rank updates, in the order of blocks. Key and value count as cut where
    ranks hold copies of them as well. wanted: of some tensors alone; of: something else of each matrix."""
    found = []
    for bucket in at.buckets:
        first, end = bucket.begin[bucket.data.at_shard], bucket.begin[bucket.data.at_shard + 1]
        if (bucket.data is at.expert_data) != experts:
            continue
        for x, begin in zip(bucket.rows, places(bucket.rows)):
            each = x.count // x.matrices if x.matrices and x.kind not in ("copied", "shared") else 0
            found += [of(x, each) for i in range(x.matrices) if each and wanted(x) and first <= begin + i * each < end]
    return found


def iteration_traffic(sums, at, comm, n, rank, matrices, width):
    """Of n matrices at a time one is brought to each of the n ranks: each gives its part of the r-th to rank r. Each iterates one and gives the others their
    parts of the result. Of the last ones there may be fewer, and the last ranks have none."""
    for g in range(0, len(matrices) if n > 1 else 0, n):
        group = matrices[g:g + n]
        there = sum(part for r, part in enumerate(group) if r != rank)
        back = (n - 1) * group[rank] if rank < len(group) else 0
        sums.total(comm, "all-to-all", 2, (there + back) * width)


def whole_traffic(sums, at, comm, n, matrices):
    """Each rank of the cut gets all parts of each gradient."""
    if n > 1:
        sums.total(comm, "all-gather", len(matrices), sum(all_gather(n, part, at.width.gradient) for part in matrices))


def largest_traffic(sums, at, comm, n, rank, blocks):
    """Two maxima for each block of a matrix."""
    for count in blocks if n > 1 else []:
        sums.add(comm, "all-reduce", 1, all_reduce(n, rank, 2 * count, at.width.gradient, at.sum_group))


def elements_here(x, at):
    """Of the vocabulary's rows, of which tp ranks have equally many, the last one's are in part padding."""
    rows, columns, _ = x.sides
    if x.kind != CUT or x.matrices or columns == 1:
        return x.count
    return min(x.count, max(0, rows * columns - at.at_tp * x.count))


def signs_traffic(sums, at):
    """2104.06069, algorithm 1, and 2102.02888, section 4: each of P workers sends the signs of n / P elements of its momentum to each other one, in whole bytes, and
    later the signs of its part of the sums to all. The size of a worker's momentum is that of the whole model's, in one message for all workers, and those of the sums, of
    both families, in one more."""
    if at.optimizer != SIGNS:
        return
    for bucket in at.buckets:
        comm, workers = ("edp", at.expert_workers) if bucket.data is at.expert_data else ("dp", at.dp)
        count = sum(elements_here(x, at) for x in bucket.rows)
        if workers > 1 and count > 0:
            for verb in "all-to-all", "all-gather":
                sums.add(comm, verb, 1, (workers - 1) * ceil(count, 8 * workers))
    workers = at.dp + (at.expert_workers if at.shape.experts else 0)
    for count in (workers, 2) if at.layout.ranks > 1 else ():
        sums.add("world", "all-reduce", 1, all_reduce(at.layout.ranks, at.rank, count, at.width.gradient, at.sum_group))


def optimizer_traffic(sums, at):
    norms_traffic(sums, at)
    signs_traffic(sums, at)
    if at.optimizer in WHOLE:
        whole_traffic(sums, at, "tp", at.layout.tp, matrices_cut(at, False))
        whole_traffic(sums, at, "etp", at.layout.etp, matrices_cut(at, True))
    if at.optimizer == "adam8bit":
        def blocks(x, each):
            return ceil(x.sides[0] * x.sides[1], CODES)
        largest_traffic(sums, at, "tp", at.layout.tp, at.at_tp, matrices_cut(at, False, codes_cut, blocks))
        largest_traffic(sums, at, "etp", at.layout.etp, at.at_etp, matrices_cut(at, True, codes_cut, blocks))
    if at.optimizer == "muon":
        width = 8 if at.width.activation == 8 else NARROW
        iteration_traffic(sums, at, "tp", at.layout.tp, at.at_tp, matrices_cut(at, False), width)
        iteration_traffic(sums, at, "etp", at.layout.etp, at.at_etp, matrices_cut(at, True), width)
