#ifndef CONVERT_FOREIGN_TABLE_H
#define CONVERT_FOREIGN_TABLE_H
/* What a reader of a format found, as bytes: the files with their sizes, and where in them the tensors are.
 * One rank reads index and headers, and sends this to the others, which open a file only where they need
 * weights of it. */
#include "convert/format.h"

/* The caller frees *table. NO_MEMORY. */
Status foreign_table_write(char **table, size_t *bytes, const ForeignModel *model);
/* Where the run of its checkpoint stood, and whether it has optimizer states. */
void   foreign_table_position(ForeignPosition *position, bool *states, const char *table, size_t bytes);
/* naming and file of the model, whose files are reserved and not opened (foreign_need). For bytes of
 * foreign_table_write of the same build; others are a CHECK. On failure *model is closed. */
Status foreign_table_read (ForeignModel *model, const char *table, size_t bytes);
#endif
