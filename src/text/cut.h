#ifndef TEXT_CUT_H
#define TEXT_CUT_H
/* How a text is cut into the pieces within which merging happens: steps, each cutting what the one before left. */
#include <stdbool.h>
#include <stdint.h>
#include "text/regex.h"
#include "text/split.h"

typedef enum {
    CUT_SCAN,            /* by a scanner of text/split.h */
    CUT_REGEX,
    CUT_DIGIT,           /* each number character by itself */
    CUT_DIGITS,          /* runs of them */
    CUT_MARK,            /* before each U+2581 */
    CUT_MARKS            /* before each run of U+2581 */
} CutKind;

/* What becomes of the matches, as Hugging Face's names say */
typedef enum { CUT_ISOLATED, CUT_REMOVED, CUT_WITH_PREVIOUS, CUT_WITH_NEXT, CUT_CONTIGUOUS } CutBehavior;

enum { CUT_MOST = 8 };
typedef struct { CutKind kind; SplitKind scan; Regex *regex; CutBehavior behavior; bool invert; } CutStep;
typedef struct { CutStep step[CUT_MOST]; int steps; } Cut;

typedef Status CutPiece(void *context, const uint8_t *text, int64_t bytes);
/* Gives each piece of text, after `step` alone, to `piece` */
Status cut_step(const CutStep *step, RegexSpace **space, const uint8_t *text, int64_t bytes, CutPiece *piece,
                void *context);
void   cut_close(Cut *cut);
#endif
