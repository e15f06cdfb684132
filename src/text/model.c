#include "text/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/letters.h"
#include "text/unicode.h"

Status model_open(Model **model, const char *name)
{
    Model *m = *model = calloc(1, sizeof **model);
    if (!m) return fail(NO_MEMORY, "no memory for --tokenizer %s", name);
    snprintf(m->name, sizeof m->name, "%s", name);
    m->eod = m->unknown = VOCAB_NONE;
    return OK;
}

void model_close(Model *m)
{
    if (!m) return;
    for (int i = 0; i < MODEL_THREADS; i++) words_close(m->words[i]);
    vocab_close(&m->vocab);
    vocab_close(&m->said);
    merges_close(&m->merges);
    added_close(&m->added);
    cut_close(&m->cut);
    free(m->special);
    free(m);
}

Status model_add_token(Model *m, AddedToken token)
{
    if (token.id < 0 || token.id >= VOCAB_MOST) return fail(BAD_FILE, "an added token with id %d", token.id);
    if (!vocab_has(&m->vocab, token.id)) TRY(vocab_add(&m->vocab, token.id, token.text, token.bytes));
    if (!m->special && !(m->special = calloc(VOCAB_MOST, 1))) return fail(NO_MEMORY, "no memory for special tokens");
    m->special[token.id] = 1;
    return added_add(&m->added, token);
}

Status model_add_merge(Model *m, const uint8_t *left, int64_t left_bytes, const uint8_t *right, int64_t right_bytes,
                       uint32_t rank)
{
    uint8_t joined[1024];
    if (left_bytes + right_bytes > (int64_t)sizeof joined)
        return fail(BAD_FILE, "merge %" PRIu32 " makes more than %zu bytes", rank, sizeof joined);
    memcpy(joined, left, (size_t)left_bytes);
    memcpy(joined + left_bytes, right, (size_t)right_bytes);
    int32_t a = vocab_find(&m->vocab, left, left_bytes), b = vocab_find(&m->vocab, right, right_bytes);
    int32_t made = vocab_find(&m->vocab, joined, left_bytes + right_bytes);
    if (a < 0 || b < 0 || made < 0)
        return fail(BAD_FILE, "merge %" PRIu32 ", %.*s %.*s: %s is no token of the vocabulary", rank, (int)left_bytes,
                    left, (int)right_bytes, right, made < 0 && a >= 0 && b >= 0 ? "what they make" : "one of them");
    return merges_add(&m->merges, a, b, rank, made);
}

/* ---- encoding ---- */

typedef struct { const Model *model; Words *words; int32_t *ids; int64_t count; bool specials, begun; int step; } Work;

/* A character that is no token: its bytes, else the unknown token, once for a row of them */
static int64_t spell(const Model *m, int32_t *ids, int64_t count, const uint8_t *p, int bytes)
{
    bool good = m->byte_fallback;
    for (int i = 0; i < bytes; i++) good = good && m->byte_id[p[i]] >= 0;
    for (int i = 0; i < bytes && good; i++) ids[count++] = m->byte_id[p[i]];
    if (good || m->unknown < 0 || (m->fuse_unknown && count && ids[count - 1] == m->unknown)) return count;
    ids[count++] = m->unknown;
    return count;
}

static int64_t symbols(const Model *m, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    if (m->byte_level) {
        for (; count < bytes; count++) ids[count] = m->byte_id[text[count]];
        return count;
    }
    for (int64_t at = 0; at < bytes; ) {
        Rune    r  = rune_at(text + at, bytes - at);
        int32_t id = r.point == RUNE_BROKEN ? VOCAB_NONE : vocab_find(&m->vocab, text + at, r.bytes);
        if (id >= 0) ids[count++] = id;
        else         count = spell(m, ids, count, text + at, r.bytes);
        at += r.bytes;
    }
    return count;
}

static int64_t piece_make(const Model *m, Words *words, int32_t *ids, const uint8_t *text, int64_t bytes)
{
    int32_t id = m->whole ? vocab_find(&m->vocab, text, bytes) : VOCAB_NONE;
    if (id >= 0 && !(m->special && m->special[id])) {
        *ids = id;
        return 1;
    }
    int64_t count = bpe_merge(&m->merges, ids, symbols(m, ids, text, bytes), &words->space);
    return count;
}

