#include "corpus/clean/document_filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "corpus/wiki/wiki_text.h"

#define LABEL "__label__"

/* ---- opening ---- */

static const char *label_word(const char *label)
{
    return strncmp(label, LABEL, strlen(LABEL)) ? label : label + strlen(LABEL);
}

const char *document_filter_label(const DocumentFilter *j, int label)
{
    return label < 0 || label >= j->languages ? "none" : label_word(langid_label(j->langid, label));
}

/* "da, de, en ...": the first labels of a model */
static const char *labels_some(char *out, size_t size, const DocumentFilter *j)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < j->languages && used + 24 < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%.16s", i ? ", " : "", document_filter_label(j, i));
    return out;
}

static Status language_open(DocumentFilter *j)
{
    char some[256];
    const CleanPlan *p = j->plan;
    j->wanted = -1;
    if (!p->model) return OK;
    TRY(langid_open(&j->langid, p->model));
    j->languages = langid_labels(j->langid);
    if (!p->language) return OK;
    for (int i = 0; i < j->languages && j->wanted < 0; i++)
        if (!strcmp(document_filter_label(j, i), p->language)) j->wanted = i;
    if (j->wanted >= 0) return OK;
    return fail(BAD_OPTION, "--lang %s: --lang-model %s has no such label; it has %s", p->language, p->model,
                labels_some(some, sizeof some, j));
}

/* A file of bad words switches its rule on by itself. */
static bool quality_wanted(const CleanPlan *p)
{
    for (int i = 0; i < QUALITY_RULES; i++)
        if (p->quality.on[i]) return true;
    return p->bad_words;
}

static Status near_prepare(DocumentFilter *j, const char *folder)
{
    const CleanPlan *p = j->plan;
    MinHashPlan near = { .folder = folder, .memory = p->memory, .bands = p->near_bands, .rows = p->near_rows,
                      .threshold = p->near_threshold };
    if (p->near_threshold <= 0) return OK;
    TRY(minhash_open(&j->near, &near));
    j->keys = minhash_bands(j->near);
    return OK;
}

static Status contamination_prepare(DocumentFilter *j)
{
    const ContaminationPlan *p = &j->plan->contamination;
    TRY(contamination_open(&j->contamination, p));
    int64_t few = contamination_short(j->contamination);
    if (few) log_line("clean: %" PRId64 " texts of --decontaminate have fewer than %d words and are not looked for", few, p->words);
    return OK;
}

Status document_filter_open(DocumentFilter *j, const CleanPlan *p, const char *folder)
{
    *j = (DocumentFilter){ .plan = p };
    Status status = language_open(j);
    if (status == OK) status = charset_open(&j->charset, &p->charset);
    if (status == OK && quality_wanted(p)) status = quality_open(&j->quality, &p->quality, p->stop_words, p->bad_words);
    if (status == OK && p->contamination.paths) status = contamination_prepare(j);
    if (status == OK) status = near_prepare(j, folder);
    if (status != OK) document_filter_close(j);
    return status;
}

void document_filter_close(DocumentFilter *j)
{
    if (j->langid)        langid_close(j->langid);
    if (j->charset)       charset_close(j->charset);
    if (j->quality)       quality_close(j->quality);
    if (j->contamination) contamination_close(j->contamination);
    if (j->near)          minhash_close(j->near);
    *j = (DocumentFilter){ .plan = j->plan };
}

Status filter_workspace_open(FilterWorkspace *b, const DocumentFilter *j)
{
    if (j->langid)  TRY(langid_space_open(&b->langid, j->langid));
    if (j->quality) TRY(quality_space_open(&b->quality));
    return OK;
}

void filter_workspace_close(FilterWorkspace *b)
{
    if (b->langid)  langid_space_close(b->langid);
    if (b->quality) quality_space_close(b->quality);
    contamination_found_free(&b->found);
    exact_space_free(&b->exact);
    shingles_free(&b->shingles);
    buffer_free(&b->text);
    buffer_free(&b->spare);
}

/* ---- stages: each says the rule by which the document goes, or DROP_KEPT ---- */

static bool blank(const Buffer *text)
{
    for (int64_t i = 0; i < text->bytes; i++)
        if (!memchr(" \t\r\n", text->text[i], 4)) return false;
    return true;
}

static Status text_take(const DocumentFilter *j, FilterWorkspace *b, int *rule, const Record *r)
{
    b->text.bytes = 0;
    if (r->wiki) TRY(wiki_text(&b->text, r->text, r->bytes));
    else         TRY(buffer_add(&b->text, r->text, r->bytes));
    for (int i = 0; i < j->plan->warnings && *rule == DROP_KEPT; i++)
        if (record_warned(r, j->plan->warning[i])) *rule = DROP_WARNED;
    if (*rule == DROP_KEPT && blank(&b->text)) *rule = DROP_EMPTY;
    return OK;
}

