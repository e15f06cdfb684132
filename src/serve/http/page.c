/* The page of src/serve/http/page.html, which the build embeds. */
#include <string.h>
#include "serve/http/http.h"

extern const char   server_page[];         /* made by cmake/embed.cmake; no NUL at its end */
extern const size_t server_page_bytes;

/* What the page has where a nonce belongs. */
static const char mark[] = "PAGE_NONCE";

Status server_page_write(Buffer *out, const char *nonce)
{
    const char *at = server_page, *end = server_page + server_page_bytes;
    while (at < end) {
        const char *found = memmem(at, (size_t)(end - at), mark, sizeof mark - 1);
        TRY(buffer_add(out, at, (found ? found : end) - at));
        if (found) TRY(buffer_add(out, nonce, (int64_t)strlen(nonce)));
        at = found ? found + sizeof mark - 1 : end;
    }
    return OK;
}
