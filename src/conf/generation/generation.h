#ifndef CONF_GENERATION_H
#define CONF_GENERATION_H
/* Rules of the options of generation, for conf/rules.c, and of requests that have settings of their own. */
#include "conf/rows.h"

/* The settings that exclude others, by number; -1: another key. In JSON they are named as options are, with
 * '_' for '-'. */
int      generation_setting(const char *key);
/* A bit for each of them that a person gave as an option. */
unsigned generation_typed(const Options *o);

/* A request as it is complete. typed, members: bits of the settings that options gave, and that its own line
 * gave. texts: of each prompt. line: "line 2 of --prompt-jsonl FILE"; NULL: the options alone. */
typedef struct {
    const char *line;
    unsigned    typed, members;
    int64_t     beams, logprobs, texts;
} RequestSettings;
/* BAD_OPTION, of a line BAD_FILE: beam search draws nothing and makes one text. */
Status rule_request(const RequestSettings *r);

/* Of both commands that generate. One source of prompts; beam search takes no options of sampling. Of serve:
 * the queue has room for every request that is taken. */
Status rule_generate(const Options *o);
#endif
