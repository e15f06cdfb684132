#ifndef CONVERT_VALUE_ROWS_H
#define CONVERT_VALUE_ROWS_H
/* HAS rows of families.def and of gguf/architectures.def: which value an option has in all models of a kind.
 * Values are JSON, those of models as well as those of rows. */
#include <jansson.h>
#include <stdbool.h>

/* of: a bit for each kind. value: of a list one of its values */
typedef struct { int of; const char *option, *value; } ValueRow;

/* The JSON of a row, a new reference. */
json_t *value_row_json(const char *text);
/* Whether the row's value, or one of its list, is `held`. */
bool    value_row_allows(const char *value, const json_t *held);
/* The first row from `from` on, of the kind whose bit is `kind`, that the options contradict; -1: there is
 * none. Options that are missing contradict nothing. */
int     value_rows_next(const ValueRow *rows, int count, int from, int kind, const json_t *options);
/* 0 and 0.0 are equal. */
bool    value_equal(const json_t *a, const json_t *b);
/* A value for messages: at most 60 bytes of its JSON. */
const char *value_text(char out[64], const json_t *value);
#endif
