/* The two sides of a speedrun's text: what it is trained on, and what is held out. Documents are held out
 * whole, but a long one is cut into pieces at the ends of paragraphs, so that a single text has a part of its
 * own to be measured by. No paragraph is on both sides: what is held out is removed from the other side. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/array.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/words.h"
#include "cli/speedrun/speedrun.h"
#include "corpus/clean/sink.h"
#include "corpus/dedup/exact.h"
#include "corpus/read/source.h"

/* SPREAD: documents with the lowest hashes of their text, and pieces of long ones at about equal distances;
 * FIRST, LAST: the beginning or end of all texts */
typedef enum { HELDOUT_SPREAD, HELDOUT_FIRST, HELDOUT_LAST } HeldoutRule;

/* Bytes that SPREAD holds out at most: evaluating more of a large text takes longer and tells no more. */
static const double heldout_most = 2e6;

/* PIECES: that the part held out of a long text consists of. Bytes: the least and most of a piece; the least
 * of a paragraph that is looked for on the other side, shorter ones being headings and refrains. */
enum { PIECES = 8, PIECE_LEAST = 256, PIECE_MOST = 64 << 10, PARAGRAPH_LEAST = 64, SORTED_MOST = 1 << 20,
       FLUSH = 1 << 20 };

typedef struct { uint64_t hash; int64_t bytes; } HashedDocument;

typedef struct {
    HeldoutRule  rule;
    double       share;
    int64_t      total;             /* bytes of all documents */
    int64_t      whole_most, piece; /* bytes: larger documents are cut, into pieces of about this size */
    bool         within;            /* also within paragraphs */
    HashedDocument *sorted;         /* owned; the first SORTED_MOST documents that are not cut */
    int64_t      documents, bytes, smallest;        /* of those: how many, their bytes, the smallest's */
    int64_t      pieces;            /* of documents that are cut */
    /* Held out are documents of at most heldout_bytes with hashes below heldout_below, and one piece of every
     * `every`. Of the others, those with hashes below train_below are trained on; a large text has more. */
    int64_t      heldout_bytes, every;
    uint64_t     heldout_below, train_below;
    int64_t      left_out;          /* documents and pieces */
    uint64_t    *paragraph;         /* owned; [paragraphs] hashes of those held out, sorted */
    int64_t      paragraphs, paragraphs_capacity;
    int64_t      repeated, repeated_bytes;          /* paragraphs that are removed from the other side */
    ExactSpace   space;
    Buffer       text;
} Split;

/* ---- --heldout ---- */

static Status heldout_read(HeldoutRule *rule, double *share, const char *text)
{
    static const char *const name[] = { "spread:", "first:", "last:" };
    for (int i = 0; i < COUNT(name); i++) {
        char *end;
        if (!has_beginning(text, (int64_t)strlen(text), name[i])) continue;
        *rule  = (HeldoutRule)i;
        *share = strtod(text + strlen(name[i]), &end);
        if (end > text + strlen(name[i]) && !*end && *share >= 1e-4 && *share <= 0.5) return OK;
    }
    return fail(BAD_OPTION, "--heldout %s: is no part of the texts; give spread:0.05, last:0.1 or first:0.1, "
                "a share from 0.0001 to 0.5", text);
}

Status speedrun_check_heldout(const Options *o)
{
    HeldoutRule rule;
    double      share;
    return heldout_read(&rule, &share, o->speedrun_heldout);
}

/* ---- pieces of a document ---- */

/* Where the next paragraph begins after a blank line; -1: nowhere from `from` to `stop`. */
static int64_t after_paragraph(const char *text, int64_t from, int64_t stop)
{
    const char *at = memmem(text + from, (size_t)(stop - from), "\n\n", 2);
    if (!at) return -1;
    while (at < text + stop && *at == '\n') at++;
    return at - text;
}

/* Where the next sentence begins, else the next word, else the next character. */
static int64_t after_sentence(const char *text, int64_t from, int64_t stop)
{
    int64_t blank = -1;
    for (int64_t i = from; i < stop; i++) {
        if (text[i] != ' ') continue;
        if (i > from && memchr(".!?", text[i - 1], 3)) return i + 1;
        if (blank < 0) blank = i + 1;
    }
    if (blank >= 0) return blank;
    while (from < stop && ((unsigned char)text[from] & 0xC0) == 0x80) from++;
    return from;
}

/* Where the piece that begins at `from` ends. A blank line ends it rather than a mere line end that comes a
 * little before. */
