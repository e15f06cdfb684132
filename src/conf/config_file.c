/* Options from YAML files: each key becomes a word, as --num-layers=12 does, so that names, ranges and
 * choices are checked in one place. */
#include "conf/config_file.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "base/utf8.h"
#include "conf/conf.h"
#include "conf/value.h"
#include "conf/yaml/yaml_file.h"

static void hyphens(char *name)
{
    for (; *name; name++)
        if (*name == '_') *name = '-';
}

/* ---- keys ---- */

/* The name after the groups, in an option's spelling; a refusal of the word where it has none. */
static const char *name_of(OptionWord *word, OptionWords *words, const YamlEntry *e)
{
    const char *dot = strrchr(e->key, '.');
    char        group[YAML_KEY], name[YAML_KEY], known[512];
    snprintf(name, sizeof name, "%s", dot ? dot + 1 : e->key);
    hyphens(name);
    word->status = BAD_FILE;
    snprintf(group, sizeof group, "%.*s", dot ? (int)(dot - e->key) : 0, e->key);
    if (dot && !option_group_find(group))
        word->refusal = words_format(words, "%s is no group of options; these are: %s; or write the keys "
                                     "without a group", group, option_group_keys(known, sizeof known));
    else if (!*name || strchr(name, '='))
        word->refusal = words_format(words, "\"%s\" is no option's name", name);
    else if (!strcmp(name, option_rows[OPTION_config].name))
        word->refusal = "a file of options names no other; give --config A B";
    return words_hold(words, name);
}

static void add_entry(OptionWords *words, const YamlFile *file, const YamlEntry *e)
{
    OptionWord named = { 0 };
    if (e->missing) return;
    const char  *name   = name_of(&named, words, e);
    OptionSource source = option_source(SOURCE_CONFIG_FILE, words_format(words, "--%s", name), "",
                                        words_format(words, "%s:%d", file->path, e->line));
    OptionWord *word = words_push(words, named.refusal ? NULL : name, source);
    word->whole = word->shared = true;
    word->list  = e->list;
    word->refusal = named.refusal, word->status = named.status;
    for (int i = 0; i < e->count; i++) words_value(words, word, e->value[i]);
    if (!e->nested || word->refusal) return;
    word->status  = BAD_OPTION;
    word->refusal = words_format(words, "--%s takes words, and its list has more than that", name);
}

void words_tell_left_out(const OptionWords *words, const char *path, CommandSet command)
{
    char names[256];
    bool one = words->left_out == 1;
    if (words->left_out)
        log_line("%s: %d of its options %s not of jotun %s but of %s, and %s not read", path, words->left_out,
                 one ? "is" : "are", command_name(command),
                 command_names(names, sizeof names, words->takers, "jotun ", " and "), one ? "is" : "are");
}

/* Another rank's --config may name more files than rank 0's. */
Status config_text_next(const char **text, size_t *bytes, const char *option, const char *path,
                        ConfigTexts *texts)
{
    uint64_t size;
    if (texts->bytes < sizeof size)
        return fail(BAD_OPTION, "%s %s: rank 0 has another %s; give all ranks the same options", option, path,
                    option);
    memcpy(&size, texts->packed, sizeof size);
    CHECK(size <= texts->bytes - sizeof size, "the texts of files of options are cut");
    *text  = texts->packed + sizeof size;
    *bytes = size;
    texts->packed += sizeof size + size;
    texts->bytes  -= sizeof size + size;
    return OK;
}

static Status text_open(YamlFile *file, const char *path, ConfigTexts *texts)
{
    const char *text;
    size_t      bytes;
    TRY(config_text_next(&text, &bytes, "--config", path, texts));
    return yaml_text_open(file, path, text, bytes);
}

Status words_config_file(OptionWords *words, const char *path, ConfigTexts *texts)
{
    YamlFile file;
    TRY(texts->packed ? text_open(&file, path, texts) : yaml_file_open(&file, path));
    for (int i = 0; i < file.count; i++) add_entry(words, &file, &file.entry[i]);
    yaml_file_close(&file);
    return OK;
}

