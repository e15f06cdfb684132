#ifndef CONVERT_HF_WRITE_H
#define CONVERT_HF_WRITE_H
/* Writing a folder that Hugging Face's transformers opens with from_pretrained: sharded safetensors files,
 * their index, config.json, generation_config.json, the tokenizer's files and README.md. */
#include <jansson.h>
#include "convert/convert_run.h"
#include "convert/family.h"
#include "convert/tokenizer/special_ids.h"

typedef struct {
    json_t     *config;                    /* of family_write; gets the type and the special tokens */
    int64_t     shard_bytes; /* the most bytes of weights in a file, but one tensor is never split */
    int64_t     positions;                 /* tokens of a text, for the tokenizer */
    const char *tokenizer;                 /* argument of --tokenizer; none: no files of one */
    const char *version;                   /* of this program */
    bool      (*names_files)(const char *option);      /* its values are paths */
} HfTexts;

/* Writes c->output. BAD_OPTION: the tokenizer cannot be written for transformers. The plan is TO_THEIRS. */
Status hf_write(ConvertRun *c, const HfTexts *texts);

/* The files of the tokenizer into `folder`. ids: its special tokens, to be freed also after a failure. */
Status hf_tokenizer_write(const char *folder, const char *tokenizer, int64_t positions, SpecialIds *ids);
/* README.md: the model, its data, its curve of losses and its command, as far as they are known. */
Status hf_model_card_write(const char *folder, const ConvertRun *c, const HfTexts *texts);
/* A JSON file, indented. Consumes the reference. */
Status hf_json_write(const char *folder, const char *name, json_t *json);
#endif
