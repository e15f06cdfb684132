/* Builds the trie of a vocabulary; looking up is inline in the header. */
#include "text/sentencepiece/sentencepiece_trie.h"
#include <inttypes.h>
#include <stdlib.h>

Status trie_open(SentencePieceTrie *t, int64_t bytes)
{
    *t = (SentencePieceTrie){ 0 };
    if (bytes >= TRIE_NODES_MAX)
        return fail(BAD_FILE, "pieces of %" PRId64 " bytes together; %d are the most", bytes,
                    TRIE_NODES_MAX - 1);
    uint32_t slots = 64;
    while (slots < 2 * bytes) slots *= 2;
    t->capacity  = (int32_t)bytes + 1;
    t->mask  = slots - 1;
    t->edge  = calloc(slots, sizeof *t->edge);
    t->piece = malloc((size_t)t->capacity * sizeof *t->piece);
    if (!t->edge || !t->piece) {
        trie_close(t);
        return fail(NO_MEMORY, "no memory for a trie of %" PRId64 " bytes", bytes);
    }
    t->piece[0] = -1;
    t->nodes    = 1;
    return OK;
}

void trie_close(SentencePieceTrie *t)
{
    free(t->edge);
    free(t->piece);
    *t = (SentencePieceTrie){ 0 };
}

static int32_t step_or_add(SentencePieceTrie *t, int32_t node, unsigned char byte)
{
    int32_t to = trie_step(t, node, byte);
    if (to != TRIE_NONE) return to;
    CHECK(t->nodes < t->capacity, "a trie of %d nodes is full", t->capacity);
    uint32_t key = ((uint32_t)node << 8 | byte) + 1, at = trie_slot(t, key), probes = 0;
    while (t->edge[at].key && probes++ < TRIE_PROBES_MAX) at = (at + 1) & t->mask;
    if (t->edge[at].key) return TRIE_NONE;
    t->edge[at] = (SentencePieceTrieEdge){ key, t->nodes };
    t->piece[t->nodes] = -1;
    return t->nodes++;
}

int32_t trie_add(SentencePieceTrie *t, const char *text, int64_t bytes)
{
    int32_t node = TRIE_ROOT;
    for (int64_t i = 0; i < bytes && node != TRIE_NONE; i++)
        node = step_or_add(t, node, (unsigned char)text[i]);
    return node;
}
