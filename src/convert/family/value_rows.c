#include "convert/family/value_rows.h"
#include <stdio.h>
#include <stdlib.h>
#include "base/status.h"

json_t *value_row_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    CHECK(value, "a row of a table has no JSON: %s", text);
    return value;
}

bool value_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

bool value_row_allows(const char *value, const json_t *held)
{
    json_t *want = value_row_json(value);
    bool    found = !json_is_array(want) && value_equal(want, held);
    for (size_t i = 0; i < json_array_size(want); i++) found |= value_equal(json_array_get(want, i), held);
    json_decref(want);
    return found;
}

int value_rows_next(const ValueRow *rows, int count, int from, int kind, const json_t *options)
{
    for (int i = from; i < count; i++) {
        const json_t *held = json_object_get(options, rows[i].option);
        if (rows[i].of >> kind & 1 && held && !value_row_allows(rows[i].value, held)) return i;
    }
    return -1;
}

const char *value_text(char out[64], const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    snprintf(out, 64, "%.60s", text ? text : "none");
    free(text);
    return out;
}
