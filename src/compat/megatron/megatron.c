/* Options from scripts of Megatron-LM and its forks. Each argument is read as on a command line of jotun, by
 * itself, so that one that is refused does not hide the others. */
#include "compat/import.h"
#include "compat/megatron/beside.h"
#include "compat/megatron/programs.h"
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "conf/conf.h"
#include "conf/script/script.h"
#include "conf/value.h"

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
    const Dialect *row    = option < 0 ? dialect_find(dialects_understood(o->command), word + 2, NULL) : NULL;
    if (row && (row->verb == VERB_ALIAS || row->verb == VERB_OPTIONAL)) option = row->option;
    if (option >= 0) return option_rows[option].kind != KIND_FLAG;
    return !row || row->values > 0 || row->verb == VERB_REFUSE;
}

/* One argument's words, unknown parts resolved: a variable that nobody set is left out where no value is
 * needed, and has its own name where one is. */
typedef struct {
    char *word[ARGUMENT_WORDS];
    int   count;
    bool  refused;
} Argument;

static void add_value(Import *m, Options *o, Argument *a, const ScriptWord *w, const char *from)
{
    char        part[256], why[LINE];
    const char *text = w->text;
    if (script_unknown(text)) {
        script_unknown_part(part, sizeof part, text);
        bool variable = strncmp(part, "$(", 2) && strncmp(part, "${", 2) && *part == '$';
        if (script_unset(text) && !(a->count == 1 && wants_value(o, a->word[0]))) {
            snprintf(why, sizeof why, "%s is set nowhere and is left out", part);
            import_remark(m, o, from, why);
            return;
        }
        if (variable)
            snprintf(why, sizeof why,
                     "%s is set nowhere: its name is in the place of its value; set it in the environment",
                     part);
        else {
            snprintf(why, sizeof why, "%s: %s is not run or not understood; put its value in its place",
                     a->count ? a->word[0] : text, part);
            import_refuse(m, o, from, why);
            a->refused = true;
            return;
        }
        import_remark(m, o, from, why);
        size_t size  = strlen(text) + 1;
        char  *plain = malloc(size);
        CHECK(plain, "no memory for %zu bytes", size);
        text = options_hold(o, script_plain(plain, size, text));
        free(plain);
    }
    if (a->count < ARGUMENT_WORDS) a->word[a->count++] = (char *)(uintptr_t)text;
    else if (!a->refused) import_refuse(m, o, from, "an option has more than 512 words"), a->refused = true;
}

/* The words from `at` to the next name. Returns where that is. */
static int take_argument(Import *m, Options *o, const Script *s, const TextList *words, int at)
{
    Argument          a = {.count = 0};
    char              from[1100];
    const ScriptWord *name = &s->arguments.word[at];
    snprintf(from, sizeof from, "%s:%d", s->path, name->line);
    if (is_name(name->text) && script_unknown(name->text)) {
        char part[256], why[LINE];
        snprintf(why, sizeof why, "%s in an option's name is not known; put its value in its place",
                 script_unknown_part(part, sizeof part, name->text));
        import_refuse(m, o, from, why);
        return at + 1;
    }
    if (is_name(name->text)) a.word[a.count++] = (char *)(uintptr_t)name->text, at++;
    while (at < s->arguments.count && !is_name(s->arguments.word[at].text))
        add_value(m, o, &a, &s->arguments.word[at++], from);
    if (a.count && !a.refused) python_numbers(o, a.count, a.word);
    if (a.count && !a.refused && beside_take(m, o, words, from, a.count, a.word)) return at;
    if (a.count && !a.refused && !is_name(a.word[0])) {
        char why[LINE];
        snprintf(why, sizeof why, "%.200s is no option; options begin with --", a.word[0]);
        import_refuse(m, o, from, why);
    } else if (a.count && !a.refused) import_take(m, o, from, a.count, a.word);
    return at;
}

/* ---- DeepSpeed's JSON, where the script writes it itself ---- */

/* The file that --deepspeed_config names, if the script writes it. It is held against the arguments, so that
 * it is read after them. */
static const ScriptFile *deepspeed_file(const Script *s, const char *value)
{
    for (int i = 0; i < s->files; i++)
        if (!strcmp(s->file[i].name, value)) return &s->file[i];
    return NULL;
}

static bool deepspeed_config(Import *m, Options *o, const Script *s, int at, bool read)
{
    const char *word = s->arguments.word[at].text, *equals = strchr(word, '=');
    size_t      letters = equals ? (size_t)(equals - word) : strlen(word);
    if (letters != strlen("--deepspeed_config") || strncmp(word + 2, "deepspeed", 9) ||
        !strchr("-_", word[11]) || strncmp(word + 12, "config", 6))
        return false;
    const char       *value = equals                        ? equals + 1
                              : at + 1 < s->arguments.count ? s->arguments.word[at + 1].text
                                                            : "";
    const ScriptFile *file  = deepspeed_file(s, value);
    char              from[1100], *plain;
    if (!file) return false;
    if (!read) return true;
    snprintf(from, sizeof from, "%s:%d", s->path, file->line);
    size_t size = strlen(file->text) + 1;
    CHECK((plain = malloc(size)), "no memory for %zu bytes", size);
    import_deepspeed(m, o, from, script_plain(plain, size, file->text));
    free(plain);
    return true;
}

