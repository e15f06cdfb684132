#!/usr/bin/env python3
"""What each rank of a layout sends in one training step, from closed formulas alone: no program of ours is asked.

    traffic.py FOLDER TABLE ...            writes FOLDER/<layout>.txt for each row of Layout in the C files TABLE
    traffic.py --check FOLDER TABLE ...    fails where the files there are not these

A line of <layout>.txt: model rank comm verb calls bytes. Of the layout "trace": a line of comm_trace, in order, on rank 0.
tests/layouts/traffic_check.py asks the same formulas about layouts that are drawn, and with them those of traffic_experts.py and traffic_optimizers.py.
traffic_blocks.py has the bytes of collectives and the parameters.

    b sequences of a micro-batch   s positions   h hidden   L layers   a query heads   k key-value heads   f ffn   V words
    t tp   c cp   d = dp c data ranks   p stages   v chunks of a stage   m micro-batches   S bytes of a tensor   n ranks of a comm
"""
import math
import os
import re
import sys
from collections import namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from traffic_blocks import (COPIED, CUT, KV, SHARED, SUM_GROUP, Shape, all_gather, all_reduce, borders, ceil, expert_block, has_experts, has_layer, is_mtp, reduce_scatter, runs_of, unit_block, value_width, attention_matrices,
                            word_block)
from traffic_experts import counters_traffic, expert_traffic
from traffic_optimizers import GRANULES, SIGNS, optimizer_traffic

GLOBAL, TRACED_GLOBAL = 24, 4                         # sequences of a step; of the traced step

MODELS = {                                            # config_of in tests/train/traffic_test.c
    "gpt":   Shape(4, 10, 12, 4, 4, 4, 61, 16, 16, bias=True,  tied=True,  learned=True,  gated=False, centred=True),
    "llama": Shape(4, 10, 12, 4, 2, 4, 61, 16, 16, bias=False, tied=False, learned=False, gated=True,  centred=False),
}
Layout = namedtuple("Layout", "name ranks tp cp pp chunks zero sequence schedule hybrid order group extra layers ulysses gather ep etp",
                    defaults=(0, "MESH_TP_DP_PP", 0, 0, "", 0, 0, 1, 1))

# Bytes of an element: of activations and their gradients, of gathered weights, of weight gradients, of the statistics of a softmax, of weight gradients in
# messages between data ranks.
# A ref run has F64 alone; sums of the world are always F64.
Width = namedtuple("Width", "activation weight gradient statistic message")
DOUBLE, SUMS = Width(8, 8, 8, 8, 8), 8

# What is computed again in backward: whole layers in groups of `group` (of each chunk the first `most` alone), attention, the MLP, the experts.
Recompute = namedtuple("Recompute", "group most attention mlp experts", defaults=(0, None, False, False, False))

COMMS = ["tp", "cp", "ulysses", "ring", "dp", "dp+cp", "shard", "replica", "kv", "pp", "tied", "world",
         "tp+dp+cp", "tp+cp", "etp+ep", "etp", "edp", "expert-shard", "expert-replica"]
