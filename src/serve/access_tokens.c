/* Tokens and their comparison. */
#include "serve/access_tokens.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"

enum { TOKEN_LEAST = 8, TOKEN_MOST = 512 };

/* The message does not repeat the token. */
Status access_tokens_add(AccessTokens *t, const char *text, int64_t bytes, const char *from)
{
    bool visible = bytes >= TOKEN_LEAST && bytes <= TOKEN_MOST;
    for (int64_t i = 0; visible && i < bytes; i++) visible = text[i] > ' ' && text[i] < 127;
    if (!visible)
        return fail(BAD_OPTION, "%s: a token has %d to %d letters, digits and signs of ASCII, and no blanks",
                    from, TOKEN_LEAST, TOKEN_MOST);
    TRY(ARRAY_RESERVE(t->text, t->room, t->count + 1));
    char *copy = strndup(text, (size_t)bytes);
    if (!copy) return fail(NO_MEMORY, "no memory for %d tokens", t->count + 1);
    t->text[t->count++] = copy;
    return OK;
}

Status access_tokens_file(AccessTokens *t, const char *path)
{
    FileMap file;
    Status status = OK;
    int before = t->count;
    TRY(file_map(&file, path));
    const char *line = (const char *)file.data, *end = line + file.size;
    while (line < end && status == OK) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        int64_t bytes = stop - line - (stop > line && stop[-1] == '\r');
        if (bytes) status = access_tokens_add(t, line, bytes, path);
        line = stop + 1;
    }
    file_unmap(&file);
    if (status != OK || t->count > before) return status;
    return fail(BAD_FILE, "%s has no token; write one on a line", path);
}

void access_tokens_close(AccessTokens *t)
{
    for (int i = 0; i < t->count; i++) free(t->text[i]);
    free(t->text);
    *t = (AccessTokens){ 0 };
}

/* All bytes of all tokens are compared; behind its end `text` counts as zeros. */
int access_token_find(const AccessTokens *t, const char *text)
{
    size_t bytes = strlen(text);
    int found = -1;
    for (int i = 0; i < t->count; i++) {
        volatile unsigned differ = 0;
        size_t length = strlen(t->text[i]);
        for (size_t k = 0; k <= length; k++)
            differ |= (unsigned)((unsigned char)t->text[i][k] ^ (unsigned char)text[k < bytes ? k : bytes]);
        differ |= bytes != length;
        if (!differ) found = i;
    }
    return found;
}
