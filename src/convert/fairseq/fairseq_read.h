#ifndef CONVERT_FAIRSEQ_READ_H
#define CONVERT_FAIRSEQ_READ_H
/* Checkpoints of fairseq's language models (TransformerLanguageModel): a file of torch.save with the weights
 * ("model"), the arguments of its command ("args", or "cfg" since fairseq 0.10) and the states of its Adam;
 * of models that were trained with model parallelism a file for each part, model-model_part-0.pt and so on,
 * which lie beside each other. What a file costs in memory is in torch_file.h. */
#include <jansson.h>
#include "convert/foreign.h"

/* path: the file, that of part 0, or the name without a part, model.pt, by which fairseq means the parts.
 * Opens *file, and *options of the model by our names, a new reference. BAD_FILE: damage, another program's
 * file, a model that is not built; then both are empty. */
Status fairseq_read(ForeignFile *file, json_t **options, const char *path);
/* Whether one of these is there. */
bool   fairseq_is_there(const char *path);
#endif