/* A piece wherever it stands, known or not */
static Status piece_encode(Work *w, const uint8_t *text, int64_t bytes)
{
    int32_t *ids = w->ids + w->count;
    int64_t  known = 0;
    if (bytes <= WORD_SMALL) {
        uint8_t raw[16] = { 0 };
        int32_t found[WORD_IDS];
        memcpy(raw, text, (size_t)bytes);
        known = word_in(word_set(w->words, word_key(raw, bytes)), word_key(raw, bytes), found);
        memcpy(ids, found, (size_t)known * sizeof *ids);
    }
    if (!known && bytes > WORD_IDS && bytes <= WORD_LARGE) known = word_find_large(w->words, text, bytes, ids);
    if (!known) {
        known = piece_make(w->model, w->words, ids, text, bytes);
        if (known < 0) return fail(NO_MEMORY, "no memory to merge a piece of %" PRId64 " bytes", bytes);
        word_keep(w->words, text, bytes, ids, known);
        w->words->misses++;
    }
    w->count += known;
    return OK;
}

enum { ROW = 64, AHEAD = 32 };       /* AHEAD: as long as so many bytes are left, 16 may be read and 4 ids written */

typedef struct { const uint8_t *text; int64_t bytes; WordKey key; const SmallWord *set; } Piece;

/* The piece at p: a word whose end is seen in 16 bytes, else what split_next says. What is known of it is on its way. */
static inline Piece piece_at(const Work *w, SplitKind kind, const uint8_t *p, const uint8_t *end)
{
    int      led = w->model->lead[*p];
    uint32_t run = (uint32_t)__builtin_ctz(~(letters_of(p) >> led));
    int64_t  n   = led + run;
    if (!run || n >= WORD_SMALL || p[n] >= 0x80 || !split_takes_words(kind)) n = split_next(kind, p, end - p);
    Piece piece = { .text = p, .bytes = n };
    if (n > WORD_SMALL) return piece;
    piece.key = word_key(p, n);
    piece.set = word_set(w->words, piece.key);
    __builtin_prefetch(piece.set);
    return piece;
}

/* The hot loop: a row of pieces is cut before the first is looked up, so that their lines of memory come together. */
static Status words_encode(Work *w, SplitKind kind, const uint8_t *text, int64_t bytes)
{
    const uint8_t *p = text, *end = text + bytes;
    Piece row[ROW];
    while (end - p >= AHEAD) {
        int pieces = 0;
        for (; pieces < ROW && end - p >= AHEAD; p += row[pieces++].bytes) row[pieces] = piece_at(w, kind, p, end);
        for (int i = 0; i < pieces; i++) {
            int known = row[i].set ? word_in(row[i].set, row[i].key, w->ids + w->count) : 0;
            w->count += known;
            if (!known) TRY(piece_encode(w, row[i].text, row[i].bytes));
        }
    }
    while (p < end) {
        int64_t n = split_next(kind, p, end - p);
        TRY(piece_encode(w, p, n));
        p += n;
    }
    return OK;
}

static Status cut_encode(void *context, const uint8_t *text, int64_t bytes)
{
    Work        *w = context;
    const Cut   *cut = &w->model->cut;
    if (w->step == cut->steps) return piece_encode(w, text, bytes);
    const CutStep *step = &cut->step[w->step++];
    bool   last   = w->step == cut->steps;
    Status status = last && step->kind == CUT_SCAN ? words_encode(w, step->scan, text, bytes)
                                                   : cut_step(step, &w->words->regex, text, bytes, cut_encode, w);
    w->step--;
    return status;
}

typedef Status Between(Work *w, Chars text);

/* What lies between added tokens goes on, the tokens are ids already */
static Status added_encode(Work *w, bool normalized, Chars text, Between *between)
{
    AddedKind  kind  = { normalized, w->specials };
    AddedMatch match = { 0 };
    const AddedToken *token;
    for (int64_t at = 0; ; at = match.to, w->begun = true) {
        token = added_next(&w->model->added, kind, text.text, text.bytes, &match);
        int64_t end = token ? match.from : text.bytes;
        if (end > at) TRY(between(w, (Chars){ text.text + at, end - at }));
        if (!token) return OK;
        w->ids[w->count++] = token->id;
    }
}

