/* Opening a sentencepiece model: checks its pieces, builds the tries and the decoded texts, and encodes with
 * the algorithm of the model's kind. */
#include "text/sentencepiece/sentencepiece.h"
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "text/sentencepiece/sentencepiece_internal.h"
#include "text/bpe/vocab.h"

/* ---- pieces ---- */

/* Finds the unknown piece and the bytes' pieces, and refuses a model that could not encode every text. */
static Status pieces_check(SentencePiece *sp, const char *path)
{
    sp->unknown = -1;
    memset(sp->byte_id, -1, sizeof sp->byte_id);
    for (int32_t id = 0; id < sp->model.pieces; id++) {
        const SentencePieceEntry *p = &sp->model.piece[id];
        int byte = p->kind == SP_PIECE_BYTE ? byte_of_name(p->text.data, (int64_t)p->text.bytes) : 0;
        if (p->kind == SP_PIECE_UNKNOWN && sp->unknown >= 0)
            return fail(BAD_FILE, "%s: pieces %d and %d are both the unknown piece", path, sp->unknown, id);
        if (byte < 0)
            return fail(BAD_FILE, "%s: piece %d is a byte, but its name is not one of <0x00> to <0xFF>", path,
                        id);
        if (p->kind == SP_PIECE_BYTE) sp->byte_id[byte] = id;
        if (p->kind == SP_PIECE_UNKNOWN) sp->unknown = id;
    }
    if (sp->unknown < 0) return fail(BAD_FILE, "%s: no piece is the unknown piece", path);
    for (int byte = 0; sp->model.byte_fallback && byte < 256; byte++)
        if (sp->byte_id[byte] < 0)
            return fail(BAD_FILE, "%s: unknown text becomes bytes, and <0x%02X> is missing", path, byte);
    return OK;
}

/* Whether marks are only at the beginning of the piece, so that it does not span two words */
static bool piece_in_word(const SentencePieceEntry *p)
{
    size_t i = 0;
    while (p->text.bytes - i >= SPACE_MARK_BYTES && !memcmp(p->text.data + i, SPACE_MARK, SPACE_MARK_BYTES))
        i += SPACE_MARK_BYTES;
    return !memmem(p->text.data + i, p->text.bytes - i, SPACE_MARK, SPACE_MARK_BYTES);
}

/* The properties of all pieces together, on which encoding depends */
static void pieces_summarize(SentencePiece *sp)
{
    bool some = false;
    sp->by_word = true;
    for (int32_t id = 0; id < sp->model.pieces; id++) {
        const SentencePieceEntry *p = &sp->model.piece[id];
        sp->has_user   |= p->kind == SP_PIECE_USER;
        sp->has_unused |= p->kind == SP_PIECE_UNUSED;
        if (sentencepiece_in_text(sp, id)) sp->by_word &= piece_in_word(p);
        if (p->kind != SP_PIECE_NORMAL) continue;
        if (!some || p->score < sp->min_score) sp->min_score = p->score;
        some = true;
    }
    sp->by_word &= !sp->has_unused; /* the split of an unused piece depends on the whole text */
}

/* A trie of all pieces, or of the user-defined ones only */
static Status trie_fill(SentencePieceTrie *t, const SentencePieceModel *m, bool user, const char *path)
{
    int64_t bytes = 0;
    for (int32_t id = 0; id < m->pieces; id++)
        if (!user || m->piece[id].kind == SP_PIECE_USER) bytes += (int64_t)m->piece[id].text.bytes;
    if (trie_open(t, bytes) != OK)
        return fail(BAD_FILE, "%s: its pieces have %lld bytes, too many", path, (long long)bytes);
    for (int32_t id = 0; id < m->pieces; id++) {
        const SentencePieceEntry *p = &m->piece[id];
        if (user && p->kind != SP_PIECE_USER) continue;
        int32_t  node  = trie_add(t, p->text.data, (int64_t)p->text.bytes);
        if (node == TRIE_NONE)
            return fail(BAD_FILE, "%s: piece %d: its bytes collide with those of %d others", path, id,
                        TRIE_PROBES_MAX);
        int32_t *piece = &t->piece[node];
        if (*piece >= 0)
            return fail(BAD_FILE, "%s: pieces %d and %d are the same, \"%.*s\"", path, *piece, id,
                        p->text.bytes < 40 ? (int)p->text.bytes : 40, p->text.data);
        *piece = id;
    }
    return OK;
}

