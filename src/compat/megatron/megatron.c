/* Options from scripts of Megatron-LM and its forks. Each argument is read as on a command line of jotun, by
 * itself, so that one that is refused does not hide the others. */
#include "compat/bash/launch_script.h"
#include "compat/import.h"
#include "compat/megatron/megatron.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "conf/conf.h"
#include "conf/schedule.h"
#include "conf/value.h"
#include "conf/wants.h"

enum { LINE = IMPORT_LINE, ARGUMENT_WORDS = 512 };

/* ---- arguments of a script ---- */

static bool is_name(const char *word)
{
    return word[0] == '-' && word[1] == '-' && word[2];
}

/* Whether a value follows this name; of names that are not known it is assumed. */
static bool wants_value(const Options *o, const char *word)
{
    if (strchr(word, '=')) return false;
    int            option = option_find(word + 2, o->command);
    unsigned       known  = dialects_understood(o->command);
    const Dialect *row    = option < 0 ? dialect_find(known, word + 2, "true") : NULL;
    if (row && row->verb == VERB_SAME) option = row->option;
    if (option >= 0) return option_rows[option].kind != KIND_FLAG;
    return !row || row->values > 0;
}

/* One argument's words. */
typedef struct {
    char *word[ARGUMENT_WORDS];
    int   count;
    bool refused;
} Argument;

/* Whether other values of this option change nothing that is computed: where files lie, what a run is called
 * in a log, and what is ignored. */
static bool is_place(const Options *o, const char *word)
{
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    if (!is_name(name)) return false;
    int option = option_find(name + 2, o->command);
    const Dialect *row = option < 0 ? dialect_find(dialects_understood(o->command), name + 2, NULL) : NULL;
    if (row && row->verb == VERB_SAME) option = row->option;
    bool label = option == OPTION_wandb_exp_name || option == OPTION_wandb_project ||
                 option == OPTION_wandb_entity;
    return option >= 0 ? option_rows[option].path || label : row && row->verb == VERB_IGNORED;
}

static const char *const give_value =
    "give the script what it lacks: jotun config --from-megatron NAME=VALUE... FILE ARGUMENT...";

/* A word that depends on what this machine answers is not taken, but for the place of a file: that of the
 * text with the names of variables that nobody set. */
static void add_value(Import *m, Options *o, Argument *a, const LaunchWord *w, const char *from)
{
    const char *text = w->text, *name = a->count ? a->word[0] : text;
    if (!strncmp(text, "\xe2\x80\x93", 3) || !strncmp(text, "\xe2\x80\x94", 3)) {
        import_refuse(m, o, from,
                      "%.200s begins with a dash of a word processor (U+201%c); options begin with --", text,
                      text[2] == '\x93' ? '3' : '4');
        a->refused = true;
        return;
    }
    if (!w->agreed && is_place(o, name)) {
        text = options_hold(o, w->unset);
        import_remark(m, o, from, "%s depends on %s and stands here as %s", name, w->decided_by, text);
    } else if (!w->agreed) {
        bool own = !a->count || (a->count == 1 && is_name(name) && wants_value(o, name)); /* of no list */
        import_refuse(m, o, from,
                      own ? "%s: '%.200s' depends on %s; put the value in its place, or %s"
                          : "behind %s the word '%.200s' depends on %s; put the value in its place, or %s",
                      name, text, w->decided_by, give_value);
        a->refused = true;
        return;
    }
    if (a->count < ARGUMENT_WORDS) a->word[a->count++] = (char *)(uintptr_t)text;
    else if (!a->refused) import_refuse(m, o, from, "an option has more than 512 words"), a->refused = true;
}

/* An empty variable behind the words of an option: what it lacks, or what is left out. */
static void say_what_is_empty(Import *m, Options *o, Argument *a, const LaunchWord *last, const char *from)
{
    if (!*last->lacks || !a->count) return;
    bool needed = a->count == 1 && is_name(a->word[0]) && wants_value(o, a->word[0]);
    if (!needed) {
        import_remark(m, o, from, "%s is empty and is left out", last->lacks);
    } else if (!a->refused) {
        import_refuse(m, o, from, "%s has no value: %s is empty; %s", a->word[0], last->lacks, give_value);
        a->refused = true;
    }
}

