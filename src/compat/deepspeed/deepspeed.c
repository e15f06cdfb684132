/* Options from DeepSpeed's JSON: its keys are names of a dialect, deepspeed.def. The command line and the
 * JSON have to say the same, since DeepSpeed takes some values from the one and some from the other. */
#include "compat/deepspeed/deepspeed.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "conf/conf.h"
#include "conf/value.h"

enum { DEPTH = 8 };

const json_t *deepspeed_at(const DeepSpeed *d, const char *key)
{
    char          name[DEEPSPEED_KEY];
    const json_t *at = d->whole;
    for (; at && *key; key += strcspn(key, "."), key += *key == '.') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(key, "."), key);
        at = json_object_get(at, name);
    }
    return json_is_null(at) ? NULL : at;
}

const char *deepspeed_text(char *out, size_t size, const json_t *value)
{
    out[0] = 0;
    if (json_is_boolean(value)) snprintf(out, size, "%s", json_is_true(value) ? "true" : "false");
    if (json_is_integer(value)) snprintf(out, size, "%lld", (long long)json_integer_value(value));
    if (json_is_string(value))  snprintf(out, size, "%s", json_string_value(value));
    if (json_is_real(value))    options_real_text(out, size, json_real_value(value));
    return out;
}

bool deepspeed_is_auto(const json_t *value)
{
    return json_is_string(value) && !strcmp(json_string_value(value), "auto");
}

/* ---- what is said ---- */

