/* Any bytes as the head of a request: lines "name:value" behind a byte of settings. What is taken has one certain end, a token where there
 * are tokens, and a name of this machine where the server listens here alone. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/request_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void holds(bool good) { if (!good) abort(); }

enum { HEADERS = 64 };
typedef struct { char *name, *value; } Header;

/* Memory of each string as long as it is, so that no byte behind it can be read. */
static char *copy(const uint8_t *from, size_t bytes)
{
    char *text = malloc(bytes + 1);
    holds(text);
    if (bytes) memcpy(text, from, bytes);
    for (size_t i = 0; i < bytes; i++) if (!text[i]) text[i] = 127;
    text[bytes] = 0;
    return text;
}

static int split(Header *header, const uint8_t *data, size_t bytes)
{
    int n = 0;
    while (bytes && n < HEADERS) {
        const uint8_t *end = memchr(data, '\n', bytes);
        size_t line = end ? (size_t)(end - data) : bytes;
        const uint8_t *colon = memchr(data, ':', line);
        size_t name = colon ? (size_t)(colon - data) : line;
        header[n++] = (Header){ copy(data, name), colon ? copy(colon + 1, line - name - 1) : NULL };
        data  += line + (end != NULL);
        bytes -= line + (end != NULL);
    }
    return n;
}

static int named(const Header *header, int n, const char *name, const char **value)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (!strcasecmp(header[i].name, name)) *value = header[i].value, count++;
    return count;
}

static void check(const Header *header, int n, const RequestHead *head, const RequestRules *rules, bool posts, bool old)
{
    const char *length = NULL, *encoding = NULL, *host = NULL, *origin = NULL, *site = NULL;
    int lengths = named(header, n, "Content-Length", &length), encodings = named(header, n, "Transfer-Encoding", &encoding);
    holds(lengths + encodings <= 1 && named(header, n, "Host", &host) <= 1);
    holds(!encodings || (encoding && !strcasecmp(encoding, "chunked") && !old));
    holds(head->body == (encodings || head->declared > 0) && (lengths || head->declared == 0));
    for (int i = 0; i < n; i++) holds(!strpbrk(header[i].name, " \t\r:") && (!header[i].value || !strpbrk(header[i].value, "\r\n")));
    holds(rules->tokens ? head->client >= 0 && head->client < rules->tokens->count : head->client == -1);
    if (!rules->tokens && rules->loopback && host && *host)
        holds(!strncasecmp(host, "localhost", 9) || !strncmp(host, "127.", 4) || !strncmp(host, "[::1", 4));
    if (posts && named(header, n, "Sec-Fetch-Site", &site) == 1 && site) holds(!strcmp(site, "same-origin") || !strcmp(site, "none"));
    else if (posts && !site && named(header, n, "Origin", &origin) == 1 && origin)
        holds(host && strstr(origin, "://") && !strcasecmp(strstr(origin, "://") + 3, host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static AccessTokens tokens;
    Header header[HEADERS];
    RequestFields fields = { .odd = false };
    RequestHead head;
    ApiError error = { .status = 0 };
    char client[CLIENT_NAME];
    if (!tokens.count) {
        holds(access_tokens_add(&tokens, "token-of-one", 12, "test") == OK);
        holds(access_tokens_add(&tokens, "token-of-two", 12, "test") == OK);
    }
    int settings = bytes ? data[0] : 0, n = bytes ? split(header, data + 1, bytes - 1) : 0;
    bool posts = settings & 8, old = settings & 16;
    RequestRules rules = { settings & 1 ? &tokens : NULL, settings & 2, settings & 4 };
    for (int i = 0; i < n; i++)
        request_fields_add(&fields, header[i].name, strlen(header[i].name), header[i].value, header[i].value ? strlen(header[i].value) : 0);
    if (request_fields_judge(&head, &error, &fields, &rules, settings & 32 ? "token-of-two" : NULL, posts ? "POST" : "GET",
                             old ? "HTTP/1.0" : "HTTP/1.1")) {
        check(header, n, &head, &rules, posts, old);
        request_fields_client(client, &fields, &rules, head.client, "2001:db8::1:2");
        holds(*client && strlen(client) < CLIENT_NAME && (!rules.tokens || !strncmp(client, "token ", 6)));
    } else holds(error.status >= 400 && error.status < 500 && *error.message && *error.code);
    if (!request_fields_json(&error, &fields)) holds(error.status == 415);
    for (int i = 0; i < n; i++) free(header[i].name), free(header[i].value);
    return 0;
}
