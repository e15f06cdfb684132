#ifndef GENERATE_SCHEDULER_H
#define GENERATE_SCHEDULER_H
/* Private to this directory; of rank 0. Which requests run in which slots with which pages, what the next
 * forward computes, and what follows from its results. */
#include "generate/beams.h"
#include "generate/plan.h"

typedef enum { SLOT_FREE, SLOT_PROMPT, SLOT_TEXT, SLOT_BEAM } SlotState;

/* SLOT_BEAM: of a beam search that another slot leads, until it has a text to continue. */
typedef struct {
    SlotState state;
    int64_t   order;               /* of requests: the earlier begins first */
    Request   request;             /* of the leader of a beam search */
    int64_t   cached, length;      /* positions computed; ids known */
    int32_t  *page;                /* [pages of a text] owned */
    int64_t   pages;
    int       leader;              /* this slot; of a beam another one */
    BeamSearch *search;            /* of a leader; owned */
    int       beam[BEAMS_MOST];    /* of a leader: its slots */
} TextSlot;

/* Pages of a data rank that are free, and of each how many texts have it. */
typedef struct { int32_t *free, *uses; int64_t frees; } PagePool;

typedef struct {
    const EngineSetup *g;
    const RequestSource *source;
    TextSlot     *slot;                /* [data ranks x sequences] */
    PagePool *pool;                /* [data ranks] */
    /* for a step's use: slots [sequences], results taken of each data rank, the results of each slot */
    int64_t  *list, *drawn;
    const int32_t **word;
    Buffer    plan;                /* the steps before the next forward */
    Request   pending;             /* given and not begun */
    bool      has_pending, closed, texts_next;
    int64_t   orders, running;     /* requests begun; that run */
    int64_t   prompt_tokens;       /* computed, of all prompts */
} Scheduler;

void scheduler_open (Scheduler *s, const EngineSetup *g, const RequestSource *source);
void scheduler_close(Scheduler *s);
/* Takes requests and plans: the steps are in s->plan. */
void scheduler_plan (Scheduler *s, ForwardPlan *forward);
/* The results of the forward, as forward_run returns them. */
void scheduler_take (Scheduler *s, const ForwardPlan *forward, const int32_t *results);
#endif
