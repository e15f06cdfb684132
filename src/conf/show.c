/* Options shown to a person, stored in a checkpoint as JSON, and compared with those of a checkpoint when
 * a run resumes. */
#include "conf/conf.h"
#include "conf/value.h"
#include "conf/wants.h"
#include <jansson.h>
#include <inttypes.h>
#include <string.h>

/* One line for each option: name, value, source. */
void options_show(FILE *out, const Options *o)
{
    const char *group = NULL;
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, o->command)) continue;
        if (option_group_title(i) != group) fprintf(out, "%s\n", group = option_group_title(i));
        char value[1024], source[1024];
        options_value_text(value, sizeof value, o, i);
        fprintf(out, "  --%-38s %-18s %s\n", option_rows[i].name, *value ? value : "-",
                options_source_text(source, sizeof source, o, i));
    }
}

void options_show_common(FILE *out, const Options *o, char between)
{
    fprintf(out, "jotun %s\n", command_name(o->command));
    for (int i = 0; i < OPTIONS; i++) {
        if (!option_taken(i, o->command) || i == OPTION_threads) continue;
        char value[1024], source[1024];
        const char *name = option_rows[i].name;
        const TextList *list = option_rows[i].kind == KIND_LIST ? option_field_of(o, i) : NULL;
        options_value_text(value, sizeof value, o, i);
        options_source_text(source, sizeof source, o, i);
        if (list && list->count)
            fprintf(out, "--%s of %d words%c (%s)\n", name, list->count, between, source);
        else
            fprintf(out, "--%s%s%s%c (%s)\n", name, *value ? " " : "", value, between, source);
        for (int w = 0; list && w < list->count; w++)
            fprintf(out, "--%s, word %d: %s%c (%s)\n", name, w + 1, list->text[w], between, source);
    }
}

/* Numbers stay numbers and flags truth values, so that other programs can read the options of a
 * checkpoint. */
static json_t *value_json(const Options *o, OptionIndex option)
{
    const void *field = option_field_of(o, option);
    const TextList *list = field;
    switch (option_rows[option].kind) {
    case KIND_INT:    return json_integer(*(const OptionINT *)field);
    case KIND_REAL:   return json_real(*(const OptionREAL *)field);
    case KIND_FLAG:   return json_boolean(*(const OptionFLAG *)field);
    case KIND_TEXT:   return json_string(*(const OptionTEXT *)field);
    case KIND_CHOICE: return json_string(((const OptionCHOICE *)field)->word);
    case KIND_LIST:   break;
    }
    json_t *array = json_array();
    for (int i = 0; i < list->count; i++) json_array_append_new(array, json_string(list->text[i]));
    return array;
}

/* 17 digits give back the same double. */
Status options_json(Options *o, const char **json)
{
    json_t *object = json_object();
    for (int i = 0; i < OPTIONS; i++)
        if (option_taken(i, o->command) && o->source[i].kind != SOURCE_NOTHING &&
            json_object_set_new(object, option_rows[i].name, value_json(o, i))) {
            json_decref(object);
            return fail(BAD_OPTION, "--%s is not UTF-8 and cannot be kept in a checkpoint",
                        option_rows[i].name);
        }
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (!text) return fail(NO_MEMORY, "no memory for the options as JSON");
    *json = options_hold(o, text);
    free(text);
    return OK;
}

/* JSON values go through the same text as typed ones, so that ranges and words are checked in one place. */
static Status set_from_json(Options *o, OptionIndex option, const json_t *value, const char *path)
{
    char number[64], name[128];
    const char *text = number;
    bool list = json_is_array(value) && option_rows[option].kind == KIND_LIST;
    for (size_t i = 0; list && i < json_array_size(value); i++)      /* its words, each as if typed */
        TRY(set_from_json(o, option, json_array_get(value, i), path));
    if (list) return OK;
    if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value)) snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
    else if (json_is_string(value)) text = json_string_value(value);
    else return fail(BAD_FILE, "%s: option %s is not a number, a text or true or false", path,
                     option_rows[option].name);
    snprintf(name, sizeof name, "--%s", option_rows[option].name);
    OptionSource source = { SOURCE_CHECKPOINT, name, text, path, CONVERT_NONE };
    if (options_set(o, option, text, source) == OK) return OK;
    char why[512];
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(BAD_FILE, "%s: %s", path, why);
}

Status options_from_json(Options *o, const char *json, const char *path)
{
    json_error_t error;
    json_t *object = json_loads(json, 0, &error), *value;
    const char *name;
    Status status = OK;
    if (!json_is_object(object))
        status = fail(BAD_FILE, "%s: its options are not a JSON object: %s", path, object ? "" : error.text);
    json_object_foreach(object, name, value) {
        int option = option_find(name, FOR_CONFIG);         /* alone jotun train writes checkpoints */
        if (option < 0) status = fail(BAD_FILE, "%s: its option %s is unknown to this version", path, name);
        else if (option_taken(option, FOR_CHECKPOINT_ARGS)) status = set_from_json(o, option, value, path);
        if (status != OK) break;
    }
    json_decref(object);
    return status;
}

/* --- resuming a run
 * --------------------------------------------------------------------------------------- */

enum { MORE = 40 };                         /* bytes of "; and 12 more" */

/* Of several differences the one from the strongest source is reported: --swiglu, not the width that
 * follows from it. */
