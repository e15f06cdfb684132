#ifndef CLI_GENERATION_PROMPT_LINE_H
#define CLI_GENERATION_PROMPT_LINE_H
/* A line of --prompt-jsonl: a JSON object with a prompt and what of the options is different for it. */
#include "generate/generate.h"
#include "serve/completion_request.h"

/* How a prompt is continued: what the options say, or a line of JSON instead. stop: [stops] texts that end
 * the text, without being part of it. logprobs as Request.alternatives. typed, members: bits of settings that
 * options gave, and that the line gave (conf/generation/generation.h). */
typedef struct {
    Sampling sampling;
    int      logprobs, beams;
    double   length_penalty;
    const StopWord *stop;
    int      stops;
    unsigned typed, members;
} PromptRule;

typedef struct {
    char        *text;                  /* owned: of "prompt"; NULL where "ids" are given */
    int64_t      bytes;
    int32_t     *id;                    /* [count], owned: of "ids" */
    int64_t      count, most;           /* most: "max_tokens"; 0: not said */
    StopWord    *stop;                  /* owned, as its texts are */
    int          stops;
} PromptLine;

/* Reads a line, and what it says of the rule into *rule. BAD_FILE with `name`, the line's: no JSON object, a
 * key that has no meaning here, a value of another type or out of range, settings that exclude each other
 * once those of the options are there too. texts: of each prompt. Close it after a failure too. */
Status prompt_line_read (PromptLine *line, PromptRule *rule, const char *name, const char *text,
                         int64_t bytes, int64_t texts);
void   prompt_line_close(PromptLine *line);
#endif
