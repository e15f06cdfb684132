#ifndef TENSOR_CPU_FLASH_FAMILY_H
#define TENSOR_CPU_FLASH_FAMILY_H
/* What flash attention needs of an instruction set beside the register tiles of gemm_family.h: the softmax of
 * a strip of scores. A strip has the tile's `columns` adjacent, as the packed b of a product; the forward
 * pass has queries in the columns and keys in the rows, the backward pass the reverse. flash_kernel.inc
 * defines the functions once for all families.
 *
 * A family of pairs multiplies bf16: q, k, v and d_o as they are, probabilities and dscore rounded to bf16.
 * What becomes a packed b is written over the strip as words, each of the numbers of rows 2 i and 2 i + 1, so
 * that row i of words is the depth i of the product. `begin` is even; an odd last row is paired with 0. */
#include "tensor/cpu/flash/flash.h"
#include "tensor/cpu/gemm_family.h"

/* Sizes of tiles, multiples of every register tile's rows and columns (8 x 48, 6 x 16, 8 x 12, 4 x 8). The
 * first three are part of the results and the same in all families; FORWARD_QUERIES is the size of a piece of
 * work, whose strips share what is packed of keys and values. The forward pass has a strip of scores in the
 * first-level cache; the backward pass packs a tile of queries for each tile of keys and gains by wide
 * ones. */
enum { FORWARD_KEYS = 96, BACKWARD_KEYS = 192, BACKWARD_QUERIES = 96, FORWARD_QUERIES = 192 };
/* Floats between the rows of dropout factors; the widest strip. */
enum { FLASH_FACTORS = BACKWARD_KEYS, FLASH_COLUMNS = 48 };

/* Of one strip of queries: the scores of keys [begin, end) of the tile become probabilities. */
typedef struct {
    /* [keys][columns]: q . k, then dropout exp(score - max), or [keys / 2][columns] pairs of it */
    float         *score;
    int            begin, end;
    int            columns;            /* in use; others may hold anything */
    bool           masked;             /* not all queries see all of these keys */
    int32_t        key;                /* of row 0 */
    const int32_t *first_key, *end_key;        /* [columns]: the keys that a query sees */
    const float   *factor;             /* [keys][columns]: of dropout; NULL: none */
    float          scale, softcap;
    float          slope;              /* of ALiBi; 0: none */
    int32_t        ahead;              /* position of row 0 less that of column 0 */
    float         *max, *shrink;       /* [columns]: so far; what the sums so far are multiplied by */
    double        *sum;                /* [columns] of exp(score - max), without dropout */
} FlashForward;

/* One query and a tile of keys, as in generation: keys [begin, end), which it sees, are added to o. */
typedef struct {
    const GemmWord *q;                 /* [depth] */
    /* Keys are rows where they lie, which must be there up to a multiple of the lanes behind `begin` and
     * `end`, or packed columns, [strip][depth][columns], where k_rows is NULL. */
    const char     *k_rows;
    const GemmWord *k;
    const char     *v;                 /* rows of E channels, v_row bytes apart: bf16 for pairs and widened */
    int64_t         depth, E;          /* depth: D in words */
    int64_t         k_row, v_row;      /* bytes */
    const char     *next_rows;         /* like k_rows: prefetched while v is read; unused without k_rows */
    int64_t         k_words;           /* 32-bit words of a row of keys */
    GemmForm        form;
    int             begin, end;
    const float    *factor;            /* [keys]; NULL: none */
    float           scale, softcap;
    float           slope;             /* as in FlashForward */
    const float    *ahead;             /* [FORWARD_KEYS]: position of a key less that of the query */
    float          *max;               /* so far, as in FlashForward */
    double         *sum;
    float          *o;                 /* [E] */
} FlashSingle;

/* Of one strip of keys: the scores of queries [begin, end) become probabilities, and dprob becomes dscore. */
typedef struct {
    float         *score, *dprob;      /* [queries][columns]; then dropout prob and scale dscore, or pairs */
    uint16_t      *dscore;             /* of a family of pairs: scale dscore in bf16, [queries][columns] */
    int            begin, end;
    int            columns;
    bool           masked;
    int32_t        key;                /* of column 0 */
    const int32_t *first_key, *end_key;        /* [queries] */
    const float   *factor;             /* [queries][FLASH_FACTORS]; NULL: none */
    float          scale, softcap;
    float          slope;              /* as in FlashForward */
    int32_t        ahead;              /* position of column 0 less that of row 0 */
    const float   *lse, *delta;        /* [queries] */
} FlashBackward;

typedef struct {
    const GemmFamily *gemm;
    bool              pairs;
    /* Whether some shrink is not 1 */
    bool (*forward) (const FlashForward *x);
    void (*backward)(const FlashBackward *x);
    /* The same bits as forward and the two products of a strip */
    void (*single)  (const FlashSingle *x);
    /* x[i][j] *= factor[j] for rows of the tile's columns */
    void (*multiply_rows)(float *x, const float *factor, int64_t rows);
    /* to[i][j] (+)= x[i][j] for columns of a strip; rows of `to` are `row` apart */
    void (*store_rows)(float *to, int64_t row, const float *x, int64_t rows, int64_t columns, bool add);
} FlashFamily;

/* As gemm_family_of, for inputs of a type: avx512-bf16 has functions of its own for bf16, and those of avx512
 * for the other types. */
const FlashFamily *flash_family_of(KernelFamily family, Dtype input);

extern const FlashFamily flash_avx512_bf16, flash_avx512, flash_avx2, flash_neon, flash_portable,
                         flash_emulated, flash_emulated_bf16;
#endif
