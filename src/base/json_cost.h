#ifndef BASE_JSON_COST_H
#define BASE_JSON_COST_H
/* What a JSON text costs before it is parsed: `[[],[],...` takes 60 times its own bytes as a tree of allocated values, so a
 * reader of files from outside asks first, and refuses what costs many times more than its format ever does. */
#include <stddef.h>

/* An upper bound of the bytes that jansson takes for the tree of this text, from one pass over it: the number of its brackets,
 * commas, colons and strings. Says nothing of whether the text is JSON; up to the first mistake in it the bound holds. */
size_t json_cost(const char *text, size_t bytes);
#endif
