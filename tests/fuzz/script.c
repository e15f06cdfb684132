/* Any bytes as a list of arguments, as a configuration of NeMo, and as what a run of a script has left, which the script may have
 * written itself: refused, or options that can be written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "conf/config_file.h"
#include "compat/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void put(const char *path, const char *begin, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fputs(begin, file) < 0 || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void import_file(char *path, bool nemo)
{
    Options o;
    Import import;
    char *text, *words[] = { nemo ? "--from-nemo" : "--from-megatron", path };
    size_t length;
    if (setup_parse(&o, FOR_CONFIG_COMMAND, 2, words) != OK) abort();
    import_open(&import, &o);
    Status status = nemo ? import_nemo(&import, &import.copy) : import_megatron(&import, &import.copy);
    if (status == OK) {
        FILE *out = open_memstream(&text, &length);
        import_show(out, &import);
        (void)options_yaml(out, &import.copy);
        fclose(out);
        free(text);
    }
    import_close(&import);
    options_close(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char folder[64], path[80];
    const uint8_t *middle = bytes ? memchr(data, 0xff, bytes) : NULL;       /* between the records and the trace */
    size_t records = middle ? (size_t)(middle - data) : bytes;
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/calls", folder), put(path, "", data, records);
    snprintf(path, sizeof path, "%s/trace", folder), put(path, "\1", data + records, bytes - records);
    import_file(folder, false);
    snprintf(path, sizeof path, "%s/list", folder), put(path, "--", data, bytes);
    import_file(path, false);
    import_file(path, true);
    return 0;
}