void deepspeed_refuse(DeepSpeed *d, const char *key, const char *format, ...)
{
    char    why[DEEPSPEED_WHY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    import_refuse(d->m, d->o, d->from, "%s of DeepSpeed's JSON %s", key, why);
}

static void note_write(DeepSpeed *d, int n)
{
    import_remark(d->m, d->o, d->from, "%s of DeepSpeed's JSON %s %s", d->note[n].keys,
                  d->note[n].count == 1 ? "is" : "are", d->note[n].what);
    d->note[n].count = 0;
}

void deepspeed_note(DeepSpeed *d, const char *key, const char *what)
{
    int n = 0;
    while (n < d->notes && strcmp(d->note[n].what, what) != 0) n++;
    if (n == DEEPSPEED_NOTES) note_write(d, n = 0), d->note[n].what = options_hold(d->o, what);
    if (n == d->notes) d->note[d->notes++].what = options_hold(d->o, what), d->note[n].count = 0;
    char *keys = d->note[n].keys;
    if (!d->note[n].count) *keys = 0;
    if (!message_item(keys, DEEPSPEED_WHY, ", ", "%s", key)) {
        note_write(d, n);
        snprintf(keys, DEEPSPEED_WHY, "%s", key);
    }
    d->note[n].count++;
}

/* "ignored: it is the default" */
static void note_ignored(DeepSpeed *d, const char *key, const char *why)
{
    char what[DEEPSPEED_WHY];
    snprintf(what, sizeof what, "ignored: %s", why);
    deepspeed_note(d, key, what);
}

/* ---- one key ---- */

/* Whether this value is the one that the option has now. */
static Status same_value(bool *same, const DeepSpeed *d, OptionIndex option, const char *value,
                         OptionSource source)
{
    Options now = { 0 };
    char    mine[DEEPSPEED_TEXT], theirs[DEEPSPEED_TEXT];
    Status  status = options_set(&now, option, value, source);
    if (status == OK && option_rows[option].kind == KIND_REAL) {       /* products of keys are rounded */
        double a = *(const OptionREAL *)option_field_of(&now, option);
        double b = *(const OptionREAL *)option_field_of(d->o, option);
        *same = fabs(a - b) <= 1e-12 * fabs(b);
    } else if (status == OK) {
        options_value_text(mine, sizeof mine, &now, option);
        options_value_text(theirs, sizeof theirs, d->o, option);
        *same = !strcmp(mine, theirs);
    }
    options_close(&now);
    return status;
}

static OptionSource source_of(const DeepSpeed *d, const char *key, const char *value, Conversion convert)
{
    return (OptionSource){ SOURCE_CONFIG_FILE, key, value, d->from, convert, false };
}

/* What has been said already, on the command line, in the environment, in a file or by another key. */
static void hold_against(DeepSpeed *d, const char *key, OptionIndex option, Conversion convert,
                         const char *value)
{
    bool same;
    char typed[256], why[DEEPSPEED_WHY], text[DEEPSPEED_TEXT];
    if (same_value(&same, d, option, value, source_of(d, key, value, convert)) != OK) {
        return deepspeed_refuse(d, key, "cannot be taken: %s", fail_text());
    }
    if (same) {
        d->m->taken++;
        return;
    }
    const json_t *given = deepspeed_at(d, key);
    bool itself = !strcmp(deepspeed_text(text, sizeof text, given), value);
    options_typed(typed, sizeof typed, d->o, option);
    if (itself) snprintf(why, sizeof why, "is %s", value);
    else        snprintf(why, sizeof why, "means --%s %s", option_rows[option].name, value);
    message_add(why, sizeof why, ", and contradicts %s; make them equal, or leave one out", typed);
    deepspeed_refuse(d, key, "%s", why);
}

void deepspeed_set(DeepSpeed *d, const char *key, OptionIndex option, Conversion convert, const char *value)
{
    if (options_typed_by_person(d->o, option)) return hold_against(d, key, option, convert, value);
    if (option_rows[option].kind == KIND_FLAG && !strcmp(value, "false"))
        return note_ignored(d, key, "false is the default");
    Status status = options_set(d->o, option, value, source_of(d, key, value, convert));
    if (status == OK) d->m->taken++;
    else import_refuse(d->m, d->o, d->from, "%s", fail_text());
}

/* Hugging Face's trainer puts values of its own arguments in the place of "auto". */
static void note_auto(DeepSpeed *d, const char *key, int option)
{
    char entry[DEEPSPEED_KEY + DEEPSPEED_TEXT], value[256];
    options_value_text(value, sizeof value, d->o, (OptionIndex)option);
    snprintf(entry, sizeof entry, "%s (--%s%s%s)", key, option_rows[option].name, *value ? " " : ", derived",
             value);
    deepspeed_note(d, entry, "auto: the value is that of the option");
}

/* Options that have a value as well where a key has this one, unless somebody gave them. */
static const struct { const char *key, *given; OptionIndex option; const char *value; } ALSO[] = {
    { "optimizer.type", "Muon", OPTION_muon_nesterov, "true" },
    { "optimizer.type", "Muon", OPTION_muon_coefficient_type, "simple" },
    { "optimizer.type", "Muon", OPTION_muon_scale_mode, "shape_scaling" },
    { "scheduler.type", "WarmupLR WarmupDecayLR WarmupCosineLR", OPTION_lr_rule, "delayed" },
};

static void take_also(DeepSpeed *d, const char *key, const char *value)
{
    for (size_t i = 0; value && i < COUNT(ALSO); i++)
        if (!strcmp(ALSO[i].key, key) && name_in(ALSO[i].given, value, strcasecmp) &&
            !options_typed_by_person(d->o, ALSO[i].option))
            deepspeed_set(d, key, ALSO[i].option, CONVERT_NONE, ALSO[i].value);
}

/* ---- needs of a row ---- */

/* What DeepSpeed takes where a key is missing, if older versions or options here have another default. Of
 * several rows of a key the first whose needs are met counts.
 *   needs   keys and groups, separated by blanks, that have to be given or to have a value here, and not to
 *           be off, false or 0; one after a ! must not; KEY=WORD,WORD has to have one of these values
 *   whose   the value that counts where the command line has another one. NEITHERS: DeepSpeed replaces the
 *           command line's schedule by that of the JSON, so another one is refused
 *   before  what older versions take, for the line in the log */
typedef enum { COMMAND_LINES, NEITHERS } WhoseValue;
typedef struct { const char *key, *needs, *value; WhoseValue whose; const char *before; } AbsentKey;
#define OF_OPTIMIZER "optimizer.params."
#define OF_SCHEDULER "scheduler.params."
#define OF_WARMUP    "scheduler.type=WarmupLR,WarmupDecayLR,WarmupCosineLR"
static const AbsentKey ABSENT[] = {
    { "gradient_clipping", "", "1", COMMAND_LINES, ", and 0 before 0.19.4" },
    { OF_OPTIMIZER "lr", "optimizer.type=Adafactor !scheduler.type", "0.01", COMMAND_LINES, "" },
    { OF_OPTIMIZER "lr", "optimizer.type !optimizer.type=Muon !scheduler.type", "0.001", COMMAND_LINES, "" },
    { OF_OPTIMIZER "lr", "optimizer.type scheduler.type=WarmupCosineLR", "0.001", COMMAND_LINES, "" },
    { OF_OPTIMIZER "betas.0", "optimizer.type=Lion !optimizer.params.betas", "0.9", COMMAND_LINES, "" },
    { OF_OPTIMIZER "betas.1", "optimizer.type=Lion !optimizer.params.betas", "0.99", COMMAND_LINES, "" },
    { OF_OPTIMIZER "weight_decay", "optimizer.type optimizer.params.torch_adam", "0.01", COMMAND_LINES, "" },
    { OF_OPTIMIZER "weight_decay", "optimizer.type", "0", COMMAND_LINES, "" },
    { OF_OPTIMIZER "momentum", "optimizer.type=SGD", "0", COMMAND_LINES, "" },
    { OF_OPTIMIZER "momentum", "optimizer.type=Muon", "0.95", COMMAND_LINES, "" },
    { OF_OPTIMIZER "betas.1", "optimizer.type=Muon !optimizer.params.betas", "0.95", COMMAND_LINES, "" },
    { OF_OPTIMIZER "eps", "optimizer.type=Muon", "1e-10", COMMAND_LINES, "" },
    { OF_OPTIMIZER "muon_lr", "optimizer.type=Muon !optimizer.params.lr", "0.02", COMMAND_LINES, "" },
    { OF_SCHEDULER "warmup_max_lr", "scheduler.type=WarmupDecayLR", "0.001", NEITHERS, "" },
    { OF_SCHEDULER "warmup_max_lr", "scheduler.type=WarmupLR !optimizer.params.lr", "0.001", NEITHERS, "" },
    { OF_SCHEDULER "warmup_num_steps", OF_WARMUP, "1000", NEITHERS, "" },
    { OF_SCHEDULER "warmup_type", OF_WARMUP, "log", COMMAND_LINES, "" },
    { "fp16.initial_scale_power", "fp16 !fp16.loss_scale", "16", COMMAND_LINES, "" },
    { "wandb.project", "wandb", "deepspeed", COMMAND_LINES, "" },
};
enum { ABSENT_ROWS = COUNT(ABSENT) };

/* Where the needs are met, the key is another option than that of its row, */
static const struct { const char *key, *needs; OptionIndex option; } INSTEAD[] = {
    { OF_OPTIMIZER "betas.0", "optimizer.type=Lion,FusedLion", OPTION_lion_beta1 },
    { OF_OPTIMIZER "betas.1", "optimizer.type=Lion,FusedLion", OPTION_lion_beta2 },
    { OF_OPTIMIZER "momentum", "optimizer.type=Muon", OPTION_muon_momentum },
};
/* or it has no effect. */
static const struct { const char *key, *needs, *why; } VOID[] = {
    { OF_OPTIMIZER "adam_w_mode", "optimizer.type=AdamW", "AdamW is decoupled in any case" },
    { OF_OPTIMIZER "bias_correction", "optimizer.type=OneBitLamb",
      "OneBitLamb corrects no moments in any case" },
};

static const AbsentKey *absent_row(const DeepSpeed *d, const char *key);
static const char *off(const DeepSpeed *d, const char *group);

/* Whether a key or group says anything, and that is not off, false or 0. */
static bool is_set(const DeepSpeed *d, const char *key)
{
    const json_t *value = deepspeed_at(d, key);
    if (!value) return absent_row(d, key) != NULL;
    if (json_is_object(value)) return !off(d, key);
    return !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0);
}

