#ifndef SERVE_COMPLETION_H
#define SERVE_COMPLETION_H
/* Private to this directory: a request while it is answered, and its JSON. The lock of its service protects
 * it. */
#include "serve/answer.h"
#include "serve/api_error.h"
#include "serve/fair_queue.h"
#include "serve/served_text.h"

/* What the service knows of a text beside its bytes: when it was started, when tokens came. offset: of the
 * text before its first token that is not given out, in characters, which end at byte `counted`. */
typedef struct {
    ServedText text;
    uint64_t   seed, stream;
    int64_t    first_token, last_token;           /* seam.clock; 0: none yet */
    int64_t    offset, counted;
    bool       opened, echoed, finish_given, ended; /* ended: the engine has done with it */
} ChoiceText;

struct Completion {
    FairEntry          entry;                     /* first, so that an entry is its completion */
    Service           *service;
    Completion        *next, *before;             /* of all of the service */
    CompletionRequest  request;
    char               id[32];
    int64_t            created;                   /* seconds since 1970 */
    ChoiceText        *choice;                    /* [choices], owned: prompts x n */
    int                choices, started, ended;
    int64_t            arrived, deadline;         /* seam.clock */
    AnswerWait         wait;
    bool               asleep, left, failed, done, sent;      /* sent: a part of the answer was read */
    ApiError           error;                     /* where failed */
    Buffer             out;                       /* of the answer, from `read` on not yet read */
    int64_t            read;
};

/* Appends to `out` what is new of a choice as an event of the stream, if anything is. NO_MEMORY */
Status completion_event(Completion *completion, int choice, const ServedModel *model);
/* Appends usage, where it was asked for, and the mark of the end; or the error of a failed one. */
Status completion_last_event(Completion *completion, const ServedModel *model);
/* Appends the whole answer. */
Status completion_whole(Completion *completion, const ServedModel *model);
#endif
