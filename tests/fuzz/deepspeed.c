/* Any bytes as DeepSpeed's JSON; the first says which options the command line gives: refused, or options that can be written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "conf/config_file.h"
#include "compat/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void show(Options *o, Import *import)
{
    char  *text;
    size_t length;
    FILE  *out = open_memstream(&text, &length);
    import_show(out, import);
    (void)options_yaml(out, o);
    fclose(out);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const option[] = { "--fp16", "--bf16", "--global-batch-size=16", "--micro-batch-size=2", "--clip-grad=0.5",
                                          "--lr=0.002", "--lr-warmup-iters=5", "--weight-decay=0.2" };
    Options o;
    Import  import;
    char   *words[8];
    int     count = 0;
    if (bytes < 1) return 0;
    for (int i = 0; i < 8; i++)
        if (data[0] >> i & 1) words[count++] = (char *)(uintptr_t)option[i];
    char *text = malloc(bytes);                      /* as long as it is, so that no byte behind it can be read */
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    if (setup_parse(&o, FOR_CONFIG_COMMAND, count, words) == OK) {
        import_open(&import, &o);
        import_deepspeed(&import, &import.copy, "ds.json:1", text);
        show(&import.copy, &import);
        import_close(&import);
    }
    options_close(&o);
    free(text);
    return 0;
}