/* The words from `at` to the next name. Returns where that is. */
static int take_argument(Import *m, Options *o, const LaunchCall *s, const TextList *words, int at)
{
    Argument          a = {.count = 0};
    char              from[1100];
    const LaunchWord *name = &s->word[at];
    snprintf(from, sizeof from, "%s:%d", name->file, name->line);
    add_value(m, o, &a, name, from);
    for (at++; at < s->words && !is_name(s->word[at].text); at++) add_value(m, o, &a, &s->word[at], from);
    say_what_is_empty(m, o, &a, &s->word[at - 1], from);
    if (a.count && !a.refused) python_numbers(o, a.count, a.word);
    if (a.count && !a.refused && version1_take(m, o, words, from, a.count, a.word)) return at;
    if (a.count && !a.refused && beside_take(m, o, words, from, a.count, a.word)) return at;
    if (a.count && !a.refused && !is_name(a.word[0])) {
        import_refuse(m, o, from, "%.200s is no option; options begin with --", a.word[0]);
    } else if (a.count && !a.refused) import_take(m, o, from, a.count, a.word);
    return at;
}

/* ---- DeepSpeed's JSON, where the script writes it itself ---- */

/* The file that --deepspeed_config names, as it was when the program was started. It is compared with the
 * arguments, so that it is read after them. */
static const LaunchFile *deepspeed_file(const LaunchCall *s, const char *value)
{
    for (int i = 0; i < s->files; i++)
        if (!strcmp(s->made[i].path, value)) return &s->made[i];
    return NULL;
}

static bool deepspeed_config(Import *m, Options *o, const LaunchCall *s, int at, bool read)
{
    const char *word = s->word[at].text, *equals = strchr(word, '=');
    size_t      letters = equals ? (size_t)(equals - word) : strlen(word);
    if (letters != strlen("--deepspeed_config") || strncmp(word + 2, "deepspeed", 9) ||
        !strchr("-_", word[11]) || strncmp(word + 12, "config", 6))
        return false;
    const char *value = equals ? equals + 1 : at + 1 < s->words ? s->word[at + 1].text : "";
    const LaunchFile *file = deepspeed_file(s, value);
    char from[1100];
    if (!file || !read) return file != NULL;
    snprintf(from, sizeof from, "%s:%d", *file->file ? file->file : s->file,
             *file->file ? file->line : s->line);
    if (file->agreed) import_deepspeed(m, o, from, file->text);
    else {
        import_refuse(m, o, from, "%.100s: the JSON that is written depends on %s; %s", word,
                      file->decided_by, give_value);
    }
    return true;
}

/* A file of the disk, which the script may name from its own folder. */
static void read_deepspeed_file(Import *m, Options *o, const char *script)
{
    char        beside[1024 + 256];
    const char *path = o->json_config, *slash = strrchr(script, '/');
    const char *from = o->source[OPTION_json_config].from;
    if (!path) return;
    snprintf(beside, sizeof beside, "%.*s/%s", slash ? (int)(slash - script) : 1, slash ? script : ".", path);
    bool here = file_exists(path);
    if (here || (*path != '/' && file_exists(beside))) {
        if (import_deepspeed_file(m, o, here ? path : beside) != OK)
            import_refuse(m, o, from, "%s", fail_text());
    } else
        import_refuse(m, o, from, "%s %s is neither written by the script nor a file here or in its "
                      "folder; start from the folder in which it lies, or give its path",
                      o->source[OPTION_json_config].name, path);
}

/* ---- a script ---- */

static void refuse_instead(Import *m, Options *o, const LaunchCall *s)
{
    char from[1100];
    if (!s->instead) return;
    snprintf(from, sizeof from, "%s:%d", s->file, s->line);
    import_refuse(m, o, from,
                  "whether %.200s or %.300s is started first depends on %s; leave only one of them in the "
                  "script, or %s", s->program, s->instead, s->decided_by, give_value);
}

/* What starts the ranks is not an option of ours, but says how many there are. */
static void show_launcher(Import *m, Options *o, const LaunchCall *s)
{
    char line[1024] = "";
    if (!s->launchers) return;
    for (int i = 0; i < s->launchers; i++)
        message_add(line, sizeof line, "%s%s", i ? " " : "", s->launcher[i].text);
    char from[1100];
    snprintf(from, sizeof from, "%s:%d", s->file, s->line);
    import_remark(m, o, from, "%s is started by: %s; here mpirun or srun start the ranks of jotun train",
                  s->program, line);
}