static Status spaced_encode(Work *w, Chars text)
{
    TRY(normal_apply(&w->model->spaced, &text, !w->begun, w->words));
    return cut_encode(w, text.text, text.bytes);
}

static bool looks_for_added(const Work *w) { return w->model->added.count > (w->specials ? 0 : w->model->added.specials); }

static Status normal_encode(Work *w, Chars text)
{
    if (w->model->normal.steps) TRY(normal_apply(&w->model->normal, &text, !w->begun, w->words));
    return looks_for_added(w) ? added_encode(w, true, text, spaced_encode) : spaced_encode(w, text);
}

/* Threads encode at the same time, each with words of its own. */
static Status words_take(Model *m, Words **words)
{
    for (int i = 0; i < MODEL_THREADS; i++)
        if ((*words = atomic_exchange(&m->words[i], NULL))) return OK;
    return words_open(words);
}

static void words_give(Model *m, Words *words)
{
    for (int i = 0; i < MODEL_THREADS; i++) {
        Words *none = NULL;
        if (atomic_compare_exchange_strong(&m->words[i], &none, words)) return;
    }
    words_close(words);
}

static int64_t model_encode(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    Model *m = t->state;
    Work   w = { .model = m, .ids = ids, .specials = t->parse_special };
    Chars  chars = { (const uint8_t *)text, bytes };
    if (bytes == 0) return 0;
    if (words_take(m, &w.words) != OK) return -1;
    Status status = looks_for_added(&w) ? added_encode(&w, false, chars, normal_encode) : normal_encode(&w, chars);
    words_give(m, w.words);
    return status == OK ? w.count : -1;
}

static TextPiece model_decode(const Tokenizer *t, int32_t id)
{
    const Model *m = t->state;
    if (id == m->eod || !vocab_has(&m->said, id)) return (TextPiece){ "", 0 };
    return (TextPiece){ (const char *)vocab_bytes(&m->said, id), m->said.length[id] };
}

/* ---- from a description to a tokenizer ---- */

/* The ids of single bytes: tokens of one byte, or <0x00> to <0xFF> */
static Status bytes_find(Model *m)
{
    for (int byte = 0; byte < 256; byte++) {
        char    token[8];
        uint8_t raw = (uint8_t)byte;
        int     bytes = snprintf(token, sizeof token, "<0x%02X>", byte);
        m->byte_id[byte] = m->byte_level ? vocab_find(&m->vocab, &raw, 1) : vocab_find(&m->vocab, token, bytes);
        if (m->byte_id[byte] < 0 && (m->byte_level || m->byte_fallback || m->unknown < 0))
            return fail(BAD_FILE, "--tokenizer %s: no token for the byte %02X, so it could not spell every text", m->name,
                        byte);
    }
    return OK;
}

