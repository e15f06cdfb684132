/* The stages that check one document alone, cheapest first, and what they need opened. A stage may change
 * the text (charset, quality and contamination remove lines or passages), so an empty text is looked for
 * after each of them. */
#include "corpus/clean/document_filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/message.h"
#include "base/words.h"
#include "corpus/prose/html_to_text.h"
#include "corpus/prose/reflow.h"
#include "corpus/wiki/wiki_text.h"

#define LABEL_PREFIX "__label__"

/* ---- opening ---- */

const char *document_filter_label(const DocumentFilter *f, int label)
{
    if (label < 0 || label >= f->languages) return "none";
    const char *text = langid_label(f->langid, label);
    return strncmp(text, LABEL_PREFIX, strlen(LABEL_PREFIX)) ? text : text + strlen(LABEL_PREFIX);
}

/* "da, de, en": as many labels of the model as fit, for a message that shows how labels look. */
static const char *first_labels(char *out, size_t size, const DocumentFilter *f)
{
    out[0] = 0;
    for (int i = 0; i < f->languages; i++)
        if (!message_item(out, size, ", ", "%.16s", document_filter_label(f, i))) break;
    return out;
}

static Status language_open(DocumentFilter *f)
{
    char some[256];
    const CleanPlan *p = f->plan;
    f->wanted = -1;
    if (!p->model) return OK;
    TRY(langid_open(&f->langid, p->model));
    f->languages = langid_labels(f->langid);
    if (!p->language) return OK;
    for (int i = 0; i < f->languages && f->wanted < 0; i++)
        if (!strcmp(document_filter_label(f, i), p->language)) f->wanted = i;
    if (f->wanted >= 0) return OK;
    return fail(BAD_OPTION, "--lang %s: --lang-model %s has no such label; it has %s", p->language, p->model,
                first_labels(some, sizeof some, f));
}

/* --bad-words turns its rule on by itself, so the plan's rules may all be off. */
static bool quality_wanted(const CleanPlan *p)
{
    for (int i = 0; i < QUALITY_RULES; i++)
        if (p->quality.on[i]) return true;
    return p->bad_words;
}

/* The MinHash object is opened before the scan, since its parameters determine the keys; the documents'
 * keys are added to it after the scan, by resolve_duplicates.c. */
static Status near_open(DocumentFilter *f, const char *folder)
{
    const CleanPlan *p = f->plan;
    MinHashPlan plan = { .folder = folder, .memory = p->memory, .bands = p->near_bands, .rows = p->near_rows,
                      .threshold = p->near_threshold };
    if (p->near_threshold <= 0) return OK;
    TRY(minhash_open(&f->minhash, &plan));
    f->keys = minhash_bands(f->minhash);
    return OK;
}

static Status contamination_stage_open(DocumentFilter *f)
{
    const ContaminationPlan *p = &f->plan->contamination;
    TRY(contamination_open(&f->contamination, p));
    int64_t few = contamination_short(f->contamination);
    if (few)
        log_line("clean: %" PRId64 " texts of --decontaminate have fewer than %d words and are not searched"
                 " for", few, p->words);
    return OK;
}

Status document_filter_open(DocumentFilter *f, const CleanPlan *p, const char *folder)
{
    *f = (DocumentFilter){ .plan = p };
    Status status = language_open(f);
    if (status == OK) status = charset_open(&f->charset, &p->charset);
    if (status == OK && quality_wanted(p))
        status = quality_open(&f->quality, &p->quality, p->stop_words, p->bad_words);
    if (status == OK && p->contamination.paths) status = contamination_stage_open(f);
    if (status == OK) status = near_open(f, folder);
    if (status != OK) document_filter_close(f);
    return status;
}

void document_filter_close(DocumentFilter *f)
{
    if (f->langid)        langid_close(f->langid);
    if (f->charset)       charset_close(f->charset);
    if (f->quality)       quality_close(f->quality);
    if (f->contamination) contamination_close(f->contamination);
    if (f->minhash)          minhash_close(f->minhash);
    *f = (DocumentFilter){ .plan = f->plan };
}

Status filter_workspace_open(FilterWorkspace *w, const DocumentFilter *f)
{
    if (f->langid)  TRY(langid_space_open(&w->langid, f->langid));
    if (f->quality) TRY(quality_space_open(&w->quality));
    return OK;
}

void filter_workspace_close(FilterWorkspace *w)
{
    if (w->langid)  langid_space_close(w->langid);
    if (w->quality) quality_space_close(w->quality);
    contamination_found_free(&w->found);
    exact_space_free(&w->exact);
    shingles_free(&w->shingles);
    buffer_free(&w->text);
    buffer_free(&w->spare);
}

/* ---- stages: each sets the rule by which the document is dropped, or leaves DROP_KEPT ---- */

static bool only_whitespace(const Buffer *text) { return has_only(text->text, text->bytes, " \t\r\n"); }

/* The text of the record, without markup where it is a wiki page or HTML, and with the lines of wrapped
 * paragraphs joined where it is a file. Warnings are checked here because they
 * need nothing else. */
