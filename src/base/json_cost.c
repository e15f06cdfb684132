/* An upper bound of the memory of a JSON tree, from counting tokens. */
#include "base/json_cost.h"

/* Bytes that jansson allocates on a 64-bit system, malloc's headers included. An object has a hash table
 * of 8 buckets, an array 8 slots. A key costs a string and a hash table entry. Each element, which a comma
 * or an opening bracket precedes, may be a number and needs a slot in a table that doubles. */
enum { OBJECT_BYTES = 240, ARRAY_BYTES = 144, STRING_BYTES = 80, ENTRY_BYTES = 32, ELEMENT_BYTES = 56 };

size_t json_cost(const char *text, size_t bytes)
{
    size_t cost   = ELEMENT_BYTES;
    int    quoted = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (quoted) {
            cost++;
            if (c == '\\') i++;                /* an escaped quote does not end the string */
            else quoted = c != '"';
            continue;
        }
        if (c == '"') cost += STRING_BYTES, quoted = 1;
        if (c == ':') cost += ENTRY_BYTES;
        if (c == ',') cost += ELEMENT_BYTES;
        if (c == '{') cost += OBJECT_BYTES;
        if (c == '[') cost += ARRAY_BYTES + ELEMENT_BYTES;
    }
    return cost;
}
