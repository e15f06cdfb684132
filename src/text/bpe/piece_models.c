/* The models of a tokenizer.json, one pretoken at a time (models/ in the sources of Hugging Face's library).
 */
#include "text/bpe/piece_models.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/unicode.h"

/* ---- BPE: the symbols before the first merge ---- */

/* Unknown characters give the unknown token, and with fuse_unknown a run of them gives one. It is written
 * before the next known character, and so after bytes that follow it, as in the library. */
typedef struct { const BpeTokenizer *bpe; int32_t *ids; int64_t count; bool unknown; } Symbols;

static void unknown_flush(Symbols *s)
{
    if (s->unknown) s->ids[s->count++] = s->bpe->unknown;
    s->unknown = false;
}

/* The ids of a character's bytes; false: not all of them are tokens. */
static bool bytes_put(Symbols *s, const uint8_t *text, int bytes)
{
    bool all = s->bpe->byte_fallback;
    for (int i = 0; i < bytes; i++) all = all && s->bpe->byte_id[text[i]] >= 0;
    for (int i = 0; i < bytes && all; i++) s->ids[s->count++] = s->bpe->byte_id[text[i]];
    return all;
}

static void symbol_put(Symbols *s, int32_t id, const uint8_t *text, int bytes)
{
    if (id >= 0) {
        unknown_flush(s);
        s->ids[s->count++] = id;
    } else if (!bytes_put(s, text, bytes) && s->bpe->unknown >= 0) {
        if (!s->bpe->fuse_unknown) unknown_flush(s);
        s->unknown = true;
    }
}

/* The token of a character within a word, which has the prefix unless it is the first, and the suffix where
 * it is the last */
static int32_t affixed_find(const BpeTokenizer *m, const uint8_t *text, int bytes, bool first, bool last)
{
    uint8_t name[2 * AFFIX_BYTES_MAX + 4];
    int     used = first ? 0 : m->prefix.bytes;
    memcpy(name, m->prefix.text, (size_t)used);
    memcpy(name + used, text, (size_t)bytes);
    used += bytes;
    if (last) memcpy(name + used, m->suffix.text, (size_t)m->suffix.bytes);
    return bpe_model_find(m, name, used + (last ? m->suffix.bytes : 0));
}

static int64_t symbols(const BpeTokenizer *m, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    Symbols s = { .bpe = m, .ids = ids };
    bool    affixes = m->prefix.bytes || m->suffix.bytes;
    if (m->byte_level) {
        for (int64_t i = 0; i < bytes; i++) ids[i] = m->byte_id[text[i]];
        return bytes;
    }
    for (int64_t at = 0; at < bytes; ) {
        Rune    r  = rune_at(text + at, bytes - at);
        int32_t id = r.point == RUNE_BROKEN ? VOCAB_NONE
                   : affixes ? affixed_find(m, text + at, r.bytes, at == 0, at + r.bytes == bytes)
                             : bpe_model_find(m, text + at, r.bytes);
        symbol_put(&s, id, text + at, r.bytes);
        at += r.bytes;
    }
    unknown_flush(&s);
    return s.count;
}

static int64_t bpe_encode(const BpeTokenizer *m, PieceCache *cache, int32_t *ids, const uint8_t *text,
                          int64_t bytes)
{
    int32_t id = m->ignore_merges ? bpe_model_find(m, text, bytes) : VOCAB_NONE;
    if (id >= 0) {
        *ids = id;
        return 1;
    }
    int64_t count = bpe_merge(&m->merges, ids, symbols(m, ids, text, bytes), &cache->space);
    if (count < 0) fail(NO_MEMORY, "no memory to merge a piece of %" PRId64 " bytes", bytes);
    return count;
}

/* ---- WordLevel and WordPiece ---- */

static int64_t unknown_put(const BpeTokenizer *m, int32_t *ids)
{
    *ids = m->unknown;
    if (m->unknown >= 0) return 1;
    fail(BAD_FILE, "--tokenizer %s: the text has a word that is no token, and the model has no unknown token",
         m->name);
    return -1;
}

static int64_t word_level_encode(const BpeTokenizer *m, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    *ids = bpe_model_find(m, text, bytes);
    return *ids >= 0 ? 1 : unknown_put(m, ids);
}

static int64_t characters_of(const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    for (int64_t at = 0; at < bytes; count++) at += rune_at(text + at, bytes - at).bytes;
    return count;
}

static int32_t trie_walk(const SentencePieceTrie *t, const uint8_t *text, int64_t bytes)
{
    int32_t place = TRIE_ROOT;
    for (int64_t i = 0; i < bytes && place != TRIE_NONE; i++) place = trie_step(t, place, text[i]);
    return place;
}

/* The longest token that the word begins with: its id, and its length without the prefix */
static int32_t word_piece_find(const BpeTokenizer *m, const uint8_t *text, int64_t bytes, bool first,
                               int64_t *length)
{
    const SentencePieceTrie *t = &m->trie.trie;
    int32_t id = VOCAB_NONE;
    int32_t place = trie_walk(t, (const uint8_t *)m->prefix.text, first ? 0 : m->prefix.bytes);
    for (int64_t end = 1; end <= bytes && place != TRIE_NONE; end++) {
        place = trie_step(t, place, text[end - 1]);
        if (place != TRIE_NONE && t->piece[place] >= 0) id = t->piece[place], *length = end;
    }
    return id;
}

