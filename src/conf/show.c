/* Options shown to a person, and stored in a checkpoint as JSON. */
#include "base/shell/shell_word.h"
#include "conf/conf.h"
#include "conf/saved.h"
#include "conf/value.h"
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

const char *options_command(Options *o, SourceKind least)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for a command line");
    fprintf(out, "jotun %s", command_name(o->command));
    for (int i = 0; i < OPTIONS; i++) {
        const OptionRow *row = &option_rows[i];
        char value[1024];
        if (!option_taken(i, o->command) || o->source[i].kind < least) continue;
        if (i == OPTION_config) continue;
        const TextList *list = row->kind == KIND_LIST ? option_field_of(o, i) : NULL;
        bool off = row->kind == KIND_FLAG && !*(const OptionFLAG *)option_field_of(o, i);
        if (off && o->source[i].kind < SOURCE_CONFIG_FILE) continue;          /* as it is without it */
        fprintf(out, " --%s%s", row->name, off ? "=false" : "");
        if (row->kind == KIND_FLAG) continue;
        for (int w = 0; w < (list ? list->count : 1); w++) {
            fputc(' ', out);
            shell_word_write(out, list ? list->text[w] : options_value_text(value, sizeof value, o, i));
        }
    }
    CHECK(fclose(out) == 0, "no memory for a command line");
    const char *held = options_hold(o, text);
    free(text);
    return held;
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

Status options_given(Options *o, const char **names)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *out = open_memstream(&text, &bytes);
    for (int i = 0; out && i < OPTIONS; i++)
        if (option_taken(i, o->command) && options_typed_by_person(o, i) && i != OPTION_config &&
            i != OPTION_json_config)
            fprintf(out, "%s%s", ftell(out) > 0 ? " " : "", option_rows[i].name);
    bool whole = out && fclose(out) == 0;
    *names = whole ? options_hold(o, text) : "";
    free(text);
    return whole ? OK : fail(NO_MEMORY, "no memory for the names of options");
}

/* JSON values go through the same text as typed ones, so that ranges and words are checked in one place. */
Status options_set_saved(Options *o, OptionIndex option, const json_t *value, const char *path)
{
    char number[64], name[128];
    const char *text = number;
    bool list = json_is_array(value) && option_rows[option].kind == KIND_LIST;
    for (size_t i = 0; list && i < json_array_size(value); i++)      /* its words, each as if typed */
        TRY(options_set_saved(o, option, json_array_get(value, i), path));
    if (list) return OK;
    if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value)) snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else if (json_is_boolean(value)) text = json_is_true(value) ? "true" : "false";
    else if (json_is_string(value)) text = json_string_value(value);
    else return fail(BAD_FILE, "%s: option %s is not a number, a text or true or false", path,
                     option_rows[option].name);
    snprintf(name, sizeof name, "--%s", option_rows[option].name);
    OptionSource source = option_source(SOURCE_CHECKPOINT, name, text, path);
    if (options_set(o, option, text, source) == OK) return OK;
    return fail_prefix(BAD_FILE, "%s: ", path);
}

Status options_take_saved(Options *o, OptionIndex option, const char *json, const char *path)
{
    json_t *object = json_loads(json, 0, NULL), *value = json_object_get(object, option_rows[option].name);
    Status  status = value ? options_set_saved(o, option, value, path) : OK;
    json_decref(object);
    return status;
}

Status options_from_json(Options *o, const char *json, const char *path, CommandSet which)
{
    json_error_t error;
    json_t *object = json_loads(json, 0, &error), *value;
    const char *name;
    Status status = OK;
    if (!json_is_object(object))
        status = fail(BAD_FILE, "%s: its options are not a JSON object: %s", path, object ? "" : error.text);
    json_object_foreach(object, name, value) {
        int option = option_find(name, FOR_CONFIG);         /* alone jotun train writes checkpoints */
        if (option < 0 && json_is_false(value)) continue;       /* a flag of another version that was off */
        if (option < 0) status = fail(BAD_FILE, "%s: its option %s is unknown to this version", path, name);
        else if (option_taken(option, which)) status = options_set_saved(o, option, value, path);
        if (status != OK) break;
    }
    json_decref(object);
    return status;
}
