#ifndef BASE_JSON_COST_H
#define BASE_JSON_COST_H
/* The memory that a JSON text takes as a parsed tree, known before it is parsed. `[[],[],...` takes 60
 * times its own bytes, so a reader of untrusted files refuses a text that costs many times more than its
 * format ever does. */
#include <stddef.h>

/* An upper bound of the bytes that jansson allocates for the tree of this text, from one pass over it that
 * counts brackets, commas, colons and strings. It does not check that the text is JSON; up to the first
 * syntax error the bound holds. */
size_t json_cost(const char *text, size_t bytes);
#endif
