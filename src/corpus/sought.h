#ifndef CORPUS_SOUGHT_H
#define CORPUS_SOUGHT_H
/* Words that are sought in documents, as documents are when they are sought there: repaired, and normalised as a charset
 * that judges nothing does it. Of one thread. */
#include "corpus/charset.h"

typedef struct { Charset *charset; Buffer text, spare; } Sought;
Status sought_open (Sought *n);
Status sought_take (Sought *n, const char *text, int64_t bytes);     /* n->text is what became of it */
void   sought_close(Sought *n);
#endif
