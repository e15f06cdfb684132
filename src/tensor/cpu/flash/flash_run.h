#ifndef TENSOR_CPU_FLASH_RUN_H
#define TENSOR_CPU_FLASH_RUN_H
/* What the forward and the backward pass of flash attention share: sizes, the keys that a query sees, tiles
 * brought into the form that the register tiles read, and their products. Loads of 16-bit types widen here,
 * except in a family of bf16 pairs; what the products add up is fp32 in any case, and stores round. */
#include <stdatomic.h>
#include "tensor/cpu/flash/flash_family.h"

/* Queries that follow each other in one sequence: a sequence of the call, or of a paged cache. */
typedef struct {
    int64_t b, first, rows;            /* queries [first, first + rows) of sequence b of q */
    int64_t pages;                     /* of a paged cache: its row of page_i */
    int64_t pieces;                    /* of work, of a key-value head, in the spans before this one */
} FlashSpan;

typedef struct {
    const Flash       *x;
    const FlashFamily *f;
    const GemmFamily  *g;              /* f's */
    Team    *team;
    int64_t  B, S, U, H, G, D, E;      /* as in flash.h */
    int64_t  group;                    /* query heads that share a key-value head */
    int64_t  d_rows, e_rows;           /* D and E rounded up to rows of the register tile */
    int64_t  columns;                  /* of a strip */
    GemmForm form;                     /* of q, k, v and d_o, probabilities and dscore */
    int64_t  d_words, e_words;         /* D and E in words of that form */
    int64_t  page;                     /* positions of a page; 0: k and v are not paged */
    FlashSpan *span;                   /* paged: [spans]; NULL: one for each sequence, with all queries */
    int64_t  spans;
    uint32_t threshold;                /* of dropout */
    float    dropout_scale;
    char    *memory;                   /* of thread t from t * thread_bytes on */
    size_t   thread_bytes;
    _Atomic int64_t  next;             /* the next piece of the backward pass, which needs their order */
    Tensor dq;                         /* backward: x's, or its sums in fp32 where that has 16 bits */
    _Atomic int32_t *added;            /* backward: how many tiles of keys have added to dq, [B, H, tiles] */
} FlashRun;

/* The keys [first, end) of this chunk that a query sees; 0, 0 for none. */
typedef struct { int32_t first, end; } FlashKeys;
/* Rows with adjacent channels as a register tile reads them. */
typedef struct { const char *at; int64_t row; } FlashRows;     /* row: in bytes */

static inline int64_t flash_least(int64_t a, int64_t b)   { return a < b ? a : b; }
static inline int64_t flash_cuts(int64_t n, int64_t part) { return (n + part - 1) / part; }

/* n numbers along the depth of a product, in words */
static inline int64_t flash_words(const FlashRun *r, int64_t n)
{
    return r->form == GEMM_PAIRS ? (n + 1) / 2 : n;
}

/* Hands out parts of a thread's memory, aligned to 64 bytes. With memory NULL it only counts. */
typedef struct { char *memory; size_t used; } FlashSpace;
void *flash_take(FlashSpace *space, int64_t words);

bool        flash_paged(const Flash *x);
FlashRun    flash_run_of(const Flash *x, KernelFamily family);
const void *flash_at(Tensor x, int64_t b, int64_t s, int64_t h);
FlashKeys   flash_keys(const FlashRun *r, int64_t b, int64_t s);
/* ALiBi's slope of a head of this call, 0 without; the position of a key less that of a query */
float       flash_slope(const FlashRun *r, int64_t h);
int32_t     flash_ahead(const FlashRun *r, int64_t s, int64_t key);
/* Rows s to s + count - 1 of one head, where they lie if the register tiles can read them there, else copied
 * to `copy`, in which the last tile is completed with zeros. */
FlashRows   flash_rows(const FlashRun *r, GemmWord *copy, Tensor x, int64_t b, int64_t s, int64_t h,
                       int64_t count);
/* The same rows as the columns of a packed b: [strip][words of channels][columns]. */
void        flash_columns(const FlashRun *r, GemmWord *to, Tensor x, int64_t b, int64_t s, int64_t h,
                          int64_t count);
/* The same rows as depth, the channels as rows of a packed a: [strip of rows][words of count][rows]. */
void        flash_depth(const FlashRun *r, GemmWord *to, Tensor x, int64_t b, int64_t s, int64_t h,
                        int64_t count);
/* strip[rows][columns] (+)= a b over `depth` words, of which the first `used` columns are wanted. a is rows
 * of `depth` words, or packed strips of `stride` words of which `from` are left out. */
void        flash_multiply_rows  (const FlashRun *r, float *strip, int64_t rows, FlashRows a,
                                  const GemmWord *b, int64_t depth, int64_t used);
void        flash_multiply_strips(const FlashRun *r, float *strip, bool add, int64_t rows, const GemmWord *a,
                                  int64_t stride, int64_t from, const void *b, int64_t depth, int64_t used);
/* Row i of `to` (+)= column i of strip[channels][columns], for the columns [begin, end). */
void        flash_store(const FlashRun *r, Tensor to, int64_t b, int64_t s, int64_t h, const float *strip,
                        int64_t begin, int64_t end, GemmWord *scratch, bool add);
int64_t     flash_store_words(const FlashRun *r);             /* of that scratch */
/* to[i][u] = the dropout factor of query s + i and key u, for keys [begin, end) from `key` on. */
void        flash_dropout(const FlashRun *r, float *to, int64_t b, int64_t s, int64_t h, int64_t count,
                          int64_t key, int64_t begin, int64_t end);
size_t      flash_bytes(const Flash *x, int threads, size_t (*of_thread)(const FlashRun *r));
#endif
