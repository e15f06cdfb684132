#ifndef TEXT_BPE_BPE_TRAIN_INTERNAL_H
#define TEXT_BPE_BPE_TRAIN_INTERNAL_H
/* Shared by the files of bpe_train. */
#include <stdbool.h>
#include <stdatomic.h>
#include "text/bpe/bpe_train.h"
#include "text/bpe/bpe_train_words.h"

struct BpeTrain {
    BpePlan    plan;
    WordTable *table;                     /* a table a thread while texts are fed; then all is in the first */
    int        tables;
    const TextPiece *texts;              /* being fed */
    int64_t    count;
    _Atomic int64_t next_text;
    TextPiece *token;                    /* of each id, as bytes; of special ones as they are */
    int32_t    ids, capacity;
    int32_t   *token_slot, slots;      /* open addressing by the bytes of a token: id + 1 */
    int32_t    byte_id[256];
    BpeMerge  *merge;
    int32_t    merges, merge_capacity;
};

/* The id of these bytes, which are kept if they are new; -1 for new ones where !add */
int32_t token_id(BpeTrain *t, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                 bool add);
#endif
