#include "base/json_cost.h"

/* Allocations of a 64-bit system, with their headers: an object has a table of 8 buckets, an array 8 slots; a key is a string and
 * a pair; what stands behind a comma or a bracket is a number and a slot of a table that doubles. */
enum { OBJECT = 240, ARRAY = 144, STRING = 80, PAIR = 32, NEXT = 56 };

size_t json_cost(const char *text, size_t bytes)
{
    size_t cost   = NEXT;
    int    quoted = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (quoted) {
            cost++;
            if (c == '\\') i++;                    /* the next one ends nothing */
            else quoted = c != '"';
            continue;
        }
        if (c == '"') cost += STRING, quoted = 1;
        if (c == ':') cost += PAIR;
        if (c == ',') cost += NEXT;
        if (c == '{') cost += OBJECT;
        if (c == '[') cost += ARRAY + NEXT;
    }
    return cost;
}
