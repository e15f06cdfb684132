#ifndef GENERATE_FORWARD_H
#define GENERATE_FORWARD_H
/* Private to this directory: the memory of an engine on a rank, and a forward as it was planned.
 *
 *  I slots of a data rank, or logits that a forward has room for   N pages of the cache, of L positions
 *  T rows of a micro-batch   L layers
 *  n tokens drawn   V vocabulary columns held by a tp rank   R tp ranks   P pipeline stages   D dp x cp ranks
 *  W words of a result */
#include "generate/plan.h"
#include "generate/sample.h"

enum { KEY_RANGES = 2 };                   /* of layers without and with a sliding window */

/* A token to draw, or one to score: that after `position` of a text */
typedef struct { const Sequence *text; int64_t position; } Draw;

typedef struct {
    const EngineSetup *g;
    Sequence *sequence;                    /* [data ranks x I] */
    Schedule *schedule;                    /* [micros] of 1, 2, ... micro-batches; dry: of the most alone */
    KvCache  *cache;                       /* [layers] */
    Batch    *whole;                       /* [slots of the executor]: of which a forward has views */
    KvCaches  caches;
    Tensor    page_i, slot_i, sequence_i, key_range_i[KEY_RANGES];
    Tensor    key_position_i;              /* with ALiBi and cp ranks: of each place of the cache, [N, L] */
    int64_t  *logits_row;                  /* [T], of the micro-batch that runs */
    /* last stage alone: [I, V] of this rank; [R, I, V]. With one tp rank the same */
    Tensor    logits_nV, logits_RnV;
    Tensor    result_n, result_Pn, result_Dn;         /* I32: drawn here; of each stage; of each rank */
    Draw      *draw_n;                     /* [draws] of a forward */
    int64_t    draws;
    SampleWork *sample;                    /* [sampling_threads] */
    int        sampling_threads;
    Int8Weights int8;
    const ForwardPlan *plan;               /* that runs */
} Forward;

void forward_open (Forward *f, const EngineSetup *g, Sequence *sequence);
void forward_close(Forward *f);
/* Runs a plan. Returns the results of all data ranks: [results, W] of data rank d begin at d cp results W;
 * the same on all ranks. <-> tp, cp, pp, data */
const int32_t *forward_run(Forward *f, const ForwardPlan *plan);
/* Copies a page of all layers held here. */
void forward_copy_page(void *forward, int64_t from, int64_t to);
/* Pages of a text of so many positions, and of a data rank. */
int64_t text_pages  (const EngineSetup *g, int64_t positions);
int64_t engine_pages(const EngineSetup *g);
#endif
