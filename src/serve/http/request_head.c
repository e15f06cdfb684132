/* The head of a request, which is looked at before anything of the body is kept, so that whoever may not ask
 * costs no memory. What it means is in serve/request_fields.c. */
#include "serve/http/http.h"

static enum MHD_Result add(void *context, enum MHD_ValueKind kind, const char *name, size_t bytes,
                           const char *value, size_t value_bytes)
{
    (void)kind;
    request_fields_add(context, name, bytes, value, value_bytes);
    return MHD_YES;
}

static RequestFields fields_of(struct MHD_Connection *mhd)
{
    RequestFields fields = { .odd = false };
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, add, &fields);
    return fields;
}

static RequestRules rules_of(const HttpServer *server)
{
    return (RequestRules){ server->config.tokens, server->loopback, server->config.forwarded };
}

bool request_head_read(RequestHead *head, ApiError *error, const HttpServer *server,
                       struct MHD_Connection *mhd, const char *method, const char *version)
{
    RequestFields fields = fields_of(mhd);
    RequestRules rules = rules_of(server);
    char *password = NULL;
    char *name = rules.tokens && rules.tokens->count
               ? MHD_basic_auth_get_username_password(mhd, &password) : NULL;
    bool taken = request_fields_judge(head, error, &fields, &rules, password, method, version);
    if (name)     MHD_free(name);
    if (password) MHD_free(password);
    return taken;
}

void request_head_client(char out[CLIENT_NAME], const RequestHead *head, const HttpServer *server,
                         const HttpConnection *connection, struct MHD_Connection *mhd)
{
    RequestFields fields = fields_of(mhd);
    RequestRules rules = rules_of(server);
    request_fields_client(out, &fields, &rules, head->client, connection->client);
}

bool request_head_json(ApiError *error, struct MHD_Connection *mhd)
{
    RequestFields fields = fields_of(mhd);
    return request_fields_json(error, &fields);
}

bool request_head_expects(struct MHD_Connection *mhd) { return fields_of(mhd).expects; }
