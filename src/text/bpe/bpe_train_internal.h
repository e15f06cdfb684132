#ifndef TEXT_BPE_BPE_TRAIN_INTERNAL_H
#define TEXT_BPE_BPE_TRAIN_INTERNAL_H
/* The state of a BPE training, shared by bpe_train.c (tokens, counting, output) and bpe_train_merge.c
 * (merges). */
#include <stdbool.h>
#include <stdatomic.h>
#include "text/bpe/bpe_train.h"
#include "text/bpe/bpe_train_words.h"

struct BpeTrain {
    BpePlan    plan;
    WordTable *table;                    /* [tables]: one per thread while texts are fed; at last all is in
                                          * the first */
    int        tables;
    const TextPiece *texts;              /* [count]: being fed; they belong to the caller */
    int64_t    count;
    _Atomic int64_t next_text;           /* the next text that a thread takes */
    TextPiece *token;                    /* [ids]: the bytes of each token, allocated; special tokens as
                                          * given */
    int32_t    ids, capacity;            /* capacity of token, in ids */
    int32_t   *token_slot, slots;        /* hash table by the bytes of a token, linear probing: id + 1; 0:
                                          * empty */
    int32_t    byte_id[256];
    BpeMerge  *merge;                    /* [merges] */
    int32_t    merges, merge_capacity;
};

/* The id of the token left + right, which is added where it is new. */
int32_t token_id(BpeTrain *t, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes);
#endif