static int hex(uint8_t c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* "<0x0A>": its byte, else -1 */
static int byte_said(const uint8_t *text, int64_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>' || hex(text[3]) < 0 || hex(text[4]) < 0) return -1;
    return hex(text[3]) << 4 | hex(text[4]);
}

/* Marks are blanks and <0x0A> is a byte, but in tokens that were added they are what they are. */
static Status token_say(Model *m, int32_t id, const uint8_t *from, int64_t bytes, bool plain)
{
    int64_t to = 0;
    if (plain) return vocab_add(&m->said, id, from, bytes);
    int      byte = m->byte_fallback ? byte_said(from, bytes) : -1;
    uint8_t *said = malloc((size_t)bytes + 1);
    if (!said) return fail(NO_MEMORY, "no memory for --tokenizer %s", m->name);
    for (int64_t at = 0; at < bytes && byte < 0; to++) {
        bool mark = bytes - at >= 3 && !memcmp(from + at, "\xE2\x96\x81", 3);
        said[to] = mark ? ' ' : from[at];
        at += mark ? 3 : 1;
    }
    if (byte >= 0) said[to++] = (uint8_t)byte;
    Status status = vocab_add(&m->said, id, said, to);
    free(said);
    return status;
}

/* An added token that was looked for as normalizers leave it took that out of the text. */
static Status all_say(Model *m)
{
    for (int i = 0; i < m->added.count; i++) {
        const AddedToken *t = &m->added.token[i];
        if (t->normalized && !vocab_has(&m->said, t->id)) TRY(token_say(m, t->id, t->text, t->bytes, m->byte_level || !m->normal.steps));
    }
    for (int32_t id = 0; id < m->vocab.ids; id++)
        if (vocab_has(&m->vocab, id) && !vocab_has(&m->said, id))
            TRY(token_say(m, id, vocab_bytes(&m->vocab, id), m->vocab.length[id], m->byte_level || (m->special && m->special[id])));
    return OK;
}

/* Where no token has a mark behind anything else, nothing merges across the start of a row of marks: cut there. */
static bool marks_begin(const Model *m)
{
    if (vocab_find(&m->vocab, "\xE2\x96\x81", 3) < 0) return false;
    for (int32_t id = 0; id < m->vocab.ids; id++) {
        const uint8_t *text = m->vocab.bytes + (vocab_has(&m->vocab, id) ? m->vocab.from[id] : 0);
        bool other = false;
        for (int32_t at = 0; at < m->vocab.length[id]; at++) {
            bool mark = m->vocab.length[id] - at >= 3 && !memcmp(text + at, "\xE2\x96\x81", 3);
            if (mark && other && !(m->special && m->special[id])) return false;
            if (mark) at += 2;
            other |= !mark;
        }
    }
    return true;
}

/* Before the letters of a word GPT-2 takes a blank alone, the others anything but letters, numbers and ends of lines.
 * What begins with ' may be a short form, and is left to split_next. */
static void leads_find(Model *m)
{
    SplitKind kind = m->cut.steps ? m->cut.step[m->cut.steps - 1].scan : SPLIT_GPT2;
    m->lead[' '] = 1;
    for (int c = 1; c < 128 && kind != SPLIT_GPT2; c++)
        m->lead[c] = !(unicode_class((uint32_t)c) & (LETTER | NUMBER)) && c != '\n' && c != '\r' && c != '\'';
}

static const char *const ends[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot|>", "<|im_end|>" };

/* Tokens that are looked for after normalizers are themselves written as those leave them. */
static Status added_normalize(Model *m)
{
    Words  words = { 0 };
    Status status = OK;
    for (int i = 0; i < m->added.count && status == OK; i++) {
        AddedToken *token = &m->added.token[i];
        Chars text = { token->text, token->bytes };
        if (token->normalized) status = normal_apply(&m->normal, &text, true, &words);
        if (status == OK && text.text != token->text) status = added_rewrite(token, text.text, text.bytes);
    }
    for (int i = 0; i < 2; i++) free(words.text[i].data);
    return status;
}

static Status model_finish(Model *m)
{
    if (m->vocabulary < m->vocab.ids) m->vocabulary = m->vocab.ids;
    if (m->vocabulary == 0) return fail(BAD_FILE, "--tokenizer %s: no tokens in it", m->name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && m->eod < 0; i++)
        m->eod = vocab_find(&m->vocab, ends[i], (int64_t)strlen(ends[i]));
    TRY(bytes_find(m));
    TRY(added_normalize(m));
    TRY(all_say(m));
    if (!m->byte_level && !m->cut.steps && marks_begin(m))
        m->cut.step[m->cut.steps++] = (CutStep){ .kind = CUT_MARKS };
    leads_find(m);
    added_sort(&m->added);
    return OK;
}

static void tokenizer_end(Tokenizer *t) { model_close(t->state); }

Status model_tokenizer(Tokenizer *t, Model *m)
{
    Status status = model_finish(m);
    if (status != OK) {
        model_close(m);
        return status;
    }
    int64_t widest, extra, spaced, before;
    normal_growth(&m->normal, &widest, &extra);
    normal_growth(&m->spaced, &spaced, &before);
    if (m->added.count) widest *= (1 + extra) * (1 + before);               /* every part may be put something before */
    *t = (Tokenizer){ .name = m->name, .vocabulary = m->vocabulary, .eod = m->eod, .leads = m->leads, .encode = model_encode,
                      .decode = model_decode, .close = tokenizer_end, .state = m, .extra = extra * spaced + before,
                      .widest = widest * spaced, .specials = m->added.specials > 0 };
    return OK;
}
