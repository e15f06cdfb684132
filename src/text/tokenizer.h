#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H
/* Text to ids and back, whatever the tokenizer. Once open ranks and threads may share it.
 *
 *     Tokenizer t;
 *     TRY(tokenizer_open(&t, "bytes"));
 *     int64_t count = t.encode(&t, ids, text, bytes);         ids has room for tokenizer_room(&t, text, bytes) of them
 *     TextPiece piece = t.decode(&t, ids[0]);                  one id at a time, so that text can be streamed
 *     tokenizer_close(&t);                                                                                    */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* lead: of its bytes, those at the beginning that are no text where the piece begins a text: the blank
 * that encode puts there */
typedef struct { const char *text; int64_t bytes, lead; } TextPiece;

typedef struct Tokenizer Tokenizer;
struct Tokenizer {
    const char *name;
    int32_t vocabulary, eod;                /* eod -1: none */
    bool    leads;                          /* leads are dropped until a piece has text besides; else that of the first which has any */
    bool    specials;                       /* it has special tokens which a text may hold, as <|endoftext|> */
    bool    parse_special;                  /* encode takes those for their ids; as opened it does not: they are text like any other.
                                             * Set it after opening, where there are `specials`. */
    int64_t widest, extra;                  /* at most bytes * widest + extra ids; 0 and 0: bytes */
    void   *state;
    /* With what the post_processor of a tokenizer.json puts around a text. -1: fail() has said why: no memory, or a pattern or
     * a rule of the tokenizer's file that costs too much */
    int64_t   (*encode)(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
    /* Of an id below vocabulary; the end of document is "" */
    TextPiece (*decode)(const Tokenizer *t, int32_t id);
    int64_t   (*room)  (const Tokenizer *t, const char *text, int64_t bytes);      /* NULL: widest and extra say it */
    void      (*close) (Tokenizer *t);      /* NULL: nothing is held */
};

/* name: what --tokenizer says: the word bytes, a tokenizer.json, a .tiktoken file, a sentencepiece .model, or a folder with tokenizer.json,
 * encoder.json and vocab.bpe, vocab.json and merges.txt, or tokenizer.model. BAD_OPTION for what is none of them, else the file's fault. */
Status tokenizer_open (Tokenizer *t, const char *name);
void   tokenizer_close(Tokenizer *t);
/* How many ids a text may give at most */
int64_t tokenizer_room(const Tokenizer *t, const char *text, int64_t bytes);
/* BAD_FILE with the place of the first which is no id of this tokenizer. where: a file */
Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where);
#endif
