#ifndef CORPUS_QUALITY_CHARSET_H
#define CORPUS_QUALITY_CHARSET_H
/* The characters of a language (rows of languages.def): normalizes a text, and removes parentheses, lines or
 * documents in which there are too many foreign characters.
 *
 *   normalized  NFC; controls, soft hyphens and invisible characters removed; no-break space and the like
 *               become a space, other line ends become \n
 *   strict      one foreign character drops the document
 *   graded      removes parentheses whose share of foreign characters is above `parenthesis`, then lines
 *               whose share is above `line`, then drops documents of which more than the share `lines` of
 *               the lines was removed; foreign characters below the limits stay. A share is the number of
 *               foreign characters over that of foreign characters and letters. */
#include <stdbool.h>
#include "base/buffer.h"

/* NONE: only normalized. */
typedef enum { CHARSET_NONE, CHARSET_GRADED, CHARSET_STRICT } CharsetMode;
typedef enum { EMOJI_FOREIGN, EMOJI_REMOVE, EMOJI_KEEP } CharsetEmoji;

typedef struct {
    /* "sv", "sv,se", "sv,latin"; latin: all Latin letters, as proper names contain them */
    const char  *names;
    CharsetMode  mode;
    CharsetEmoji emoji;
    double       parenthesis, line, lines;  /* limits of graded, as shares from 0 to 1 */
} CharsetPlan;
#define CHARSET_PLAN \
    ((CharsetPlan){ .names = "latin", .mode = CHARSET_GRADED, .parenthesis = 0.2, .line = 0.02, \
                    .lines = 0.2 })

/* What was changed, as counts of a report. */
typedef enum {
    CHARSET_NORMALIZED,                     /* documents changed by NFC */
    CHARSET_INVISIBLE,                      /* characters removed */
    CHARSET_BLANK,                          /* characters that became a space */
    CHARSET_EMOJI,                          /* characters removed */
    CHARSET_PARENTHESIS,                    /* parentheses removed */
    CHARSET_LINE,                           /* lines removed */
    CHARSET_DOCUMENT,                       /* 1: the document is dropped */
    CHARSET_COUNTS
} CharsetCount;

typedef struct {
    bool     dropped;
    uint32_t first;                         /* code point of the first foreign character; 0: none */
    int64_t  count[CHARSET_COUNTS];
} CharsetVerdict;

typedef struct Charset Charset;             /* read-only after opening; shared by all threads */
/* BAD_OPTION: an unknown name; the message lists those that exist. */
Status charset_open (Charset **charset, const CharsetPlan *plan);
void   charset_close(Charset *charset);
/* Changes `text`, which is valid UTF-8, in place. `spare` belongs to the thread; NFC writes into it and
 * swaps it with `text`. Time is linear in the text, also for nested parentheses. NO_MEMORY is the only
 * failure. */
Status charset_apply(const Charset *charset, Buffer *text, Buffer *spare, CharsetVerdict *verdict);
/* The name in reports: "foreign lines dropped". */
const char *charset_count_name(CharsetCount count);

/* Text that is searched for in documents, brought into the form that documents have when they are searched:
 * invalid UTF-8 repaired, and normalized without judging. Without this a test set in NFD would never match.
 * For one thread at a time. */
typedef struct { Charset *charset; Buffer text, spare; } NormalizedQuery;
/* After a failure too, normalized_query_close is needed. */
Status normalized_query_open (NormalizedQuery *n);
/* n->text becomes the normalized text, valid until the next call. Fails only with NO_MEMORY. */
Status normalized_query_take (NormalizedQuery *n, const char *text, int64_t bytes);
void   normalized_query_close(NormalizedQuery *n);
#endif
