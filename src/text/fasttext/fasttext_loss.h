#ifndef TEXT_FASTTEXT_FASTTEXT_LOSS_H
#define TEXT_FASTTEXT_FASTTEXT_LOSS_H
/* The output layer of a fastText classifier: from the mean of a text's input rows to the best labels. It
 * follows the four losses of fastText (loss.cc) with the same float and double steps in the same order, so
 * that labels whose scores nearly tie come out in fastText's order. */
#include "text/fasttext/fasttext_model.h"
#include "text/fasttext/langid_guess.h"

typedef struct { int32_t left, right; } FasttextTreeNode;       /* children; left -1: a leaf, whose index
                                                                 * is its label */
typedef struct { float score; int32_t node; } FasttextTreeStep; /* a node to visit, with the
                                                                 * log-probability of its path */
/* Working memory of a guess: the stack of the tree walk, the score of each label, the best labels. One per
 * thread. */
typedef struct { FasttextTreeStep *step; float *output; LangidGuess *best; } FasttextScratch;
typedef struct {
    int32_t kind, labels, dim;          /* kind: FASTTEXT_HIERARCHICAL, ... */
    float  *weight;                     /* of a tree: [inner node][dim]; else [labels / 16 rounded
                                         * up][dim][16], zero-padded */
    FasttextTreeNode *node;             /* hierarchical softmax: [2 labels - 1], leaves, then inner nodes,
                                         * the root last */
    float  *sigmoid;                    /* [513]: fastText's table of the logistic function from -8 to 8;
                                         * NULL: not used */
} FasttextLoss;

/* Unpacks the output matrix of the model. BAD_FILE where that takes more than 64 times the file,
 * NO_MEMORY. */
Status fasttext_loss_open (FasttextLoss *loss, const FasttextModel *model);
void   fasttext_loss_close(FasttextLoss *loss);
Status fasttext_scratch_open (FasttextScratch *scratch, const FasttextLoss *loss);      /* NO_MEMORY */
void   fasttext_scratch_close(FasttextScratch *scratch);

/* hidden: [dim]. Writes at most `most` guesses, best first, and returns their number. */
int fasttext_loss_guess(const FasttextLoss *loss, FasttextScratch *scratch, LangidGuess *guess, int most,
                        const float *hidden);
#endif
