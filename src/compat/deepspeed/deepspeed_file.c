/* DeepSpeed's JSON as text and as a file. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "conf/config_file.h"
#include "compat/deepspeed/deepspeed.h"

enum { JSON_BYTES = 64 << 10 };

/* DeepSpeed reads Hjson. Of it comments and commas before a closing bracket become blanks here, so that lines
 * and columns stay; what else it has is refused as no JSON. */
static void blank_comments(char *text)
{
    char *comma = NULL;                                     /* after which nothing came but blanks */
    for (char *c = text; *c; c++) {
        if (*c == '"') {
            for (c++; *c && *c != '"' && *c != '\n'; c++) c += *c == '\\' && c[1];
            comma = NULL;
            if (!*c) return;
        } else if (*c == '#' || (c[0] == '/' && c[1] == '/')) {
            while (*c && *c != '\n') *c++ = ' ';
            c--;
        } else if (c[0] == '/' && c[1] == '*') {
            char *end = strstr(c + 2, "*/");
            if (!end) return;
            for (; c < end + 2; c++) *c = *c == '\n' ? '\n' : ' ';
            c--;
        } else if (*c == ',') comma = c;
        else if ((*c == '}' || *c == ']') && comma) *comma = ' ', comma = NULL;
        else if (!strchr(" \t\r\n", *c)) comma = NULL;
    }
}

json_t *deepspeed_parse(char *why, size_t size, const char *text)
{
    json_error_t error = { 0 };
    if (strlen(text) >= JSON_BYTES) {
        snprintf(why, size, "the JSON of --deepspeed_config is longer than 64 KiB; give only "
                 "the configuration");
        return NULL;
    }
    char *plain = strdup(text);
    CHECK(plain, "no memory for %zu bytes", strlen(text));
    blank_comments(plain);
    json_t *whole = json_loads(plain, JSON_REJECT_DUPLICATES, &error);
    free(plain);
    if (json_is_object(whole)) return whole;
    if (whole || !*error.text)
        snprintf(why, size, "the JSON of --deepspeed_config is no object; give { \"key\": value, ... }");
    else
        snprintf(why, size, "the JSON of --deepspeed_config is no JSON at line %d, column %d: %s; mend it",
                 error.line, error.column, error.text);
    json_decref(whole);
    return NULL;
}

static void import_bytes(Import *m, Options *o, const char *path, const void *bytes, size_t count)
{
    char *text = malloc(count + 1);
    CHECK(text, "no memory for %zu bytes", count);
    if (memchr(bytes, 0, count)) {
        free(text);
        return import_refuse(m, o, path, "the JSON of --deepspeed_config has a byte 0; give a text in UTF-8");
    }
    memcpy(text, bytes, count);
    text[count] = 0;
    bool marked = !strncmp(text, "\xEF\xBB\xBF", 3);          /* a byte order mark, as of Windows' editors */
    import_deepspeed(m, o, path, marked ? text + 3 : text);
    free(text);
}

Status import_deepspeed_file(Import *m, Options *o, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    import_bytes(m, o, path, map.data, map.size < JSON_BYTES ? map.size : JSON_BYTES);
    file_unmap(&map);
    return OK;
}

/* The words that are not taken are named before, each in a line. */
static Status conclude(const Import *m, const char *path)
{
    for (int i = 0; i < m->remarks.count; i++)
        if (!strstr(m->remarks.text[i], ": not taken: ")) log_line("%s", m->remarks.text[i]);
    if (!m->refused) return OK;
    return fail(BAD_OPTION, "%s: %d fault%s, as said above; mend %s, or leave the keys out", path, m->refused,
                m->refused == 1 ? "" : "s", m->refused == 1 ? "it" : "them");
}

Status deepspeed_words(OptionWords *words, const Options *so_far, ConfigTexts *texts)
{
    const char *text, *path = so_far->json_config;
    size_t      bytes;
    Import      m;
    Status      status = OK;
    if (so_far->from_script.count || so_far->from_yaml)
        return fail(BAD_USAGE, "%s: the options are read from another trainer's file, and that names its own "
                    "JSON; leave it out", so_far->source[OPTION_json_config].name);
    import_open(&m, so_far);
    if (!texts->packed) status = import_deepspeed_file(&m, &m.copy, path);
    else {
        status = config_text_next(&text, &bytes, "--deepspeed-config", path, texts);
        if (status == OK) import_bytes(&m, &m.copy, path, text, bytes < JSON_BYTES ? bytes : JSON_BYTES);
    }
    if (status == OK) status = conclude(&m, path);
    if (status == OK) words_between(words, &m.copy, so_far);
    import_close(&m);
    return status;
}
