"""What the layers of experts add to traffic.py's formulas, from loads: of each rank and layer how many copies of its tokens go to each expert in a step. Loads
follow from the data; all else from the layout.

    E experts, X = E / ep of them on a rank   K experts of a token   R = etp ep ranks of a dispatch, etp of them hold shards of one expert   T, h as in traffic.py
"""
from traffic_blocks import all_reduce, ceil

COUNT = 4                                             # bytes of a number of copies
COUNTERS = 3                                          # of a layer beside its loads: copies dropped, and two auxiliary losses


def tokens_sent(at):
    """Each token is sent by one rank: the one that holds it, or where all tp ranks hold it one of them, an equal share each."""
    t = at.layout.tp
    return at.held if at.cut or t == 1 else at.rows * (at.at_tp + 1) // t - at.rows * at.at_tp // t


def layers_of(at):
    return [unit for unit in at.units if at.has_experts(unit)]


def dispatch_of(at):
    """The places in the stage of the ranks of this one's dispatch: etp runs fastest, then ep."""
    n = at.layout.etp * at.layout.ep
    return range(at.at_in_stage // n * n, at.at_in_stage // n * n + n)


def chunks_of(at):
    """(chunks, of more than one choice of them) in which a rank's tokens go: with few experts on a rank all of its tokens' copies could go to one rank, R times as
    many rows as it should get; in Q = ceil(ep min(K, X) / K) chunks of tokens it gets no more than that of one chunk. Ranks have equally many chunks."""
    s, ep, t = at.shape, at.layout.ep, at.layout.tp
    most = at.held if at.cut or t == 1 else ceil(at.rows, t)
    worst = ep * min(s.topk, s.experts // ep)
    each = ceil(most, max(1, ceil(worst, s.topk)))
    return ceil(most, each), worst > s.topk


def rows_sent(at, loads):
    """(there, back): rows that this rank sends in one exchange of copies, to all etp ranks of each expert's but itself, and the results of others' copies that it
    sends back to them. loads[place in the stage][expert]."""
    etp, held = at.layout.etp, at.shape.experts // at.layout.ep
    here = range(at.at_ep * held, (at.at_ep + 1) * held)
    to_me = {place: sum(loads[place][e] for e in here) for place in dispatch_of(at)}
    mine = to_me[at.at_in_stage]
    return etp * sum(loads[at.at_in_stage]) - mine, sum(to_me.values()) - mine


def expert_traffic(sums, at, loads, balanced=True):
    """GShard, 2006.16668: an all-to-all brings each copy to the ranks of its expert, one brings the result back: two forward, two backward, of rows of h, each for
    Q chunks of tokens. Where there can be several chunks the tokens are sent again backward instead of kept. The numbers of copies go ahead, once forward:
    Q X numbers to each of R - 1 ranks. A forward that is repeated exchanges again, of the experts alone without the numbers.
    Where the tp ranks share the sending, each knows the outputs of its tokens alone: they are summed, with zeros for the others, forward [T, h], backward [T, h]
    and the gradients of K weights [T, K]. (A repeated forward needs no output in the last layer of a group.)
    The balancing loss of a sequence needs the counts [b, E] of all ranks that hold parts of it. loads[layer][place in the stage][expert]."""
    l, s, w = at.layout, at.shape, at.width
    ranks = l.etp * l.ep
    for unit in layers_of(at):
        begun, ended = at.forwards_again(unit)
        forwards, outputs = 1 + (begun == 2), 1 + (ended == 2)
        if ranks > 1:
            (there, back), (chunks, again) = rows_sent(at, loads[at.layer_of(unit)]), chunks_of(at)
            ways_there, ways_back = forwards + at.recompute.experts + again + 1, forwards + at.recompute.experts + 1
            sums.total("etp+ep", "all-to-all", at.m * forwards, at.m * forwards * (ranks - 1) * chunks * (s.experts // l.ep) * COUNT)
            sums.total("etp+ep", "all-to-all", at.m * chunks * (ways_there + ways_back), (ways_there * there + ways_back * back) * s.hidden * w.activation)
        if l.tp > 1 and not at.cut:
            sums.add("tp", "all-reduce", at.m * (outputs + 1), all_reduce(l.tp, at.at_tp, at.rows * s.hidden, w.activation, at.sum_group))
            sums.add("tp", "all-reduce", at.m, all_reduce(l.tp, at.at_tp, at.rows * s.topk, w.statistic, at.sum_group))
        n, rank = (l.tp * l.cp, at.at_in_stage % (l.tp * l.cp)) if at.cut else (l.cp, at.at_in_stage // l.tp % l.cp)
        if n > 1 and balanced:
            sums.add("tp+cp" if at.cut else "cp", "all-reduce", at.m, all_reduce(n, rank, at.micro * s.experts, w.statistic, at.sum_group))


def counters_traffic(sums, at):
    """Once a step: the loads and counters of a stage's layers over its ranks, and one load and the counters over the stages."""
    l, s, w = at.layout, at.shape, at.width
    stage, layers = l.tp * l.cp * at.dp, len(layers_of(at))
    if s.experts == 0:
        return
    if stage > 1 and layers > 0:
        sums.add("tp+dp+cp", "all-reduce", 1, all_reduce(stage, at.at_in_stage, layers * (s.experts + COUNTERS), w.statistic, at.sum_group))
    if l.pp > 1:
        sums.add("pp", "all-reduce", 1, all_reduce(l.pp, at.stage, 1 + COUNTERS, w.statistic, at.sum_group))


def wrong_loads(at, loads):
    """Layers whose copies are not K for each token that this rank sends: none is dropped or sent twice."""
    want = at.m * at.shape.topk * tokens_sent(at)
    return [layer for layer in map(at.layer_of, layers_of(at)) if sum(loads[layer][at.at_in_stage]) != want]
