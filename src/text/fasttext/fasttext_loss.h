#ifndef TEXT_FASTTEXT_FASTTEXT_LOSS_H
#define TEXT_FASTTEXT_FASTTEXT_LOSS_H
/* From the mean of a text's rows to labels, as fastText's losses do it, with its float and double steps in its order, so
 * that labels which nearly tie come in its order too.                                                              */
#include "text/fasttext/fasttext_model.h"
#include "text/fasttext/langid_guess.h"

typedef struct { int32_t left, right; } FasttextTreeNode;               /* left -1: a leaf, whose number is its label */
typedef struct { float score; int32_t node; } FasttextTreeStep;
typedef struct { FasttextTreeStep *step; float *output; LangidGuess *best; } FasttextScratch;      /* one per thread */
typedef struct {
    int32_t kind, labels, dim;
    float  *weight;                     /* of a tree: a row a fork; else sixteens of labels, each dim x 16 */
    FasttextTreeNode *fork;                 /* leaves, then forks, the root last */
    float  *sigmoid;                    /* fastText's own table of 513 */
} FasttextLoss;

Status fasttext_loss_open (FasttextLoss *loss, const FasttextModel *model);
void   fasttext_loss_close(FasttextLoss *loss);
Status fasttext_scratch_open (FasttextScratch *scratch, const FasttextLoss *loss);
void   fasttext_scratch_close(FasttextScratch *scratch);

int fasttext_loss_guess(const FasttextLoss *loss, FasttextScratch *scratch, LangidGuess *guess, int most, const float *hidden);
#endif
