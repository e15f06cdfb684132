/* What the headers of a request mean, without the connection that they came by. */
#include "serve/request_fields.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- a header ---- */

/* A blank or a colon within a name, which a folded line leaves there as well, hides it from one of two
 * programs that read the request one after the other. */
static bool is_name(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c <= ' ' || c >= 127 || strchr("\"(),/:;<=>?@[\\]{}", c)) return false;
    }
    return bytes > 0;
}

static bool is_value(const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 127) return false;
    return true;
}

/* libmicrohttpd appends a folded line to the name, so "Content-Length:" with its number on the next line
 * becomes "Content-Length5". */
static bool named(bool *odd, const char *name, size_t bytes, const char *wanted)
{
    size_t length = strlen(wanted);
    if (bytes < length || strncasecmp(name, wanted, length)) return false;
    *odd |= bytes > length;
    return true;
}

static bool is(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && !strncasecmp(name, wanted, bytes);
}

static void first(const char **to, const char *value)
{
    if (!*to) *to = value;
}

void request_fields_add(RequestFields *f, const char *name, size_t bytes, const char *value,
                        size_t value_bytes)
{
    f->odd |= !is_name(name, bytes) || (value && !is_value(value, value_bytes));
    if (named(&f->odd, name, bytes, "Content-Length"))    f->length.count++,   f->length.value   = value;
    if (named(&f->odd, name, bytes, "Transfer-Encoding")) f->encoding.count++, f->encoding.value = value;
    if (is(name, bytes, "Host"))            f->host.count++, first(&f->host.value, value);
    if (is(name, bytes, "Authorization"))   first(&f->authorization, value);
    if (is(name, bytes, "Origin"))          first(&f->origin, value);
    if (is(name, bytes, "Sec-Fetch-Site"))  first(&f->site, value);
    if (is(name, bytes, "Content-Type"))    first(&f->type, value);
    if (is(name, bytes, "Expect"))          f->expects = true;
    if (is(name, bytes, "X-Forwarded-For") && value) f->forwarded = value;
}

/* ---- where the body ends ---- */

/* Where two headers disagree on the end of the body, a proxy and this server may see the beginning of the
 * next request in different places (request smuggling). libmicrohttpd takes the first one. */
static bool framed(RequestHead *head, ApiError *error, const RequestFields *f, const char *version)
{
    const char *wrong = NULL;
    if (f->odd || (f->length.count && !f->length.value))
                                                    wrong = "a header is malformed";
    else if (f->length.count > 1)                   wrong = "Content-Length is there twice";
    else if (f->encoding.count > 1)                 wrong = "Transfer-Encoding is there twice";
    else if (f->length.count && f->encoding.count)  wrong = "Content-Length and Transfer-Encoding exclude "
                                                            "each other";
    else if (f->encoding.count && (!f->encoding.value || strcasecmp(f->encoding.value, "chunked")))
                                                    wrong = "Transfer-Encoding can be chunked alone";
    else if (f->encoding.count && !strcmp(version, "HTTP/1.0"))
                                                    wrong = "Transfer-Encoding is not part of HTTP/1.0";
    else if (f->host.count > 1)                     wrong = "Host is there twice";
    if (wrong) return api_refuse(error, 400, "", "malformed_request", "%s", wrong);
    head->declared = f->length.count ? strtoll(f->length.value, NULL, 10) : 0;
    head->body     = f->encoding.count || head->declared > 0;
    return true;
}

/* ---- who may ask ---- */

/* "Authorization: Bearer TOKEN" of programs; a browser asks its user for a name, which does not count, and a
 * password, which is the token. */
static bool brings_token(RequestHead *head, ApiError *error, const RequestFields *f,
                         const AccessTokens *tokens, const char *password)
{
    const char *given = f->authorization;
    if (!tokens || !tokens->count) return true;
    if (given && !strncasecmp(given, "Bearer ", 7)) head->client = access_token_find(tokens, given + 7);
    else if (password)                              head->client = access_token_find(tokens, password);
    if (head->client >= 0) return true;
    return api_refuse(error, 401, "", "invalid_api_key", given ? "the token is not known here" :
                      "a token is wanted: Authorization: Bearer TOKEN");
}