static int64_t piece_end(const Split *p, const char *text, int64_t bytes, int64_t from)
{
    int64_t least = from + p->piece, most = from + 5 * p->piece, end = -1;
    if (bytes <= p->whole_most || bytes - least < p->piece / 2) return bytes;
    if (most > bytes) most = bytes;
    end = after_paragraph(text, least, most);
    if (end < 0) {
        const char *line = memchr(text + least, '\n', (size_t)((p->within ? most : bytes) - least));
        end = line ? line - text + 1 : p->within ? after_sentence(text, least, most) : bytes;
    }
    return bytes - end < p->piece / 2 ? bytes : end;
}

/* Only the text decides, so a document stays on its side whatever else is in the input. */
static uint64_t hash_of(const char *text, int64_t bytes) { return XXH3_64bits(text, (size_t)bytes); }

static void document_count(Split *p, const Document *d)
{
    if (p->documents < SORTED_MOST)
        p->sorted[p->documents] = (HashedDocument){ hash_of(d->text, d->bytes), d->bytes };
    p->smallest = p->documents++ && p->smallest < d->bytes ? p->smallest : d->bytes;
    p->bytes += d->bytes;
}

static Status pieces_count(Split *p, const char *path)
{
    Source  *source;
    Document d;
    bool     more;
    p->documents = p->pieces = p->bytes = p->total = 0;
    TRY(source_open(&source, path, "text", (TextRules){ 0 }));
    Status status = source_next(source, &d, &more);
    for (; status == OK && more; status = source_next(source, &d, &more)) {
        int64_t at = 0, count = 0;
        for (; at < d.bytes; count++) at = piece_end(p, d.text, d.bytes, at);
        p->total += d.bytes;
        if (count > 1) p->pieces += count;
        else document_count(p, &d);
    }
    source_close(source);
    return status;
}

/* ---- bounds ---- */

static double target_bytes(const Split *p)
{
    double bytes = p->share * (double)p->total;
    return p->rule == HELDOUT_SPREAD ? fmin(bytes, heldout_most) : bytes;
}

/* A document that is larger than the part held out is cut; where the part is a beginning or an end, any that
 * is larger than a piece, since the border may be in it. */
static void sizes_choose(Split *p)
{
    double piece = fmin(fmax(target_bytes(p) / PIECES, PIECE_LEAST), PIECE_MOST);
    p->piece      = (int64_t)piece;
    p->whole_most = p->rule == HELDOUT_SPREAD ? (int64_t)target_bytes(p) : p->piece;
}