/* Options that bash gives only where the machine answers otherwise than it did. */
static void refuse_others(Import *m, Options *o, const LaunchCall *s)
{
    char from[1100];
    for (int i = 0; i < s->others; i++) {
        const LaunchWord *w = &s->other[i];
        if (is_name(w->text) && is_place(o, w->text)) continue;
        snprintf(from, sizeof from, "%s:%d", w->file, w->line);
        import_refuse(m, o, from, "%.200s is given or not by %s; %s", w->text, w->decided_by, give_value);
    }
}

/* An option that Megatron-LM has by another one or by default, in the place of what was given. */
static void take_instead(Import *m, Options *o, OptionIndex option, const char *from, const char *value,
                         const char *why)
{
    char word[128], place[1100], *words[] = { word };
    snprintf(place, sizeof place, "%s", from);
    snprintf(word, sizeof word, "--%s=%s", option_rows[option].name, value);
    o->source[option].kind = SOURCE_DEFAULT; /* no person gave another value, so that no line says so */
    import_remark(m, o, place, "%s", why);
    import_take(m, o, place, 1, words);
}

/* NullTokenizer has one id more than --vocab-size: the last one ends a document. */
static void count_end_of_document(Import *m, Options *o)
{
    const OptionSource *tokenizer = &o->source[OPTION_tokenizer];
    char                ids[24], why[LINE];
    long long           given = o->vocabulary;
    if (strcmp(tokenizer->name, "--tokenizer-type") || !options_said(o, OPTION_vocabulary)) return;
    snprintf(ids, sizeof ids, "%lld", given + 1);
    snprintf(why, sizeof why,
             "NullTokenizer has one id more than --vocab-size, the end of a document; where a version "
             "counts it in (those with --null-tokenizer-eod-id), give jotun train --vocab-size %lld", given);
    take_instead(m, o, OPTION_vocabulary, o->source[OPTION_vocabulary].from, ids, why);
}

/* Without --eval-interval Megatron-LM evaluates every 1000 steps, which scripts rely on that say how long;
 * --eval-iters 0 is its way of saying never. */
static void name_eval_interval(Import *m, Options *o)
{
    static const OptionIndex both[] = {OPTION_eval_iters, OPTION_eval_interval};
    if (!options_said(o, OPTION_eval_iters)) return;
    if (!o->eval_iters) {
        import_remark(m, o, o->source[OPTION_eval_iters].from,
                      "--eval-iters 0 is no evaluation, the default here where --eval-interval is not given");
        for (int i = 0; i < 2; i++) {
            OptionSource *s    = &o->source[both[i]];
            SourceKind    kind = i ? SOURCE_NOTHING : SOURCE_DEFAULT;
            *s                 = option_source(kind, s->name, "", "");
        }
        o->eval_iters = 100, o->eval_interval = 0;
        return;
    }
    if (options_said(o, OPTION_eval_interval)) return;
    take_instead(m, o, OPTION_eval_interval, o->source[OPTION_eval_iters].from, "1000",
                 "--eval-interval is not given: Megatron-LM's default, 1000, is written");
}

/* What is said in another way is not written. */
static void leave_out(Import *m, Options *o, OptionIndex option, const char *why)
{
    OptionSource *source = &o->source[option];
    import_remark(m, o, source->from, "%s", why);
    *source = option_source(SOURCE_NOTHING, source->name, "", source->from);
}

/* Forks count a run in tokens beside its samples: it ends with the first of the two. Their scripts give more
 * samples than these tokens have, over which the learning rate decays unless its own length is given. */
