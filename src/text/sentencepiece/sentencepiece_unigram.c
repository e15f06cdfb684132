/* Unigram: the cut of the text with the highest sum of scores, by Viterbi. Sums are floats from the begin of
 * the text, and begin anew where they pass 100,000, as those of sentencepiece 0.2.3 do, so that near ties fall
 * as there. (Before 0.2.3 they only grew, new sums were compared before they were rounded, and a
 * piece of the user weighed the same whatever its length.) Where no piece crosses a place all cuts meet
 * there, and what is before it is done: so memory is that of a word, whatever the text. */
#include <math.h>
#include <stdlib.h>
#include "text/sentencepiece/sentencepiece_internal.h"

typedef struct {
    float   score;
    int32_t id, piece_bytes, next;
} LatticeNode; /* of the best cut that ends here; back: its last piece's bytes */

typedef struct {
    const SentencePiece *sp;
    LatticeNode   *node;                      /* of text + begin */
    int64_t capacity, begin, reach;        /* reach: nothing seen ends later */
} Lattice;

static LatticeNode *node_at(Lattice *l, int64_t at)
{
    while (at > l->reach) l->node[++l->reach - l->begin].piece_bytes = 0;
    return &l->node[at - l->begin];
}

static void lattice_grow(Lattice *l, int64_t nodes)
{
    if (nodes <= l->capacity) return;
    l->capacity = 2 * nodes;
    l->node = realloc(l->node, (size_t)l->capacity * sizeof *l->node);
    CHECK(l->node, "no memory to encode a text of %lld bytes without a place to cut it", (long long)nodes);
}

static void node_relax(Lattice *l, int64_t begin, int64_t end, int32_t id, float score)
{
    LatticeNode *n = node_at(l, end);
    if (n->piece_bytes && score <= n->score) return;
    n->score = score;
    n->id    = id;
    n->piece_bytes  = (int32_t)(end - begin);
}

static void pieces_relax(Lattice *l, const char *text, int64_t at, int64_t bytes)
{
    const SentencePieceTrie *t = &l->sp->trie;
    float   here = l->node[at - l->begin].score;
    int64_t character = utf8_bytes_of_lead(text[at]);
    bool    single = false;
    int32_t node = TRIE_ROOT;
    if (character > bytes - at) character = bytes - at;
    for (int64_t end = at + 1; end <= bytes; end++) {
        node = trie_step(t, node, (unsigned char)text[end - 1]);
        if (node == TRIE_NONE) break;
        int32_t id = t->piece[node];
        if (id < 0 || !sentencepiece_in_text(l->sp, id)) continue;
        const SentencePieceEntry *p = &l->sp->model.piece[id];
        if (p->kind == SP_PIECE_UNUSED) continue;
        float score = p->kind == SP_PIECE_USER ? (float)(0.1 * (double)(end - at - 1)) : p->score;
        node_relax(l, at, end, id, score + here);
        single |= end - at == character;
    }
    if (!single) node_relax(l, at, at + character, l->sp->unknown, l->sp->min_score - 10.0f + here);
}

/* Of sums that are large, small differences would be lost: from here on they count from `at`. */
static void scores_rebase(Lattice *l, int64_t at)
{
    const float most = 100000;
    float sum = l->node[at - l->begin].score;
    for (int64_t i = at; fabsf(sum) > most && i <= l->reach; i++) l->node[i - l->begin].score -= sum;
}

/* Ids up to `end`, where all cuts meet */
static void lattice_flush(Lattice *l, SentencePieceIds *list, const char *text, int64_t end)
{
    LatticeNode *n = l->node;
    for (int64_t at = end - l->begin; at > 0; at -= n[at].piece_bytes) n[at - n[at].piece_bytes].next = (int32_t)at;
    for (int64_t at = 0; at < end - l->begin; at = n[at].next) {
        int64_t stop = n[at].next;
        ids_add(list, n[stop].id, text + l->begin + at, stop - at);
    }
    n[0] = n[end - l->begin];
    l->begin = end;
}

void sentencepiece_unigram(SentencePieceIds *list, const char *text, int64_t bytes)
{
    Lattice l = { .sp = list->sp };
    lattice_grow(&l, 2 * SENTENCEPIECE_BYTES_MAX);
    l.node[0] = (LatticeNode){ .id = -1 };
    for (int64_t at = 0; at < bytes;) {
        lattice_grow(&l, at - l.begin + SENTENCEPIECE_BYTES_MAX + 8);
        scores_rebase(&l, at);
        pieces_relax(&l, text, at, bytes);
        int64_t character = utf8_bytes_of_lead(text[at]);
        at += character < bytes - at ? character : bytes - at;
        if (at == l.reach) lattice_flush(&l, list, text, at);
    }
    free(l.node);
}
