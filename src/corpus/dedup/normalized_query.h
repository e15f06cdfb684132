#ifndef CORPUS_DEDUP_NORMALIZED_QUERY_H
#define CORPUS_DEDUP_NORMALIZED_QUERY_H
/* Words that are sought in documents, as documents are when they are sought there: repaired, and normalized as a charset
 * that judges nothing does it. Of one thread. */
#include "corpus/quality/charset.h"

typedef struct { Charset *charset; Buffer text, spare; } NormalizedQuery;
Status normalized_query_open (NormalizedQuery *n);
Status normalized_query_take (NormalizedQuery *n, const char *text, int64_t bytes);     /* n->text is what became of it */
void   normalized_query_close(NormalizedQuery *n);
#endif
