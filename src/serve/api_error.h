#ifndef SERVE_API_ERROR_H
#define SERVE_API_ERROR_H
/* Errors in the shape of OpenAI's API:
 *     {"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code": "unknown"}} */
#include <stdbool.h>
#include "base/buffer.h"

enum { API_ERROR_BYTES = 1024 };            /* of a message, with its end */

/* status: of HTTP. param: the member of the request that is wrong, "": none. */
typedef struct {
    int  status;
    char param[64], code[32], message[API_ERROR_BYTES];
} ApiError;

/* Sets the error and returns false, so that a reader writes `return api_refuse(...)`. What is not UTF-8 in
 * the message is repaired when it is written. */
bool   api_refuse(ApiError *error, int status, const char *param, const char *code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Appends the JSON. */
Status api_error_json(Buffer *out, const ApiError *error);
#endif
