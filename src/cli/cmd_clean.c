/* jotun clean --input F... --output F|DIR [--lang sv --lang-model M] ...: filters and deduplicates raw
 * corpora. This file turns the options into a CleanPlan and checks what only this command can check;
 * corpus/clean does the work. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/team.h"
#include "corpus/clean/clean.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/signals.h"
#include "conf/conf.h"
#include "conf/rows.h"
#include "corpus/read/inputs.h"
#include "report/clean_report.h"

/* Bytes of one output file where --output is a folder and --shard-bytes is not given */
#define FOLDER_SHARD ((int64_t)1 << 30)

/* ---- values ---- */

/* Units are powers of 1024, so "512M" is 536870912. */
static Status bytes_read(int64_t *bytes, const char *name, const char *text)
{
    char *end;
    const char *units = "KMGT", *unit;
    double value = strtod(text, &end);
    if (*end && (unit = strchr(units, *end))) {
        for (const char *u = units; u <= unit; u++) value *= 1024;
        end++;
    }
    if (end == text || *end || !(value >= 1) || value > 1e18)
        return fail(BAD_OPTION, "%s %s: not a number of bytes; give it as 1000000, 512M or 8G", name, text);
    *bytes = (int64_t)value;
    return OK;
}

static bool ends(const char *path, const char *ending) { return path_ends(path, strlen(path), ending); }

/* The ending of --output selects the format, and --format selects it where the name has no known ending. A
 * name that contradicts --format is refused, because the next program to read the file would trust the
 * name. */
static Status output_read(CleanPlan *p, const Options *o)
{
    struct stat about;
    const char *output = o->clean_output, *slash = strrchr(output, '/');
    if (!strcmp(output, "-"))
        return fail(BAD_OPTION, "--output -: files come whole or not at all, so it has to be one; name it");
    bool said = options_typed_by_person(o, OPTION_clean_format);
    bool json = ends(output, ".jsonl") || ends(output, ".jsonl.zst") || ends(output, ".json") ||
                ends(output, ".json.zst");
    bool text = ends(output, ".txt") || ends(output, ".txt.zst");
    p->folder = !json && !text && (ends(output, "/") || (!stat(output, &about) && S_ISDIR(about.st_mode)));
    p->format = (said ? o->clean_format.value == CHOICE_clean_format_jsonl : json) ? CLEAN_JSON : CLEAN_TEXT;
    if (said && ((json && p->format == CLEAN_TEXT) || (text && p->format == CLEAN_JSON)))
        return fail(BAD_OPTION, "--output %s: its name says otherwise than --format %s; leave one out",
                    output, o->clean_format.word);
    if (ends(output, ".gz") || ends(output, ".bz2") || ends(output, ".xz"))
        return fail(BAD_OPTION, "--output %s: written plain or as .zst; call it so", output);
    if (!json && !text && !p->folder && !said) p->folder = !strchr(slash ? slash : output, '.');
    if (!json && !text && !p->folder && !said)
        return fail(BAD_OPTION, "--output %s: ends neither in .txt nor in .jsonl, with .zst or without, "
                    "and is not a directory; give a name that does, or --format txt or jsonl", output);
    p->shard_bytes = p->folder ? FOLDER_SHARD : 0;
    return o->shard_bytes ? bytes_read(&p->shard_bytes, "--shard-bytes", o->shard_bytes) : OK;
}

static Status language_read(CleanPlan *p, const Options *o)
{
    p->language  = o->lang;
    p->model     = o->lang_model;
    p->threshold = o->lang_threshold;
    if (o->lang && !o->lang_model)
        return fail(BAD_OPTION, "--lang %s needs a fastText model; give --lang-model FILE (lid.176.bin, "
                    "or one of your own)", o->lang);
    return OK;
}

static CHOICE_AS( CharsetEmoji, emoji_mode, emoji,
    TO( CHOICE_emoji_foreign, EMOJI_FOREIGN )
    TO( CHOICE_emoji_remove,  EMOJI_REMOVE )
    TO( CHOICE_emoji_keep,    EMOJI_KEEP ) )

