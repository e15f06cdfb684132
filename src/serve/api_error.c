/* Errors as clients of OpenAI's API expect them. */
#include "serve/api_error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/json_text.h"

bool api_refuse(ApiError *error, int status, const char *param, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error->status = status;
    snprintf(error->param, sizeof error->param, "%s", param);
    snprintf(error->code,  sizeof error->code,  "%s", code);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

/* The word by which clients group errors. */
static const char *type_of(int status)
{
    return status == 401 ? "authentication_error" : status == 429 ? "rate_limit_error"
         : status >= 500 ? "server_error" : "invalid_request_error";
}

Status api_error_json(Buffer *out, const ApiError *error)
{
    TRY(buffer_format(out, "{\"error\":{\"message\":"));
    TRY(json_text_label(out, error->message));
    TRY(buffer_format(out, ",\"type\":\"%s\",\"param\":", type_of(error->status)));
    if (*error->param) TRY(json_text_label(out, error->param));
    else               TRY(buffer_format(out, "null"));
    return buffer_format(out, ",\"code\":\"%s\"}}", error->code);
}
