#ifndef DATA_MT19937_H
#define DATA_MT19937_H
/* MT19937 (Matsumoto, Nishimura 1998) as numpy.random.RandomState(seed) runs it, and its shuffle: what Megatron's order of samples
 * is made of. Everything else here is random by counters (base/random.h). */
#include <stdint.h>

enum { MT19937_WORDS = 624 };
typedef struct { uint32_t word[MT19937_WORDS]; int at; } Mt19937;

void     mt19937_seed (Mt19937 *mt19937, uint32_t seed);
uint32_t mt19937_next (Mt19937 *mt19937);
uint64_t mt19937_most (Mt19937 *mt19937, uint64_t most);                       /* 0 to most, most included; 0 draws nothing */
void     mt19937_shuffle(Mt19937 *mt19937, void *x, int width, int64_t count); /* elements of 4 or 8 bytes */
#endif