static void charset_read(CleanPlan *p, const Options *o)
{
    p->charset = CHARSET_PLAN;
    p->charset.mode = CHARSET_NONE;
    if (!o->charset) return;
    p->charset = (CharsetPlan){
        .names = o->charset, .parenthesis = o->charset_parenthesis,
        .line = o->charset_line, .lines = o->charset_lines,
        .mode = o->charset_mode.value == CHOICE_charset_mode_strict ? CHARSET_STRICT : CHARSET_GRADED,
        .emoji = emoji_mode(o),
    };
}

static Status quality_read(CleanPlan *p, const Options *o)
{
    p->bad_words = o->bad_words;
    TRY(quality_plan(&p->quality, o->quality));
    if (o->quality_rules) TRY(quality_set(&p->quality, o->quality_rules));
    if (o->bad_words && o->quality_rules && strstr(o->quality_rules, "bad-words=off"))
        return fail(BAD_OPTION, "--bad-words %s, but --quality-rules bad-words=off: leave one of them out",
                    o->bad_words);
    /* Stop words are words of one language, and either option names it. */
    p->stop_words = o->lang ? o->lang : o->charset;
    if (!p->quality.on[QUALITY_STOP_WORDS] || p->stop_words) return OK;
    return fail(BAD_OPTION, "--quality %s: the rule stop-words needs a language; give --lang L or "
                "--charset L, or switch it off: --quality-rules stop-words=off", o->quality);
}

static CHOICE_AS( ExactUnit, exact_unit, dedup,
    TO( CHOICE_dedup_none,       EXACT_DOCUMENTS )
    TO( CHOICE_dedup_exact,      EXACT_DOCUMENTS )
    TO( CHOICE_dedup_lines,      EXACT_LINES )
    TO( CHOICE_dedup_paragraphs, EXACT_PARAGRAPHS ) )

static Status duplicates_read(CleanPlan *p, const Options *o)
{
    p->exact = o->dedup.value != CHOICE_dedup_none;
    p->parts = exact_unit(o);
    p->normalization  = exact_normalization_find(o->dedup_normalization);
    p->near_threshold = o->near_threshold;
    p->near_bands     = (int)o->near_bands;
    p->near_rows      = (int)o->near_rows;
    p->near_words     = (int)o->near_words;
    if (!p->normalization)
        return fail(BAD_OPTION, "--dedup-normalization %s is not known; give none, spaces, words or digits",
                    o->dedup_normalization);
    /* A MinHash signature has bands x rows permutations. */
    if (o->near_threshold > 0 && o->near_bands * o->near_rows > MINHASH_PERMUTATIONS_MOST)
        return fail(BAD_OPTION, "--near-bands %" PRId64 " x --near-rows %" PRId64 ": at most %d together",
                    o->near_bands, o->near_rows, MINHASH_PERMUTATIONS_MOST);
    return bytes_read(&p->memory, "--memory", o->memory);
}

/* The known names are those that OSCAR's pipeline (Ungoliant) writes. Another name would drop nothing,
 * silently, so that it is refused. */
static Status warnings_read(CleanPlan *p, const Options *o)
{
    static const char *const known[] = { "tiny", "short_sentences", "header", "footer", "noisy", "adult" };
    p->warning  = o->drop_warnings.text;
    p->warnings = o->drop_warnings.count;
    for (int i = 0; i < p->warnings; i++) {
        bool met = false;
        for (size_t k = 0; k < COUNT(known); k++) met |= !strcmp(p->warning[i], known[k]);
        if (!met)
            return fail(BAD_OPTION, "--drop-warnings %s is none of OSCAR's; they are tiny, short_sentences, "
                        "header, footer, noisy and adult", p->warning[i]);
    }
    return OK;
}

static Status records_read(CleanPlan *p, const Options *o)
{
    bool key = options_typed_by_person(o, OPTION_clean_json_key);
    if (key && o->clean_json_key.count > 1)
        return fail(BAD_OPTION, "--json-keys: one key has the text, and %d are named",
                    o->clean_json_key.count);
    if (o->document_most > INT32_MAX)
        return fail(BAD_OPTION, "--max-document-bytes %" PRId64 ": clean counts the words of a document up "
                    "to %d", o->document_most, INT32_MAX);
    p->ratio_most = o->ratio_most;
    p->texts = text_rules(o);
    p->record     = (RecordPlan){
        .text_key = key ? o->clean_json_key.text[0] : NULL, .bytes_most = o->document_most,
        .repair = repairs_utf8(o), .all_pages = o->all_pages,
    };
    p->contamination = (ContaminationPlan){ .path = o->decontaminate.text, .paths = o->decontaminate.count,
                                            .key = key ? o->clean_json_key.text[0] : "text",
                                            .words = (int)o->decontaminate_words };
    p->contamination_cuts = o->decontaminate_by.value == CHOICE_decontaminate_by_cut;
    return warnings_read(p, o);
}