/* One word of needs: "fp16", "!fp16.loss_scale" or "optimizer.type=Lion,FusedLion". */
static bool need_met(const DeepSpeed *d, const char *need)
{
    char        text[DEEPSPEED_TEXT], key[DEEPSPEED_KEY];
    const char *equals = strchr(need, '=');
    if (*need == '!') return !need_met(d, need + 1);
    if (!equals) return is_set(d, need);
    snprintf(key, sizeof key, "%.*s", (int)(equals - need), need);
    deepspeed_text(text, sizeof text, deepspeed_at(d, key));
    for (const char *word = equals + 1; *word; word += strcspn(word, ","), word += *word == ',')
        if (strlen(text) == strcspn(word, ",") && !strncasecmp(text, word, strlen(text))) return true;
    return false;
}

static bool needs_met(const DeepSpeed *d, const char *needs)
{
    char need[DEEPSPEED_KEY];
    while (name_next(need, sizeof need, &needs))
        if (!need_met(d, need)) return false;
    return true;
}

/* Why other keys leave this one without effect; NULL: they do not. */
static const char *void_beside(const DeepSpeed *d, const char *key)
{
    for (size_t i = 0; i < COUNT(VOID); i++)
        if (!strcmp(VOID[i].key, key) && needs_met(d, VOID[i].needs)) return VOID[i].why;
    return NULL;
}

