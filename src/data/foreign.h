#ifndef DATA_FOREIGN_H
#define DATA_FOREIGN_H
/* fairseq's pairs, mapped to be looked at (docs/formats.md). Its newer one (`mmap`) begins as Megatron's does and is told from
 * it by its length; its older one (`lazy`, `cached`; TNTIDX) stores each id raised by one, which is taken off here.
 *
 *     PairKind kind;
 *     TRY(pair_kind(&kind, prefix));
 *     if (kind == PAIR_MEGATRON) ... shard_open ... else ... foreign_open                                          */
#include "base/file.h"

typedef enum { PAIR_MEGATRON, PAIR_FAIRSEQ_MMAP, PAIR_FAIRSEQ_TNT } PairKind;
Status      pair_kind(PairKind *kind, const char *prefix);     /* by the .idx alone; Megatron's where it is neither of fairseq's */
const char *pair_kind_name(PairKind kind);

typedef struct {
    FileMap  index, bin;
    PairKind kind;
    int      code, width;              /* of a token: its type as the format numbers them, its bytes */
    int64_t  items, tokens;
    const uint8_t *length, *start;     /* unaligned arrays in the map */
} Foreign;

Status  foreign_open  (Foreign *f, const char *prefix);   /* every offset checked against the sizes; BAD_FILE names file and offset */
void    foreign_close (Foreign *f);
int64_t foreign_length(const Foreign *f, int64_t item);   /* tokens */
int64_t foreign_start (const Foreign *f, int64_t item);   /* first token, counted from the start of .bin */
int64_t foreign_token (const Foreign *f, int64_t at);
const char *foreign_type(const Foreign *f);               /* "uint16" */
#endif