static Status plan_make(CleanPlan *p, const Options *o)
{
    *p = (CleanPlan){
        .workers = o->workers ? (int)o->workers : team_cores(), .output = o->clean_output,
        .report = o->report, .dropped = o->dropped, .clusters = o->clusters, .pairs = o->pairs,
        .sample = o->clean_dry_run ? o->sample : 0, .restart = o->restart,
    };
    if (o->clean_dry_run && (o->dropped || o->clusters || o->pairs))
        return fail(BAD_OPTION, "--dry-run writes no --dropped, --clusters or --pairs; leave them out");
    TRY(records_read(p, o));
    TRY(language_read(p, o));
    charset_read(p, o);
    TRY(quality_read(p, o));
    TRY(duplicates_read(p, o));
    TRY(bytes_read(&p->part_bytes, "--part-bytes", o->part_bytes));
    return o->clean_dry_run ? OK : output_read(p, o);
}

/* ---- the command ---- */

/* The report as a page of the same name beside it. A report to a device such as /dev/stdout has no directory
 * in which a page could be. */
static Status page_write(const CleanPlan *p)
{
    char page[1100];
    struct stat about;
    if (!p->report || stat(p->report, &about) || !S_ISREG(about.st_mode)) return OK;
    report_page_path(page, sizeof page, p->report);
    return clean_report_write(page, p->report);
}

static void option_line(FILE *out, const Options *o, OptionIndex i)
{
    char value[4096];
    const TextList *list = option_field_of(o, i);
    fprintf(out, "--%s", option_rows[i].name);
    if (option_rows[i].kind != KIND_LIST) fprintf(out, " %s", options_value_text(value, sizeof value, o, i));
    else for (int w = 0; w < list->count; w++) fprintf(out, " %s", list->text[w]);
    fputc('\n', out);
}

/* The options that the output depends on, one a line; the caller frees the text. A stopped command resumes
 * only where the text is the same as before. NULL: no memory. */
static char *identity_text(const Options *o)
{
    char  *text  = NULL;
    size_t bytes = 0;
    FILE  *out   = open_memstream(&text, &bytes);
    for (int i = 0; out && i < OPTIONS; i++)
        if (option_taken((OptionIndex)i, FOR_CLEAN_RESULT) && o->source[i].kind != SOURCE_NOTHING)
            option_line(out, o, (OptionIndex)i);
    return out && fclose(out) == 0 ? text : NULL;
}

static Status inputs_clean(CleanPlan *p, const Options *o)
{
    Inputs inputs = { 0 };
    FormatRules rules = { input_block_kind(o), p->texts, p->record.repair };
    Status status = inputs_expand(&inputs, o->clean_input.text, o->clean_input.count, &rules);
    if (status == OK && inputs.paths > INT_MAX)
        status = fail(BAD_OPTION, "--input: %" PRId64 " files", inputs.paths);
    if (status == OK) status = standard_input_once((const char *const *)inputs.path, inputs.paths, 1);
    if (status == OK) status = inputs_check_skipped(&inputs, o->skip_unreadable);
    if (status == OK) inputs_log(&inputs, "clean");
    p->path  = (const char *const *)inputs.path;
    p->paths = (int)inputs.paths;
    p->kind  = inputs.kind;
    if (status == OK) status = clean_run(p);
    if (status == OK) status = page_write(p);
    inputs_free(&inputs);
    return status;
}

Status cmd_clean(Options *o)
{
    CleanPlan plan;
    TRY(options_derive(o));
    TRY(options_validate(o));
    TRY(plan_make(&plan, o));
    char *identity = identity_text(o);
    if (!identity) return fail(NO_MEMORY, "no memory for the options");
    plan.identity = identity;
    plan.stop = signals_catch(
        "\njotun: keeps what is done and stops; the same signal again leaves at once\n");
    Status status = inputs_clean(&plan, o);
    free(identity);
    return status;
}