/* The option of a row ALIAS, which may be another one beside other keys. */
static OptionIndex option_of(const DeepSpeed *d, const Dialect *row)
{
    for (size_t i = 0; i < COUNT(INSTEAD); i++)
        if (!strcmp(INSTEAD[i].key, row->name) && needs_met(d, INSTEAD[i].needs))
            return INSTEAD[i].option;
    return (OptionIndex)row->option;
}

/* ---- names that are not known ---- */

/* Whether a value says that something is off: false, a group with enabled: false, or one of such values. */
static bool is_off(const json_t *value)
{
    const char *name;
    json_t     *member;
    if (!json_is_object(value)) return json_is_false(value);
    if (json_is_false(json_object_get(value, "enabled"))) return true;
    json_object_foreach((json_t *)value, name, member)
        if (!is_off(member)) return false;
    return json_object_size(value) > 0;
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_array(value) && !json_array_size(value)) ||
           (json_is_object(value) && !json_object_size(value));
}

/* DeepSpeed passes over names that it does not know, but for parameters of optimizers and schedulers. One
 * whose value asks for nothing is ignored here. */
static void refuse_unknown(DeepSpeed *d, const char *key, const json_t *value)
{
    char name[DEEPSPEED_KEY];
    bool parameter = !strncmp(key, "optimizer.", 10) || !strncmp(key, "scheduler.", 10);
    deepspeed_nearest(name, sizeof name, key);
    if (!*name && !parameter && (is_off(value) || is_empty(value)))
        return note_ignored(d, key, "it is not known, and its value asks for nothing");
    if (*name) deepspeed_refuse(d, key, "is not known; did you mean %s?", name);
    else deepspeed_refuse(d, key, "is not known; leave it out, or give the option of jotun for it");
}

/* ---- keys, lists and groups ---- */

/* value: NULL of a list or group that is not taken apart */
static void take_value(DeepSpeed *d, const char *key, const json_t *json, const char *value)
{
    const Dialect *row = dialect_find(DIALECT_DSJSON, key, value);
    const Dialect *any = dialect_find(DIALECT_DSJSON, key, NULL);
    if (!row && !json_is_object(json) && deepspeed_group(key))
        return deepspeed_refuse(d, key, "is a group of keys; give an object, { \"key\": value, ... }");
    if (!row) return refuse_unknown(d, key, json);
    if (deepspeed_is_auto(json) && any && any->option >= 0) return note_auto(d, key, option_of(d, any));
    if (row->option >= 0 && !value)
        return deepspeed_refuse(d, key, "has a value that is not understood; give a number, a text, true or "
                                "false");
    if (row->option == OPTION_lr && !strncmp(key, "optimizer", 9) && deepspeed_scheduler_has_rate(d))
        return note_ignored(d, key, "the learning rate of the scheduler replaces it, as there");
    const char *without = void_beside(d, key);
    if (without) return note_ignored(d, key, without);
    switch (row->verb) {
    case VERB_SAME: deepspeed_set(d, key, option_of(d, row), row->convert, value); break;
    case VERB_MEANS: deepspeed_set(d, key, (OptionIndex)row->option, CONVERT_NONE, row->text); break;
    case VERB_WITH:
        deepspeed_set(d, key, (OptionIndex)row->option, CONVERT_NONE, value);
        deepspeed_set(d, key, (OptionIndex)row->values, CONVERT_NONE, row->text);
        break;
    case VERB_IGNORED: note_ignored(d, key, row->text); break;
    case VERB_REFUSE:
        if (deepspeed_is_auto(json)) return note_ignored(d, key, "auto is what is built");
        if (json_is_object(json) && is_off(json))
            return note_ignored(d, key, "it is off");
        bool said = value && *value;
        deepspeed_refuse(d, key, "is %.100s%srefused: %s; %s", said ? value : "", said ? ", " : "", row->text,
                         row->cure);
        break;
    case VERB_HELD:
    case VERB_SUGGEST:
    case VERB_MISSING: break;
    }
    take_also(d, key, value);
}

