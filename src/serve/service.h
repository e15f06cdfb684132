#ifndef SERVE_SERVICE_H
#define SERVE_SERVICE_H
/* Completions of one model between the threads of the HTTP server, which submit requests and read answers,
 * and the thread of the engine, which asks for requests and brings tokens (RequestSource). A lock of the
 * service protects all of it; what is done under it is short, since encoding and parsing come before, and a
 * whole answer is made after it by the thread of its connection, in pieces. */
#include "serve/answer.h"
#include "serve/completion_request.h"
#include "serve/metrics.h"

/* model and limits are the caller's. */
Status service_open (Service **service, const ServedModel *model, const ServeLimits *limits);
/* After the engine has ended; answers that are still read are lost. NULL is allowed. */
void   service_close(Service *service);
/* What the engine runs. Its `next` waits a second at most, so that ranks which wait for it show that they
 * live. It answers REQUEST_CLOSED after service_drain, once all texts have ended. */
RequestSource service_source(Service *service);

/* Takes the request, which is empty afterwards. wait->sleep has been called where it returns true. false:
 * `error` says why. client: for turns (serve/fair_queue.h). */
bool service_submit(Service *service, Completion **completion, ApiError *error, CompletionRequest *request,
                    const char *client, const AnswerWait *wait);
/* No more requests are taken; those there are go on. */
void service_drain(Service *service);
/* The engine has ended: what it has not made is refused, and nothing more is taken. */
void service_end  (Service *service);
/* Ends what has taken too long. To be called several times a second. */
void service_tick (Service *service, int64_t now);

/* ANSWER_LATER: nothing yet, and `sleep` was called, and `wake` too between the pieces of a whole answer;
 * ANSWER_ERROR: `error` is set, nothing else follows; ANSWER_WHOLE, ANSWER_EVENTS: the body, or the first
 * events, can be read. */
typedef enum { ANSWER_LATER, ANSWER_ERROR, ANSWER_WHOLE, ANSWER_EVENTS } AnswerKind;
AnswerKind completion_answer(Completion *completion, ApiError *error);
/* Copies up to `most` bytes of the answer. 0: nothing yet, and `sleep` was called; ANSWER_END: that was all.
 * A text that fails after its first event ends with an event of the error. */
enum { ANSWER_END = -1 };
int64_t completion_read(Completion *completion, char *out, int64_t most);
/* The bytes of an answer of ANSWER_WHOLE. */
int64_t completion_bytes(Completion *completion);
/* The client takes no more of it: texts that are not done are cancelled. `wait` is not used afterwards. */
void    completion_leave(Completion *completion);
#endif
