#ifndef COMM_SUM_ORDER_H
#define COMM_SUM_ORDER_H
/* The fixed order in which the host adds what n ranks contribute, and who computes what. Addition of
 * floating-point numbers is not associative, so the order is a part of a run's identity: it depends on n
 * and on `sum_group` alone, never on the transport, on time, or on who needs the result.
 *
 *   Ranks are divided into groups of sum_group consecutive ranks; the last may be smaller.
 *   1. Each group adds its members' contributions in rank order, in the compute type, rounded once to the
 *   type
 *      of the tensor.
 *   2. The groups' sums are added in the order of groups, in the compute type, rounded once.
 *
 * With n <= sum_group there is one group, and one rounding. Part p of the result belongs to rank p. In
 * group g the sum of part p is computed by its collector: the member with the index of p in p's own group,
 * modulo the members of g. So a rank has peers in its own group and one or few in each other group, and
 * sends each part but its own exactly once, as its contribution or as a group's sum:
 *
 *   reduce-scatter    S - own part          = (n - 1) / n S where parts are equal
 *   gather of parts   own part to a member of each other group and to its own group, and the parts that it
 *                     collects from other groups to its own group
 *                                           = (n - 1) / n S where parts and groups are equal */
#include <stdint.h>

typedef struct { int count, rank, group_size, groups, group, index, members; } SumOrder;
/* count ranks; this one: group `group` of `groups`, member `index` of `members`, which is group_size in all
 * but the last group. */
static inline SumOrder sum_order(int count, int rank, int sum_group)
{
    int size = sum_group < count ? sum_group : count, groups = (count + size - 1) / size, group = rank / size;
    int last = count - (groups - 1) * size;
    return (SumOrder){ count, rank, size, groups, group, rank % size, group == groups - 1 ? last : size };
}

static inline int sum_members(const SumOrder *o, int group)
{
    return group == o->groups - 1 ? o->count - group * o->group_size : o->group_size;
}

static inline int sum_first(const SumOrder *o, int group) { return group * o->group_size; }

/* The rank of `group` that collects part p of another group. */
static inline int sum_collector(const SumOrder *o, int group, int p)
{
    return sum_first(o, group) + p % o->group_size % sum_members(o, group);
}

/* The first element of part p, where `count` elements are divided into parts of ceil(count / ranks): the last
 * parts may be shorter or empty. `at`: [ranks + 1] boundaries instead; NULL: none. */
static inline int64_t sum_part(const int64_t *at, int64_t count, int ranks, int p)
{
    int64_t part = (count + ranks - 1) / ranks, first = p * part;
    return at ? at[p] : first < count ? first : count;
}
#endif