static int64_t word_piece_encode(const BpeTokenizer *m, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    if (bytes > m->max_characters && characters_of(text, bytes) > m->max_characters)
        return unknown_put(m, ids);
    for (int64_t at = 0, length = 0; at < bytes; at += length) {
        int32_t id = word_piece_find(m, text + at, bytes - at, at == 0, &length);
        if (id < 0) return unknown_put(m, ids);
        ids[count++] = id;
    }
    return count;
}

/* ---- Unigram: the Viterbi algorithm, with sums of doubles from the beginning of the pretoken ---- */

/* Of equal scores the first is kept. */
static void node_relax(UnigramNode *node, int64_t from, int32_t id, double score)
{
    if (node->from < 0 || score > node->score) *node = (UnigramNode){ score, id, (int32_t)from };
}

/* All tokens that begin at `at`, and the unknown one where none of them is exactly the character */
static bool nodes_from(const BpeTokenizer *m, UnigramNode *node, const uint8_t *text, int64_t at,
                       int64_t bytes, int character)
{
    const TokenTrie *u = &m->trie;
    double  here = node[at].score;
    bool    single = false;
    int32_t place = TRIE_ROOT;
    for (int64_t end = at + 1; end <= bytes; end++) {
        place = trie_step(&u->trie, place, text[end - 1]);
        if (place == TRIE_NONE) break;
        int32_t id = u->trie.piece[place];
        if (id < 0) continue;
        node_relax(&node[end], at, id, u->score[id] + here);
        single |= end - at == character;
    }
    if (single) return true;
    node_relax(&node[at + character], at, m->unknown, u->least - 10 + here);
    return m->unknown >= 0;
}

/* A run of unknown text is one token, or its bytes, or the unknown token. */
static void run_put(Symbols *s, const uint8_t *text, int64_t bytes)
{
    const SentencePieceTrie *t = &s->bpe->trie.trie;
    int32_t place = trie_walk(t, text, bytes), id = place == TRIE_NONE ? VOCAB_NONE : t->piece[place];
    bool    all = s->bpe->byte_fallback;
    for (int64_t i = 0; i < bytes && all && id < 0; i++) all = s->bpe->byte_id[text[i]] >= 0;
    if (id >= 0 || !all) s->ids[s->count++] = id >= 0 ? id : s->bpe->unknown;
    else for (int64_t i = 0; i < bytes; i++) s->ids[s->count++] = s->bpe->byte_id[text[i]];
}

/* Turns the links, which lead from the end to the beginning, around: then node[at].from is where the token
 * that begins at `at` ends, and its id is there. */
static void path_turn(UnigramNode *node, int64_t bytes)
{
    UnigramNode next = { .from = -1 };
    for (int64_t at = bytes; at >= 0; ) {
        UnigramNode here = node[at];
        node[at] = next;
        next = (UnigramNode){ 0, here.id, (int32_t)at };
        if (at == 0) break;
        at = here.from;
    }
}

static int64_t unigram_encode(const BpeTokenizer *m, PieceCache *cache, int32_t *ids, const uint8_t *text,
                              int64_t bytes)
{
    Symbols s = { .bpe = m, .ids = ids };
    if (bytes > INT32_MAX - 1) fail(BAD_FILE, "a piece of %" PRId64 " bytes is too long", bytes);
    if (bytes > INT32_MAX - 1 || ARRAY_RESERVE(cache->node, cache->nodes, bytes + 1) != OK) return -1;
    UnigramNode *node = cache->node;
    for (int64_t i = 0; i <= bytes; i++) node[i] = (UnigramNode){ .from = -1 };
    for (int64_t at = 0; at < bytes; ) {
        int character = rune_at(text + at, bytes - at).bytes;
        if (!nodes_from(m, node, text, at, bytes, character)) return unknown_put(m, ids);
        at += character;
    }
    path_turn(node, bytes);
    for (int64_t at = 0; at < bytes; ) {
        int64_t end = node[at].from;
        bool    unknown = node[at].id == m->unknown;
        while (unknown && end < bytes && node[end].id == m->unknown) end = node[end].from;
        if (unknown) run_put(&s, text + at, end - at);
        else         ids[s.count++] = node[at].id;
        at = end;
    }
    return s.count;
}

int64_t piece_model_encode(const BpeTokenizer *m, PieceCache *cache, int32_t *ids, const uint8_t *text,
                           int64_t bytes)
{
    switch (m->model) {
    case PIECE_MODEL_WORD_LEVEL: return word_level_encode(m, ids, text, bytes);
    case PIECE_MODEL_WORD_PIECE: return word_piece_encode(m, ids, text, bytes);
    case PIECE_MODEL_UNIGRAM:    return unigram_encode(m, cache, ids, text, bytes);
    default:                     return bpe_encode(m, cache, ids, text, bytes);
    }
}
