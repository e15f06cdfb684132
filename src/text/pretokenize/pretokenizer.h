#ifndef TEXT_PRETOKENIZE_PRETOKENIZER_H
#define TEXT_PRETOKENIZE_PRETOKENIZER_H
/* The pretokenizer of a tokenizer.json: a list of steps, each of which splits or changes the pieces of the
 * step before it. The model works within the pieces of the last step only. */
#include <stdbool.h>
#include <stdint.h>
#include "text/pretokenize/normalizer.h"
#include "text/pretokenize/pattern.h"
#include "text/pretokenize/pretoken.h"

typedef enum {
    SPLIT_SCAN,            /* by a scanner of text/pretokenize/pretoken.h */
    SPLIT_SCAN_NO_SPACE,   /* the same, and pieces that begin with white space are dropped */
    SPLIT_REGEX,           /* by the matches of `pattern` */
    SPLIT_DIGIT,           /* each number character is a piece */
    SPLIT_DIGITS,          /* each run of them is a piece */
    SPLIT_MARK,            /* before each U+2581, sentencepiece's mark for a space */
    SPLIT_MARKS,           /* before each run of U+2581 */
    SPLIT_CHARACTER,       /* by the character that is `pattern` */
    SPLIT_PUNCTUATION,     /* by each punctuation mark */
    SPLIT_SPACE,           /* by each white space */
    SPLIT_WORDS,           /* each run of word characters and each run of others that are no white space is
                            * a piece; white space is dropped */
    SPLIT_LENGTH,          /* every `length` characters */
    SPLIT_SCRIPTS,         /* where the script changes; characters of no script are dropped before the first
                            * one that has one */
    CHANGE_PIECE           /* `change` is applied to each piece */
} PretokenizerStepKind;

/* What happens to the matches of the expression, with Hugging Face's names: each is a piece, is dropped,
 * joins the piece before it, joins the piece after it, or joins the matches next to it. */
typedef enum {
    SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS
} SplitBehavior;

enum { PRETOKENIZER_STEPS_MAX = 32 };
typedef struct {
    PretokenizerStepKind kind;
    PretokenKind  scan;                /* of SPLIT_SCAN and SPLIT_SCAN_NO_SPACE */
    Pattern       pattern;             /* of SPLIT_REGEX and SPLIT_CHARACTER; belongs to the step */
    SplitBehavior behavior;            /* of SPLIT_REGEX, SPLIT_CHARACTER, SPLIT_PUNCTUATION, SPLIT_SPACE */
    bool          invert;              /* of SPLIT_REGEX: matches and the text between them exchange their
                                        * roles */
    int64_t       length;              /* of SPLIT_LENGTH */
    NormalizerStep change;             /* of CHANGE_PIECE; belongs to the step */
} PretokenizerStep;
typedef struct { PretokenizerStep step[PRETOKENIZER_STEPS_MAX]; int steps; } Pretokenizer;

/* Working memory, all zero at first; one per thread. changed: [step], what CHANGE_PIECE writes */
typedef struct { RegexSpace *regex; NormalizerBuffer changed[PRETOKENIZER_STEPS_MAX]; } PretokenizerSpace;
void   pretokenizer_space_close(PretokenizerSpace *space);

typedef Status PretokenFunction(void *context, Chars piece);
/* Calls `piece` for each piece of text after this one step, in order; no piece is empty. The first failure of
 * `piece` or of the step (BAD_FILE, NO_MEMORY) is returned. */
Status pretokenizer_step(const Pretokenizer *pretokenizer, int step, PretokenizerSpace *space, Chars text,
                         PretokenFunction *piece, void *context);
void   pretokenizer_step_close(PretokenizerStep *step);
void   pretokenizer_close(Pretokenizer *pretokenizer);
#endif
