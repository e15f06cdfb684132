#ifndef SERVE_ACCESS_TOKENS_H
#define SERVE_ACCESS_TOKENS_H
/* The tokens of which a request has to bring one, and who brings it. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* Without tokens everybody has access. It begins as { 0 }. */
typedef struct { char **text; int count, room; } AccessTokens;

/* One more. `from` is for messages. BAD_OPTION: it has other bytes than visible ASCII, fewer than 8, or more
 * than 512. */
Status access_tokens_add (AccessTokens *tokens, const char *text, int64_t bytes, const char *from);
/* One on each line of a file; empty lines do not count. BAD_FILE: it has none. */
Status access_tokens_file(AccessTokens *tokens, const char *path);
void   access_tokens_close(AccessTokens *tokens);
/* Which token this is, from 0; -1: none of them. The time depends on the length of `text` and on the tokens,
 * and not on where they differ. */
int    access_token_find(const AccessTokens *tokens, const char *text);
#endif
