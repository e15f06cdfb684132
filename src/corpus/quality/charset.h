#ifndef CORPUS_QUALITY_CHARSET_H
#define CORPUS_QUALITY_CHARSET_H
/* The characters of a language (rows of charset.def): texts are normalized, and what has characters of others falls.
 *   normalized  NFC; controls, soft hyphens and invisible characters out; NBSP and its like to a blank, other ends of
 *               lines to \n
 *   strict      one foreign character drops the document
 *   graded      parentheses go whose characters are foreign above `parenthesis`; then lines whose characters are foreign
 *               above `line`; then documents of which more than `lines` of the lines fell. A share is foreign characters
 *               among foreign ones and letters. Below it they stay.                                                  */
#include <stdbool.h>
#include "corpus/read/buffer.h"

typedef enum { CHARSET_NONE, CHARSET_GRADED, CHARSET_STRICT } CharsetMode;    /* NONE: normalized, not judged */
typedef enum { EMOJI_FOREIGN, EMOJI_REMOVE, EMOJI_KEEP } CharsetEmoji;

typedef struct {
    const char  *names;                     /* "sv", "sv,se", "sv,latin"; latin: all Latin letters, as names have them */
    CharsetMode  mode;
    CharsetEmoji emoji;
    double parenthesis, line, lines;
} CharsetPlan;
#define CHARSET_PLAN ((CharsetPlan){ .names = "latin", .mode = CHARSET_GRADED, .parenthesis = 0.2, .line = 0.02, .lines = 0.2 })

/* What was done; one row, one count of a report */
typedef enum {
    CHARSET_NORMALIZED,                     /* documents that NFC changed */
    CHARSET_INVISIBLE, CHARSET_BLANK, CHARSET_EMOJI,           /* characters taken out, made blank, taken out */
    CHARSET_PARENTHESIS, CHARSET_LINE,      /* dropped */
    CHARSET_DOCUMENT,                       /* 1: the document is dropped */
    CHARSET_COUNTS
} CharsetCount;

typedef struct {
    bool     dropped;
    uint32_t first;                         /* the first foreign character met; 0: none */
    int64_t  count[CHARSET_COUNTS];
} CharsetVerdict;

typedef struct Charset Charset;             /* for all threads */
Status charset_open (Charset **charset, const CharsetPlan *plan);        /* BAD_OPTION: no such name, with those there are */
void   charset_close(Charset *charset);
/* text, valid UTF-8, becomes what stays of it; spare: a thread's own, for NFC. Linear, whatever the text is. */
Status charset_apply(const Charset *charset, Buffer *text, Buffer *spare, CharsetVerdict *verdict);
const char *charset_count_word(CharsetCount count);                      /* "lines dropped", for reports */
#endif