/* A file of the disk, which the script may name from its own folder. */
static void read_deepspeed_file(Import *m, Options *o, const Script *s)
{
    char        beside[1024 + 256], why[LINE];
    const char *path = o->json_config, *slash = strrchr(s->path, '/');
    const char *from = o->source[OPTION_json_config].from;
    if (!path) return;
    snprintf(beside, sizeof beside, "%.*s/%s", slash ? (int)(slash - s->path) : 1, slash ? s->path : ".",
             path);
    bool here = file_exists(path);
    if (here || (*path != '/' && file_exists(beside))) {
        if (import_deepspeed_file(m, o, here ? path : beside) == OK) return;
        snprintf(why, sizeof why, "%s", fail_text());
    } else
        snprintf(why, sizeof why, "%s %s is neither written by the script nor a file here or in its folder; "
                 "start from the folder in which it lies, or give its path",
                 o->source[OPTION_json_config].name, path);
    import_refuse(m, o, from, why);
}

/* ---- a script ---- */

/* What starts the ranks is not an option of ours, but says how many there are. */
static void show_launcher(Import *m, Options *o, const Script *s)
{
    char   line[1024] = "", part[256];
    size_t used       = 0;
    if (!s->launcher.count) return;
    for (int i = 0; i < s->launcher.count && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", i ? " " : "",
                                 script_plain(part, sizeof part, s->launcher.word[i].text));
    char text[LINE], from[1100];
    snprintf(text, sizeof text, "%s is started by: %s; here mpirun or srun start the ranks of jotun train",
             s->program, line);
    snprintf(from, sizeof from, "%s:%d", s->path, s->launcher.word[0].line);
    import_remark(m, o, from, text);
}

/* An option that Megatron-LM has by another one or by default, in the place of what was given. */
static void take_instead(Import *m, Options *o, OptionIndex option, const char *from, const char *value,
                         const char *why)
{
    char word[128], place[1100], *words[] = { word };
    snprintf(place, sizeof place, "%s", from);
    snprintf(word, sizeof word, "--%s=%s", option_rows[option].name, value);
    o->source[option].kind = SOURCE_DEFAULT; /* no person gave another value, so that no line says so */
    import_remark(m, o, place, why);
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
    import_remark(m, o, source->from, why);
    *source = option_source(SOURCE_NOTHING, source->name, "", source->from);
}

/* Forks count a run in tokens beside its samples: it ends with the first of the two. Their scripts give more
 * samples than these tokens have, over which the learning rate decays unless its own length is given. */
static void take_one_duration(Import *m, Options *o)
{
    char count[24];
    bool both = options_said(o, OPTION_train_samples) && options_said(o, OPTION_train_tokens);
    if (!both) return;
    int64_t whole = o->train_tokens / o->sequence, rest = o->train_tokens % o->sequence;
    if (whole >= o->train_samples) {
        bool same = whole == o->train_samples && rest == 0;
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

/* Megatron-LM takes the numbers out of --split, whatever is between and around them: '99,1,0' with its
 * quotation marks, 98/1/1. */
static void name_split(Import *m, Options *o)
{
    char   plain[128] = "";
    size_t used = 0, at = 0;
    if (!options_said(o, OPTION_split) || !strpbrk(o->split, "'\"/;:")) return;
    while (o->split[at]) {
        size_t digits = strspn(o->split + at, "0123456789.");
        if (digits && used + digits + 2 < sizeof plain)
            used += (size_t)snprintf(plain + used, sizeof plain - used, "%s%.*s", used ? "," : "",
                                     (int)digits, o->split + at);
        at += digits ? digits : 1;
    }
    if (used)
        take_instead(m, o, OPTION_split, o->source[OPTION_split].from, plain,
                     "--split is its numbers alone in Megatron-LM, without what is around them");
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

/* The forks that run under DeepSpeed, and Megatron-LM before its core had data sets (end of 2023), order
 * samples otherwise than Megatron-core. --data-impl and --DDP-impl went with that change. */
static bool orders_as_forks(const TextList *words)
{
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

/* A list of arguments names no program. */
static Status choose_program(const Options *o, const Script *s)
{
    int         chosen;
    const char *path[] = {s->program};
    return *s->program ? program_choose(&chosen, 1, path, o->program_is_gpt) : OK;
}

static TextList all_words(Options *o, const Script *s)
{
    TextList words = {0};
    for (int i = 0; i < s->arguments.count; i++) {
        char *plain = strdup(s->arguments.word[i].text);
        CHECK(plain, "no memory for a word");
        script_plain(plain, strlen(plain) + 1, s->arguments.word[i].text);
        text_list_add(&words, options_hold(o, plain));
        free(plain);
    }
    return words;
}

Status import_megatron(Import *m, Options *o)
{
    Script s;
    char   from[1100];
    TRY(script_read(&s, o->from_script.text[0], o->from_script.count - 1, o->from_script.text + 1));
    TRY(choose_program(o, &s));
    TextList words = all_words(o, &s);
    TRY(name_placeholders(m, o, s.path));
    show_launcher(m, o, &s);
    for (int i = 0; i < s.notes.count; i++) {
        snprintf(from, sizeof from, "%s:%d", s.path, s.notes.word[i].line);
        import_remark(m, o, from, s.notes.word[i].text);
    }
    for (int i = 0; i < s.arguments.count;) {
        bool known  = deepspeed_config(m, o, &s, i, false),
             equals = known && strchr(s.arguments.word[i].text, '=');
        i           = known ? i + 1 + !equals : take_argument(m, o, &s, &words, i);
    }
    for (int i = 0; i < s.arguments.count; i++) deepspeed_config(m, o, &s, i, true);
    read_deepspeed_file(m, o, &s);
    count_end_of_document(m, o);
    name_eval_interval(m, o);
    name_split(m, o);
    take_one_duration(m, o);
    leave_out_gelu(m, o);
    beside_defaults(m, o, &words, s.path);
    required_check(m, o, s.path);
    import_gelu(m, o, s.path);
    import_data_order(m, o, s.path, orders_as_forks(&words) ? "megatron-deepspeed" : "megatron");
    free(words.text);
    script_close(&s);
    return OK;
}