static void take_one_duration(Import *m, Options *o)
{
    char count[24];
    bool both = options_said(o, OPTION_train_samples) && options_said(o, OPTION_train_tokens);
    if (!both) return;
    int64_t whole = options_token_samples(o), rest = o->train_tokens % o->sequence;
    if (whole < 0)
        return import_refuse(m, o, o->source[OPTION_train_tokens].from, "--train-tokens are other numbers of "
                             "samples with other batch sizes under a curriculum of lengths; give "
                             "--global-batch-size");
    if (whole >= o->train_samples) {
        bool same = whole == o->train_samples && rest == 0 && !o->length_warmup.count;
        leave_out(m, o, OPTION_train_tokens,
                  same ? "--train-tokens says the same as --train-samples and is left out"
                       : "--train-tokens is left out: the run ends before with --train-samples");
        o->train_tokens = 0;
        return;
    }
    snprintf(count, sizeof count, "%lld", (long long)o->train_samples);
    leave_out(m, o, OPTION_train_samples,
              "--train-samples is left out: the run ends before with --train-tokens");
    o->train_samples = 0;
    bool own = options_said(o, OPTION_lr_decay_iters) || options_said(o, OPTION_lr_decay_samples);
    if (!own && o->lr_decay_style.value != CHOICE_lr_decay_style_constant)
        take_instead(m, o, OPTION_lr_decay_samples, o->source[OPTION_train_samples].from, count,
                     "the learning rate decays over --train-samples where it has no length of its own");
}

/* Where lengths rise, a rate that follows tokens is no function of samples. A warm-up in steps before a decay
 * in tokens ends at the tokens of its steps (get_lr of the forks' OptimizerParamScheduler). */
static void count_tokens(Import *m, Options *o, const TextList *words)
{
    static const OptionIndex warmups[] = {OPTION_lr_warmup_iters, OPTION_lr_warmup_samples,
                                          OPTION_lr_warmup_fraction};
    bool decay = given_value(words, "--lr-decay-tokens"), warmup = given_value(words, "--lr-warmup-tokens"),
         other = false;
    if (!options_said(o, OPTION_length_warmup) || (!decay && !warmup)) return;
    const char *from = o->source[OPTION_length_warmup].from;
    for (size_t i = 0; i < COUNT(warmups); i++) other |= options_said(o, warmups[i]) && !warmup;
    if (!decay)
        import_refuse(m, o, from, "--lr-warmup-tokens before a decay in samples is not built under a "
                      "curriculum of lengths; give --lr-decay-tokens");
    else
        take_instead(m, o, OPTION_lr_unit, from, other ? "decay-tokens" : "tokens",
                     other ? "the learning rate decays by the tokens that count, and rises by samples"
                           : "the learning rate rises and decays by the tokens that count");
}

/* Megatron-LM takes the numbers out of --split, whatever is between and around them: '99,1,0' with its
 * quotation marks, 98/1/1. */
static void name_split(Import *m, Options *o)
{
    char   plain[128] = "";
    size_t at = 0;
    if (!options_said(o, OPTION_split) || !strpbrk(o->split, "'\"/;:")) return;
    while (o->split[at]) {
        size_t digits = strspn(o->split + at, "0123456789.");
        if (digits) message_item(plain, sizeof plain, ",", "%.*s", (int)digits, o->split + at);
        at += digits ? digits : 1;
    }
    if (*plain)
        take_instead(m, o, OPTION_split, o->source[OPTION_split].from, plain,
                     "--split is only its numbers in Megatron-LM, without what is around them");
}

/* Megatron-LM reads --num-query-groups, whose default is 1, only beside --group-query-attention. */
static void count_query_groups(Import *m, Options *o, const TextList *words)
{
    bool grouped = given_flag(words, "--group-query-attention"), said = options_said(o, OPTION_groups);
    if (said && !grouped && !strcmp(o->source[OPTION_groups].name, "--num-query-groups")) {
        leave_out(m, o, OPTION_groups, "--num-query-groups is left out: Megatron-LM reads it only beside "
                                       "--group-query-attention, without which attention is multi-head");
        o->groups = 0;
    }
    if (grouped && !said)
        take_instead(m, o, OPTION_groups, "", "1", "--group-query-attention without --num-query-groups has "
                                                   "Megatron-LM's default, one group");
}

