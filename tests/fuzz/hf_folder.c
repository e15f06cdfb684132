/* Any bytes as a folder of transformers: config.json, then an index where it is not empty, then the weights, which have their
 * plain name without an index alone. What opens can be read everywhere. The first four bytes are the lengths of the two texts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "convert/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void file_put(const char *folder, const char *name, const uint8_t *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (bytes == 0) return;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void everything_read(const ForeignFile *file)
{
    double value[4];
    for (int i = 0; i < file->tensors; i++) {
        const ForeignTensor *t = &file->tensor[i];
        int64_t count = foreign_count(t);
        if (foreign_find(file, FOREIGN_WEIGHT, t->name) != t) abort();
        if (!dtype_is_float(t->dtype) || count == 0) continue;
        foreign_read(t, 0, 1, count < 4 ? count : 4, value, F64);
        foreign_read(t, count - 1, -1, count < 4 ? count : 4, value, F64);
        foreign_read(t, 0, count > 3 ? count / 3 : 1, count > 3 ? 3 : count, value, F64);
    }
    foreign_release(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char folder[64];
    size_t length[2];
    if (bytes < 4) return 0;
    for (int i = 0; i < 2; i++) length[i] = (size_t)data[2 * i] | (size_t)data[2 * i + 1] << 8;
    data += 4, bytes -= 4;
    for (int i = 0; i < 2; i++) length[i] = length[i] > bytes ? bytes : length[i], bytes -= length[i];
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-hf-%d", (int)getpid());
    mkdir(folder, 0700);
    file_put(folder, "config.json", data, length[0]);
    file_put(folder, "model.safetensors.index.json", data + length[0], length[1]);
    file_put(folder, "model.safetensors", data + length[0] + length[1], length[1] ? 0 : bytes);
    file_put(folder, "shard.safetensors", data + length[0] + length[1], length[1] ? bytes : 0);
    ForeignModel model;
    if (foreign_model_open(&model, FORMAT_HF, folder) == OK) {
        everything_read(&model.file);
        foreign_model_close(&model);
    }
    return 0;
}
