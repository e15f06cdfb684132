#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_TRIE_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_TRIE_H
/* The pieces of a vocabulary as a trie, byte by byte.
 *
 *     int32_t node = TRIE_ROOT;
 *     while ((node = trie_step(trie, node, byte)) != TRIE_NONE)
 *         if (trie->piece[node] >= 0) ...                   the bytes so far are a piece */
#include <stdint.h>
#include "base/status.h"

enum { TRIE_ROOT = 0, TRIE_NONE = -1, TRIE_NODES_MAX = 1 << 24, TRIE_PROBES_MAX = 1000 };

typedef struct {
    uint32_t key;
    int32_t  to;
} SentencePieceTrieEdge; /* key: node << 8 | byte, + 1; 0 is an empty place */
typedef struct {
    SentencePieceTrieEdge *edge;                    /* open addressing */
    int32_t  *piece;                   /* of each node; -1: none ends here */
    int32_t   nodes, capacity;
    uint32_t  mask;
} SentencePieceTrie;

Status trie_open (SentencePieceTrie *t, int64_t bytes);                  /* room for pieces of `bytes` bytes together */
void   trie_close(SentencePieceTrie *t);
/* The node of these bytes, made where it was not; TRIE_NONE where more than TRIE_PROBES edges have one
 * hash */
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
