#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H
/* Text to ids and back, whatever the tokenizer. A Tokenizer is read-only once open: ranks may share it.
 *
 *     Tokenizer t;
 *     TRY(tokenizer_open(&t, "bytes"));
 *     int64_t count = t.encode(&t, ids, text, bytes);         ids has room for `bytes` of them
 *     TextPiece piece = t.decode(&t, ids[0]);                  one id at a time, so that text can be streamed
 *     tokenizer_close(&t);                                                                                    */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct { const char *text; int64_t bytes; } TextPiece;

typedef struct Tokenizer Tokenizer;
struct Tokenizer {
    const char *name;
    int32_t vocabulary, eod;                /* eod -1: none */
    /* Never more ids than bytes where room is NULL, else never more than room says */
    int64_t   (*encode)(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes);
    /* Of an id below vocabulary; the end of document is "" */
    TextPiece (*decode)(const Tokenizer *t, int32_t id);
    int64_t   (*room)  (const Tokenizer *t, const char *text, int64_t bytes);
    void      (*close) (Tokenizer *t);      /* NULL: nothing to close */
    void       *state;
    bool        space_first;                /* a whole text loses one space at its begin when it is decoded */
};

/* name: what --tokenizer says. BAD_OPTION for what is not built. */
Status tokenizer_open (Tokenizer *t, const char *name);
void   tokenizer_close(Tokenizer *t);
/* BAD_FILE with the place of the first which is no id of this tokenizer. where: a file */
Status tokenizer_check(const Tokenizer *t, const int32_t *ids, int64_t count, const char *where);
#endif