static Status charset_stage(const DocumentFilter *j, FilterWorkspace *b, int *rule, CleanCounts *t)
{
    CharsetVerdict verdict = { 0 };
    TRY(charset_apply(j->charset, &b->text, &b->spare, &verdict));
    for (int i = 0; i < CHARSET_COUNTS; i++) t->charset[i] += verdict.count[i];
    if (verdict.dropped)      *rule = DROP_CHARSET;
    else if (blank(&b->text)) *rule = DROP_EMPTY;
    return OK;
}

/* The whole text decides, since single lines mislead. */
static void language_stage(const DocumentFilter *j, FilterWorkspace *b, FilterResult *out, CleanCounts *t, int64_t bytes)
{
    LangidGuess guess;
    bool known = langid_guess(j->langid, b->langid, b->text.text, b->text.bytes, &guess, 1) > 0;
    out->label       = known ? guess.label : -1;
    out->probability = known ? guess.probability : 0;
    Count *met = &t->language[known ? guess.label : j->languages];
    met->documents++;
    met->bytes += bytes;
    if (j->wanted < 0) return;
    if (out->label != j->wanted || out->probability < j->plan->threshold) out->rule = DROP_LANGUAGE;
}

static Status quality_stage(const DocumentFilter *j, FilterWorkspace *b, int *rule, CleanCounts *t)
{
    QualityVerdict verdict = { .rule = -1 };
    TRY(quality_judge(j->quality, b->quality, &b->text, &verdict));
    for (int i = 0; i < QUALITY_RULES; i++) t->lines[i] += verdict.lines[i];
    if (verdict.rule >= 0)    *rule = DROP_QUALITY + verdict.rule;
    else if (blank(&b->text)) *rule = DROP_EMPTY;
    return OK;
}

static Status pieces_keep(FilterWorkspace *b)
{
    b->spare.bytes = 0;
    for (int64_t i = 0; i < b->found.pieces; i++) {
        ContaminationPiece piece = b->found.piece[i];
        if (i) TRY(buffer_add(&b->spare, "\n", 1));
        TRY(buffer_add(&b->spare, b->text.text + piece.from, piece.end - piece.from));
    }
    Buffer text = b->text;
    b->text  = b->spare;
    b->spare = text;
    return OK;
}

static Status contamination_stage(const DocumentFilter *j, FilterWorkspace *b, int *rule)
{
    const ContaminationCut cut = { CONTAMINATION_SIDE, CONTAMINATION_PIECE, CONTAMINATION_CUTS };
    TRY(contamination_find(j->contamination, &b->found, b->text.text, b->text.bytes));
    if (!b->found.hits) return OK;
    *rule = DROP_CONTAMINATED;
    if (!j->plan->contamination_cuts) return OK;
    TRY(contamination_cut(&b->found, cut, b->text.text, b->text.bytes));
    if (!b->found.pieces) return OK;
    *rule = DROP_KEPT;
    return pieces_keep(b);
}

static void ends_trim(Buffer *text)
{
    while (text->bytes && memchr(" \t\r\n", text->text[text->bytes - 1], 4)) text->bytes--;
}

static Status marks_make(const DocumentFilter *j, FilterWorkspace *b, FilterResult *out)
{
    const CleanPlan *p = j->plan;
    if (p->exact) TRY(exact_hash(&out->hash, p->normalization, &b->exact, b->text.text, b->text.bytes));
    if (!j->near) return OK;
    TRY(shingles_of(&b->shingles, p->near_words, b->text.text, b->text.bytes));
    minhash_keys(j->near, b->key, &b->shingles);
    return OK;
}

Status document_filter_record(const DocumentFilter *j, FilterWorkspace *b, FilterResult *out, const Record *r, CleanCounts *t)
{
    *out = (FilterResult){ .rule = DROP_KEPT, .label = -1 };
    TRY(text_take(j, b, &out->rule, r));
    if (out->rule == DROP_KEPT) TRY(charset_stage(j, b, &out->rule, t));
    if (out->rule == DROP_KEPT && j->langid) language_stage(j, b, out, t, r->bytes);
    if (out->rule == DROP_KEPT && j->quality) TRY(quality_stage(j, b, &out->rule, t));
    if (out->rule == DROP_KEPT && j->contamination) TRY(contamination_stage(j, b, &out->rule));
    if (out->rule != DROP_KEPT) return OK;
    ends_trim(&b->text);
    return marks_make(j, b, out);
}
