/* Any bytes as a script, and as a configuration of NeMo: refused, or options that can be written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cli/setup/parse.h"
#include "conf/conf.h"
#include "conf/config_file.h"
#include "compat/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

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
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d.sh", (int)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
    import_file(path, false);
    import_file(path, true);
    return 0;
}
