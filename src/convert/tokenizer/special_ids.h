#ifndef CONVERT_TOKENIZER_SPECIAL_IDS_H
#define CONVERT_TOKENIZER_SPECIAL_IDS_H
/* The ids of a tokenizer that other programs give a meaning: those that begin and end a text, padding,
 * unknown text. They are what the tokenizer itself does (the ids that it puts around each text), then what
 * the files of its folder say (generation_config.json, config.json, tokenizer_config.json), then what is
 * usual. */
#include <jansson.h>
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"

enum { SPECIAL_ENDS_MOST = 8, SPECIAL_TEXT = 256 };
typedef struct {
    int64_t bos, pad, unknown;             /* -1: none */
    int64_t end[SPECIAL_ENDS_MOST];        /* what ends a text: first the tokenizer's own end of document,
                                            * then others that the folder names */
    int     ends;
    bool    adds_bos, adds_end;            /* bos is put before each text, end[0] after it */
    json_t *config;                        /* bos_token_id, eos_token_id and pad_token_id of a config.json */
    json_t *generation;                    /* a generation_config.json: the folder's, or made of these ids */
    json_t *chat;                          /* the folder's template of conversations, a text; NULL: none */
} SpecialIds;

/* `t` is open, `file` the one that it was read from. BAD_OPTION: it puts other ids around a text than one at
 * the beginning and one at the end. BAD_FILE: a file of the folder is broken. special_ids_free afterwards. */
Status special_ids_find(SpecialIds *ids, const Tokenizer *t, const TokenizerFile *file);
void   special_ids_free(SpecialIds *ids);
/* The text of a token as files write it; false: no such token, or its text is longer. */
bool   special_text(char out[SPECIAL_TEXT], const Tokenizer *t, int64_t id);
#endif