VERBS = ["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "send"]


def check_parameters():
    """The textbook's counts: GPT 12 L h^2 + 13 L h + (V + s) h where q = a D is h and f is 4 h, and the last norm's 2 h; Llama untied."""
    for name, s in MODELS.items():
        ours = sum(x.count for u in range(s.layers + 2) for x in unit_block(s, 1, u)) + word_block(s, 1)[0].count
        h, L, f, q = s.hidden, s.layers, s.ffn, s.heads * s.head_dim
        if name == "gpt":
            book = L * (4 * h * q + 2 * h * f + 3 * q + 6 * h + f) + (s.vocabulary + s.positions) * h + 2 * h
        else:
            book = L * (2 * h * q + 2 * h * q * s.groups // s.heads + 3 * h * f + 2 * h) + 2 * s.vocabulary * h + h
        assert ours == book, (name, ours, book)


# ---- where a rank stands (Megatron's order: tp fastest, then cp, dp, pp; or tp, cp, pp, dp) and which units it holds ----

# The data ranks of a family of parameters: names of their communicators; d ranks among which ZeRO shards, which follow each other, and replicas of these.
Data = namedtuple("Data", "shard replica d at_shard replicas at_replica zero")
# A block with the ranks that share it: its tensors, the units that use it, where the shards begin.
Bucket = namedtuple("Bucket", "rows users data begin")


class Place:
    def __init__(self, shape, layout, rank, batch, micro=2, width=DOUBLE, recompute=Recompute(), sum_group=SUM_GROUP, optimizer="adam"):
        l, s = layout, shape
        self.shape, self.layout, self.rank, self.width, self.recompute = shape, layout, rank, width, recompute
        self.sum_group, self.optimizer, self.micro = sum_group, optimizer, micro
        self.dp = l.ranks // (l.tp * l.cp * l.pp)
        self.at_tp = rank % l.tp
        outer = rank // (l.tp * l.cp)
        at_dp, self.stage = (outer % self.dp, outer // self.dp) if l.order == "MESH_TP_DP_PP" else (outer // l.pp, outer % l.pp)
        at_data = rank // l.tp % l.cp + l.cp * at_dp           # cp runs faster than dp
        self.at_data = at_data
        self.at_in_stage = self.at_tp + l.tp * at_data
        self.data = self.data_of("dp+cp", "", l.cp * self.dp, at_data, l.hybrid)
        # experts: etp runs fastest, then ep, edp, over the same ranks of a stage; both kinds of shards lie on the same ranks
        self.at_etp, self.at_ep, at_edp = self.at_in_stage % l.etp, self.at_in_stage // l.etp % l.ep, self.at_in_stage // (l.etp * l.ep)
        self.expert_data = self.data_of("edp", "expert-", l.tp * l.cp * self.dp // (l.etp * l.ep), at_edp, l.hybrid * l.tp // (l.etp * l.ep))
        self.expert_workers = self.expert_data.d * self.expert_data.replicas
        if optimizer == SIGNS:                                 # gradients stay on their data ranks: a sample's context-parallel ranks alone sum theirs
            self.data = self.data._replace(replica="cp", replicas=l.cp, at_replica=rank // l.tp % l.cp)
            self.expert_data = self.expert_data._replace(replicas=1)
        self.m = batch // (micro * self.dp)
        assert self.m * micro * self.dp == batch, layout
        self.rows = micro * s.sequence // l.cp                 # T: tokens of a micro-batch on this rank
        self.cut = l.sequence and l.tp > 1
        self.held = self.rows // l.tp if self.cut else self.rows
        # 2104.04473, section 2.2: chunks in a loop; 2405.15362, figure 3: the second one of two in reverse
        back = l.schedule == "SCHEDULE_ZB_V"
        self.virtual = [2 * l.pp - 1 - self.stage if back and c == 1 else c * l.pp + self.stage for c in range(l.chunks)]
        self.ends = (0, 0 if back else l.pp - 1)               # the stages of embedding and head
        self.units = [u for c in self.virtual for u in self.units_of(c)]
        self.buckets = self.buckets_of()

    def data_of(self, name, part, ranks, at, hybrid):
        """Without --hybrid-shard-size all data ranks are shards, or under ZeRO 0 replicas. One shard rank has nothing to share."""
        zero = self.layout.zero
        d = (hybrid or ranks) if zero else 1
        names = (part + "shard", part + "replica") if zero and d != ranks else (name, name)
        return Data(*names, d, at % d, ranks // d, at // d, zero if d > 1 else 0)

    def buckets_of(self):
        """The word embedding first, where a unit uses it; then of each unit its block and its experts."""
        s, l, units = self.shape, self.layout, sorted(self.units)
        words = [u for u in units if self.uses_word(u)]
        dense = ([(0, word_block(s, l.tp), words)] if words else []) + [(1 + u, unit_block(s, l.tp, u), [u] + self.others_of(u)) for u in units]
        experts = [(1 + u, expert_block(s, l.etp, l.ep), [u]) for u in units if self.has_experts(u)]
        found = []
        for family, (blocks, data) in enumerate(((dense, self.data), (experts, self.expert_data))):
            shards = borders([rows for _, rows, _ in blocks], data.d, GRANULES.get(self.optimizer))
            found += [(number, family, Bucket(rows, users, data, begin)) for (number, rows, users), begin in zip(blocks, shards)]
        return [bucket for _, _, bucket in sorted(found, key=lambda b: b[:2])]

    def has_experts(self, unit):
        return has_experts(self.shape, unit)

    def others_of(self, unit):
        """Multi-token prediction multiplies with the head's weights."""
        s = self.shape
        return list(range(unit + 1, unit + 1 + s.mtp)) if unit == s.layers + 1 and not s.tied else []

    def layer_of(self, unit):
        return unit - 1 - is_mtp(self.shape, unit)

    def units_of(self, virtual):
        """The embedding before the blocks of the first virtual stage, the head and multi-token prediction after those of the last."""
        count, stages = self.shape.layers, self.layout.pp * self.layout.chunks
        blocks = self.blocks_of(stages)
        first = 1 + sum(blocks[:virtual])
        units = list(range(first, first + blocks[virtual]))
        return ([0] if virtual == 0 else []) + units + (list(range(count + 1, count + 2 + self.shape.mtp)) if virtual == stages - 1 else [])

    def blocks_of(self, stages):
        """By hand; or evenly. Where blocks do not divide, the last virtual stage, which has the head, gets the number with which the
        longest one is shortest: of several the largest. What does not divide then goes to the last ones before it."""
        s, count = self.shape, self.shape.layers
        if self.layout.layers:
            return [part.count("t") for part in self.layout.layers.split("|")]
        if count % stages == 0:
            return [count // stages] * stages
        widths = [s.shared_ffn + s.topk * s.expert_ffn if has_experts(s, 1 + layer) else s.ffn for layer in range(count)]
        scores = s.heads * (s.head_dim + value_width(s)) / 2 * s.sequence                                      # causal attention
        block, end = (attention_matrices(s) + s.hidden * (3 if s.gated else 2) * width + scores for width in (sum(widths) / count, widths[-1]))
        head = ((1 + s.mtp) * s.hidden * s.vocabulary + s.mtp * (2 * s.hidden ** 2 + end)) / block
        last = min(range(count // stages, 0, -1), key=lambda n: max(ceil(count - n, stages - 1), n + head))
        rest = count - last
        return [rest // (stages - 1) + (v >= stages - 1 - rest % (stages - 1)) for v in range(stages - 1)] + [last]

    def forwards_again(self, unit):
        """Of the two parts of a layer, those whose forward is repeated: (begun, ended). The last layer of a group needs no output, but where a norm comes
        after its second part: the norm's backward reads what it normalizes. A depth of multi-token prediction is a group of its own, and its last norm reads the output."""
        if is_mtp(self.shape, unit):
            r = self.recompute
            return (2, 2) if r.group > 0 and r.most is None else (1, 0) if r.mlp else (0, 0)
        chunk = next(v for v in self.virtual if unit in self.units_of(v))
        blocks = [u for u in self.units_of(chunk) if 1 <= u <= self.shape.layers]
        r, at = self.recompute, blocks.index(unit)
        if r.group == 0 or (r.most is not None and at >= r.most):
            return (1, 0) if r.mlp else (0, 0)              # the first matrix of the MLP alone
        last = at % r.group == r.group - 1 or at == len(blocks) - 1
        return 2, 1 if last and self.shape.placement == "before" else 2

    def gathered_again(self, unit):
        """Whether the weights of a layer are gathered once more for its forward: not of the last layer of a group, whose backward follows."""
        if is_mtp(self.shape, unit):
            return False
        chunk = next(v for v in self.virtual if unit in self.units_of(v))
        blocks = [u for u in self.units_of(chunk) if 1 <= u <= self.shape.layers]
        r, at = self.recompute, blocks.index(unit)
        whole = r.group > 0 and (r.most is None or at < r.most)
        return whole and at % r.group != r.group - 1 and at != len(blocks) - 1

    def uses_word(self, unit):
        return unit == 0 or (unit == self.shape.layers + 1 and self.shape.tied) or is_mtp(self.shape, unit)


class Sums(dict):
    def add(self, comm, verb, calls, bytes_of_one):
        if calls > 0:
            had = self.get((comm, verb), (0, 0))
            self[comm, verb] = (had[0] + calls, had[1] + calls * bytes_of_one)

    def total(self, comm, verb, calls, all_bytes):
        """Calls whose bytes differ."""
        self.add(comm, verb, calls, 0)
        if calls > 0:
            self[comm, verb] = (self[comm, verb][0], self[comm, verb][1] + all_bytes)


# ---- tp: activations between the two halves of a layer ----

def tensor_traffic(sums, at):
    """1909.08053, section 3: a layer's two parts each end in an all-reduce of [b s, h] forward (g) and one backward (f): 4 in all.
    The embedding has g alone (one forward), the head f alone (one backward).
    2205.05198, section 4.2.2: under sequence parallelism g is a reduce-scatter forward and an all-gather backward, f the reverse: a
    layer has 2 + 2 pairs. The inputs of the column-parallel matrices are kept as shards, so their weights' gradients gather them
    once more: 2 a layer. The head computes loss and gradients together, in backward, and gathers its input once.
    A part whose forward is repeated begins and ends again, but for the end of the last one, whose output nobody reads.
    The vocabulary-parallel loss joins (max, sum of exponentials, target's logit) of each of T rows: an all-gather of [T, 3]."""
    h, n, w = at.shape.hidden, at.layout.tp, at.width
    if n == 1:
        return
    ar = all_reduce(n, at.at_tp, at.rows * h, w.activation, at.sum_group)
    ag, rs = (all_gather(n, at.held * h, w.activation), reduce_scatter(n, at.rows * h, w.activation)) if at.cut else (0, 0)
    for unit in at.units:
        embed, head = unit == 0, unit == at.shape.layers + 1
        begun, ended = (0, 0) if embed or head else at.forwards_again(unit)
        alone = at.has_experts(unit) and at.shape.shared_ffn == 0           # the first part
        if alone:
            begun = ended = int(begun == 2)
        elif at.has_experts(unit) and begun < 2:                           # the shared expert's first matrix, with the experts
            begun = int(at.recompute.experts)
        parts = 1 if head or alone else 2
        if not at.cut:
            sums.add("tp", "all-reduce", at.m * (1 if embed or head else 2 * parts + ended), ar)
        elif embed:
            sums.add("tp", "reduce-scatter", at.m, rs)                     # forward
            sums.add("tp", "all-gather", at.m, ag)                         # of its gradient
        else:
            sums.add("tp", "all-gather", at.m * (parts * (1 if head else 3) + begun), ag)     # in (and back in), kept shard again
            sums.add("tp", "reduce-scatter", at.m * (parts * (1 if head else 2) + ended), rs) # (out,) and back out
        if head:
            sums.add("tp", "all-gather", at.m, all_gather(n, at.rows * 3, w.statistic))
        if is_mtp(at.shape, unit):
            mtp_traffic(sums, at, at.forwards_again(unit)[0] == 2)


def mtp_traffic(sums, at, again):
    """2412.19437, section 2.2, beside a layer: the embedding of tokens ahead, as the unit of the embedding does it; a projection of 2 h channels to h, of which each
    rank multiplies its own of the 2 h, so that it ends as a row-parallel matrix does and begins as a column-parallel one; and the head."""
    h, n, w, forwards = at.shape.hidden, at.layout.tp, at.width, 1 + again
    ar = [all_reduce(n, at.at_tp, at.rows * x * h, w.activation, at.sum_group) for x in (1, 2)]
    sums.add("tp", "all-gather", at.m, all_gather(n, at.rows * 3, w.statistic))
    if not at.cut:
        sums.add("tp", "all-reduce", at.m * (2 * forwards + 1), ar[0])     # embedding and projection forward; the head backward
        sums.add("tp", "all-reduce", at.m, ar[1])
        return
    ag = [all_gather(n, at.held * x * h, w.activation) for x in (1, 2)]
    rs = [reduce_scatter(n, at.rows * x * h, w.activation) for x in (1, 2)]
    sums.add("tp", "reduce-scatter", at.m * (2 * forwards + 1), rs[0])
    sums.add("tp", "reduce-scatter", at.m, rs[1])
    sums.add("tp", "all-gather", at.m * 3, ag[0])                          # gradients of embedding and projection; the head
    sums.add("tp", "all-gather", at.m * (forwards + 1), ag[1])


def own_run(bucket):
    """The elements [first, end) of a block which a rank updates: its shard, which may end in padding."""
    return bucket.begin[bucket.data.at_shard], bucket.begin[bucket.data.at_shard + 1]


def summed_runs(at, bucket):
    """Of what it updates, (comm, ranks, this rank, elements) of the parameters whose gradients other ranks hold parts of."""
    l = at.layout
    first, end = own_run(bucket)
    copies = max(l.tp // at.shape.groups, 1)
    over = {CUT: None, COPIED: ("tp", l.tp, at.at_tp) if at.cut else None, SHARED: ("tp", l.tp, at.at_tp) if l.tp > 1 else None,
            KV: ("kv", copies, at.at_tp % copies) if copies > 1 else None}
    runs = [(over[kind], min(end, b) - max(first, a)) for kind, a, b in runs_of(bucket.rows)]
    return [comm + (count,) for comm, count in runs if comm and count > 0]


def copied_traffic(sums, at):
    """2205.05198 leaves it to the reader: norms and the biases behind them see only this rank's rows under sequence parallelism, so
    once a step their gradients are summed over tp, after the data ranks' sum, and so each rank's own part alone. Where there are
    more tp ranks than key-value heads, each of a head's copies has the gradient of its own queries: they are summed as well."""
    for bucket in at.buckets:
        for comm, n, rank, count in summed_runs(at, bucket):
            sums.add(comm, "all-reduce", 1, all_reduce(n, rank, count, at.width.gradient, at.sum_group))


def norm_traffic(sums, at):
    """QK norm over all heads (2501.00656): the squares of a row's queries and of its keys are added over tp, forward and, as products
    with the gradient, backward: two numbers of each row in one message."""
    l, s = at.layout, at.shape
    if s.qk_norm != "all" or l.tp == 1:
        return
    blocks = [unit for unit in at.units if has_layer(s, unit)]
    calls = at.m * sum(2 + (at.forwards_again(unit)[0] == 2) for unit in blocks)
    sums.add("tp", "all-reduce", calls, all_reduce(l.tp, at.at_tp, 2 * at.rows, at.width.statistic, at.sum_group))


# ---- cp: keys and values ----

def context_traffic(sums, at):
    """Ulysses, 2309.14509, over u ranks: all-to-alls of query, key and value and of the output forward, and of its gradient and those
    of the query, and of key and value, backward; and of delta, a number for each row of a head (2307.08691). Each sends (u - 1) / u
    of what a rank has. A rank gets the key heads that its query heads read: k / u where that is a whole number; else several ranks
    read one, and neighbours g of the a / t / u query heads share one, the largest g that no border of a / k heads cuts.
    Ring, 2310.01889, over r = c / u ranks, which then hold u times the rows: keys and values [b, s u / c, k, D] both go round r - 1
    times forward. Backward they go round again, and their gradients r - 1 times behind them: twice that.
    All-gather over r ranks: of keys and values forward and backward, and a reduce-scatter of their gradients.
    Gradients of keys and values that are summed over ranks have the statistics' type. Where attention is computed again, so are its
    messages forward, but the exchange of query, key and value, which is kept unless the whole layer is computed again."""
    l, s, w = at.layout, at.shape, at.width
    blocks = [unit for unit in at.units if has_layer(s, unit)]
    whole = at.m * sum(1 for unit in blocks if at.forwards_again(unit)[0] == 2)
    calls, again = at.m * len(blocks), at.m * len(blocks) if at.recompute.attention else whole
    u = l.ulysses or 1
    r, heads, groups = l.cp // u, s.heads // l.tp, max(s.groups // l.tp, 1)
    queries = heads // u
    keys = queries // math.gcd(heads // groups, queries)
    pairs = keys * (s.head_dim + value_width(s))
    if u > 1:
        rows, comm, copies = (u - 1) * at.rows, "cp" if r == 1 else "ulysses", u * keys != groups
        sums.add(comm, "all-to-all", calls + whole, rows * (queries * s.head_dim + pairs) * w.activation)
        sums.add(comm, "all-to-all", 2 * calls + again, rows * queries * value_width(s) * w.activation)
        sums.add(comm, "all-to-all", calls, rows * queries * s.head_dim * w.activation)
        sums.add(comm, "all-to-all", calls, rows * queries * w.statistic)
        sums.add(comm, "all-to-all", calls, rows * pairs * (w.statistic if copies else w.activation))
    comm, pair = "cp" if u == 1 else "ring", u * at.rows * pairs
    if r > 1 and l.gather:
        sums.add(comm, "all-gather", 2 * calls + again, all_gather(r, pair, w.activation))
        sums.add(comm, "reduce-scatter", calls, reduce_scatter(r, r * pair, w.statistic))
    elif r > 1:
        sums.add(comm, "send", (2 * calls + again) * (r - 1), pair * w.activation)
        sums.add(comm, "send", calls * (r - 1), pair * w.statistic)


# ---- dp+cp: gradients and weights ----

def data_traffic(sums, at, updates=True):
    """1910.02054, section 7, for a block of P parameters stored on this tp rank, P padded to a multiple of d:
    ZeRO 0  all-reduce of the gradients: 2 (d - 1) / d P      1  reduce-scatter of them and all-gather of the weights: as much
    ZeRO 2  keeps only shards of gradients, so each micro-batch is scattered at once: m (d - 1) / d P, and the all-gather
    ZeRO 3  weights are gathered where a unit needs them, forward and for the input's gradient: 2 m (d - 1) / d P (the weight's
            gradient reads activations alone, and nothing goes below the embedding: it gathers forward alone; the head computes
            its loss and its gradients together, so it gathers once, or twice where multi-token prediction reads its norm), and gradients as ZeRO 2; nothing is gathered after the
            update. A forward that is repeated gathers again, but that of the last layer of a group, whose backward follows at
            once.
    A unit which uses the word embedding (embed, tied head) does so each time with its own block.
    Shards of whole matrices are unequal: a rank scatters all but its own elements, and its own go to the d - 1 others.
    Hybrid sharding (2304.11277, section 3.2.2) does this among d ranks and sums the shards' gradients over replicas once a step.
    Gradients that are rounded for their messages are copied into shards of equal length, that of the longest; a rank without a shard
    has nothing to round and calls nothing for its replicas."""
    for bucket in at.buckets:
        n, whole, w, (first, end) = bucket.data, bucket.begin[-1], at.width, own_run(bucket)
        if whole == 0:
            continue
        narrow, longest = w.message < w.gradient, max(b - a for a, b in zip(bucket.begin, bucket.begin[1:]))
        if n.replicas > 1 and (end > first or not narrow):
            sums.add(n.replica, "all-reduce", 1, all_reduce(n.replicas, n.at_replica, end - first, w.message, at.sum_group))
        if n.zero == 0:
            continue
        again = sum(1 for u in bucket.users if 1 <= u <= at.shape.layers and at.gathered_again(u))
        gathers = at.m * (sum(2 if has_layer(at.shape, u) or (u > 0 and at.shape.mtp) else 1 for u in bucket.users) + again)
        sums.add(n.shard, "reduce-scatter", 1 if n.zero == 1 else at.m * len(bucket.users), ((n.d - 1) * longest if narrow else whole - (end - first)) * w.message)
        sums.add(n.shard, "all-gather", gathers if n.zero == 3 else 1 if updates else 0, all_gather(n.d, end - first, w.weight))


# ---- pp, tied stages, world ----

def pipeline_traffic(sums, at):
    """2104.04473, section 3.2: at each of p v - 1 boundaries a micro-batch sends b s h forward and as much backward; b s h / t where
    sequence parallelism has cut the rows. At the turn of a V, between its virtual stages p - 1 and p, nothing is sent."""
    last = at.layout.pp * at.layout.chunks - 1
    if at.layout.pp > 1:
        turn = at.layout.pp if at.ends == (0, 0) else -1
        ways = sum((v < last and v + 1 != turn) + (v > 0 and v != turn) for v in at.virtual)
        sums.add("pp", "send", at.m * ways, at.held * at.shape.hidden * at.width.activation)


def tied_of(at):
    """Elements of the word embedding's gradient which first and last stage sum once a step, where both hold it: what they update."""
    if not (at.shape.tied or at.shape.mtp) or at.layout.pp == 1 or at.ends == (0, 0) or at.stage not in at.ends:
        return 0
    first, end = own_run(at.buckets[0])
    return end - first


def tied_traffic(sums, at):
    """1909.08053 ties input and output embedding; 2104.04473's first and last stage each hold a copy: an all-reduce of two ranks."""
    if tied_of(at) > 0:
        sums.add("tied", "all-reduce", 1, all_reduce(2, 0 if at.stage == 0 else 1, tied_of(at), at.width.gradient))


def world_numbers(at):
    """Loss, tokens and squared gradients; loss and tokens of each depth of multi-token prediction; how many ranks have a flag."""
    return 3 + 2 * at.shape.mtp + 1


def world_traffic(sums, at):
    """These numbers in F64 are summed over all ranks once a step: over tp, then over the data ranks, then over the stages."""
    l = at.layout
    for comm, n, rank in (("tp", l.tp, at.at_tp), ("dp+cp", l.cp * at.dp, at.at_data), ("pp", l.pp, at.stage)):
        if n > 1:
            sums.add(comm, "all-reduce", 1, all_reduce(n, rank, world_numbers(at), SUMS, at.sum_group))


def pass_traffic(sums, at, loads, updates=True):
    """Forward, backward and the sums of gradients; where the pass updates, the weights that are gathered then and the balancing losses of experts."""
    for part in (tensor_traffic, copied_traffic, norm_traffic, context_traffic, pipeline_traffic, tied_traffic, world_traffic):
        part(sums, at)
    data_traffic(sums, at, updates)
    if at.shape.experts:
        expert_traffic(sums, at, loads, updates)


def traffic(at, loads=None):
    """Of a step before which Sophia, 2305.14342, takes an estimate: a pass over the same samples, which updates no weights. Each rank draws the targets that its
    part of the vocabulary holds from what the loss has joined, and sends nothing for it.
    loads: those of traffic_experts.py, needed where there are experts"""
    sums = Sums()
    pass_traffic(sums, at, loads)
    if at.optimizer == "sophiag":
        pass_traffic(sums, at, loads, updates=False)
    counters_traffic(sums, at)
    optimizer_traffic(sums, at)
    return sums


# ---- the order, for one rank: tp 2 under sequence parallelism, two stages, 1F1B, on stage 0 ----

def trace(at):
    """Forward a block runs attention, then MLP: each enters (all-gather) and leaves (reduce-scatter). Backward from below to above:
    MLP, then attention, for the input; each gathers its kept shard for the weights while its reduce-scatter is in flight. Stage 0 of
    1F1B with two stages is one forward ahead."""
    h, lines = at.shape.hidden, []
    gather = "tp all-gather F64 %dx%d" % (at.held, h)
    scatter = "tp reduce-scatter F64 %dx%d" % (at.rows, h)
    blocks = [u for u in at.units if u > 0]

    def forward():
        lines.append(scatter)                                              # the embedding's rows
        for _ in blocks:
            lines.extend([gather, scatter, gather, scatter])
        lines.append("pp forward 0-1 send F64 %dx%d" % (at.held, h))

    def backward():
        for _ in blocks:
            lines.extend([gather, scatter, gather, gather, scatter, gather])
        lines.append(gather)                                               # the embedding's gradient

    forward()
    for _ in range(at.m - 1):
        forward()
        backward()
    backward()
    for bucket in reversed(at.buckets):                                    # a chunk's blocks, in the order they were done
        for comm, _, _, count in summed_runs(at, bucket):
            lines.append("%s all-reduce F64 %d" % (comm, count))
    if tied_of(at) > 0:
        lines.append("tied all-reduce F64 %d" % tied_of(at))
    lines += ["%s all-reduce F64 %d" % (comm, world_numbers(at)) for comm, n in (("tp", at.layout.tp), ("dp+cp", at.layout.cp * at.dp), ("pp", at.layout.pp)) if n > 1]
    calls = {}
    for line in lines:
        key = tuple(line.replace("pp forward 0-1", "pp").split()[:2])
        calls[key] = calls.get(key, 0) + 1
    assert calls == {key: value[0] for key, value in traffic(at).items()}  # two derivations, one count
    return lines


# ---- files ----

ROW = re.compile(r'\{\s*"([^"]+)",\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(true|false),\s*(SCHEDULE_\w+)((?:,\s*\.\w+\s*=\s*(?:\w+|"[^"]*"))*)\s*\}')
OPTIONAL = re.compile(r'\.(\w+)\s*=\s*"?([^,"}]+)')


def layouts(path):
    for row in ROW.findall(open(path).read()):
        more = {name: int(value) if value.isdigit() else value for name, value in OPTIONAL.findall(row[9])}
        yield Layout(row[0], *map(int, row[1:7]), row[7] == "true", row[8], **more)


def lines_of_rank(at, loads=None):
    """rank comm verb calls bytes"""
    sums = traffic(at, loads)
    for comm in COMMS:
        for verb in VERBS:
            if (comm, verb) in sums:
                yield "%d %s %s %d %d" % ((at.rank, comm, verb) + sums[comm, verb])


def lines_of(layout):
    for name, shape in MODELS.items():
        for rank in range(layout.ranks):
            for line in lines_of_rank(Place(shape, layout, rank, GLOBAL)):
                yield name + " " + line


def file_name(layout):
    return layout.name.replace(" ", "_").replace(",", "") + ".txt"


def texts(tables):
    rows = [l for path in tables for l in layouts(path)]
    if len(rows) < 12:
        sys.exit("traffic.py: %d rows of Layout in %s, 12 are the least" % (len(rows), " ".join(tables)))
    for layout in rows:
        traced = layout.name == "trace"
        lines = trace(Place(MODELS["gpt"], layout, 0, TRACED_GLOBAL)) if traced else lines_of(layout)
        yield file_name(layout), "".join(line + "\n" for line in lines)


def check(folder, files):
    """The folder holds these files and no others."""
    there = {name: open(os.path.join(folder, name)).read() for name in sorted(os.listdir(folder))}
    stale = [name for name in sorted(set(files) | set(there)) if files.get(name) != there.get(name)]
    if stale:
        sys.exit("not as the formulas say: %s; run tests/oracles/traffic.py tests/golden/traffic TABLE" % ", ".join(stale))
    print("%d goldens are as the formulas say" % len(files))


def main(arguments):
    checking = arguments[:1] == ["--check"]
    folder, *tables = arguments[checking:]
    check_parameters()
    files = dict(texts(tables))
    if checking:
        return check(folder, files)
    for name, text in files.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
