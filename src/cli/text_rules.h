#ifndef CLI_TEXT_RULES_H
#define CLI_TEXT_RULES_H
/* --input-encoding and --zstd-window-log, for the commands that read texts. */
#include "conf/conf.h"
#include "corpus/read/encoding.h"

static inline TextRules text_rules(const Options *o)
{
    return (TextRules){ o->input_encoding, (int)o->zstd_window };
}
#endif
