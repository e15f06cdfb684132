#ifndef SERVE_REQUEST_FIELDS_H
#define SERVE_REQUEST_FIELDS_H
/* The headers of a request that decide where its body ends, who may ask and whose it is. Names and values are
 * a client's: any bytes but 0. */
#include <stddef.h>
#include "serve/access_tokens.h"
#include "serve/api_error.h"
#include "serve/fair_queue.h"

/* Values are the caller's, each that of the first header of its name, but forwarded: X-Forwarded-For, that of
 * the last one. site: Sec-Fetch-Site. odd: a name or a value that HTTP does not have. */
typedef struct {
    struct { int count; const char *value; } length, encoding, host;
    const char *authorization, *origin, *site, *type, *forwarded;
    bool expects, odd;
} RequestFields;

/* tokens: NULL or none: whoever asks is answered. loopback: the server listens there alone. */
typedef struct { const AccessTokens *tokens; bool loopback, forwarded; } RequestRules;

/* client: which token it brought; -1: there are none. body: one follows; declared: its bytes, 0 if the head
 * does not say it. */
typedef struct { int client; bool body; int64_t declared; } RequestHead;

/* value: ends with 0, and may be NULL */
void request_fields_add(RequestFields *fields, const char *name, size_t bytes, const char *value,
                        size_t value_bytes);
/* password: that of basic authentication; NULL: none. false: `error` says why nothing more of this connection
 * is read: the end of the request is not certain, or its client may not ask. */
bool request_fields_judge(RequestHead *head, ApiError *error, const RequestFields *fields,
                          const RequestRules *rules, const char *password, const char *method,
                          const char *version);
/* Whether the body is JSON; else `error` is set. */
bool request_fields_json(ApiError *error, const RequestFields *fields);
/* Whose turn the request waits for: that of its token, where there are several; else that of the address. */
void request_fields_client(char out[CLIENT_NAME], const RequestFields *fields, const RequestRules *rules,
                           int token, const char *address);
#endif
