#ifndef TEXT_BPE_VOCAB_H
#define TEXT_BPE_VOCAB_H
/* The tokens of a vocabulary: the bytes each id stands for, and the id of given bytes. Ids may have holes. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

enum { VOCAB_IDS_MAX = 1 << 24, VOCAB_HOLES_MAX = 1 << 16, VOCAB_PROBES_MAX = 1000, VOCAB_NONE = -1 };

typedef struct {
    uint8_t *bytes;  int64_t used, capacity;    /* all tokens, one after the other */
    int64_t *offset;                          /* of an id; -1: a hole */
    int32_t *length, ids, ids_capacity;         /* ids: the highest and one */
    int32_t *slot;   int64_t slots, filled; /* open addressing, bytes -> id: 7 bits of the hash above 24 of the id; -1: empty */
    int64_t  file_bytes;                          /* bytes of the files it is read from; 0: it is made by this program */
} Vocab;

/* BAD_FILE where the id is taken, or is VOCAB_MOST or more, or is above `most` and VOCAB_HOLES, since each
 * id costs memory, or where more than VOCAB_PROBES tokens have one hash; NO_MEMORY. The first id of the
 * same bytes is the one found. */
Status  vocab_add  (Vocab *v, int64_t id, const void *bytes, int64_t count);
int32_t vocab_find (const Vocab *v, const void *bytes, int64_t count);        /* or VOCAB_NONE */
void    vocab_close(Vocab *v);
static inline bool vocab_has(const Vocab *v, int64_t id) { return id >= 0 && id < v->ids && v->offset[id] >= 0; }
static inline const uint8_t *vocab_bytes(const Vocab *v, int32_t id) { return v->bytes + v->offset[id]; }

/* The byte that "<0x0A>" names; -1: the text is none of the kind */
int      byte_of_name(const void *text, int64_t bytes);
/* GPT-2's map: printable bytes are themselves, the others follow from U+0100. -1: this character stands for no byte */
int      byte_of_letter(uint32_t point);
uint32_t letter_of_byte(uint8_t byte);
/* A token as files write it, turned into its bytes in place; false where a character stands for none */
bool     letters_to_bytes(uint8_t *bytes, int64_t *count);
#endif
