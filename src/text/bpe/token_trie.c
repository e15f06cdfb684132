/* Frees the trie of a model's tokens; text/bpe/read_json_model.c fills it. */
#include "text/bpe/token_trie.h"
#include <stdlib.h>

void token_trie_close(TokenTrie *t)
{
    trie_close(&t->trie);
    free(t->score);
    *t = (TokenTrie){ 0 };
}