static int by_hash(const void *a, const void *b)
{
    const HashedDocument *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Of few documents those with the lowest hashes until they have the share of the bytes; of many those below a
 * share of all hashes, which is as good. A document that is larger than the share is trained on, unless all
 * are. */
static void bounds_find(Split *p, int64_t bytes_most)
{
    double  held = target_bytes(p) / (double)p->total, target = held * (double)p->bytes;
    int64_t taken = 0, i = 0, sorted = p->documents < SORTED_MOST ? p->documents : SORTED_MOST;
    p->every = (int64_t)fmax(fmin(round(1 / held), (double)p->pieces), 1);
    p->heldout_bytes = target > (double)p->smallest ? (int64_t)target : p->smallest;
    p->heldout_below = held >= 1 ? UINT64_MAX : (uint64_t)(held * 18446744073709551615.0);
    if (p->documents <= SORTED_MOST) {
        qsort(p->sorted, (size_t)sorted, sizeof *p->sorted, by_hash);
        for (; i < sorted - 1 && (double)taken < target; i++)
            if (p->sorted[i].bytes <= p->heldout_bytes) taken += p->sorted[i].bytes;
        p->heldout_below = sorted < 2 ? 0 : p->sorted[i].hash;
        if (sorted >= 2 && taken == 0) p->heldout_below = UINT64_MAX;        /* only the last one is small */
    }
    uint64_t first = p->rule == HELDOUT_SPREAD ? p->heldout_below : 0;
    double   share = (double)bytes_most / (double)p->total;
    p->train_below = share >= 1 ? UINT64_MAX : first + (uint64_t)(share * (double)(UINT64_MAX - first));
}

/* ---- the two sides ---- */

enum { HELDOUT, TRAIN, LEFT_OUT };

typedef struct { Sink sink; int64_t documents, bytes; } Side;

/* A whole document, or a piece of one that is cut. */
typedef struct {
    const char *text;
    int64_t     bytes, at;          /* its length; where it begins among the bytes of all documents */
    int64_t     number;             /* among all pieces; -1: a whole document */
} Passage;

/* One of each `every` pieces, not always at the same place, since texts may have a period of their own. */
static bool piece_is_held(const Split *p, int64_t number)
{
    int64_t group = number / p->every;
    return number % p->every == (int64_t)(XXH3_64bits(&group, sizeof group) % (uint64_t)p->every);
}

static int side_of(const Split *p, const Passage *piece)
{
    uint64_t hash = hash_of(piece->text, piece->bytes);
    double   total = (double)p->total, share = p->share;
    bool held = p->rule == HELDOUT_FIRST  ? (double)piece->at < share * total
                : p->rule == HELDOUT_LAST ? (double)(piece->at + piece->bytes) > (1 - share) * total
                : piece->number >= 0      ? piece_is_held(p, piece->number)
                                          : hash < p->heldout_below && piece->bytes <= p->heldout_bytes;
    return held ? HELDOUT : hash < p->train_below || p->train_below == UINT64_MAX ? TRAIN : LEFT_OUT;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The paragraphs of a text; where it has no blank lines, its lines. */
static ExactWalk paragraphs_of(JsonText text)
{
    bool blank = memmem(text.text, (size_t)text.bytes, "\n\n", 2);
    ExactUnit unit = blank ? EXACT_PARAGRAPHS : EXACT_LINES;
    return (ExactWalk){ .unit = unit, .text = text.text, .bytes = text.bytes };
}

static Status paragraph_hash(Split *p, uint64_t *hash, const char *text, int64_t bytes)
{
    Hash128 wide;
    TRY(exact_hash(&wide, exact_normalization_find("spaces"), &p->space, text, bytes));
    *hash = wide.low;
    return OK;
}

static Status paragraphs_keep(Split *p, JsonText text)
{
    const char *part;
    int64_t     bytes;
    for (ExactWalk walk = paragraphs_of(text); exact_part(&walk, &part, &bytes); ) {
        if (bytes < PARAGRAPH_LEAST) continue;
        TRY(ARRAY_RESERVE(p->paragraph, p->paragraphs_capacity, p->paragraphs + 1));
        TRY(paragraph_hash(p, &p->paragraph[p->paragraphs], part, bytes));
        p->paragraphs++;
    }
    return OK;
}

/* Removes the paragraphs that are held out: *text becomes what is left, in p->text. */
static Status paragraphs_remove(Split *p, JsonText *text)
{
    const char *part;
    int64_t     bytes, removed = 0;
    uint64_t    hash = 0;
    ExactWalk   walk = paragraphs_of(*text);
    const char *between = walk.unit == EXACT_PARAGRAPHS ? "\n\n" : "\n";
    p->text.bytes = 0;
    while (exact_part(&walk, &part, &bytes)) {
        if (bytes >= PARAGRAPH_LEAST) TRY(paragraph_hash(p, &hash, part, bytes));
        if (bytes >= PARAGRAPH_LEAST && p->paragraphs &&
            bsearch(&hash, p->paragraph, (size_t)p->paragraphs, sizeof hash, by_number)) {
            removed++;
            p->repeated_bytes += bytes;
            continue;
        }
        if (p->text.bytes) TRY(buffer_add_text(&p->text, between));
        TRY(buffer_add(&p->text, part, bytes));
    }
    p->repeated += removed;
    if (removed) *text = (JsonText){ p->text.text, p->text.bytes };
    return OK;
}

/* Pieces of one document that follow each other on one side are a document there. */
static Status stretch_put(Split *p, Side *side, int which, const char *text, int64_t bytes)
{
    while (bytes && memchr(" \n", text[bytes - 1], 2)) bytes--;
    while (bytes && memchr(" \n", *text, 2)) text++, bytes--;
    JsonText stretch = { text, bytes };
    if (which == HELDOUT) TRY(paragraphs_keep(p, stretch));
    else                  TRY(paragraphs_remove(p, &stretch));
    if (!stretch.bytes) return OK;
    side->documents++;
    side->bytes += stretch.bytes;
    TRY(buffer_format(&side->sink.text, "{\"text\": "));
    TRY(json_text_string(&side->sink.text, stretch));
    TRY(buffer_format(&side->sink.text, "}\n"));
    return sink_flush(&side->sink, FLUSH);
}

/* before: bytes of the documents before this one. *pieces: those of all documents so far. */
static Status document_put(Split *p, Side *side, int which, const Document *d, int64_t before,
                           int64_t *pieces)
{
    int64_t from = -1;                          /* where a stretch of this side begins; -1: there is none */
    for (int64_t at = 0, end; at < d->bytes; at = end) {
        end = piece_end(p, d->text, d->bytes, at);
        Passage piece = { d->text + at, end - at, before + at, end - at < d->bytes ? (*pieces)++ : -1 };
        int   mine  = side_of(p, &piece);
        p->left_out += which == TRAIN && mine == LEFT_OUT;
        if (mine != which && from >= 0) TRY(stretch_put(p, side, which, d->text + from, at - from));
        if (mine != which) from = -1;
        else if (from < 0) from = at;
    }
    return from < 0 ? OK : stretch_put(p, side, which, d->text + from, d->bytes - from);
}

static Status side_write(const Speedrun *s, Split *p, Side *side, int which)
{
    static const char *const name[] = { "heldout.jsonl", "train.jsonl" };
    Source  *source;
    Document d;
    bool     more;
    int64_t  before = 0, pieces = 0;
    TRY(source_open(&source, speedrun_path(s, "clean.jsonl"), "text", (TextRules){ 0 }));
    Status status = sink_open(&side->sink, speedrun_path(s, name[which]));
    if (status == OK) status = source_next(source, &d, &more);
    while (status == OK && more && !*s->stop) {
        status = document_put(p, side, which, &d, before, &pieces);
        before += d.bytes;
        if (status == OK) status = source_next(source, &d, &more);
    }
    source_close(source);
    if (status == OK && *s->stop)
        status = fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    return status == OK ? sink_finish(&side->sink) : status;
}

/* ---- the stage ---- */

static Status split_plan(const Speedrun *s, Split *p)
{
    const char *path = speedrun_path(s, "clean.jsonl");
    RecipeAsk   ask  = speedrun_ask(s->o);
    TRY(heldout_read(&p->rule, &p->share, s->o->speedrun_heldout));
    double bytes = speedrun_number(s, "clean", "bytes");
    if (!(bytes > 0))
        return fail(BAD_FILE, "%s: does not say how many bytes the cleaned texts have; remove the directory "
                    "to begin from nothing", speedrun_path(s, "speedrun.json"));
    p->total = (int64_t)bytes;
    sizes_choose(p);
    TRY(pieces_count(p, path));
    p->within = p->documents + p->pieces < 2;
    if (p->within) TRY(pieces_count(p, path));
    bounds_find(p, recipe_bytes_most(&ask, speedrun_threads(s->o)));
    return OK;
}

static Status sides_write(const Speedrun *s, Split *p, Side side[2])
{
    TRY(side_write(s, p, &side[HELDOUT], HELDOUT));
    if (p->paragraphs) qsort(p->paragraph, (size_t)p->paragraphs, sizeof *p->paragraph, by_number);
    TRY(side_write(s, p, &side[TRAIN], TRAIN));
    if (side[HELDOUT].documents && side[TRAIN].documents) return OK;
    return fail(BAD_FILE, "--heldout %s: nothing is left %s; the texts are too few, or repeat themselves",
                s->o->speedrun_heldout, side[TRAIN].documents ? "to be held out" : "to train on");
}

static void split_log(const Split *p, const Side side[2])
{
    static const char *const which[] = { "from all over the texts", "their beginning", "their end" };
    log_line("speedrun: %" PRId64 " documents of %" PRId64 " bytes to train on; %" PRId64 " of %" PRId64
             " bytes, %s, are held out",
             side[TRAIN].documents, side[TRAIN].bytes, side[HELDOUT].documents, side[HELDOUT].bytes,
             which[p->rule]);
    if (p->repeated)
        log_line("speedrun: paragraphs that are held out, and therefore removed from the text to train on: "
                 "%" PRId64 " of %" PRId64 " bytes", p->repeated, p->repeated_bytes);
    if (p->left_out)
        log_line("speedrun: %" PRId64 " documents more than the run can read are left out, by their hashes",
                 p->left_out);
}

Status stage_split(Speedrun *s, json_t *facts)
{
    Split p       = { .sorted = calloc(SORTED_MOST, sizeof *p.sorted) };
    Side  side[2] = { { .sink.fd = -1 }, { .sink.fd = -1 } };
    if (!p.sorted) return fail(NO_MEMORY, "no memory for the documents' hashes");
    Status status = split_plan(s, &p);
    if (status == OK) status = sides_write(s, &p, side);
    for (int i = 0; i < 2; i++) sink_discard(&side[i].sink);
    free(p.sorted);
    free(p.paragraph);
    exact_space_free(&p.space);
    buffer_free(&p.text);
    TRY(status);
    json_object_set_new(facts, "heldout_documents", json_integer(side[HELDOUT].documents));
    json_object_set_new(facts, "heldout_bytes", json_integer(side[HELDOUT].bytes));
    json_object_set_new(facts, "train_documents", json_integer(side[TRAIN].documents));
    json_object_set_new(facts, "train_bytes", json_integer(side[TRAIN].bytes));
    json_object_set_new(facts, "left_out_documents", json_integer(p.left_out));
    json_object_set_new(facts, "repeated_bytes", json_integer(p.repeated_bytes));
    split_log(&p, side);
    return OK;
}
