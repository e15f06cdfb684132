/* Any bytes as a file of options: refused, or options that are written and read back the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "conf/config_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void file_put(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static const char *json_of(Options *o)
{
    const char *json;
    o->source[OPTION_config].kind = SOURCE_NOTHING;
    return options_json(o, &json) == OK ? json : NULL;
}

static void round_trip(Options *o, const char *path)
{
    Options again;
    char *text, *words[] = { "--config", (char *)path };
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (options_yaml(out, o) != OK) abort();                         /* what YAML held it can hold again */
    fclose(out);
    file_put(path, text, length);
    const char *was = json_of(o);
    if (setup_parse(&again, FOR_TRAIN, 2, words) != OK) abort();
    if (was && strcmp(was, json_of(&again))) abort();
    options_close(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Options o;
    char path[64], *words[] = { "--config", path };
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d.yaml", (int)getpid());
    file_put(path, data, bytes);
    if (setup_parse(&o, FOR_TRAIN, 2, words) == OK) round_trip(&o, path);
    options_close(&o);
    return 0;
}