/* betas: [0.9, 0.95] is two options, which have rows of their own names. */
static void take_list(DeepSpeed *d, const char *key, json_t *list)
{
    char    inner[DEEPSPEED_KEY + 24], text[DEEPSPEED_TEXT];
    json_t *element;
    size_t  i;
    snprintf(inner, sizeof inner, "%s.0", key);
    const Dialect *first = dialect_find(DIALECT_DSJSON, inner, NULL);
    bool apart = first && first->option >= 0;
    if (!apart) return take_value(d, key, list, NULL);
    if (deepspeed_is_auto(list)) {
        for (i = 0; i < 2; i++) {
            snprintf(inner, sizeof inner, "%s.%zu", key, i);
            take_value(d, inner, list, "auto");
        }
        return;
    }
    json_array_foreach(list, i, element) {
        snprintf(inner, sizeof inner, "%s.%zu", key, i);
        take_value(d, inner, element, deepspeed_text(text, sizeof text, element));
    }
}

/* Why a group says nothing; NULL: it does. A group that can be enabled is off where that is not said. */
static const char *off(const DeepSpeed *d, const char *group)
{
    char key[DEEPSPEED_KEY];
    snprintf(key, sizeof key, "%s.enabled", group);
    const json_t  *enabled = deepspeed_at(d, key);
    const Dialect *row     = dialect_find(DIALECT_DSJSON, key, NULL);
    if (!row || !strstr(row->name, key)) return NULL;                  /* none, or one that ends in a star */
    if (deepspeed_is_auto(enabled) && row->option >= 0)
        return *(const OptionFLAG *)option_field_of(d->o, (OptionIndex)row->option)
                   ? NULL : "it has no effect without enabled: true";
    if (json_is_true(enabled)) return NULL;
    return enabled ? "it is off" : "it has no effect without enabled: true";
}

/* The parameters of an optimizer or scheduler that is refused say nothing more. */
static bool type_refused(const DeepSpeed *d, const char *key)
{
    char        type[DEEPSPEED_KEY], text[DEEPSPEED_TEXT];
    const char *end = strrchr(key, '.');
    if (!end || strcmp(end, ".params") != 0) return false;
    snprintf(type, sizeof type, "%.*s.type", (int)(end - key), key);
    const json_t  *value = deepspeed_at(d, type);
    const Dialect *row   = dialect_find(DIALECT_DSJSON, type, deepspeed_text(text, sizeof text, value));
    return value && row && row->verb == VERB_REFUSE;
}

/* A group is off where its "enabled" is misspelt, too. */
static void refuse_unknown_names(DeepSpeed *d, const char *group, json_t *object)
{
    const char *name;
    json_t     *value;
    json_object_foreach(object, name, value) {
        char key[DEEPSPEED_KEY], text[DEEPSPEED_TEXT];
        int letters = snprintf(key, sizeof key, "%s.%s", group, name);
        deepspeed_text(text, sizeof text, value);
        bool known = dialect_find(DIALECT_DSJSON, key, text) || deepspeed_group(key);
        if (letters >= (int)sizeof key || !known)
            refuse_unknown(d, key, value);
    }
}

static void take_object(DeepSpeed *d, const char *path, json_t *object, int depth);

static void take_group(DeepSpeed *d, const char *key, json_t *object, int depth)
{
    char inner[DEEPSPEED_KEY + 16], text[DEEPSPEED_TEXT];
    const Dialect *row = dialect_find(DIALECT_DSJSON, key, NULL);
    snprintf(inner, sizeof inner, "%s.enabled", key);
    const json_t  *enabled = json_object_get(object, "enabled");
    const Dialect *turns   = dialect_find(DIALECT_DSJSON, inner, NULL);
    const char    *why     = off(d, key);
    if (row) return take_value(d, key, object, NULL);
    if (!deepspeed_group(key)) return refuse_unknown(d, key, object);
    if (type_refused(d, key)) return;
    bool truth = !enabled || json_is_boolean(enabled) || json_is_null(enabled) || deepspeed_is_auto(enabled);
    if (turns && !truth)
        return deepspeed_refuse(d, inner, "is neither true nor false; give one of them");
    if (turns && turns->option >= 0 && enabled)
        take_value(d, inner, enabled, deepspeed_text(text, sizeof text, enabled));
    if (why && turns->verb != VERB_REFUSE) refuse_unknown_names(d, key, object);
    if (why && (!enabled || turns->option < 0 || json_object_size(object) > 1))
        return note_ignored(d, key, why);
    if (why) return;
    if (turns && turns->verb == VERB_REFUSE) return take_value(d, inner, enabled, "true");
    take_object(d, key, object, depth);
}

