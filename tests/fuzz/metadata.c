/* Any bytes as a torch_dist checkpoint of Megatron-LM, or as a model of llm.c: what is opened can be read everywhere. Of a checkpoint the first
 * two bytes say how long .metadata is; the rest is its file of parts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "convert/gpt2/llmc.h"
#include "convert/megatron/megatron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void file_put(const char *folder, const char *name, const uint8_t *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static double sum;                              /* so that nothing is optimised away */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char        folder[64];
    ForeignFile file;
    json_t     *options;
    if (bytes < 2) return 0;
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    mkdir(folder, 0700);
#ifdef FUZZ_LLMC
    file_put(folder, "model.bin", data, bytes);
    snprintf(folder + strlen(folder), sizeof folder - strlen(folder), "/model.bin");
    if (llmc_read(&file, &options, folder) != OK) return 0;
#else
    size_t metadata = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2, bytes -= 2;
    if (metadata > bytes) metadata = bytes;
    file_put(folder, ".metadata", data, metadata);
    file_put(folder, "__0_0.distcp", data + metadata, bytes - metadata);
    if (megatron_read(&file, &options, folder) != OK) return 0;
#endif
    for (int i = 0; i < file.tensors; i++) {
        int64_t count = foreign_count(&file.tensor[i]);
        double  number;
        for (int64_t k = 0; k < count; k += count / 64 + 1) {
            foreign_read(&file.tensor[i], k, 1, 1, &number, F64);
            sum += number;
        }
    }
    json_decref(options);
    foreign_close(&file);
    return 0;
}
