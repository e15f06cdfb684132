#ifndef CLI_GENERATION_PROMPTS_H
#define CLI_GENERATION_PROMPTS_H
/* The prompts of jotun generate: the text of --prompt, or each line of --prompt-file; and those of the
 * samples that a training run makes. */
#include "base/file.h"
#include "cli/generation/prompt_line.h"
#include "base/json_text.h"
#include "model/model_config.h"
#include "generate/generate.h"
#include "text/tokenizer.h"

/* texts, or each line of a file; the most new tokens of each, and whether a person gave that number. The
 * options are for messages. */
typedef struct {
    const char *option, *const *text;
    int         texts;                  /* 0: those of `file` */
    /* json: its lines are JSON, with `rule` where they say nothing else */
    const char *file, *most_option;
    bool        json;
    PromptRule  rule;
    const char *encoding;               /* of the file: --input-encoding */
    int64_t     most, each;             /* each: texts of a prompt */
    bool        most_typed;
} PromptsAsked;

typedef struct {
    JsonText *text;                     /* [count], owned, of texts in `file` or in those asked for */
    Prompt   *prompt;                   /* [count], owned, with their ids */
    int64_t   count, room;
    /* the most ids of a prompt, the most new tokens, the most of a prompt and its new tokens */
    int64_t   widest, most, capacity;
    FileMap   file;                     /* mapped where there is a --prompt-file */
    Buffer    converted;                /* its text, where that is of another encoding */
    int32_t  *id;                       /* of all prompts, owned */
    PromptRule *rule;                   /* [count], owned */
    PromptLine *line;                   /* [count] of JSON, owned */
} Prompts;

/* Reads and encodes the prompts, and sets how many tokens each may get: as many as are asked for, or what
 * learned positions leave, which is an error where a person gave that number. Other positions have no end; a
 * line in the log counts the texts that may go beyond those that the model was trained with. BAD_OPTION or
 * BAD_FILE with the line of the file: a prompt without ids, a prompt that is too long, a line that is empty.
 * Close it after a failure too. */
Status prompts_read (Prompts *prompts, const PromptsAsked *asked, const Tokenizer *tokenizer,
                     const ModelConfig *model);
void   prompts_close(Prompts *prompts);
#endif