static void take_object(DeepSpeed *d, const char *path, json_t *object, int depth)
{
    const char *name;
    json_t     *value;
    json_object_foreach(object, name, value) {
        char key[DEEPSPEED_KEY], text[DEEPSPEED_TEXT];
        int  letters = snprintf(key, sizeof key, "%s%s%s", path, *path ? "." : "", name);
        if (letters >= (int)sizeof key || depth > DEPTH) {
            deepspeed_refuse(d, key, "is too long, or in too many objects; leave it out");
            continue;
        }
        snprintf(text, sizeof text, "%s.0", key);
        bool list = json_is_array(value) ||
                    (deepspeed_is_auto(value) && dialect_find(DIALECT_DSJSON, text, NULL));
        bool turns = *path && !strcmp(name, "enabled");
        const Dialect *row = turns ? dialect_find(DIALECT_DSJSON, key, NULL) : NULL;
        if (row && row->option >= 0) continue;                        /* take_group has taken it */
        if (json_is_null(value)) note_ignored(d, key, "null is as if it were not there");
        else if (json_is_object(value)) take_group(d, key, value, depth + 1);
        else if (list) take_list(d, key, value);
        else take_value(d, key, value, deepspeed_text(text, sizeof text, value));
    }
}

/* ---- keys that are missing ---- */

/* NULL: the key means nothing where it is missing, or the default here. */
static const AbsentKey *absent_row(const DeepSpeed *d, const char *key)
{
    for (int i = 0; i < ABSENT_ROWS; i++)
        if (!strcmp(ABSENT[i].key, key) && needs_met(d, ABSENT[i].needs)) return &ABSENT[i];
    return NULL;
}

static void keep_typed(DeepSpeed *d, const AbsentKey *absent, const Dialect *row, OptionIndex option)
{
    bool same;
    char typed[256];
    OptionSource source = source_of(d, absent->key, absent->value, row->convert);
    const char  *value  = row->verb == VERB_MEANS ? row->text : absent->value;
    if (same_value(&same, d, option, value, source) != OK || same) return;
    options_typed(typed, sizeof typed, d->o, option);
    if (absent->whose == NEITHERS)
        return deepspeed_refuse(d, absent->key, "is not given, which means %s there%s, and contradicts %s; "
                                "give it", absent->value, absent->before, typed);
    import_remark(d->m, d->o, d->from, "%s of DeepSpeed's JSON is not given, which means %s there%s; %s is "
                  "taken", absent->key, absent->value, absent->before, typed);
}

static void take_absent(DeepSpeed *d, const AbsentKey *absent)
{
    char entry[DEEPSPEED_WHY];
    const Dialect *row = dialect_find(DIALECT_DSJSON, absent->key, absent->value);
    if (deepspeed_at(d, absent->key) || absent_row(d, absent->key) != absent) return;
    OptionIndex option = row->option < 0 ? OPTIONS : option_of(d, row);
    if (row->option >= 0 && options_typed_by_person(d->o, option)) return keep_typed(d, absent, row, option);
    snprintf(entry, sizeof entry, "%s (%s%s)", absent->key, absent->value, absent->before);
    deepspeed_note(d, entry, "not given: DeepSpeed's default is taken");
    take_value(d, absent->key, NULL, absent->value);
}

/* ---- the whole JSON ---- */

void import_deepspeed(Import *m, Options *o, const char *from, const char *text)
{
    char why[DEEPSPEED_WHY];
    DeepSpeed *d = calloc(1, sizeof *d);
    CHECK(d, "no memory for DeepSpeed's JSON");
    d->m = m, d->o = o, d->from = from;
    d->whole = deepspeed_parse(why, sizeof why, text);
    if (!d->whole) import_refuse(m, o, from, "%s", why);
    else {
        take_object(d, "", d->whole, 0);
        for (int i = 0; i < ABSENT_ROWS; i++) take_absent(d, &ABSENT[i]);
        deepspeed_values(d);
        for (int i = 0; i < d->notes; i++)
            if (d->note[i].count) note_write(d, i);
    }
    json_decref(d->whole);
    free(d);
}
