#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H
/* What an answer to a request for completions is called between its makers and its readers. */

typedef struct Service    Service;
typedef struct Completion Completion;

/* How the thread of a connection waits. Both are called under the lock: `sleep` where an answer has nothing
 * yet, `wake` once after it when there is more to read. Neither may call the service. */
typedef struct { void (*sleep)(void *context), (*wake)(void *context); void *context; } AnswerWait;
#endif
