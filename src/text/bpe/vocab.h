#ifndef TEXT_BPE_VOCAB_H
#define TEXT_BPE_VOCAB_H
/* The tokens of a vocabulary: the bytes of each id, and the id of given bytes, by a hash table. Not all ids
 * below the highest need to exist. Also the two ways in which files write bytes as text: <0x0A>, and GPT-2's
 * byte letters. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* A slot of the hash table has 24 bits for an id. No vocabulary of text has a run of more than
 * VOCAB_PROBES_MAX occupied slots; a file that has one was made to take quadratic time, and is refused. */
enum { VOCAB_IDS_MAX = 1 << 24, VOCAB_HOLES_MAX = 1 << 16, VOCAB_PROBES_MAX = 1000, VOCAB_NONE = -1 };

typedef struct {
    uint8_t *bytes;                         /* all tokens, one after the other */
    int64_t  used, capacity;                /* of bytes */
    int64_t *offset;                        /* [id]: in bytes; -1: there is no such token */
    int32_t *length;                        /* [id]: bytes */
    int32_t  ids, ids_capacity;             /* ids: the highest id and one; may be lowered, which takes tokens
                                             * out */
    int32_t *slot;                          /* [slots]: 7 bits of the hash << 24 | id; -1: empty. Linear
                                             * probing */
    int64_t  slots, filled;                 /* slots: a power of two, at most half filled */
    int64_t  file_bytes;                    /* size of the files that are read; 0: the vocabulary is not
                                             * from a file */
} Vocab;

/* Copies the bytes. BAD_FILE where the id is taken, is VOCAB_IDS_MAX or more, or exceeds file_bytes by
 * VOCAB_HOLES_MAX or more, since each id costs memory; also after more than VOCAB_PROBES_MAX probes.
 * NO_MEMORY. Two ids may have the same bytes; the first is the one that vocab_find finds. */
Status  vocab_add  (Vocab *v, int64_t id, const void *bytes, int64_t count);
int32_t vocab_find (const Vocab *v, const void *bytes, int64_t count);        /* the id, or VOCAB_NONE */
void    vocab_close(Vocab *v);
static inline bool vocab_has(const Vocab *v, int64_t id)
{
    return id >= 0 && id < v->ids && v->offset[id] >= 0;
}
static inline const uint8_t *vocab_bytes(const Vocab *v, int32_t id) { return v->bytes + v->offset[id]; }

/* The byte that a token "<0x00>" to "<0xFF>" names, or -1. */
int      byte_of_name(const void *text, int64_t bytes);
/* GPT-2's byte letters (bytes_to_unicode of its encoder.py): printable Latin-1 characters are themselves, the
 * 68 other bytes follow in order from U+0100. -1: the character is no byte letter. */
int      byte_of_letter(uint32_t point);
uint32_t letter_of_byte(uint8_t byte);
/* The letters of bytes as UTF-8; returns their length, at most 2 * count. */
size_t   letters_of_bytes(char *out, const uint8_t *bytes, int64_t count);
/* Replaces the letters of a token by its bytes, in place; false, with the content undefined, where a
 * character is none. */
bool     letters_to_bytes(uint8_t *bytes, int64_t *count);
#endif