/* A page of another site that a browser on this machine shows may send requests here under a name of its own
 * that leads to this machine; they bear that name. */
static bool named_local(ApiError *error, const RequestFields *f)
{
    const char *host = f->host.value;
    size_t bytes = host ? strcspn(host, *host == '[' ? "]" : ":") : 0;
    bool local = !host || !*host || (bytes == 9 && !strncasecmp(host, "localhost", 9)) ||
                 !strncmp(host, "127.", 4) || !strncmp(host, "[::1", 4);
    if (local && host && !strncmp(host, "127.", 4)) local = strspn(host, "0123456789.") == bytes;
    if (local) return true;
    return api_refuse(error, 403, "", "forbidden_host", "the server is asked as %.100s, and answers to "
                      "localhost; give it a --token to be asked by other names", host);
}

/* A page of another site may let a browser send a request here by this server's own name, with the password
 * that the browser keeps for it. Browsers name such a request in Sec-Fetch-Site; older ones name the page in
 * Origin, and programs neither. GET changes nothing, and its answer is not given to the page. */
static bool same_origin(ApiError *error, const RequestFields *f, const char *method)
{
    const char *site = f->site, *origin = f->origin;
    const char *host = f->host.value, *named = origin ? strstr(origin, "://") : NULL;
    bool same = site ? !strcmp(site, "same-origin") || !strcmp(site, "none")
                     : !origin || (named && host && !strcasecmp(named + 3, host));
    if (same || strcmp(method, "POST")) return true;
    return api_refuse(error, 403, "", "forbidden_origin", "the request is that of a page of %.100s, and the "
                      "server is asked as %.100s; it answers to its own page, and to programs",
                      origin ? origin : "another site", host ? host : "no name");
}

bool request_fields_judge(RequestHead *head, ApiError *error, const RequestFields *f,
                          const RequestRules *rules, const char *password, const char *method,
                          const char *version)
{
    const AccessTokens *tokens = rules->tokens;
    *head = (RequestHead){ .client = -1 };
    if (!framed(head, error, f, version) || !brings_token(head, error, f, tokens, password) ||
        !same_origin(error, f, method))
        return false;
    return (tokens && tokens->count) || !rules->loopback || named_local(error, f);
}

bool request_fields_json(ApiError *error, const RequestFields *f)
{
    static const char json[] = "application/json";
    const char *type = f->type;
    size_t bytes = type ? strcspn(type, "; ") : 0;
    if (bytes == sizeof json - 1 && !strncasecmp(type, json, bytes)) return true;
    return api_refuse(error, 415, "", "unsupported_media_type", "the request is not of Content-Type: "
                      "application/json, but of %.100s", type ? type : "none");
}

/* ---- whose it is ---- */

/* The address that the proxy before this server has added: the last one of the last line. What stands before
 * it came from the client, who may write there what it likes. */
static void forwarded_client(char out[CLIENT_NAME], const char *line)
{
    const char *comma = strrchr(line, ','), *last = comma ? comma + 1 : line;
    last += strspn(last, " \t");
    snprintf(out, CLIENT_NAME, "%.*s", (int)strcspn(last, " \t"), last);
}

/* Without a port, which some proxies add and which differs between connections. Of IPv6 a client has all of
 * the addresses that begin with the same 64 bits. */
static void without_rest(char name[CLIENT_NAME])
{
    struct in6_addr six;
    char *colon = strchr(name, ':');
    if (*name == '[') {
        size_t bytes = strcspn(name + 1, "]");
        memmove(name, name + 1, bytes);
        name[bytes] = 0;
    } else if (colon && !strchr(colon + 1, ':')) *colon = 0;
    if (inet_pton(AF_INET6, name, &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six)) return;
    memset(&six.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &six, name, CLIENT_NAME);
}

void request_fields_client(char out[CLIENT_NAME], const RequestFields *f, const RequestRules *rules,
                           int token, const char *address)
{
    *out = 0;
    if (rules->tokens && rules->tokens->count > 1) {
        snprintf(out, CLIENT_NAME, "token %d", token);
        return;
    }
    if (rules->forwarded && f->forwarded) forwarded_client(out, f->forwarded);
    without_rest(out);
    if (*out) return;
    snprintf(out, CLIENT_NAME, "%s", address);
    without_rest(out);
}
