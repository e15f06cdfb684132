#ifndef DATA_TWISTER_H
#define DATA_TWISTER_H
/* MT19937 (Matsumoto, Nishimura 1998) as numpy.random.RandomState(seed) runs it, and its shuffle: what Megatron's order of samples
 * is made of. Everything else here is random by counters (base/random.h). */
#include <stdint.h>

enum { TWISTER_WORDS = 624 };
typedef struct { uint32_t word[TWISTER_WORDS]; int at; } Twister;

void     twister_seed (Twister *twister, uint32_t seed);
uint32_t twister_next (Twister *twister);
uint64_t twister_most (Twister *twister, uint64_t most);                       /* 0 to most, most included; 0 draws nothing */
void     twister_shuffle(Twister *twister, void *x, int width, int64_t count); /* elements of 4 or 8 bytes */
#endif
