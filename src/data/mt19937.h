#ifndef DATA_MT19937_H
#define DATA_MT19937_H
/* The generator MT19937 (Matsumoto, Nishimura 1998) as numpy.random.RandomState(seed) uses it, and its
 * shuffle. Megatron-LM's order of samples is defined by it. All other random numbers are counter-based
 * (base/random.h). */
#include <stdint.h>

enum { MT19937_WORDS = 624 };
/* at: words of the state already used. */
typedef struct { uint32_t word[MT19937_WORDS]; int at; } Mt19937;

void     mt19937_seed(Mt19937 *mt19937, uint32_t seed);
uint32_t mt19937_next(Mt19937 *mt19937);
/* Uniform in 0 .. most, as numpy's random_interval; 0 draws nothing. */
uint64_t mt19937_interval(Mt19937 *mt19937, uint64_t most);
void     mt19937_shuffle(Mt19937 *mt19937, void *x, int width, int64_t count); /* elements of 4 or 8 bytes */
#endif
