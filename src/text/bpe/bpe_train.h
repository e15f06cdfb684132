#ifndef TEXT_BPE_BPE_TRAIN_H
#define TEXT_BPE_BPE_TRAIN_H
/* Learns a byte-level BPE as Hugging Face's BpeTrainer does, merge for merge: the pair seen most often is
 * joined first, of equals that of the smaller ids; counts have 64 bits. Memory is that of the distinct words,
 * and some times their letters.
 *
 *     TRY(bpe_train_open(&train, &plan));
 *     bpe_train_feed(train, texts, count);            again and again; each text is a document
 *     bpe_train_merge(train);
 *     TRY(bpe_train_write(train, "tokenizer.json"));
 *     bpe_train_close(train);
 *
 * Ids: the special tokens, the 256 bytes in the order of their byte-level letters, the merges. Texts are
 * split into GPT-2's words. Results do not depend on the size of the team. */
#include "base/team.h"
#include "text/tokenizer.h"

typedef struct {
    int64_t      vocabulary, least;              /* ids wanted; a pair seen fewer times is not joined */
    const char **special;
    int          specials;
    Team        *team;
} BpePlan;

typedef struct { int32_t left, right, made; } BpeMerge;
typedef struct BpeTrain BpeTrain;

/* The plan is copied, what it points to is not. */
Status          bpe_train_open  (BpeTrain **train, const BpePlan *plan);
void            bpe_train_feed  (BpeTrain *train, const TextPiece *texts, int64_t count);
void            bpe_train_merge (BpeTrain *train);
Status          bpe_train_write (const BpeTrain *train, const char *path);  /* a tokenizer.json */
void            bpe_train_close (BpeTrain *train);

int64_t         bpe_train_words (const BpeTrain *train);        /* distinct ones; after bpe_train_merge */
int32_t         bpe_train_ids   (const BpeTrain *train);
const BpeMerge *bpe_train_merges(const BpeTrain *train, int32_t *count);
#endif