/* How biases are fused with GELU says nothing of a model without GELU. */
static void leave_out_gelu(Import *m, Options *o)
{
    OptionSource *gelu   = &o->source[OPTION_gelu_approximate];
    OptionSource  unsaid = option_source(SOURCE_DEFAULT, "--gelu-approximate", "", "");
    bool          other  = o->swiglu || o->quick_geglu || o->squared_relu || o->relu;
    if (!other || strcmp(gelu->name, "--no-bias-gelu-fusion")) return;
    import_remark(m, o, gelu->from, "--no-bias-gelu-fusion is ignored: the activation is no GELU");
    gelu->kind    = SOURCE_NOTHING;
    Status status = options_set(o, OPTION_gelu_approximate, "tanh", unsaid);
    CHECK(status == OK, "%s", fail_text());
}

/* What does nothing without another option is refused by jotun train and ignored there; but not what says
 * what the model is, which may be meant otherwise. */
static void leave_out_idle(Import *m, Options *o)
{
    char wanted[256], why[LINE];
    for (int i = 0; i < OPTIONS; i++) {
        const OptionWants *unmet = option_asked(o, i) ? option_unmet(o, i) : NULL;
        if (!unmet || option_taken(i, FOR_SHAPE) || unmet->kind == WANTS_BUILT) continue;
        snprintf(why, sizeof why, "%s is left out: it does nothing %s %s", o->source[i].name,
                 unmet->kind == WANTS_ABSENT ? "beside" : "without",
                 option_wants_text(wanted, sizeof wanted, unmet));
        leave_out(m, o, i, why);
    }
}

/* The forks that run under DeepSpeed, and Megatron-LM before its core had data sets (end of 2023), order
 * samples otherwise than Megatron-core. --data-impl and --DDP-impl went with that change; parts of data sets
 * are BigScience's and BigCode's. */
static bool orders_as_forks(const Options *o, const TextList *words)
{
    if (options_said(o, OPTION_train_parts) || options_said(o, OPTION_train_parts_file)) return true;
    for (int i = 0; i < words->count; i++)
        if (!strncmp(words->text[i], "--deepspeed", strlen("--deepspeed"))) return true;
    return given_value(words, "--data-impl") || given_value(words, "--DDP-impl");
}

static Status name_placeholders(Import *m, Options *o, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    char *text = strndup((const char *)map.data, map.size);
    CHECK(text, "no memory for %s", path);
    placeholders_of_script(m, o, path, text);
    free(text);
    file_unmap(&map);
    return OK;
}

/* A list of arguments names no program. The files that are one program to Python come after -m too. */
static Status choose_call(const LaunchCall **out, const Options *o, const LaunchRecord *r)
{
    int          chosen = 0;
    const char **path   = calloc((size_t)r->calls, sizeof *path);
    CHECK(path, "no memory for %d programs", r->calls);
    for (int i = 0; i < r->calls; i++) path[i] = r->call[i].program;
    Status status = *path[0] ? program_choose(&chosen, r->calls, path, o->program_is_gpt) : OK;
    free(path);
    *out = &r->call[status == OK ? chosen : 0];
    return status;
}

/* An option with its values, from the word `at`. Returns where the next one is. */
static int option_text(char out[200], const LaunchCall *s, int at)
{
    int used = snprintf(out, 200, "%s", s->word[at++].text);
    for (; at < s->words && !is_name(s->word[at].text); at++)
        if (used < 200) used += snprintf(out + used, (size_t)(200 - used), " %s", s->word[at].text);
    return at;
}

static bool has_option(const LaunchCall *s, const char *text)
{
    char own[200];
    for (int at = 0; at < s->words;) {
        at = option_text(own, s, at);
        if (!strcmp(own, text)) return true;
    }
    return false;
}

/* A loop, or a script with several parts: which of its trainings this one is not. */
static void name_other_calls(Import *m, Options *o, const LaunchRecord *r, const LaunchCall *taken)
{
    enum { SHOWN = 4 };
    char others[1500] = "", from[1100], text[200];
    int  count = 0;
    for (const LaunchCall *s = r->call; s < r->call + r->calls; s++) {
        char options[300] = "";
        if (s == taken || strcmp(s->program, taken->program)) continue;
        for (int at = 0; at < s->words;) {
            at = option_text(text, s, at);
            if (!has_option(taken, text)) message_item(options, sizeof options, " ", "%s", text);
        }
        bool same = !*options && s->words == taken->words;
        if (count++ < SHOWN)
            message_item(others, sizeof others, ", ", "%s:%d with %s", s->file, s->line,
                         same ? "the same options" : *options ? options : "fewer options");
    }
    if (!count) return;
    snprintf(from, sizeof from, "%s:%d", taken->file, taken->line);
    import_remark(m, o, from,
                  "%s is started %d more time%s: %s%s; this is the first, and only its options are taken",
                  taken->program, count, count > 1 ? "s" : "", others, count > SHOWN ? " and others" : "");
}

