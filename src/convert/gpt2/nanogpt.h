#ifndef CONVERT_NANOGPT_H
#define CONVERT_NANOGPT_H
/* nanoGPT's checkpoints, ckpt.pt: a file of torch.save with the weights ("model") and what the model is
 * ("model_args"), AdamW's states ("optimizer") and the position ("iter_num"). What the file costs in
 * memory is in torch_file.h. */
#include <jansson.h>
#include "convert/foreign.h"

/* Opens *file, and *options of the model by our names, a new reference. BAD_FILE: damage, another program's
 * file, an argument that is not known; then both are empty. */
Status nanogpt_read(ForeignFile *file, json_t **options, const char *path);
#endif
