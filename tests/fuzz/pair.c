/* Any bytes as a pair: an index that is opened can be read everywhere. The first two bytes say how long .bin is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "data/token_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void file_put(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static int64_t sum;                             /* so that nothing is optimised away */

#ifdef PAIR_MEGATRONS
static void pair_read(const char *prefix)
{
    TokenFile s;
    if (token_file_open(&s, prefix) != OK) return;
    for (int64_t i = 0; i < s.sequences; i++)
        for (int64_t t = 0; t < token_file_length(&s, i); t++) sum += token_file_token(&s, token_file_start(&s, i) + t);
    for (int64_t d = 0; d <= s.documents; d++)
        if (token_file_document(&s, d) < 0 || token_file_document(&s, d) > s.sequences) abort();
    token_file_close(&s);
}
#else
static void pair_read(const char *prefix)
{
    TokenFile f;
    if (token_file_open_any(&f, prefix) != OK) return;
    for (int64_t i = 0; i < f.sequences; i++)
        for (int64_t t = 0; t < token_file_length(&f, i); t++) sum += token_file_id(&f, token_file_start(&f, i) + t);
    token_file_close(&f);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char prefix[64], path[80];
    if (bytes < 2) return 0;
    size_t bin = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2, bytes -= 2;
    if (bin > bytes) bin = bytes;
    snprintf(prefix, sizeof prefix, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    snprintf(path, sizeof path, "%s.bin", prefix);
    file_put(path, data, bin);
    snprintf(path, sizeof path, "%s.idx", prefix);
    file_put(path, data + bin, bytes - bin);
    pair_read(prefix);
    return 0;
}
