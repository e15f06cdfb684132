#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H
/* Private to this directory: a request while it is answered, and its JSON. The lock of its service protects
 * it; once a whole answer is done the thread of its connection alone has it. */
#include "serve/answer.h"
#include "serve/api_error.h"
#include "serve/fair_queue.h"
#include "serve/served_text.h"

/* What the service knows of a text beside its bytes: when it was started, when tokens came. id: of its
 * tokens, by which it continues after it was preempted. offset: of the text before its first token that is
 * not given out, in characters, which end at byte `counted`. likely: JSON of the alternatives of tokens that
 * are not given out, up to token `prepared`. */
typedef struct {
    ServedText text;
    uint64_t   seed, stream;
    int32_t   *id;                                /* [most], owned; text.drawn are known */
    int64_t    first_token, last_token;           /* seam.clock; 0: none yet */
    int64_t    offset, counted, prepared;
    Buffer     likely;
    bool       opened, echoed, finish_given;
    bool       runs, ended;                       /* in the engine; it has done with it */
} ChoiceText;

struct Completion {
    FairEntry          entry;                     /* first, so that an entry is its completion */
    Service           *service;
    Completion        *next, *before;             /* of all of the service */
    CompletionRequest  request;
    char               id[32];
    int64_t            created;                   /* seconds since 1970 */
    ChoiceText        *choice;                    /* [choices], owned: prompts x n */
    int                choices, running, ended;   /* texts: in all, in the engine, done */
    int64_t            arrived, deadline;         /* seam.clock */
    AnswerWait         wait;
    bool               asleep, left, failed, done, sent;      /* sent: a part of the answer was read */
    ApiError           error;                     /* where failed */
    Buffer             out;                       /* of the answer, from `read` on not yet read */
    int64_t            read;
};

/* Makes the JSON of the alternatives of at most `most` tokens before token `end` of a choice, which is most
 * of the work for an answer. *left: how many of `most` are left. NO_MEMORY */
Status completion_prepare(ChoiceText *choice, int64_t end, int64_t most, int64_t *left);
/* Appends to `out` what is new of a choice as an event of the stream, if anything is. NO_MEMORY */
Status completion_event(Completion *completion, int choice, const ServedModel *model);
/* Appends usage, where it was asked for, and the mark of the end; or the error of a failed one. */
Status completion_last_event(Completion *completion, const ServedModel *model);
/* Appends the whole answer. */
Status completion_whole(Completion *completion, const ServedModel *model);
#endif
