#ifndef GENERATE_SESSION_H
#define GENERATE_SESSION_H
/* Private to this directory: the memory of a generation, and one forward of all its rows (session.c). What
 * the rows are and what follows a forward is decided in generate.c.
 *
 *  b rows of a micro-batch   M micro-batches of a data rank   n = M b   D data ranks   N = D n rows
 *  L layers   V vocabulary columns held by a tp rank   s positions of a forward   P pipeline stages */
#include "generate/generation.h"

/* One of the N rows. prompt: -1 if it has none. Its cache holds `count` + `made` - 1 positions before a
 * forward of one position, which is that of the last id. */
typedef struct { int64_t prompt, count, made; int32_t last; bool done; } Row;

enum { KEY_RANGES = 2 };                   /* of layers without and with a sliding window */

typedef struct {
    const Generation *g;
    const Prompt     *prompt;
    int64_t  n, N, s;
    Row     *row;                          /* [N], in the order of data rank, micro-batch, row */
    KvCache *cache;                        /* [M, L] */
    /* [slots]: batches of whole sequences, of which a forward has views */
    Batch   *whole;
    KvCaches caches;                       /* of the micro-batch that runs */
    Tensor  *key_range_i;                  /* [M, KEY_RANGES]: I32 [b, 1, 2] */
    Tensor  *key_distance_i;               /* with ALiBi, [M]: I32 [b, keys of a cache] */
    int64_t  step;                         /* forwards of one position before this one, in the round */
    int64_t *used, *logits_row;            /* [b], of the micro-batch that runs */
    double  *logits;                       /* [vocabulary], of a row */
    /* last stage alone: [n, V] of this rank; [tp, n, V]. With one tp rank the same */
    Tensor   logits_nV, logits_RnV;
    Tensor   id_n, id_Pn, id_Dn;           /* I32: drawn here; on each stage; on each dp x cp rank */
} Session;

Session session_open (const Generation *g, const Prompt *prompt);
void    session_close(Session *session);
/* `s` positions of every row of this data rank, in all micro-batches, the rows of cp ranks together: of the
 * prompts, or where `read` one position after those in the caches. <-> tp, cp, pp, data */
void    session_forward(Session *session, int64_t s, bool read);
/* Whether this rank has the head, and so the logits after a forward. */
bool    session_holds_head(const Session *session);
/* The rows [n] of this data rank. */
const Row *session_own_rows(const Session *session);

/* Ranks of cp have the same rows. */
static inline int cp_ranks  (const Generation *g) { return comm_size(g->cp); }
static inline int data_ranks(const Generation *g) { return comm_size(g->data) / cp_ranks(g); }
static inline int data_rank (const Generation *g) { return comm_rank(g->data) / cp_ranks(g); }
#endif