static TextList all_words(Options *o, const LaunchCall *s)
{
    TextList words = {0};
    for (int i = 0; i < s->words; i++) text_list_add(&words, options_hold(o, s->word[i].text));
    return words;
}

static void take_call(Import *m, Options *o, const LaunchCall *s, const char *path)
{
    TextList words = all_words(o, s);
    refuse_instead(m, o, s);
    show_launcher(m, o, s);
    for (int i = 0; i < s->words;) {
        bool known  = deepspeed_config(m, o, s, i, false),
             equals = known && strchr(s->word[i].text, '=');
        i           = known ? i + 1 + !equals : take_argument(m, o, s, &words, i);
    }
    refuse_others(m, o, s);
    for (int i = 0; i < s->words; i++) deepspeed_config(m, o, s, i, true);
    read_deepspeed_file(m, o, path);
    count_end_of_document(m, o);
    name_eval_interval(m, o);
    if (options_said(o, OPTION_exit_interval) && !o->exit_interval)
        leave_out(m, o, OPTION_exit_interval, "--exit-interval 0 is never, the default");
    name_split(m, o);
    count_tokens(m, o, &words);
    take_one_duration(m, o);
    leave_out_gelu(m, o);
    count_query_groups(m, o, &words);
    version1_defaults(m, o, &words, path);
    beside_defaults(m, o, &words, path);
    required_check(m, o, path);
    import_gelu(m, o, path);
    import_data_order(m, o, path, orders_as_forks(o, &words) ? "megatron-forks" : "megatron");
    leave_out_idle(m, o);
    free(words.text);
}

/* Failures that were skipped, and what else the run reports, with their lines. */
static void show_notes(Import *m, Options *o, const LaunchRecord *r, const char *script)
{
    char from[1100];
    for (int i = 0; i < r->notes; i++) {
        const LaunchNote *n = &r->note[i];
        snprintf(from, sizeof from, "%s:%d", n->file, n->line);
        import_remark(m, o, *n->file ? from : script, "%s", n->text);
    }
}

static bool trains_gpt(const char *program)
{
    return program_of(program).kind == PROGRAM_TRAINS_GPT;
}

static bool trains_something(const char *program)
{
    return trains_gpt(program) || program_of(program).kind == PROGRAM_IS_OTHER;
}

static bool is_no_tool(const char *program)
{
    return program_of(program).kind != PROGRAM_IS_TOOL;
}

static Status take_script(Import *m, Options *o, const LaunchInput *in)
{
    LaunchRecord      r;
    const LaunchCall *call;
    struct stat about;                                  /* a folder has the record of a person's own run */
    if (stat(in->script, &about) || !S_ISDIR(about.st_mode)) TRY(name_placeholders(m, o, in->script));
    Status status = launch_record(&r, in);
    if (status == OK) show_notes(m, o, &r, in->script), status = choose_call(&call, o, &r);
    if (status == OK && r.untried)
        import_refuse(m, o, in->script,
                      "what this machine answers decides conditions of it, and not all could be run with "
                      "their other outcome, so that its values are uncertain; %s",
                      give_value);
    if (status == OK) name_other_calls(m, o, &r, call), take_call(m, o, call, in->script);
    launch_close(&r);
    return status;
}

Status import_megatron(Import *m, Options *o)
{
    const int count = o->from_script.count;
    const char **argument = calloc((size_t)count + 1, sizeof *argument),
               **variable = calloc((size_t)count + 1, sizeof *variable);
    LaunchInput in;
    CHECK(argument && variable, "no memory for %d words", count);
    Status status = launch_words(&in, argument, variable, count, o->from_script.text);
    in.wanted = o->program_is_gpt ? NULL : trains_gpt;
    in.trains = o->program_is_gpt ? is_no_tool : trains_something;
    if (status == OK) status = take_script(m, o, &in);
    free(argument);
    free(variable);
    return status;
}
