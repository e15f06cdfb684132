/* Options from YAML files: each key becomes a word of a command line, "--num-layers=12", so that names, other
 * trainers' names, ranges and choices are checked in one place. */
#include "conf/config_file.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "conf/conf.h"
#include "conf/value.h"
#include "conf/yaml/yaml_file.h"

typedef struct {
    Options        *o;
    const YamlFile *file;
    int             foreign;
    CommandSet      takers;
} ConfigFile;

static void hyphens(char *name)
{
    for (; *name; name++)
        if (*name == '_') *name = '-';
}

/* "run.yaml:3: " before the message that was just made */
static Status at_line(const YamlFile *file, const YamlEntry *e, Status status)
{
    char why[FAIL_BYTES];
    snprintf(why, sizeof why, "%s", fail_text());
    return status == OK ? OK : fail(status, "%s:%d: %s", file->path, e->line, why);
}

/* ---- keys ---- */

/* The name after the groups, in an option's spelling. */
static Status name_of(const YamlFile *file, const YamlEntry *e, char name[YAML_KEY])
{
    const char *dot = strrchr(e->key, '.');
    char        group[YAML_KEY], known[512];
    snprintf(name, YAML_KEY, "%s", dot ? dot + 1 : e->key);
    hyphens(name);
    if (!dot) return OK;
    snprintf(group, sizeof group, "%.*s", (int)(dot - e->key), e->key);
    if (option_group_find(group)) return OK;
    return fail(BAD_FILE,
                "%s:%d: %s is no group of options; these are: %s; or write the keys without a group",
                file->path, e->line, group, option_group_keys(known, sizeof known));
}

/* Whether the name is an option, or another trainer's name for one, of some other command alone. */
static bool of_another_command(ConfigFile *c, const char *name)
{
    CommandSet     takers = option_takers(name);
    const Dialect *row    = takers ? NULL : dialect_find(command_dialects(FOR_TRAIN), name, NULL);
    if (option_find(name, c->o->command) >= 0) return false;
    if (row && dialect_taken(row, c->o->command)) return false;
    if (row) takers = row->option >= 0 ? option_rows[row->option].commands & FOR_ANY : FOR_TRAIN;
    if (takers) c->foreign++, c->takers |= takers;
    return takers != 0;
}

/* ---- values ---- */

/* One word: the value cannot be taken for an option's name. */
static Status set_one(ConfigFile *c, const char *name, const char *value, const char *from)
{
    size_t bytes = strlen(name) + strlen(value) + 4;
    char  *word  = malloc(bytes);
    CHECK(word, "no memory for %zu bytes of an option", bytes);
    snprintf(word, bytes, "--%s=%s", name, value);
    Status status = options_words(c->o, SOURCE_CONFIG_FILE, from, 1, &word);
    free(word);
    return status;
}

/* A list option takes each word by itself; another one takes none of several. */
static Status set_list(ConfigFile *c, const YamlEntry *e, const char *name, const char *from)
{
    int            option = option_find(name, c->o->command);
    const Dialect *row    = option < 0 ? dialect_find(c->o->dialects, name, NULL) : NULL;
    if (row && row->verb == VERB_ALIAS) option = row->option;
    bool several =
        (option >= 0 && option_rows[option].kind == KIND_LIST) || (row && row->option < 0) || e->count == 1;
    if (e->nested) return fail(BAD_OPTION, "--%s takes words, and its list has more than that", name);
    if (!several) return fail(BAD_OPTION, "--%s takes one value, and a list of %d was given", name, e->count);
    int count = row && row->option < 0 && e->count ? 1 : e->count; /* what is ignored or refused is so once */
    for (int i = 0; i < count; i++) TRY(set_one(c, name, e->value[i], from));
    return OK;
}

static Status read_entry(ConfigFile *c, const YamlEntry *e)
{
    char name[YAML_KEY], from[1100];
    if (e->missing) return OK;
    TRY(name_of(c->file, e, name));
    if (!*name || strchr(name, '='))
        return fail(BAD_FILE, "%s:%d: \"%s\" is no option's name", c->file->path, e->line, name);
    if (!strcmp(name, option_rows[OPTION_config].name))
        return fail(BAD_FILE, "%s:%d: a file of options names no other; give --config A B", c->file->path,
                    e->line);
    if (of_another_command(c, name)) return OK;
    snprintf(from, sizeof from, "%s:%d", c->file->path, e->line);
    Status status = e->list ? set_list(c, e, name, from) : set_one(c, name, e->value[0], from);
    return at_line(c->file, e, status);
}

static Status read_entries(Options *o, const YamlFile *file)
{
    char       names[256];
    ConfigFile c      = {.o = o, .file = file};
    Status     status = OK;
    for (int i = 0; i < file->count && status == OK; i++) status = read_entry(&c, &file->entry[i]);
    if (status == OK && c.foreign)
        log_line("%s: %d of its options %s not of jotun %s but of %s, and %s not read", file->path, c.foreign,
                 c.foreign == 1 ? "is" : "are", command_name(o->command),
                 command_names(names, sizeof names, c.takers, "jotun ", " and "),
                 c.foreign == 1 ? "is" : "are");
    return status;
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

Status config_files_read(Options *o, ConfigTexts *texts)
{
    for (int i = 0; i < o->config.count && !texts->none; i++) {
        YamlFile    file;
        const char *path = o->config.text[i];
        TRY(texts->packed ? text_open(&file, path, texts) : yaml_file_open(&file, path));
        Status status = read_entries(o, &file);
        yaml_file_close(&file);
        TRY(status);
    }
    return OK;
}

Status options_config_texts(char **packed, size_t *bytes, const Options *o)
{
    FILE  *out    = open_memstream(packed, bytes);
    Status status = out ? OK : fail(NO_MEMORY, "no memory for the files of options");
    for (int i = 0; i < o->config.count + (o->deepspeed_config != NULL) && status == OK; i++) {
        FileMap map;
        status = file_map(&map, i < o->config.count ? o->config.text[i] : o->deepspeed_config);
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
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
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

/* Continuation bytes and lengths alone: what libyaml refuses besides is no text that a person types. */
static bool utf8(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        int more = *c < 0x80                 ? 0
                   : *c >= 0xC2 && *c < 0xE0 ? 1
                   : *c >= 0xE0 && *c < 0xF0 ? 2
                   : *c >= 0xF0 && *c < 0xF5 ? 3
                                             : -1;
        if (more < 0) return false;
        for (c++; more > 0; more--, c++)
            if ((*c & 0xC0) != 0x80) return false;
    }
    return true;
}

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
    size_t              used = strlen(source);
    if (!from->convert && from->kind == SOURCE_CONFIG_FILE &&
        strcmp(from->name + 2 * !strncmp(from->name, "--", 2), option_rows[option].name))
        snprintf(source + used, sizeof source - used, ", %s", from->name);
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
        bool source = i == OPTION_config || i == OPTION_deepspeed_config || i == OPTION_agpt_variables;
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
