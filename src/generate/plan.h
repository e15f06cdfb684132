#ifndef GENERATE_PLAN_H
#define GENERATE_PLAN_H
/* Private to this directory. What rank 0 tells all ranks before each forward: texts that begin and end, the
 * pages of each, and the rows of the forward. It writes steps, in the order in which all ranks take them. */
#include "base/buffer.h"
#include "generate/sequence.h"

/* What the steps change, on each rank. page_i: [sequences, pages of a text] of its own data rank. copy: from
 * one page to another, in all caches of this rank. */
typedef struct {
    const EngineSetup *g;
    Sequence *sequence;                            /* [data ranks x sequences] */
    Tensor    page_i;
    void    (*copy)(void *context, int64_t from, int64_t to);
    void     *context;
} PlanTarget;

/* ---- rank 0 ---- */
void plan_clear  (Buffer *plan);
void plan_begin  (Buffer *plan, int data, int slot, const Request *request);
void plan_end    (Buffer *plan, int data, int slot);
void plan_table  (Buffer *plan, int data, int slot, const int32_t *page, int64_t pages);
void plan_copy   (Buffer *plan, int data, int64_t from, int64_t to);
/* The id at the last position of a text, which was drawn: its text has `length` ids then. */
void plan_token  (Buffer *plan, int data, int slot, int64_t length, int32_t id);
void plan_forward(Buffer *plan, const ForwardPlan *forward);                          /* the last step */

/* ---- all ranks ---- */
/* Rank 0's steps, taken; `forward` is what it wrote. <-> world: broadcast */
void plan_take (Buffer *plan, Comm *world, const PlanTarget *target, ForwardPlan *forward);
void plan_close(Buffer *plan);
/* The next segment of a forward, with room for it. */
Segment *forward_segment(ForwardPlan *forward);
#endif
