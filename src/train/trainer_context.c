/* The communicators of context parallelism. cp rank k is number k mod u of a group of u Ulysses ranks and k /
 * u of a ring: neighbours, which Megatron-LM's order of ranks puts on one host, exchange heads, and the ring
 * goes between them. */
#include <stdlib.h>
#include "train/trainer.h"

static int ulysses_size(const Trainer *t) { return t->config->ulysses > 0 ? t->config->ulysses : 1; }

/* The `count` ranks whose cp coordinates are first, first + step, ... */
static Status open_part(Comm **comm, const Trainer *t, const char *name, int first, int step, int count)
{
    int *ranks = malloc((size_t)count * sizeof *ranks);
    if (!ranks) return fail(NO_MEMORY, "no memory for the %d ranks of %s", count, name);
    MeshSize at = t->mesh.at;
    for (int i = 0; i < count; i++) { at.cp = first + i * step; ranks[i] = mesh_rank(&t->mesh, at); }
    Status status = comm_open(comm, t->world, name, ranks, count);
    free(ranks);
    return status;
}

Status trainer_context_open(Trainer *t)
{
    int u = ulysses_size(t), cp = t->mesh.size.cp, at = t->mesh.at.cp;
    if (cp % u != 0)
        return fail(BAD_OPTION, "%d ranks of Ulysses do not divide %d context-parallel ranks", u, cp);
    if (u == 1 || u == cp) return OK;
    TRY(open_part(&t->ulysses, t, "ulysses", at / u * u, 1, u));
    return open_part(&t->ring, t, "ring", at % u, u, cp / u);
}

ContextComms trainer_context(const Trainer *t)
{
    int u = ulysses_size(t), cp = t->mesh.size.cp;
    Comm *others = u == 1 ? t->cp : t->ring, *ulysses = u == 1 ? NULL : u == cp ? t->cp : t->ulysses;
    if (cp == 1) return (ContextComms){ NULL, NULL, NULL };
    return (ContextComms){ .ulysses = ulysses, .ring = t->config->gather ? NULL : others,
                           .gather = t->config->gather ? others : NULL };
}
