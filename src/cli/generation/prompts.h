#ifndef CLI_GENERATION_PROMPTS_H
#define CLI_GENERATION_PROMPTS_H
/* The prompts of jotun generate: the text of --prompt, or each line of --prompt-file. */
#include "base/file.h"
#include "conf/conf.h"
#include "corpus/read/json_line.h"
#include "model/model_config.h"
#include "serve/generate.h"
#include "text/tokenizer.h"

typedef struct {
    JsonText *text;                     /* [count], in `file` or in the options */
    Prompt   *prompt;                   /* [count], owned, with their ids */
    int64_t   count;
    /* the most ids of a prompt, the most new tokens, the most of a prompt and its new tokens */
    int64_t   widest, most, capacity;
    FileMap   file;                     /* mapped where there is a --prompt-file */
    int32_t  *id;                       /* of all prompts, owned */
} Prompts;

/* Reads and encodes the prompts, and sets how many tokens each may get: --max-new-tokens, or what learned
 * positions leave, which is an error where a person gave that number. BAD_OPTION or BAD_FILE with the line of
 * the file: a prompt without ids, a prompt that is too long, a line that is empty. Close it after a failure
 * too. */
Status prompts_read (Prompts *prompts, const Options *o, const Tokenizer *tokenizer,
                     const ModelConfig *model);
void   prompts_close(Prompts *prompts);
#endif
