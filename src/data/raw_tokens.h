#ifndef DATA_RAW_TOKENS_H
#define DATA_RAW_TOKENS_H
/* Token files without an index: llm.c's (a header of 256 int32: 20240520, version, number of tokens; then
 * uint16 in version 1, uint32 in version 2) and nanoGPT's (uint16 alone). They are mapped, and copied into a
 * token file of ours, since samples need an index. Opening takes no memory but the mapping. */
#include "data/token_file.h"

typedef struct {
    FileMap  map;
    int      width;                        /* bytes of a token: 2 or 4 */
    int64_t  tokens;
    const uint8_t *first;                  /* unaligned, in the mapping */
} RawTokens;

/* A regular file; a prefix is none. */
bool   raw_tokens_is_file(const char *path);
/* BAD_FILE: a header that the file's size contradicts, half a token. */
Status raw_tokens_open (RawTokens *raw, const char *path);
void   raw_tokens_close(RawTokens *raw);
/* Appends all tokens to a token file. A document ends behind each `eod`, and at the end of the file; eod -1:
 * the file is one document. BAD_FILE: an id that is not below `vocabulary`. INTERRUPTED once *stop is not 0.
 */
Status raw_tokens_copy (TokenFileWriter *writer, const RawTokens *raw, int32_t vocabulary, int32_t eod,
                        const volatile sig_atomic_t *stop);
#endif
