#ifndef TESTS_LAYOUTS_CHOICES_H
#define TESTS_LAYOUTS_CHOICES_H
/* The experts that each token goes to. Where two of its logits are almost equal, a rounding decides between them, and the
 * token's output is another one: no bound of rounding covers that. So the run of one rank writes its choices down, and
 * the other runs of the same course take them: what is left of their differences is rounding. In the first step a choice may
 * differ from one rank's by rounding alone, which session.c bounds; later the weights are others. */
#include "layouts/run.h"
#include "layouts/order.h"

enum { CHOICE_LAYERS = ORDER_LAYERS, CHOICE_TOKENS = 1 << 10, CHOICE_MOST = 4 };
struct Choices {
    bool known;                       /* written: it is read from now on */
    /* by step (STEPS: the evaluation after them), layer and token of the global batch: expert + 1; 0: none */
    uint8_t expert[STEPS + 1][CHOICE_LAYERS][CHOICE_TOKENS][CHOICE_MOST];
};

/* On memory that children share. */
Choices *choices_new (void);
void     choices_free(Choices *choices);
void     choices_written(Choices *choices);          /* runs take them from now on */
/* The thread of a rank reads or writes those of the trainer's next step, or those of an evaluation; NULL: it does neither. */
void     choices_follow(Choices *choices, const Trainer *trainer);
/* Of this thread. */
ChoiceGap choices_gap(void);
#endif
