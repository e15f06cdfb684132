/* Options from DeepSpeed's JSON: its keys are names of a dialect, deepspeed.def. The command line and the
 * JSON have to say the same, since DeepSpeed takes some values from the one and some from the other. */
#include <jansson.h>
#include <string.h>
#include "base/log.h"
#include "conf/conf.h"
#include "conf/import/import.h"
#include "conf/rows.h"
#include "conf/value.h"

enum { JSON_BYTES = 64 << 10, KEY = 128, DEPTH = 8, OPTION_TEXT_MOST = 512, WHY = 1000 };

/* from: where the JSON is written, "run.sh:12" */
typedef struct { Import *m; Options *o; const char *from; json_t *whole; } Reading;

/* The value of "fp16.loss_scale"; NULL: there is none. */
static const json_t *value_at(const Reading *r, const char *path)
{
    char          key[KEY];
    const json_t *at = r->whole;
    for (; at && *path; path += strcspn(path, "."), path += *path == '.') {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(path, "."), path);
        at = json_object_get(at, key);
    }
    return at;
}

/* As it is typed after an option; "" of an object, a list and null. */
static const char *typed_text(char *out, size_t size, const json_t *value)
{
    out[0] = 0;
    if (json_is_boolean(value)) snprintf(out, size, "%s", json_is_true(value) ? "true" : "false");
    if (json_is_integer(value)) snprintf(out, size, "%lld", (long long)json_integer_value(value));
    if (json_is_string(value))  snprintf(out, size, "%s", json_string_value(value));
    if (json_is_real(value))    options_real_text(out, size, json_real_value(value));
    return out;
}

static bool is_auto(const json_t *value)
{
    return json_is_string(value) && !strcmp(json_string_value(value), "auto");
}

static void refuse(const Reading *r, const char *key, const char *why)
{
    char text[IMPORT_LINE];
    snprintf(text, sizeof text, "%s of DeepSpeed's JSON %s", key, why);
    import_refuse(r->m, r->o, r->from, text);
}

static void remark(const Reading *r, const char *key, const char *what)
{
    char text[IMPORT_LINE];
    snprintf(text, sizeof text, "%s of DeepSpeed's JSON %s", key, what);
    import_remark(r->m, r->o, r->from, text);
}

/* Whether "enabled" turns a group on; false where it is not said, as there. */
static bool is_on(const Reading *r, const char *group, OptionIndex option)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.enabled", group);
    const json_t *enabled = value_at(r, key);
    if (is_auto(enabled)) return *(const OptionFLAG *)option_field_of(r->o, option);
    return json_is_true(enabled);
}

/* ---- one key ---- */

/* Whether this value of a key is the one that its option has now. */
static Status compare_value(bool *same, const Reading *r, const char *key, const Dialect *row,
                            const char *value)
{
    Options now = { 0 };
    char    mine[OPTION_TEXT_MOST], theirs[OPTION_TEXT_MOST];
    OptionSource source = { SOURCE_CONFIG_FILE, key, value, r->from, row->convert };
    Status status = options_set(&now, row->option, row->verb == VERB_MEANS ? row->text : value, source);
    if (status == OK) {
        options_value_text(mine, sizeof mine, &now, row->option);
        options_value_text(theirs, sizeof theirs, r->o, row->option);
        *same = !strcmp(mine, theirs);
    }
    options_close(&now);
    return status;
}

/* It says what another option or key has said, or contradicts it. */
static bool said_already(const Reading *r, const char *key, const Dialect *row, const char *value)
{
    bool same;
    char typed[256], why[WHY];
    if (!options_typed_by_person(r->o, row->option)) return false;
    if (compare_value(&same, r, key, row, value) != OK) return false;  /* refused by whoever takes it */
    options_typed(typed, sizeof typed, r->o, row->option);
    snprintf(why, sizeof why, "is %s, and contradicts %s; make them equal, or leave one out", value, typed);
    if (!same) refuse(r, key, why);
    return true;
}

static void take_auto(const Reading *r, const char *key, const Dialect *row)
{
    char what[OPTION_TEXT_MOST], value[256];
    options_value_text(value, sizeof value, r->o, row->option);
    snprintf(what, sizeof what, "is auto: it is that of the command line, --%s%s%s",
             option_rows[row->option].name, *value ? " " : ", which is derived where it is not given", value);
    remark(r, key, what);
}

