/* BPE of sentencepiece (bpe_model.cc): of all neighbours whose joined text is a piece, the pair with the
 * highest score is joined first, the leftmost of equals. Pairs are in a heap and may be stale when they are
 * popped, so every text takes O(n log n). */
#include <stdlib.h>
#include <string.h>
#include "text/sentencepiece/sentencepiece_internal.h"

/* A symbol of the linked list that joins shorten; bytes 0: it was joined to the one on its left. */
typedef struct {
    int32_t prev, next, start, bytes;       /* prev, next: indices, -1: end; start: in the text */
    int32_t node;                           /* of the trie; TRIE_NONE: the bytes begin no piece */
    bool    user_defined;                   /* is never joined */
} Symbol;
/* bytes: of both when the pair was added */
typedef struct { float score; int32_t left, right, bytes; } SymbolPair;

typedef struct {
    const SentencePiece *sp;
    const char *text;
    Symbol     *symbol;
    SymbolPair *heap;
    int32_t    *split;                      /* [piece]: of each unused one the bytes of its left part, as
                                             * last seen; NULL: no piece is unused */
    int64_t     capacity;                   /* symbols; the heap has three pairs for each */
    int32_t     symbols, pairs;
} WordSymbols;

/* ---- the heap ---- */

static bool pair_above(SymbolPair a, SymbolPair b)
{
    return a.score > b.score || (a.score == b.score && a.left < b.left);
}

