#ifndef DATA_TOKEN_FACTS_H
#define DATA_TOKEN_FACTS_H
/* PREFIX.facts.json: what a pair of .bin and .idx does not say of itself, above all which tokenizer made its
 * ids. `jotun prepare` and `jotun data merge` write it, `jotun data check` makes it for a pair of another
 * program; train, eval and data cat compare it with their tokenizer. It is never needed: a pair may lack it,
 * and one that does not describe its pair is ignored with a line. */
#include <stdbool.h>
#include "data/token_file.h"
#include "text/tokenizer.h"

typedef struct TokenFacts {
    char     tokenizer[1024];                        /* the argument of --tokenizer */
    char     fingerprint[TOKENIZER_FINGERPRINT];     /* "": not known */
    char     options[400];                           /* of `jotun prepare`, as a JSON object; "": not known */
    int64_t  tokens, sequences, documents;
    int64_t  largest;                                /* id; -1: there are no tokens */
    uint64_t index;                                  /* XXH3 of all bytes of the .idx */
} TokenFacts;

/* Describes an open pair by reading all of both files: counts, largest id, hash. The tokenizer and options
 * are left as they are. INTERRUPTED once *stop is not 0. */
Status token_facts_measure(TokenFacts *facts, const TokenFile *file, const volatile sig_atomic_t *stop);
/* Only the largest id; -1: there are no tokens. Reads all of the .bin. */
Status token_facts_largest(int64_t *largest, const TokenFile *file, const volatile sig_atomic_t *stop);
/* Atomic replace. */
Status token_facts_write  (const TokenFacts *facts, const char *prefix);
/* *found is false where there is no such file. BAD_FILE: it is not one of this program. */
Status token_facts_read   (TokenFacts *facts, bool *found, const char *prefix);
/* BAD_FILE, saying what differs, where the facts are not those of this pair. Reads all of the .idx. */
Status token_facts_compare(const TokenFacts *facts, const TokenFile *file, const char *prefix);
/* The facts of a pair where they describe it; otherwise *found is false, with a line in the log where there
 * are some. */
void   token_facts_find   (TokenFacts *facts, bool *found, const TokenFile *file, const char *prefix);

/* Who reads a pair. fingerprint: of its tokenizer; NULL: it has none, or does not say. */
typedef struct {
    const char *tokenizer, *fingerprint;
    int64_t     vocabulary;
    bool        skips;                     /* --iterations-to-skip was given: ids may be beyond it */
} TokenReader;
/* BAD_OPTION where the facts of the pair say that it was made by another tokenizer, or that it has an id
 * which is not below the vocabulary. A line in the log where only the rules of the tokenizer differ. */
Status token_facts_suit   (const TokenFile *file, const char *prefix, const TokenReader *reader);
#endif