/* value: NULL of a list that is not taken apart */
static void take_value(Reading *r, const char *key, const json_t *json, const char *value)
{
    char word[KEY + OPTION_TEXT_MOST + 4], *words[] = { word };
    const Dialect *row = dialect_find(DIALECT_DSJSON, key, value);
    const Dialect *any = dialect_find(DIALECT_DSJSON, key, NULL);
    if (!row)
        return refuse(r, key, "is not known; leave it out, or give the option of jotun for it");
    if (is_auto(json) && any && any->option >= 0) return take_auto(r, key, any);
    if (row->option >= 0 && !value)
        return refuse(r, key, "has a value that is not understood; give a number, a text, true or false");
    if (row->option >= 0 && said_already(r, key, row, value)) return;
    if (row->option >= 0 && !strcmp(value, "false")) return remark(r, key, "is false, which is the default");
    unsigned understood = r->o->dialects;
    r->o->dialects      = DIALECT_DSJSON;
    snprintf(word, sizeof word, "--%s=%s", key, value ? value : "");
    import_take(r->m, r->o, r->from, 1, words);
    r->o->dialects = understood;
}

/* betas: [0.9, 0.95] is two options, which have rows of their own names. */
static void take_list(Reading *r, const char *key, json_t *list)
{
    char    inner[KEY + 24], text[OPTION_TEXT_MOST];
    json_t *element;
    size_t  i;
    snprintf(inner, sizeof inner, "%s.0", key);
    bool apart = dialect_find(DIALECT_DSJSON, inner, NULL) != NULL;
    if (is_auto(list) && apart) {
        for (i = 0; i < 2; i++) {
            snprintf(inner, sizeof inner, "%s.%zu", key, i);
            take_value(r, inner, list, "auto");
        }
        return;
    }
    if (!apart) return take_value(r, key, list, NULL);
    json_array_foreach(list, i, element) {
        snprintf(inner, sizeof inner, "%s.%zu", key, i);
        take_value(r, inner, element, typed_text(text, sizeof text, element));
    }
}

/* ---- groups ---- */

/* Why a group has no effect; NULL: it has. */
static const char *idle(const Reading *r, const char *group)
{
    static const struct { const char *group; OptionIndex option; } modes[] = {
        { "fp16", OPTION_fp16 }, { "bf16", OPTION_bf16 }, { "bfloat16", OPTION_bf16 },
    };
    char key[KEY];
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(group, modes[i].group))
            return is_on(r, group, modes[i].option) ? NULL : "has no effect without enabled: true";
    snprintf(key, sizeof key, "%s.enabled", group);
    if (json_is_false(value_at(r, key))) return "is off";
    bool asked = !strcmp(group, "wandb") || !strcmp(group, "tensorboard");
    return asked && !json_is_true(value_at(r, key)) ? "has no effect without enabled: true" : NULL;
}

static void take_object(Reading *r, const char *path, json_t *object, int depth)
{
    const char   *name, *off = *path ? idle(r, path) : NULL;
    json_t       *value;
    json_object_foreach(object, name, value) {
        char key[KEY], text[OPTION_TEXT_MOST];
        int  letters = snprintf(key, sizeof key, "%s%s%s", path, *path ? "." : "", name);
        bool enabled = !strcmp(name, "enabled") && dialect_find(DIALECT_DSJSON, key, NULL) &&
                       dialect_find(DIALECT_DSJSON, key, NULL)->option >= 0;
        if (letters >= (int)sizeof key || depth > DEPTH) {
            refuse(r, key, "is too long, or in too many objects; leave it out");
            continue;
        }
        snprintf(text, sizeof text, "%s.0", key);
        bool list = json_is_array(value) || (is_auto(value) && dialect_find(DIALECT_DSJSON, text, NULL));
        if (off && !enabled) remark(r, key, off);
        else if (json_is_null(value)) remark(r, key, "is null, which is as if it were not there");
        else if (json_is_object(value)) take_object(r, key, value, depth + 1);
        else if (list) take_list(r, key, value);
        else take_value(r, key, value, typed_text(text, sizeof text, value));
    }
}

/* ---- keys that are missing ---- */

/* A row ABSENT of deepspeed.def. */
typedef enum { COMMAND_LINES, NEITHERS } WhoseValue;
typedef struct { const char *key, *needs, *value; WhoseValue whose; } AbsentKey;
static const AbsentKey ABSENT_KEYS[] = {
#define ABSENT(key, needs, value, whose) { key, needs, value, whose },
#include "conf/dialects.def"
};
enum { ABSENT_ROWS = sizeof ABSENT_KEYS / sizeof ABSENT_KEYS[0] };

static const AbsentKey *absent_row(const Reading *r, const char *key);