static void heap_push(WordSymbols *w, SymbolPair p)
{
    int32_t at = w->pairs++;
    for (; at > 0 && pair_above(p, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = p;
}

static SymbolPair heap_pop(WordSymbols *w)
{
    SymbolPair top = w->heap[0], last = w->heap[--w->pairs];
    int32_t at = 0;
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= w->pairs) break;
        if (child + 1 < w->pairs && pair_above(w->heap[child + 1], w->heap[child])) child++;
        if (!pair_above(w->heap[child], last)) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

/* ---- symbols ---- */

static int32_t node_after(const SentencePieceTrie *t, int32_t node, const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes && node != TRIE_NONE; i++)
        node = trie_step(t, node, (unsigned char)text[i]);
    return node;
}

/* Adds two neighbours to the heap where their joined text is a piece. */
static void pair_add(WordSymbols *w, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return;
    const Symbol *a = &w->symbol[left], *b = &w->symbol[right];
    if (a->user_defined || b->user_defined) return;
    int32_t node = node_after(&w->sp->trie, a->node, w->text + b->start, b->bytes);
    int32_t id   = node == TRIE_NONE ? -1 : w->sp->trie.piece[node];
    if (id < 0 || !sentencepiece_in_text(w->sp, id)) return;
    heap_push(w, (SymbolPair){ w->sp->model.piece[id].score, left, right, a->bytes + b->bytes });
    if (w->split && w->sp->model.piece[id].kind == SP_PIECE_UNUSED) w->split[id] = a->bytes;
}

/* The symbols before the first join: characters, and user-defined pieces as a whole */
static void symbols_make(WordSymbols *w, int64_t bytes)
{
    const SentencePieceTrie *user = w->sp->has_user ? &w->sp->user : NULL;
    w->symbols = w->pairs = 0;
    for (int64_t at = 0; at < bytes;) {
        int64_t own  = user_piece_bytes(user, w->text + at, bytes - at);
        int64_t used = own ? own : utf8_bytes_of_lead(w->text[at]);
        if (used > bytes - at) used = bytes - at;
        w->symbol[w->symbols] = (Symbol){ w->symbols - 1, w->symbols + 1, (int32_t)at, (int32_t)used,
                                          node_after(&w->sp->trie, TRIE_ROOT, w->text + at, used), own > 0 };
        w->symbols++;
        at += used;
    }
    w->symbol[w->symbols - 1].next = -1;
}

static void join(WordSymbols *w, SymbolPair p)
{
    Symbol *a = &w->symbol[p.left], *b = &w->symbol[p.right];
    if (a->bytes == 0 || b->bytes == 0 || a->bytes + b->bytes != p.bytes) return;     /* stale */
    a->node   = node_after(&w->sp->trie, a->node, w->text + b->start, b->bytes);
    a->bytes += b->bytes;
    a->next   = b->next;
    b->bytes  = 0;
    if (a->next >= 0) w->symbol[a->next].prev = p.left;
    pair_add(w, a->prev, p.left);
    pair_add(w, p.left, a->next);
}

/* An unused piece is replaced by the two parts that it was joined from: the right part becomes a symbol
 * again. */
static bool split_unused(WordSymbols *w, int32_t at, int32_t id)
{
    Symbol *a = &w->symbol[at];
    if (!w->split || id < 0 || w->sp->model.piece[id].kind != SP_PIECE_UNUSED || !w->split[id]) return false;
    int32_t cut = a->start + w->split[id], right = at;
    while (w->symbol[right].start < cut) right++;
    w->symbol[right].bytes = a->bytes - w->split[id];
    w->symbol[right].next  = a->next;
    w->symbol[right].node  = node_after(&w->sp->trie, TRIE_ROOT, w->text + cut, w->symbol[right].bytes);
    a->bytes = w->split[id];
    a->next  = right;
    a->node  = node_after(&w->sp->trie, TRIE_ROOT, w->text + a->start, a->bytes);
    return true;
}

static void word_encode(WordSymbols *w, SentencePieceIds *list, const char *text, int64_t bytes)
{
    w->text = text;
    symbols_make(w, bytes);
    for (int32_t i = 1; i < w->symbols; i++) pair_add(w, i - 1, i);
    while (w->pairs) join(w, heap_pop(w));
    for (int32_t at = 0; at >= 0;) {
        const Symbol *s = &w->symbol[at];
        int32_t id = s->node == TRIE_NONE ? -1 : w->sp->trie.piece[s->node];
        if (split_unused(w, at, id)) continue;
        ids_add(list, id < 0 ? w->sp->unknown : id, text + s->start, s->bytes);
        at = s->next;
    }
}

/* ---- the text, word by word where no piece spans two words: heap and symbols then stay in the cache ---- */

static int64_t word_bytes(const SentencePiece *sp, const char *text, int64_t bytes)
{
    if (!sp->by_word) return bytes;
    const char *at = text, *end = text + bytes;
    while (end - at >= SPACE_MARK_BYTES && !memcmp(at, SPACE_MARK, SPACE_MARK_BYTES)) at += SPACE_MARK_BYTES;
    const char *next = memmem(at, (size_t)(end - at), SPACE_MARK, SPACE_MARK_BYTES);
    return next ? next - text : bytes;
}

static void word_grow(WordSymbols *w, int64_t bytes)
{
    if (bytes <= w->capacity) return;
    CHECK(bytes < INT32_MAX / 3, "a text of %lld bytes without a space is too long for BPE",
          (long long)bytes);
    free(w->symbol);
    free(w->heap);
    w->capacity   = bytes < 1024 ? 1024 : bytes;
    w->symbol = malloc((size_t)w->capacity * sizeof *w->symbol);
    w->heap   = malloc((size_t)w->capacity * 3 * sizeof *w->heap); /* all neighbours at first, two more per
                                                                    * join */
    CHECK(w->symbol && w->heap, "no memory to encode a text of %lld bytes", (long long)bytes);
}

void sentencepiece_bpe(SentencePieceIds *list, const char *text, int64_t bytes)
{
    WordSymbols w = { .sp = list->sp };
    if (w.sp->has_unused) w.split = calloc((size_t)w.sp->model.pieces, sizeof *w.split);
    CHECK(w.split || !w.sp->has_unused, "no memory for %d unused pieces", w.sp->model.pieces);
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = word_bytes(w.sp, text + at, bytes - at);
        word_grow(&w, n);
        word_encode(&w, list, text + at, n);
    }
    free(w.symbol);
    free(w.heap);
    free(w.split);
}