/* ---- decoding: the text of every piece is computed once, so decode is a table lookup ---- */

static bool mark_begins(ByteSpan text)
{
    return text.bytes >= SPACE_MARK_BYTES && !memcmp(text.data, SPACE_MARK, SPACE_MARK_BYTES);
}

/* Writes a piece with a space for each mark and returns its length, which is not above the piece's. */
static int64_t spaces_write(char *out, ByteSpan text)
{
    int64_t n = 0;
    for (size_t i = 0; i < text.bytes; n++) {
        bool mark = mark_begins((ByteSpan){ text.data + i, text.bytes - i });
        out[n] = mark ? ' ' : text.data[i];
        i += mark ? SPACE_MARK_BYTES : 1;
    }
    return n;
}

static Status decoded_make(SentencePiece *sp, const char *path)
{
    const SentencePieceModel *m = &sp->model;
    size_t bytes = m->unk_surface.bytes;
    for (int32_t id = 0; id < m->pieces; id++) bytes += m->piece[id].text.bytes;
    sp->texts   = malloc(bytes);
    sp->decoded = malloc((size_t)m->pieces * sizeof *sp->decoded);
    if (bytes && (!sp->texts || !sp->decoded)) return fail(NO_MEMORY, "%s: no memory for its pieces", path);
    char *at = sp->texts;
    for (int32_t id = 0; id < m->pieces; id++) {
        const SentencePieceEntry *p = &m->piece[id];
        int64_t n = 0;
        if (p->kind == SP_PIECE_BYTE) at[n++] = (char)byte_of_name(p->text.data, (int64_t)p->text.bytes);
        else if (p->kind == SP_PIECE_UNKNOWN)
            memcpy(at, m->unk_surface.data, (size_t)(n = (int64_t)m->unk_surface.bytes));
        else if (p->kind != SP_PIECE_CONTROL) n = spaces_write(at, p->text);
        bool text = p->kind != SP_PIECE_BYTE && p->kind != SP_PIECE_UNKNOWN && p->kind != SP_PIECE_CONTROL;
        sp->decoded[id] = (TextPiece){ at, n, text && (m->dummy_prefix || m->drop_spaces) &&
                                       mark_begins(p->text) };
        at += n;
    }
    return OK;
}

static TextPiece sentencepiece_decode(const Tokenizer *t, int32_t id)
{
    return ((const SentencePiece *)t->state)->decoded[id];
}

/* ---- encoding ---- */

int64_t sentencepiece_normalize(const Tokenizer *t, char *out, const char *text, int64_t bytes)
{
    return sentencepiece_normalizer_apply(&((const SentencePiece *)t->state)->normalizer, out, text, bytes);
}

/* Each id covers at least one byte of the normalized text. */
static int64_t sentencepiece_max_ids(const Tokenizer *t, const char *text, int64_t bytes)
{
    int64_t count = sentencepiece_normalize(t, NULL, text, bytes);
    return count < 0 ? 0 : count;
}

static int64_t sentencepiece_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    SentencePieceIds  list = { .sp = t->state, .ids = ids };
    int64_t count = sentencepiece_normalize(t, NULL, text, bytes);
    if (count < 0)
        fail(BAD_FILE, "%s: a rule of its normalizer writes more than 64 bytes for each that it replaces;"
             " train it without", t->name);
    if (count <= 0) return count;
    char *normal = malloc((size_t)count);
    CHECK(normal, "%s: no memory to normalize a text of %lld bytes", t->name, (long long)bytes);
    sentencepiece_normalize(t, normal, text, bytes);
    if (list.sp->model.kind == SP_MODEL_BPE) sentencepiece_bpe(&list, normal, count);
    else                                     sentencepiece_unigram(&list, normal, count);
    free(normal);
    return list.count;
}

/* ---- opening ---- */

static void sentencepiece_free(SentencePiece *sp)
{
    sentencepiece_model_close(&sp->model);
    trie_close(&sp->trie);
    trie_close(&sp->user);
    free(sp->data);
    free(sp->name);
    free(sp->texts);
    free(sp->decoded);
    free(sp);
}

static void sentencepiece_close(Tokenizer *t)
{
    sentencepiece_free(t->state);
    *t = (Tokenizer){ 0 };
}