/* Whether a key or group says anything, and that is not off, false or 0. */
static bool is_set(const Reading *r, const char *key)
{
    const json_t *value = value_at(r, key);
    if (!value || json_is_null(value)) return absent_row(r, key) != NULL;
    if (json_is_object(value)) return !idle(r, key);
    return !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0);
}

static bool needs_met(const Reading *r, const char *needs)
{
    char key[KEY];
    for (; *needs; needs += strcspn(needs, " "), needs += *needs == ' ') {
        bool without = *needs == '!';
        snprintf(key, sizeof key, "%.*s", (int)strcspn(needs, " ") - without, needs + without);
        if (is_set(r, key) == without) return false;
    }
    return true;
}

/* NULL: the key means nothing where it is missing, or the default here. */
static const AbsentKey *absent_row(const Reading *r, const char *key)
{
    for (int i = 0; i < ABSENT_ROWS; i++)
        if (!strcmp(ABSENT_KEYS[i].key, key) && needs_met(r, ABSENT_KEYS[i].needs)) return &ABSENT_KEYS[i];
    return NULL;
}

static void keep_typed(const Reading *r, const AbsentKey *absent, const Dialect *row)
{
    bool same;
    char typed[256], why[WHY];
    if (compare_value(&same, r, absent->key, row, absent->value) != OK || same) return;
    options_typed(typed, sizeof typed, r->o, row->option);
    snprintf(why, sizeof why, "is not given, which means %s there%s %s%s", absent->value,
             absent->whose == NEITHERS ? ", and contradicts" : ";", typed,
             absent->whose == NEITHERS ? "; give it" : " is taken");
    (absent->whose == NEITHERS ? refuse : remark)(r, absent->key, why);
}

static void take_absent(Reading *r, const AbsentKey *absent)
{
    char why[WHY];
    const json_t *given = value_at(r, absent->key);
    const Dialect *row = dialect_find(DIALECT_DSJSON, absent->key, absent->value);
    if ((given && !json_is_null(given)) || absent_row(r, absent->key) != absent) return;
    if (row->option >= 0 && options_typed_by_person(r->o, row->option)) return keep_typed(r, absent, row);
    snprintf(why, sizeof why, "is not given, which means %s there", absent->value);
    remark(r, absent->key, why);
    take_value(r, absent->key, NULL, absent->value);
}

/* ---- what several keys say together ---- */

/* train_batch_size is train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks: of
 * these the first two are options here. */
static void judge_accumulation(const Reading *r)
{
    const Options *o     = r->o;
    const json_t  *steps = value_at(r, "gradient_accumulation_steps");
    char why[WHY];
    if (!json_is_integer(steps)) return;
    long long count = json_integer_value(steps), micro = o->micro_batch;
    bool batch = o->source[OPTION_global_batch].kind != SOURCE_NOTHING;
    if (count < 1) refuse(r, "gradient_accumulation_steps", "is not above 0; give train_batch_size");
    else if (!batch) {
        snprintf(why, sizeof why, "is %lld and needs train_batch_size: %lld (--micro-batch-size) x %lld x "
                 "data-parallel ranks", count, micro, count);
        refuse(r, "gradient_accumulation_steps", why);
    } else if (micro < 1 || count > o->global_batch || o->global_batch % count ||
               o->global_batch / count % micro) {
        snprintf(why, sizeof why, "is %lld, and --global-batch-size %lld is no multiple of it times "
                 "--micro-batch-size %lld; the batch is micro-batch x steps x data-parallel ranks", count,
                 (long long)o->global_batch, micro);
        refuse(r, "gradient_accumulation_steps", why);
    } else {
        snprintf(why, sizeof why, "is %lld: with --global-batch-size %lld and --micro-batch-size %lld these "
                 "are %lld data-parallel ranks", count, (long long)o->global_batch, micro,
                 (long long)(o->global_batch / count / micro));
        remark(r, "gradient_accumulation_steps", why);
    }
}

void import_deepspeed(Import *m, Options *o, const char *from, const char *text)
{
    json_error_t error = { 0 };
    char    why[WHY];
    Reading r = { m, o, from, NULL };
    if (strlen(text) < JSON_BYTES) r.whole = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(r.whole)) {
        take_object(&r, "", r.whole, 0);
        for (int i = 0; i < ABSENT_ROWS; i++) take_absent(&r, &ABSENT_KEYS[i]);
        judge_accumulation(&r);
    } else {
        snprintf(why, sizeof why, "the JSON of --deepspeed_config is no object, or longer than 64 KiB%s%s; "
                 "mend it", *error.text ? ": " : "", error.text);
        import_refuse(m, o, from, why);
    }
    json_decref(r.whole);
}
