/* Any bytes as a pickle of a rank of Megatron-LM, {"model": ..., "optimizer": ...}, or of nanoGPT, whose optimizer is torch's alone: a state
 * that is taken has the shape of its weight. The bytes behind the pickle, in turn, are all storages. */
#include <string.h>
#include "foreign_file.h"
#include "convert/megatron/megatron_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { STORAGE_BYTES = 1 << 16 };
static uint8_t memory[STORAGE_BYTES];

/* Storages get these bytes, but for those that are longer, as the reader of a file sees to. */
static void storages_fill(const Pickle *p, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = bytes ? data[i % bytes] : 0;
    for (PickleStorage *s = p->storages; s; s = s->next)
        s->data = s->count <= STORAGE_BYTES / 16 ? memory : NULL;
}

static const RankTensor *weight_of(const RankTensors *list, size_t weights, const RankTensor *state)
{
    for (size_t i = 0; i < weights; i++)
        if (list->item[i].chunk == state->chunk && !strcmp(list->item[i].name, state->name)) return &list->item[i];
    return NULL;
}

static void states_check(RankTensors *list, size_t weights)
{
    for (size_t i = weights; i < list->items && i < weights + 256; i++) {
        const RankTensor *state = &list->item[i], *weight = weight_of(list, weights, state);
        if (state->kind == FOREIGN_WEIGHT || !weight || !state->tensor) abort();
        bool same = false;                              /* two weights may have one name, and the states are of either */
        for (size_t w = 0; w < weights; w++)
            same |= !strcmp(list->item[w].name, state->name) && list->item[w].tensor->dims == state->tensor->dims
                 && !memcmp(list->item[w].tensor->size, state->tensor->size, (size_t)state->tensor->dims * sizeof *state->tensor->size);
        if (!same) abort();
    }
    rank_choose(list, 0);
    for (size_t i = 1; i < list->items; i++)
        if (list->item[i - 1].kind > list->item[i].kind) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Pickle      p;
    RankTensors list    = { 0 };
    int64_t     updates = -1;
    if (pickle_open(&p, data, bytes, "fuzz") != OK) return 0;
    storages_fill(&p, data + p.bytes, bytes - p.bytes);
    const PickleValue *model = pickle_get(p.root, "model"), *optimizer = pickle_get(p.root, "optimizer");
    if (model && optimizer && rank_weights(&list, model, 0, "fuzz") == OK) {
        size_t weights = list.items;
        if (rank_states(&list, optimizer, &updates, "fuzz") == OK) states_check(&list, weights);
        else if (list.items != weights) abort();
    }
    free(list.item);
    pickle_close(&p);
    return 0;
}
