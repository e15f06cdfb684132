#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_TRIE_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_TRIE_H
/* The pieces of a vocabulary as a trie over bytes. The edges of all nodes are in one hash table with linear
 * probing, so a step is one lookup whatever the number of children.
 *
 *     int32_t node = TRIE_ROOT;
 *     while ((node = trie_step(trie, node, byte)) != TRIE_NONE)
 *         if (trie->piece[node] >= 0) ...                   the bytes so far are a piece */
#include <stdint.h>
#include "base/status.h"

enum { TRIE_ROOT = 0, TRIE_NONE = -1, TRIE_NODES_MAX = 1 << 24, TRIE_PROBES_MAX = 1000 };

typedef struct {
    uint32_t key;                      /* (node << 8 | byte) + 1; 0: an empty slot */
    int32_t  to;                       /* the child node */
} SentencePieceTrieEdge;
typedef struct {
    SentencePieceTrieEdge *edge;       /* [mask + 1], at most half full */
    int32_t  *piece;                   /* [node]: the piece that ends there; -1: none */
    int32_t   nodes, capacity;
    uint32_t  mask;                    /* slots - 1, slots a power of two */
} SentencePieceTrie;

/* bytes: the sum of the lengths of all pieces that will be added. BAD_FILE where that is too much,
 * NO_MEMORY. */
Status trie_open (SentencePieceTrie *t, int64_t bytes);
void   trie_close(SentencePieceTrie *t);
/* The node of these bytes, which is created where it is missing. TRIE_NONE after more than TRIE_PROBES_MAX
 * probes: only a file made to take quadratic time has so many collisions. The caller sets piece[node]. */
int32_t trie_add (SentencePieceTrie *t, const char *text, int64_t bytes);

static inline uint32_t trie_slot(const SentencePieceTrie *t, uint32_t key)
{
    return (key * 0x9E3779B1u ^ key >> 15) & t->mask;
}

static inline int32_t trie_step(const SentencePieceTrie *t, int32_t node, unsigned char byte)
{
    uint32_t key = ((uint32_t)node << 8 | byte) + 1;
    for (uint32_t at = trie_slot(t, key);; at = (at + 1) & t->mask) {
        if (t->edge[at].key == key) return t->edge[at].to;
        if (t->edge[at].key == 0) return TRIE_NONE;
    }
}
#endif