Status options_config_texts(char **packed, size_t *bytes, const Options *o)
{
    FILE  *out    = open_memstream(packed, bytes);
    Status status = out ? OK : fail(NO_MEMORY, "no memory for the files of options");
    for (int i = 0; i < o->config.count + (o->json_config != NULL) && status == OK; i++) {
        FileMap map;
        status = file_map(&map, i < o->config.count ? o->config.text[i] : o->json_config);
        if (status != OK) break;
        uint64_t size = map.size < YAML_FILE_BYTES ? map.size : YAML_FILE_BYTES + 1;   /* refused by size */
        fwrite(&size, 1, sizeof size, out);
        fwrite(map.data, 1, size, out);
        file_unmap(&map);
    }
    if (out && fclose(out) != 0 && status == OK)
        status = fail(NO_MEMORY, "no memory for the files of options");
    return status;
}

/* ---- writing ---- */

/* Words that need no quotes: letters, digits and few signs, and nothing that YAML takes for null, true, a
 * number ... */
static bool bare(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '/') return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_./", *c)) return false;
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcasecmp(text, words[i])) return false;
    return true;
}

/* Quoted by ", with escapes for what is no printable ASCII but part of UTF-8. */
static void put_text(FILE *out, const char *text)
{
    if (bare(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') fprintf(out, "\\%c", *c);
        else if (*c < ' ' || *c == 127) fprintf(out, "\\x%02X", *c);
        else fputc(*c, out);
    }
    fputc('"', out);
}

static void put_value(FILE *out, const Options *o, OptionIndex option)
{
    const TextList *list = option_field_of(o, option);
    char            value[128];
    switch (option_rows[option].kind) {
    case KIND_TEXT:
        put_text(out, *(const OptionTEXT *)option_field_of(o, option));
        return;
    case KIND_CHOICE:
        put_text(out, ((const OptionCHOICE *)option_field_of(o, option))->word);
        return;
    case KIND_LIST:
        break;
    case KIND_INT:
    case KIND_REAL:
    case KIND_FLAG:
        fputs(options_value_text(value, sizeof value, o, option), out);
        return;
    }
    fputc('[', out);
    for (int i = 0; i < list->count; i++) {
        if (i) fputs(", ", out);
        put_text(out, list->text[i]);
    }
    fputc(']', out);
}

static bool utf8(const char *text) { return utf8_broken(text, (int64_t)strlen(text)) < 0; }

static bool value_utf8(const Options *o, OptionIndex option)
{
    const TextList *list = option_field_of(o, option);
    if (option_rows[option].kind == KIND_TEXT) return utf8(*(const OptionTEXT *)option_field_of(o, option));
    for (int i = 0; option_rows[option].kind == KIND_LIST && i < list->count; i++)
        if (!utf8(list->text[i])) return false;
    return true;
}

static void put_line(FILE *out, const Options *o, OptionIndex option)
{
    char source[1100];
    /* What --model has follows from that key. */
    bool follows = o->source[option].kind == SOURCE_PRESET && !strncmp(o->source[option].from, "--model ", 8);
    fputs(options_said(o, option) && !follows ? "" : "# ", out);
    fprintf(out, "%s: ", option_rows[option].name);
    put_value(out, o, option);
    options_source_text(source, sizeof source, o, option);
    const OptionSource *from = &o->source[option];
    if (!from->convert && from->kind == SOURCE_CONFIG_FILE &&
        strcmp(from->name + 2 * !strncmp(from->name, "--", 2), option_rows[option].name))
        message_add(source, sizeof source, ", %s", from->name);
    for (char *c = source; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' '; /* a comment ends with its line */
    fprintf(out, "%*s# %s\n", 2, "", utf8(source) ? source : "given");
}

Status options_yaml(FILE *out, const Options *o)
{
    const char *group = NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (option_taken(i, FOR_CONFIG) && o->source[i].kind != SOURCE_NOTHING && !value_utf8(o, i))
            return fail(BAD_OPTION, "--%s is not UTF-8 and cannot be written as YAML", option_rows[i].name);
    for (int i = 0; i < OPTIONS; i++) {
        bool source = i == OPTION_config || i == OPTION_json_config;
        if (!option_taken(i, FOR_CONFIG) || source || o->source[i].kind == SOURCE_NOTHING)
            continue;
        if (option_group_title(i) != group) {
            fprintf(out, "%s# %s\n", group ? "\n" : "", option_group_title(i));
            group = option_group_title(i);
        }
        put_line(out, o, i);
    }
    return OK;
}