typedef struct {
    const Options *o;
    const char    *path;
    int            wrong, more;             /* more: changes for which `changed` has no room */
    char           was[256], changed[800];
} CheckpointComparison;

static void note_change(CheckpointComparison *m, const char *now, const char *was, const char *keeps)
{
    size_t used = strlen(m->changed), left = sizeof m->changed - MORE - used;
    int bytes = snprintf(m->changed + used, left, "%s%s, was %s%s", used ? "; " : "", now, was, keeps);
    if ((size_t)bytes < left) return;
    m->changed[used] = 0;
    m->more++;
}

/* A FOR_SHAPE option must be the same; the difference is reported once, at the end. A FOR_SAME_RUN option may
 * change, and the changes are listed in one line, which is logged when the run has started. One that is
 * derived from an option that may change, like lr-decay-iters from train-iters, is kept only where it is
 * given. */
static void note_difference(CheckpointComparison *m, OptionIndex option, const char *was)
{
    const Options *o = m->o;
    char said[512], keeps[400] = "";
    if (option_taken(option, FOR_SAME_RUN)) {
        if (o->source[option].kind == SOURCE_DERIVED)
            snprintf(keeps, sizeof keeps, " (--%s %s keeps that)", option_rows[option].name, was);
        note_change(m, options_typed(said, sizeof said, o, option), was, keeps);
    } else if (m->wrong < 0 || o->source[option].kind > o->source[m->wrong].kind) {
        m->wrong = option;
        snprintf(m->was, sizeof m->was, "%.255s", was);
    }
}

/* Compared as text, which is unique for each value. Of a list the text is only its first word, so its
 * words are compared. */
static bool same_value(const Options *a, const Options *b, OptionIndex option)
{
    char now[1024], was[1024];
    options_value_text(now, sizeof now, a, option);
    options_value_text(was, sizeof was, b, option);
    if (option_rows[option].kind != KIND_LIST) return !strcmp(now, was);
    const TextList *x = option_field_of(a, option), *y = option_field_of(b, option);
    bool same = x->count == y->count;
    for (int i = 0; same && i < x->count; i++) same = !strcmp(x->text[i], y->text[i]);
    return same;
}

/* An option that the checkpoint does not have, or that has no effect here, is not compared: a rotary base
 * with learned positions, for example. */
static Status match_value(CheckpointComparison *m, OptionIndex option, const json_t *saved)
{
    Options saved_options = { 0 };
    char was[1024];
    const json_t *value = json_object_get(saved, option_rows[option].name);
    if (!value || !option_taken(option, FOR_SHAPE | FOR_SAME_RUN)) return OK;
    if (m->o->source[option].kind == SOURCE_NOTHING || option_unmet(m->o, option)) return OK;
    Status status = set_from_json(&saved_options, option, value, m->path);
    if (status == OK && !same_value(m->o, &saved_options, option))
        note_difference(m, option, options_value_text(was, sizeof was, &saved_options, option));
    options_close(&saved_options);
    return status;
}

/* A dynamic loss scale is no --loss-scale, so that the change from or to a constant one has no second
 * value. */
static void match_loss_scale(CheckpointComparison *m, const json_t *saved)
{
    char said[512], was[64];
    const json_t *value = json_object_get(saved, option_rows[OPTION_loss_scale].name);
    bool constant = m->o->loss_scale > 0;
    if (!m->o->fp16 || !json_is_true(json_object_get(saved, option_rows[OPTION_fp16].name))) return;
    snprintf(was, sizeof was, "--loss-scale %g", json_number_value(value));
    if (constant && !value)
        note_change(m, options_typed(said, sizeof said, m->o, OPTION_loss_scale), "dynamic", "");
    if (!constant && value) note_change(m, "a dynamic loss scale", was, "");
}

/* The way out depends on who gave the value: what a person typed can be left out, a default cannot. */
static Status refuse_other_model(const CheckpointComparison *m)
{
    const Options *o = m->o;
    char said[512], cure[256] = "give --use-checkpoint-args";
    if (options_typed_by_person(o, m->wrong))
        snprintf(cure, sizeof cure, "leave %s out%s", o->source[m->wrong].name,
                 o->use_checkpoint_args ? "" : " and give --use-checkpoint-args");
    return fail(BAD_OPTION, "%s, but %s was trained with %s; %s, or start a new run without --load",
                options_typed(said, sizeof said, o, m->wrong), m->path, m->was, cure);
}

Status options_match_json(Options *o, const char *json, const char *path)
{
    json_t *object = json_loads(json, 0, NULL);
    CheckpointComparison m = { .o = o, .path = path, .wrong = -1 };
    Status status = json_is_object(object) ? OK
                  : fail(BAD_FILE, "%s: its options are not a JSON object", path);
    for (int i = 0; i < OPTIONS && status == OK; i++) status = match_value(&m, i, object);
    if (status == OK) match_loss_scale(&m, object);
    json_decref(object);
    size_t used = strlen(m.changed);
    if (m.more)
        snprintf(m.changed + used, sizeof m.changed - used, "%s%d more", used ? "; and " : "", m.more);
    o->changed = *m.changed ? options_hold(o, m.changed) : NULL;
    return status == OK && m.wrong >= 0 ? refuse_other_model(&m) : status;
}