/* Copies the file, since reading a mapping of a file that is truncated meanwhile ends the process with
 * SIGBUS. */
static Status file_copy(SentencePiece *sp, size_t *bytes, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    *bytes   = map.size;
    sp->data = malloc(map.size + 1);
    sp->name = strdup(path);
    if (sp->data) memcpy(sp->data, map.data, map.size);
    file_unmap(&map);
    return sp->data && sp->name ? OK : fail(NO_MEMORY, "%s: no memory for its %zu bytes", path, *bytes);
}

static Status kind_check(const SentencePieceModel *m, const char *path)
{
    if (m->kind != SP_MODEL_UNIGRAM && m->kind != SP_MODEL_BPE)
        return fail(BAD_FILE, "%s: a model of %s; only BPE and unigram models are read", path,
                    m->kind == SP_MODEL_WORD   ? "words"
                    : m->kind == SP_MODEL_CHAR ? "characters"
                                               : "an unknown kind");
    if (m->denormalizer.bytes)
        return fail(BAD_FILE, "%s: its text must be denormalized when decoded, which is not implemented;"
                    " train it without --denormalization_rule_tsv", path);
    return OK;
}

static Status sentencepiece_fill(SentencePiece *sp, const char *path)
{
    size_t bytes;
    TRY(file_copy(sp, &bytes, path));
    TRY(sentencepiece_model_read(&sp->model, sp->data, bytes, path));
    TRY(kind_check(&sp->model, path));
    TRY(pieces_check(sp, path));
    pieces_summarize(sp);
    TRY(trie_fill(&sp->trie, &sp->model, false, path));
    if (sp->has_user) TRY(trie_fill(&sp->user, &sp->model, true, path));
    TRY(sentencepiece_normalizer_open(&sp->normalizer, &sp->model, sp->has_user ? &sp->user : NULL, path));
    return decoded_make(sp, path);
}

/* The control piece that ends a text, by its name */
static int32_t eod_find(const SentencePieceModel *m)
{
    for (int32_t id = 0; id < m->pieces; id++)
        if (m->piece[id].kind == SP_PIECE_CONTROL && m->piece[id].text.bytes == m->eos.bytes &&
            memcmp(m->piece[id].text.data, m->eos.data, m->eos.bytes) == 0)
            return id;
    return -1;
}

static TokenizerHashes sentencepiece_hashes(const Tokenizer *t)
{
    const SentencePieceModel *m = &((const SentencePiece *)t->state)->model;
    int32_t  flags[] = { m->space_last, m->byte_fallback, m->dummy_prefix, m->drop_spaces, m->escape_spaces };
    uint64_t tokens = (uint64_t)m->kind, rules = tokenizer_hash(0, flags, sizeof flags);
    for (int32_t id = 0; id < m->pieces; id++) {
        const SentencePieceEntry *p = &m->piece[id];
        int32_t kind = (int32_t)p->kind;
        tokens = tokenizer_hash(tokens, &kind, sizeof kind);
        tokens = tokenizer_hash(tokens, &p->score, sizeof p->score);
        tokens = tokenizer_hash(tokens, p->text.data, (int64_t)p->text.bytes);
    }
    rules = tokenizer_hash(rules, m->charsmap.data, (int64_t)m->charsmap.bytes);
    return (TokenizerHashes){ tokens, rules };
}

const SentencePieceModel *sentencepiece_model_of(const Tokenizer *t)
{
    return t->encode == sentencepiece_encode ? &((const SentencePiece *)t->state)->model : NULL;
}

Status sentencepiece_open(Tokenizer *t, const char *path)
{
    *t = (Tokenizer){ 0 };
    SentencePiece *sp = calloc(1, sizeof *sp);
    if (!sp) return fail(NO_MEMORY, "%s: no memory to open it", path);
    Status status = sentencepiece_fill(sp, path);
    if (status != OK) {
        sentencepiece_free(sp);
        return status;
    }
    *t = (Tokenizer){ .name = sp->name, .vocabulary = sp->model.pieces, .eod = eod_find(&sp->model),
                      .encode = sentencepiece_encode, .decode = sentencepiece_decode,
                      .max_ids = sentencepiece_max_ids, .close = sentencepiece_close, .state = sp,
                      .hashes = sentencepiece_hashes,
                      .drops_prefixes = sp->model.drop_spaces };
    return OK;
}
