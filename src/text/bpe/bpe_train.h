#ifndef TEXT_BPE_BPE_TRAIN_H
#define TEXT_BPE_BPE_TRAIN_H
/* Trains a byte-level BPE tokenizer, merge for merge as Hugging Face's BpeTrainer does: the most frequent
 * pair is joined first, of equally frequent ones that with the smaller ids. Counts have 64 bits. Memory is
 * that of the distinct words and a small multiple of their bytes, whatever the size of the corpus.
 *
 *     TRY(bpe_train_open(&train, &plan));
 *     bpe_train_feed(train, texts, count);            again and again; each text is a document
 *     bpe_train_merge(train);
 *     TRY(bpe_train_write(train, "tokenizer.json"));
 *     bpe_train_close(train);
 *
 * The ids are the special tokens, the 256 bytes in the order of their byte-level letters, then the merges.
 * Texts are pretokenized as GPT-2's. The result does not depend on the number of threads. Where memory runs
 * out in feed or merge the program stops (CHECK). */
#include "base/team.h"
#include "text/tokenizer.h"

typedef struct {
    int64_t      vocabulary, least;              /* ids wanted; the least count at which a pair is joined */
    const char **special;                        /* special tokens, [specials] */
    int          specials;
    Team        *team;                           /* the threads that count words */
} BpePlan;

typedef struct { int32_t left, right, made; } BpeMerge;            /* ids; made: of the joined token */
typedef struct BpeTrain BpeTrain;

/* Copies the plan but not what it points to. BAD_OPTION where the vocabulary is too small or a special token
 * is not UTF-8, is a single byte or occurs twice; NO_MEMORY. */
Status          bpe_train_open  (BpeTrain **train, const BpePlan *plan);
void            bpe_train_feed  (BpeTrain *train, const TextPiece *texts, int64_t count);
void            bpe_train_merge (BpeTrain *train);
/* Writes a tokenizer.json, by an atomic replace. */
Status          bpe_train_write (const BpeTrain *train, const char *path);
void            bpe_train_close (BpeTrain *train);

int64_t         bpe_train_words (const BpeTrain *train);        /* distinct words; valid after
                                                                 * bpe_train_merge */
int32_t         bpe_train_ids   (const BpeTrain *train);
/* in order; they belong to train */
const BpeMerge *bpe_train_merges(const BpeTrain *train, int32_t *count);
#endif
