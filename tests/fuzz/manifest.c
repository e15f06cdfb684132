/* Any bytes as a checkpoint of ours: the first two say how long the JSON of its manifest is, the rest is its file
 * block_0000.safetensors. The manifest gets the checksum of its text, since a fuzzer never finds one. What is accepted
 * is written again, and says the same. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "store/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void file_put(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

/* What is no JSON object is written as it is. */
static void manifest_put(const char *folder, const uint8_t *data, size_t bytes)
{
    char    sum[24];
    json_t *root = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        file_put(folder, "manifest.json", data, bytes);
        json_decref(root);
        return;
    }
    json_object_del(root, "checksum");
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) abort();
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    free(text);
    json_object_set_new(root, "checksum", json_string(sum));
    text = json_dumps(root, 0);
    file_put(folder, "manifest.json", text, strlen(text));
    free(text);
    json_decref(root);
}

static void same_again(const Manifest *manifest, const char *folder)
{
    Manifest again, copy = *manifest;
    const CheckpointState *state = &manifest->state;
    if (!(isfinite(state->valid_loss) && isfinite(state->losses.mean) && isfinite(state->losses.variance) &&
          state->valid_loss >= 0 && state->losses.variance >= 0 && state->losses.count >= 0)) abort();
    copy.state.options = manifest->options;
    copy.state.kernels = manifest->kernels;
    copy.state.data_fingerprint = manifest->data_fingerprint;
    copy.state.tokenizer.name = manifest->tokenizer;
    copy.state.tokenizer.fingerprint = manifest->fingerprint;
    if (manifest_write(&copy, folder) != OK || manifest_read(&again, folder) != OK) abort();
    if (again.state.lacks != state->lacks || again.state.due != state->due || again.state.valid_loss != state->valid_loss ||
        again.state.losses.count != state->losses.count || again.state.step != state->step ||
        again.state.updated_samples != state->updated_samples || again.tensors != manifest->tensors) abort();
    manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char     folder[64];
    Manifest manifest;
    if (bytes < 2) return 0;
    size_t text = (size_t)data[0] | (size_t)data[1] << 8;
    data += 2, bytes -= 2;
    if (text > bytes) text = bytes;
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    mkdir(folder, 0700);
    manifest_put(folder, data, text);
    file_put(folder, "block_0000.safetensors", data + text, bytes - text);
    if (manifest_read(&manifest, folder) != OK) return 0;
    checkpoint_verify(folder, false);
    same_again(&manifest, folder);
    manifest_free(&manifest);
    return 0;
}
