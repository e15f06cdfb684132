#ifndef TESTS_LAYOUTS_DRAW_H
#define TESTS_LAYOUTS_DRAW_H
/* A layout as a choice of one value for each dimension, and the options of jotun train that it stands for. What
 * cannot be is refused by jotun's own rules (options_validate), by the needs of the rows in values.c, and where
 * it takes more than RANKS_MOST ranks. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cli/setup/setup.h"

/* Those of COURSE decide what is computed, and one rank computes it too; the others say how. */
typedef enum {
    MODEL, MLP, HEADS, MASKS, TYPE, OPTIMIZER, BATCH, COURSE,
    TP = COURSE, SP,
    CP, CONTEXT,
    PP, SCHEDULE, STAGES,
    DP, ZERO, HYBRID,
    EP, ETP,
    ORDER, RECOMPUTE, MICRO, SUMS, OVERLAP, TRANSPORT,
    DIMENSIONS
} Dimension;

/* draw_size of an optimizer whose data-parallel ranks send signs of momenta: its results depend on their number, and on which samples
 * each has. */
enum { SIGNS = 2 };
enum { RANKS_MOST = 16, VALUES_MOST = 128, NEEDS = 2, WORDS_MOST = 2048, REFUSAL_MOST = 256 };

/* The value means nothing unless that dimension has a size of `least` or more. */
typedef struct { Dimension dimension; int least; } Need;
/* size: of an axis its ranks, of the schedule the chunks of a stage; elsewhere what draw.c makes of it. words: the
 * options of jotun train; those that begin with @ are numbers which follow from other values (draw.c). */
typedef struct { Dimension dimension; const char *name; int size; const char *words; Need needs[NEEDS]; } Value;
extern const Value values[];
extern const int   values_count;
extern const char *const dimension_names[DIMENSIONS];
int value_named(const char *name);                          /* -1: there is none */
/* Pairs that no layout has, beside those which needs exclude: jotun refuses them. */
typedef struct { const char *a, *b; } ValuePair;
extern const ValuePair impossible[];
extern const int impossible_count;

typedef struct { uint64_t key, at; } Dice;
int64_t dice(Dice *d, int64_t low, int64_t high);           /* low ... high, each as likely */

typedef struct { int value[DIMENSIONS]; } Draw;             /* rows of values */
int  draw_size (const Draw *d, Dimension dimension);
int  draw_ranks(const Draw *d);
/* NULL where the layout can be; else why not, in `why`. */
const char *draw_refusal(const Draw *d, char why[REFUSAL_MOST]);
/* A layout that can be, with the values `a` and `b` (-1: any), in so many tries. False, with the last refusal in
 * `why`, where there was none. */
bool draw_random(Draw *d, Dice *chance, int a, int b, int tries, char why[REFUSAL_MOST]);
/* The options of jotun train, but those that name files; of `course`: those of one rank that computes the same, with SIGNS of the
 * fewest ranks that do. */
void draw_words(char out[WORDS_MOST], const Draw *d, bool course);
void draw_name (char out[WORDS_MOST], const Draw *d);       /* "gpt masks double adam tp2 ..." */

/* Options and what follows from them, for as long as it is open. Fails as jotun train would. */
typedef struct { Options options; TrainConfig config; char text[WORDS_MOST], *word[WORDS_MOST / 2]; int words; } Parsed;
Status parsed_open (Parsed *p, const char *words);
void   parsed_close(Parsed *p);
#endif
