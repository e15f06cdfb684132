/* Any bytes as a pickle of a rank of Megatron-LM, {"model": ..., "optimizer": ...}, or of nanoGPT, whose optimizer is torch's alone: a state
 * that is taken has the shape of its weight. The bytes behind the pickle, in turn, are all storages. */
#include <string.h>
#include "foreign_file.h"
#include "convert/torch/torch_optimizer.h"

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

/* A state that is taken has the shape of its weight, and a moment is not alone. */
static void states_check(const TorchParameters *list)
{
    for (size_t i = 0; i < list->items; i++) {
        const PickleTensor *const *tensor = list->item[i].tensor;
        if (list->item[i].trained != (tensor[FOREIGN_MOMENT] != NULL) || !tensor[FOREIGN_MOMENT] != !tensor[FOREIGN_SQUARE]) abort();
        for (ForeignKind k = FOREIGN_WEIGHT; k < FOREIGN_KINDS; k++)
            if (tensor[k] && !torch_shapes_equal(tensor[k], tensor[FOREIGN_WEIGHT])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Pickle          p;
    TorchParameters list    = { 0 };
    int64_t         updates = -1;
    if (pickle_open(&p, data, bytes, "fuzz") != OK) return 0;
    storages_fill(&p, data + p.bytes, bytes - p.bytes);
    const PickleValue *model = pickle_get(p.root, "model"), *optimizer = pickle_get(p.root, "optimizer");
    if (model && optimizer && torch_weights(&list, model, 0, true, "fuzz") == OK) {
        for (size_t i = 0; i < list.items; i++) {
            list.item[i].trained = !strstr(list.item[i].name, "inv_freq");
            list.item[i].expert  = strstr(list.item[i].name, ".experts.");
        }
        if (torch_optimizer_states(&list, optimizer, &updates, "fuzz") == OK) states_check(&list);
    }
    free(list.item);
    pickle_close(&p);
    return 0;
}
