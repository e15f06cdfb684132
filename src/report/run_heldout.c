#include "report/run_heldout.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/json_cost.h"

enum { STATE_MOST = 1 << 20, STATE_COST = 16 << 20 };

static json_t *state_read(const char *path)
{
    FILE *in;
    char *text = malloc(STATE_MOST);
    if (!text || !file_exists(path) || file_stream(&in, path) != OK) return free(text), NULL;
    size_t  bytes = fread(text, 1, STATE_MOST, in);
    bool    large = bytes == STATE_MOST || json_cost(text, bytes) > STATE_COST;
    json_t *state = large ? NULL : json_loadb(text, bytes, 0, NULL);
    fclose(in);
    free(text);
    return state;
}

static double number_of(const json_t *state, const char *stage, const char *name)
{
    const json_t *facts = json_object_get(json_object_get(state, "stages"), stage);
    const json_t *value = json_object_get(facts, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

RunHeldout run_heldout_read(const char *journal)
{
    static const char run[] = "checkpoint/journal.jsonl";
    char       path[1100];
    size_t     bytes  = strlen(journal), own = sizeof run - 1;
    RunHeldout none   = { NAN, NAN, NAN };
    bool       inside = bytes >= own && !strcmp(journal + bytes - own, run) &&
                  (bytes == own || journal[bytes - own - 1] == '/');
    if (!inside) return none;
    snprintf(path, sizeof path, "%.*sspeedrun.json", (int)(bytes - own), journal);
    json_t    *state = state_read(path);
    RunHeldout found = { number_of(state, "evaluate", "bits_per_byte"),
                         number_of(state, "split", "heldout_documents"),
                         number_of(state, "split", "heldout_bytes") };
    json_decref(state);
    return found;
}
