"""What optimizers add to traffic.py's formulas: sums over whole tensors, Muon's exchange of whole matrices, gradients of matrices that all ranks which cut them
need, and the largest magnitudes of 8-bit blocks that are cut. Elementwise ones send nothing."""
from traffic_blocks import CODES, all_gather, all_reduce, ceil, code_granule, codes_cut, places, whole_matrix

NARROW = 2                                            # bytes of an element of Muon's iterations, but on a ref run
# Numbers of each logical matrix that all ranks of a stage need: LAMB's norms of weights and update (1904.00962), Muon's norm of the momentum; others none.
# Adafactor has those of rows and columns of matrices in a first message, of weights and update in a second one (1804.04235, algorithms 4 and 5); Adam-mini of blocks.
NUMBERS = {"lamb": [lambda x: 2], "ipex.lamb": [lambda x: 2], "muon": [lambda x: 1 if x.matrices else 0], "adam-mini": [lambda x: x.sides[2]],
           "adafactor": [lambda x: x.sides[0] + x.sides[1] if x.sides[1] > 1 else 0, lambda x: 2]}


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


def optimizer_traffic(sums, at):
    norms_traffic(sums, at)
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
