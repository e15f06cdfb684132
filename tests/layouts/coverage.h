#ifndef TESTS_LAYOUTS_COVERAGE_H
#define TESTS_LAYOUTS_COVERAGE_H
/* Layouts drawn from a seed so that every pair of values of two dimensions which can stand together does so in
 * one of them. */
#include "layouts/draw.h"

typedef struct {
    int  count;
    Draw *draw;                                        /* [count], owned; those that cover most come first */
    /* layouts with both values; whether any layout can have both */
    int  covered[VALUES_MOST][VALUES_MOST];
    bool possible[VALUES_MOST][VALUES_MOST];
    bool part;                                   /* drawn in part, so that pairs without a layout are no fault */
} Coverage;

/* At least `count` layouts, more where the pairs need more; but the first `most_layouts` of them alone, under a sanitizer,
 * where drawing takes longer than they do. */
void coverage_draw (Coverage *c, uint64_t seed, int count, int most_layouts);
void coverage_close(Coverage *c);
/* Prints the matrix, by dimension: pairs, and the fewest layouts of any pair. Returns how many possible pairs no
 * layout has, and adds those pairs that are impossible though neither row's needs say so. */
int  coverage_print(const Coverage *c);
#endif
