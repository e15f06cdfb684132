/* Any bytes as a checkpoint of another trainer: what is opened can be read everywhere. As one of Megatron-LM, of torch_dist (.metadata and a
 * file of parts) or of the older format (the files of two ranks); as nanoGPT's ckpt.pt, a model of llm.c, or the states of two of its ranks,
 * beside a model that is sound. */
#include <string.h>
#include <unistd.h>
#include "foreign_file.h"
#include "convert/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static double sum;                              /* so that nothing is optimised away */

#ifdef FUZZ_STATES
/* Two positions, three tokens in four rows, one layer, one head, two channels. */
static void model_put(const char *folder)
{
    enum { HEADER = 256, PARAMETERS = 90 };
    static const int32_t sizes[] = { 20240326, 3, 2, 3, 1, 1, 2, 4 };
    static int32_t file[HEADER + PARAMETERS];
    memcpy(file, sizes, sizeof sizes);
    file_put(folder, "model_00000007.bin", file, sizeof file);
}
#endif

static Status checkpoint_read(ForeignModel *model, const char *folder, const uint8_t *data, size_t bytes)
{
#if defined FUZZ_LLMC || defined FUZZ_NANOGPT
    char path[96];
    file_put(folder, "model.bin", data, bytes);
    snprintf(path, sizeof path, "%s/model.bin", folder);
#ifdef FUZZ_LLMC
    return foreign_model_open(model, FORMAT_LLMC, path);
#else
    return foreign_model_open(model, FORMAT_NANOGPT, path);
#endif
#else
    size_t part = first_part(&data, &bytes);
#ifdef FUZZ_STATES
    char path[96];
    model_put(folder);
    file_put(folder, "state_00000007_00000.bin", data, part);
    file_put(folder, "state_00000007_00001.bin", data + part, bytes - part);
    snprintf(path, sizeof path, "%s/model_00000007.bin", folder);
    return foreign_model_open(model, FORMAT_LLMC, path);
#elif defined FUZZ_RANKS
    char inner[96];
    for (int rank = 0; rank < 2; rank++) {
        snprintf(inner, sizeof inner, "%s/mp_rank_%02d", folder, rank);
        mkdir(inner, 0700);
        file_put(inner, "model_optim_rng.pt", rank ? data + part : data, rank ? bytes - part : part);
    }
    return foreign_model_open(model, FORMAT_MEGATRON, folder);
#else
    file_put(folder, ".metadata", data, part);
    file_put(folder, "__0_0.distcp", data + part, bytes - part);
    return foreign_model_open(model, FORMAT_MEGATRON, folder);
#endif
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char         folder[64];
    ForeignModel model;
    if (bytes < 2) return 0;
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    mkdir(folder, 0700);
    if (checkpoint_read(&model, folder, data, bytes) != OK) return 0;
    sum += everything_read(&model.file);
    foreign_model_close(&model);
    return 0;
}