static Status text_stage(const DocumentFilter *f, FilterWorkspace *w, int *rule, const Record *r)
{
    w->text.bytes = 0;
    switch (r->markup) {
    case MARKUP_NONE: TRY(buffer_add(&w->text, r->text, r->bytes));        break;
    case MARKUP_WIKI: TRY(wiki_text(&w->text, r->text, r->bytes));         break;
    case MARKUP_HTML: TRY(html_to_text(&w->text, r->text, r->bytes));         break;
    default:          TRY(reflow(&w->text, r->text, r->bytes, r->markup)); break;
    }
    for (int i = 0; i < f->plan->warnings && *rule == DROP_KEPT; i++)
        if (record_warned(r, f->plan->warning[i])) *rule = DROP_WARNED;
    if (*rule == DROP_KEPT && only_whitespace(&w->text)) *rule = DROP_EMPTY;
    return OK;
}

/* Both buffers are the thread's and keep their memory, so they grow to the largest document once. */
static Status charset_stage(const DocumentFilter *f, FilterWorkspace *w, int *rule, CleanCounts *counts)
{
    CharsetVerdict verdict = { 0 };
    TRY(charset_apply(f->charset, &w->text, &w->spare, &verdict));
    for (int i = 0; i < CHARSET_COUNTS; i++) counts->charset[i] += verdict.count[i];
    if (verdict.dropped)      *rule = DROP_CHARSET;
    else if (only_whitespace(&w->text)) *rule = DROP_EMPTY;
    return OK;
}

/* The label of the whole text decides: single lines are too short for a reliable label. Every document
 * that comes this far is counted under its language, also those that another rule drops later. */
static void language_stage(const DocumentFilter *f, FilterWorkspace *w, FilterResult *out,
                           CleanCounts *counts, int64_t bytes)
{
    LangidGuess guess;
    bool known = langid_guess(f->langid, w->langid, w->text.text, w->text.bytes, &guess, 1) > 0;
    out->label       = known ? guess.label : -1;
    out->probability = known ? guess.probability : 0;
    Count *count = &counts->language[known ? guess.label : f->languages];
    count->documents++;
    count->bytes += bytes;
    if (f->wanted < 0) return;
    if (out->label != f->wanted || out->probability < f->plan->threshold) out->rule = DROP_LANGUAGE;
}

static Status quality_stage(const DocumentFilter *f, FilterWorkspace *w, int *rule, CleanCounts *counts)
{
    QualityVerdict verdict = { .rule = -1 };
    TRY(quality_check(f->quality, w->quality, &w->text, &verdict));
    for (int i = 0; i < QUALITY_RULES; i++) counts->lines[i] += verdict.lines[i];
    if (verdict.rule >= 0)    *rule = DROP_QUALITY + verdict.rule;
    else if (only_whitespace(&w->text)) *rule = DROP_EMPTY;
    return OK;
}

/* The text becomes the pieces between the matches, separated by line ends. */
static Status pieces_join(FilterWorkspace *w)
{
    w->spare.bytes = 0;
    for (int64_t i = 0; i < w->found.pieces; i++) {
        ContaminationPiece piece = w->found.piece[i];
        if (i) TRY(buffer_add(&w->spare, "\n", 1));
        TRY(buffer_add(&w->spare, w->text.text + piece.from, piece.end - piece.from));
    }
    Buffer text = w->text;
    w->text  = w->spare;
    w->spare = text;
    return OK;
}

/* A document with a match of a test set is dropped, or with contamination_cuts reduced to its pieces
 * between the matches; if there are none left, or too many cuts, it is dropped all the same. */
static Status contamination_stage(const DocumentFilter *f, FilterWorkspace *w, int *rule)
{
    const ContaminationCut cut = { CONTAMINATION_SIDE, CONTAMINATION_PIECE, CONTAMINATION_CUTS };
    TRY(contamination_find(f->contamination, &w->found, w->text.text, w->text.bytes));
    if (!w->found.hits) return OK;
    *rule = DROP_CONTAMINATED;
    if (!f->plan->contamination_cuts) return OK;
    TRY(contamination_cut(&w->found, cut, w->text.text, w->text.bytes));
    if (!w->found.pieces) return OK;
    *rule = DROP_KEPT;
    return pieces_join(w);
}

/* Computed here by many threads and stored, so that resolving duplicates need not read the texts again:
 * the hash for exact deduplication and the MinHash band keys. */
static Status keys_compute(const DocumentFilter *f, FilterWorkspace *w, FilterResult *out)
{
    const CleanPlan *p = f->plan;
    if (p->exact) TRY(exact_hash(&out->hash, p->normalization, &w->exact, w->text.text, w->text.bytes));
    if (!f->minhash) return OK;
    TRY(shingles_of(&w->shingles, p->near_words, w->text.text, w->text.bytes));
    minhash_keys(f->minhash, w->key, &w->shingles);
    return OK;
}

/* White space at the end is removed before hashing, so that it makes no difference to exact duplicates. */
Status document_filter_record(const DocumentFilter *f, FilterWorkspace *w, FilterResult *out, const Record *r,
                              CleanCounts *counts)
{
    *out = (FilterResult){ .rule = DROP_KEPT, .label = -1 };
    TRY(text_stage(f, w, &out->rule, r));
    if (out->rule == DROP_KEPT) TRY(charset_stage(f, w, &out->rule, counts));
    if (out->rule == DROP_KEPT && f->langid) language_stage(f, w, out, counts, r->bytes);
    if (out->rule == DROP_KEPT && f->quality) TRY(quality_stage(f, w, &out->rule, counts));
    if (out->rule == DROP_KEPT && f->contamination) TRY(contamination_stage(f, w, &out->rule));
    if (out->rule != DROP_KEPT) return OK;
    while (w->text.bytes && memchr(" \t\r\n", w->text.text[w->text.bytes - 1], 4)) w->text.bytes--;
    return keys_compute(f, w, out);
}
