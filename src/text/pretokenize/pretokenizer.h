#ifndef TEXT_PRETOKENIZE_PRETOKENIZER_H
#define TEXT_PRETOKENIZE_PRETOKENIZER_H
/* How a text is cut into the pieces within which merging happens: steps, each cutting what the one before left. */
#include <stdbool.h>
#include <stdint.h>
#include "text/pretokenize/regex.h"
#include "text/pretokenize/pretoken.h"

typedef enum {
    SPLIT_SCAN,            /* by a scanner of text/pretokenize/pretoken.h */
    SPLIT_SCAN_NO_SPACE,   /* and what begins with white space is dropped */
    SPLIT_REGEX,
    SPLIT_DIGIT,           /* each number character by itself */
    SPLIT_DIGITS,          /* runs of them */
    SPLIT_MARK,            /* before each U+2581 */
    SPLIT_MARKS            /* before each run of U+2581 */
} PretokenizerStepKind;

/* What becomes of the matches, as Hugging Face's names say */
typedef enum { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS } SplitBehavior;

enum { PRETOKENIZER_STEPS_MAX = 8 };
typedef struct { PretokenizerStepKind kind; PretokenKind scan; Regex *regex; SplitBehavior behavior; bool invert; } PretokenizerStep;
typedef struct { PretokenizerStep step[PRETOKENIZER_STEPS_MAX]; int steps; } Pretokenizer;

typedef Status PretokenFunction(void *context, const uint8_t *text, int64_t bytes);
/* Gives each piece of text, after `step` alone, to `piece` */
Status pretokenizer_step(const PretokenizerStep *step, RegexSpace **space, const uint8_t *text, int64_t bytes, PretokenFunction *piece,
                void *context);
void   pretokenizer_close(Pretokenizer *cut);
#endif
