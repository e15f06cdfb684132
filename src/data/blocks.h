#ifndef DATA_BLOCKS_H
#define DATA_BLOCKS_H
/* Samples cut as fairseq's TokenBlockDataset cuts them (--sample-break-mode). A block's tokens are its
 * targets; its inputs are the same tokens one place later, behind the token before the block, or behind an
 * end of sentence where the block begins a sentence. So every token is predicted once. A sentence is a
 * sequence of the token file, in fairseq's files a line of the text with its end. */
#include "data/token_file.h"

typedef enum {
    BREAK_OVERLAPPING,      /* no blocks: Megatron-LM's samples, whose last target begins the next one */
    BREAK_NONE,             /* blocks of S tokens wherever sentences end; the last one is shorter */
    BREAK_COMPLETE,         /* as many whole sentences as S tokens hold */
    BREAK_COMPLETE_DOC,     /* the same within a document; a sentence of one token divides documents */
    BREAK_EOS               /* one sentence */
} SampleBreak;

/* Zeros: no blocks. */
typedef struct {
    SampleBreak kind;
    int64_t  sequence;              /* S */
    int64_t  first, tokens;         /* of the part of the file that is cut */
    int64_t  samples;
    int64_t  longer;                /* sentences of more than S tokens, which are left out, as fairseq does */
    int64_t  (*table)[2];           /* [samples] first token and number of tokens; NULL: computed */
    int32_t  lead;                  /* the end of a sentence */
    const TokenFile *token_file;    /* the caller's */
} SampleBlocks;

typedef struct { int64_t first, tokens; bool leads; } SampleBlock;   /* leads: it begins a sentence */

/* Of the sequences [begin, end). eod: of the tokenizer, the end of a sentence where the file is not
 * fairseq's; -1: none. BAD_FILE where there is no block, BAD_OPTION without an end of a sentence. */
Status blocks_open(SampleBlocks *blocks, const TokenFile *token_file, int64_t begin, int64_t end,
                   SampleBreak kind, int64_t sequence, int32_t eod);
SampleBlock  block_at    (const SampleBlocks *blocks, int64_t sample);
void   blocks_close(SampleBlocks *blocks);                            /* all zeros is allowed */
#endif
