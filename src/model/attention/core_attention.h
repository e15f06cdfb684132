#ifndef MODEL_CORE_ATTENTION_H
#define MODEL_CORE_ATTENTION_H
/* Private to core_attention.c, ring.c, gather.c and ulysses.c: attention between the projections, where each
 * sequence is distributed over context-parallel ranks. Ulysses ranks exchange heads for positions: each then
 * has the positions of all of them and a part of the heads. Among what they hold together, keys and values
 * are sent around a ring or gathered; that part knows of Ulysses only that it has fewer heads and more
 * positions.
 *
 *  b sequences   s positions of a sequence, H query and G key-value heads that a rank computes with: its own,
 *  or under Ulysses those after the exchange   D channels of a query or key, E of a value: another number
 * with
 *  latent attention alone   W = G (D + E), the keys and then the values of a token
 *
 * With two parts, rank r of c has parts r and 2 c - 1 - r of 2 c equal parts of each sequence (zigzag), so
 * that the causal mask gives all ranks the same work. data/loader.c makes this split. */
#include "model/model_internal.h"

typedef struct {
    int64_t b, s, H, G, D, E;
    int64_t head0;                 /* the first query head, of all heads of the model */
    int     c, r, parts;          /* ranks of the ring or gathering; this rank; parts of a sequence: 1 or 2 */
} CoreLayout;

/* q [b, s, H, D]; o [b, s, H, E]; keys followed by values kv [b, s, W]; lse [b, s, H]. o is contiguous. */
typedef struct { Tensor o, lse, q, kv; } CoreForward;
/* The gradients dq and dkv begin at 0. lse and delta are those of all keys, so that the gradients of parts of
 * the keys add up without a correction (FlashAttention-2, arXiv 2307.08691). */
typedef struct { Tensor dq, dkv, d_o, lse, delta, q, kv; } CoreBackward;

static inline int context_size(const Comm *comm) { return comm ? comm_size(comm) : 1; }
static inline int context_rank(const Comm *comm) { return comm ? comm_rank(comm) : 0; }

/* Of x [b, s, ..] the positions of part `which`; an absent tensor remains absent. */
Tensor  core_part(Tensor x, CoreLayout at, int which);
/* Of x [b, n s, ..], the joined sequences of n ranks, the positions of part `which` of rank j. */
Tensor  core_joined_part(Tensor x, int n, int j, int which);
/* The position in its sequence of the first token of part `which` of rank r. */
int64_t core_part_start(CoreLayout at, int r, int which);

/* The arguments of attention of part `which` of the queries over keys and values kv whose first position is
 * k0. */
AttentionForward  core_forward_call (const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f,
                                     int which, Tensor kv, int64_t k0);
AttentionBackward core_backward_call(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b,
                                     int which, Tensor dkv, Tensor kv, int64_t k0);
/* Whether a query of part `which` may see one of `keys` keys from position k0 on, by the bounds of the batch.
 * A dry batch has no key ranges and says yes, an upper bound of work on which memory does not depend. */
bool    core_any_visible(const ExecContext *ctx, int64_t layer, CoreLayout at, int which, int64_t k0,
                         int64_t keys);

/* Sums over ranks or ring steps. core_sum_new: x itself, or a new tensor on scratch of its shape, set to 0,
 * in the type of statistics where x is narrower. core_sum_end then adds it to x, which is 0: a sum is rounded
 * to 16 bits once. */
Tensor  core_sum_new(const ExecContext *ctx, Tensor x, const char *what);
void    core_sum_end(const ExecContext *ctx, Tensor x, Tensor sum);

/* <-> cp: send, recv */
void    ring_forward   (const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f);
void    ring_backward  (const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b);
/* <-> cp: all-gather; backward all-gather and reduce-scatter */
void    gather_forward (const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f);
void    gather_backward(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreBackward b);

/* Generation (kv_cache.c): attention over the caches of all cp ranks. <-> cp: all-gather */
void    kv_cache_attend(const ExecContext *ctx, int64_t layer, CoreLayout at, CoreForward f);

/* Ulysses (arXiv 2309.14509): u ranks, this one is j. T rows of own tokens (b sequences) with H query and G
 * key-value heads become u T rows with Hu and Gu heads. */
typedef struct { int u, j; int64_t b, T, H, G, Hu, Gu, D, E; } Ulysses;
Ulysses ulysses_of(const ExecContext *ctx, int64_t T, int64_t columns);   /* of a row: H D + G (D + E) */
bool    ulysses_copies(Ulysses at);          /* several ranks, or one several times, have a key-value head */
/* The heads that rows hold: H query heads, 2 G of keys and values, or both. */
typedef enum { ULYSSES_QUERIES = 1, ULYSSES_PAIRS = 2, ULYSSES_QKV = 3 } UlyssesHeads;
/* y [b, u s, n, width] of a part of the heads of x [b, s, N, width], and back; with keys and values, which
 * may differ in width, y [b, u s, columns, 1] and x likewise. Where key-value heads are copied, ulysses_leave
 * of ULYSSES_PAIRS adds to x, which is 0. <-> cp: all-to-all */
void    ulysses_enter(const ExecContext *ctx, Ulysses at, UlyssesHeads which, Tensor y, Tensor x);
void    ulysses_leave(const ExecContext *ctx, Ulysses at, UlyssesHeads which, Tensor x, Tensor y);
#endif
