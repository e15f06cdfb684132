#ifndef CLI_SPECIAL_TOKENS_H
#define CLI_SPECIAL_TOKENS_H
/* Applies --parse-special-tokens to an open tokenizer, for the commands that encode. BAD_OPTION where the
 * tokenizer has no special token that a text could contain, because the option would then have no effect. */
#include "conf/conf.h"
#include "text/tokenizer.h"

static inline Status special_tokens(Tokenizer *t, const Options *o)
{
    t->parse_special = o->parse_special;
    if (!o->parse_special || t->specials) return OK;
    return fail(BAD_OPTION, "--parse-special-tokens: --tokenizer %s knows no special token that a text could "
                "hold; leave it out", t->name);
}
#endif
