#ifndef CONVERT_MEGATRON_H
#define CONVERT_MEGATRON_H
/* Checkpoints of Megatron-LM's GPT models: its older format, mp_rank_TT/model_optim_rng.pt of each rank, and
 * torch_dist (.metadata, __R_N.distcp, common.pt), of any tensor-, pipeline- and expert-parallel size, with
 * virtual stages. Parts of a tensor that ranks saved become pieces of one tensor. Tensors have one name in
 * both formats and in all versions (megatron_names.h); of the vocabulary only the tokens are kept, where the
 * saved arguments say how many they are, without the rows that pad it.
 *
 * Weights are read, Adam's states as far as they are those of whole parameters, and the position of the run;
 * random-number states are not. Memory is that of the pickles, as
 * pickle.h says; tensors stay in the mapped files. */
#include <jansson.h>
#include "convert/foreign.h"

/* `folder` is that of one iteration, or one with latest_checkpointed_iteration.txt. One of DeepSpeed's files
 * counts too, and is refused. */
bool   megatron_is_folder(const char *folder);
/* Opens *file, and *options of the model by our names, a new reference. BAD_FILE, naming file and tensor or
 * argument: damage, a rank's file that is missing, tensors and arguments that are not known; then both are
 * empty. */
Status megatron_read(ForeignFile *file, json_t **options, const char *folder);
#endif
