#ifndef CONVERT_FORMAT_H
#define CONVERT_FORMAT_H
/* The formats of other programs' checkpoints that are read: how each is recognised, what it is called in
 * options ("hf", "megatron"), what its reader makes of a checkpoint. Reading maps files and parses their
 * headers; weights are read when they are gathered. None of this communicates. */
#include <jansson.h>
#include "convert/foreign.h"
#include "convert/links.h"

typedef struct {
    ForeignFile file;
    Naming      naming;
    /* our options that describe the model, as one JSON object, {"num-layers": 12, ...}; owned */
    char       *options;
    char       *given;                     /* names of those that a person gave; owned; NULL: not known */
    char        tokenizer[1024];           /* argument of --tokenizer; "": the checkpoint names none */
    char        ids_left[200];             /* ids of special tokens that its vocabulary lacks; "": none */
    int64_t     step, samples;             /* of its training; -1: not known */
    char       *data; /* fingerprint of its data, a line for each file; owned; NULL: not known */
} ForeignModel;

/* What is said of ForeignModel.ids_left, behind the path. */
#define FOREIGN_IDS_LEFT "%s: its vocabulary has no id as large as %s, which is not taken over; correct config.json"

void   foreign_model_close(ForeignModel *model);         /* one of zeros is allowed */

/* One of our checkpoints: a --save directory, whose newest is taken, or a step's own. */
Status jotun_open(ForeignModel *model, const char *path);

typedef enum { FORMAT_HF, FORMAT_MEGATRON, FORMAT_LLMC, FORMAT_NANOGPT, FORMAT_FAIRSEQ,
               FORMATS } ForeignFormat;

const char *foreign_format_name(ForeignFormat format);
/* By the files that are there; false: of none of them. */
bool   foreign_format_find(ForeignFormat *format, const char *path);
/* Why an input that is in none of them is not read. */
Status foreign_format_refuse(const char *path);
/* The format of "megatron:PATH"; *path is then PATH. False: it begins with no format. */
bool   foreign_format_of(ForeignFormat *format, const char **path, const char *text);
/* What is said of a path where nothing is. */
#define FOREIGN_NOT_THERE                                                                                  \
    "there is no such file or folder here, and nothing is downloaded; correct the name, or fetch the "     \
    "model of the hub first: hf download NAME --local-dir FOLDER"
/* BAD_FILE as the readers say, with what mends a damaged file of the format; then *model is all zeros. */
Status foreign_model_open(ForeignModel *model, ForeignFormat format, const char *path);

/* Whether a path is a regular file that begins with these bytes. */
bool   format_begins(const char *path, const char *bytes, size_t count);

/* ---- the readers of the table in formats.c ---- */

/* Each fills in the model, whose file is begun, and the options of the model by our names, an empty object;
 * it ends with foreign_finish. BAD_FILE, naming file, tensor, key or argument: damage, a file that is
 * missing, another program's file, what is not known and could change what the model computes. What a file of
 * torch.save costs in memory is in convert/torch/torch_file.h.
 *
 * Hugging Face's transformers: a folder with config.json and model.safetensors, else
 * model.safetensors.index.json and its files; without these pytorch_model.bin, else its index and files,
 * which torch.save wrote. file.note names those that are there and not read. A config takes at most 32 times
 * its bytes of memory, headers of safetensors files as store/safetensors.h says. */
Status hf_read(ForeignModel *model, json_t *options, const char *folder);
bool   hf_is_folder(const char *path);
/* BAD_FILE of a folder that is an adapter (LoRA), which has no model of its own. */
Status hf_refuse_adapter(const char *folder);

/* GPT models of Megatron-LM: its older format, mp_rank_TT/model_optim_rng.pt of each rank, and torch_dist
 * (.metadata, __R_N.distcp, common.pt), of any tensor-, pipeline- and expert-parallel size, with virtual
 * stages. Parts of a tensor that ranks saved become pieces of one tensor. Tensors have one name in both
 * formats and in all versions (megatron_names.def); of the vocabulary only the tokens are kept, where the
 * saved arguments say how many they are. Weights are read, Adam's states as far as they are those of whole
 * parameters, and the position of the run; random-number states are not. `folder` is that of one iteration,
 * or one with latest_checkpointed_iteration.txt. One of DeepSpeed's files counts too, and is refused. */
Status megatron_read(ForeignModel *model, json_t *options, const char *folder);
bool   megatron_is_folder(const char *folder);

/* llm.c (gpt2_124M.bin, gpt2_124M_bf16.bin): a header of 256 32-bit integers and all parameters, those of one
 * kind of all layers together. Versions 3 (fp32) and 5 (bf16) are read. Tensors have the names that nanoGPT
 * gives them, since matrices are stored as its; rows that pad the vocabulary are left out. No memory is taken
 * for the file. */
Status llmc_read(ForeignModel *model, json_t *options, const char *path);

/* nanoGPT's ckpt.pt: a file of torch.save with the weights ("model") and what the model is ("model_args"),
 * AdamW's states ("optimizer") and the position ("iter_num"). */
Status nanogpt_read(ForeignModel *model, json_t *options, const char *path);

/* fairseq's language models (TransformerLanguageModel): a file of torch.save with the weights ("model"), the
 * arguments of its command ("args", or "cfg" since fairseq 0.10) and the states of its Adam; of models that
 * were trained with model parallelism a file for each part, model-model_part-0.pt and so on, which lie beside
 * each other. path: the file, that of part 0, or the name without a part, model.pt, by which fairseq means
 * the parts. */
Status fairseq_read(ForeignModel *model, json_t *options, const char *path);
bool   fairseq_is_there(const char *path);
#endif
