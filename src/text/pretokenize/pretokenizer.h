#ifndef TEXT_PRETOKENIZE_PRETOKENIZER_H
#define TEXT_PRETOKENIZE_PRETOKENIZER_H
/* The pretokenizer of a tokenizer.json: a list of steps, each of which splits the pieces of the step before
 * it. BPE merges within the pieces of the last step only. */
#include <stdbool.h>
#include <stdint.h>
#include "text/pretokenize/regex.h"
#include "text/pretokenize/pretoken.h"

typedef enum {
    SPLIT_SCAN,            /* by a scanner of text/pretokenize/pretoken.h */
    SPLIT_SCAN_NO_SPACE,   /* the same, and pieces that begin with white space are dropped */
    SPLIT_REGEX,           /* by a regular expression, with PCRE2 */
    SPLIT_DIGIT,           /* each character of class NUMBER is a piece */
    SPLIT_DIGITS,          /* each run of them is a piece */
    SPLIT_MARK,            /* before each U+2581, sentencepiece's mark for a space */
    SPLIT_MARKS            /* before each run of U+2581 */
} PretokenizerStepKind;

/* What happens to the matches of the expression, with Hugging Face's names: each is a piece, is dropped,
 * joins the piece before it, joins the piece after it, or joins the matches next to it. */
typedef enum {
    SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS
} SplitBehavior;

enum { PRETOKENIZER_STEPS_MAX = 8 };
typedef struct {
    PretokenizerStepKind kind;
    PretokenKind  scan;                /* of SPLIT_SCAN and SPLIT_SCAN_NO_SPACE */
    Regex        *regex;               /* of SPLIT_REGEX; belongs to the step */
    SplitBehavior behavior;            /* of SPLIT_REGEX */
    bool          invert;              /* matches and the text between them exchange their roles */
} PretokenizerStep;
typedef struct { PretokenizerStep step[PRETOKENIZER_STEPS_MAX]; int steps; } Pretokenizer;

typedef Status PretokenFunction(void *context, const uint8_t *text, int64_t bytes);
/* Calls `piece` for each piece of text after this one step, in order; the first failure of `piece` or of the
 * expression (BAD_FILE, NO_MEMORY) is returned. *space: NULL at first; one per thread. */
Status pretokenizer_step(const PretokenizerStep *step, RegexSpace **space, const uint8_t *text, int64_t bytes,
                         PretokenFunction *piece, void *context);
void   pretokenizer_close(Pretokenizer *pretokenizer);
#endif
