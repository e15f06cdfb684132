#ifndef CORPUS_DEDUP_NORMALIZED_QUERY_H
#define CORPUS_DEDUP_NORMALIZED_QUERY_H
/* Text that is searched for in documents, brought into the form that documents have when they are searched:
 * invalid UTF-8 repaired, and normalized as corpus/quality/charset.h does without judging. Without this a
 * test set in NFD would never match. For one thread at a time. */
#include "corpus/quality/charset.h"

typedef struct { Charset *charset; Buffer text, spare; } NormalizedQuery;
/* After a failure too, normalized_query_close is needed. */
Status normalized_query_open (NormalizedQuery *n);
/* n->text becomes the normalized text, valid until the next call. Fails only with NO_MEMORY. */
Status normalized_query_take (NormalizedQuery *n, const char *text, int64_t bytes);
void   normalized_query_close(NormalizedQuery *n);
#endif
