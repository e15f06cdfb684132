/* Unigram segmentation: the pieces of the text with the highest sum of scores, by the Viterbi algorithm. Sums
 * are floats from the beginning of the text, and are rebased where they exceed 100,000, as in sentencepiece
 * 0.2.3, so that near ties are decided as there. (Before 0.2.3 sums only grew, new sums were compared before
 * they were rounded, and a user-defined piece had the same score whatever its length.) Where no piece spans a
 * position, all segmentations meet there, and the text before it is finished; so memory is that of a word,
 * whatever the length of the text. */
#include <math.h>
#include <stdlib.h>
#include "base/array.h"
#include "text/sentencepiece/sentencepiece_internal.h"

/* The best segmentation that ends at a position */
typedef struct {
    float   score;
    int32_t id, piece_bytes;           /* its last piece; piece_bytes 0: nothing ends here */
    int32_t next;                      /* the end of the piece after it, filled by lattice_flush */
} LatticeNode;

typedef struct {
    const SentencePiece *sp;
    LatticeNode *node;                 /* [position - begin], position in the text */
    int64_t capacity, begin, reach;    /* reach: the last position at which a piece ends so far */
} Lattice;

/* Nodes are initialized when they are first reached. */
static LatticeNode *node_at(Lattice *l, int64_t at)
{
    while (at > l->reach) l->node[++l->reach - l->begin].piece_bytes = 0;
    return &l->node[at - l->begin];
}

/* Keeps a piece begin .. end where it improves the best score at end; of equal scores the first is kept. */
static void node_relax(Lattice *l, int64_t begin, int64_t end, int32_t id, float score)
{
    LatticeNode *n = node_at(l, end);
    if (n->piece_bytes && score <= n->score) return;
    n->score = score;
    n->id    = id;
    n->piece_bytes  = (int32_t)(end - begin);
}

/* All pieces that begin at `at`, and the unknown piece where none is exactly one character */
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
        /* As in the library: a positive score, so that a user-defined piece wins over its parts. */
        float score = p->kind == SP_PIECE_USER ? (float)(0.1 * (double)(end - at - 1)) : p->score;
        node_relax(l, at, end, id, score + here);
        single |= end - at == character;
    }
    if (!single) node_relax(l, at, at + character, l->sp->unknown, l->sp->min_score - 10.0f + here);
}

/* Large sums would lose small differences to rounding, so they are counted from `at` on. */
static void scores_rebase(Lattice *l, int64_t at)
{
    const float most = 100000;
    float sum = l->node[at - l->begin].score;
    for (int64_t i = at; fabsf(sum) > most && i <= l->reach; i++) l->node[i - l->begin].score -= sum;
}

/* Appends the ids up to `end`, where all segmentations meet. */
static void lattice_flush(Lattice *l, SentencePieceIds *list, const char *text, int64_t end)
{
    LatticeNode *n = l->node;
    for (int64_t at = end - l->begin; at > 0; at -= n[at].piece_bytes)
        n[at - n[at].piece_bytes].next = (int32_t)at;
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
    ARRAY_RESERVE_OR_STOP(l.node, l.capacity, 2 * SENTENCEPIECE_BYTES_MAX);
    l.node[0] = (LatticeNode){ .id = -1 };
    for (int64_t at = 0; at < bytes;) {
        ARRAY_RESERVE_OR_STOP(l.node, l.capacity, at - l.begin + SENTENCEPIECE_BYTES_MAX + 8);
        scores_rebase(&l, at);
        pieces_relax(&l, text, at, bytes);
        int64_t character = utf8_bytes_of_lead(text[at]);
        at += character < bytes - at ? character : bytes - at;
        if (at == l.reach) lattice_flush(&l, list, text, at);
    }
    free(l.node);
}
