#ifndef DATA_TOKEN_FILE_H
#define DATA_TOKEN_FILE_H
/* Megatron's `.bin/.idx` pair, mapped to read and written whole (docs/formats.md). Little-endian, header of 34 bytes, arrays unaligned.
 * Opening takes no memory but the maps, and one pass over .idx; so does an index of data/npy_array.h. */
#include <signal.h>
#include "base/file.h"

typedef struct {
    FileMap  index, bin;
    int      width;                 /* bytes of a token: 2 (uint16, code 8) or 4 (int32, code 4) */
    int64_t  sequences, documents, tokens;
    const uint8_t *length, *pointer, *document;   /* unaligned arrays in the map */
} TokenFile;

Status  token_file_open (TokenFile *token_file, const char *prefix);      /* every offset checked against the sizes; BAD_FILE names file and offset */
void    token_file_close(TokenFile *token_file);
int64_t token_file_length  (const TokenFile *token_file, int64_t sequence);             /* tokens */
int64_t token_file_start   (const TokenFile *token_file, int64_t sequence);             /* first token, counted from the start of .bin */
int64_t token_file_document(const TokenFile *token_file, int64_t document);             /* its first sequence; document == documents gives sequences */
/* ".bin 120 bytes, .idx 96 bytes, print 0123456789abcdef, blocks 0123456789abcdef", by which a pair written anew is told. The
 * print is of the sizes and of the first and last 4,096 bytes of both files (all that checkpoints had once); the blocks are each
 * file whole up to 16 MiB, above that 257 blocks of 64 KiB, spread evenly: a change is found for certain where it is longer than a
 * 255th of the file, a shorter one by chance. At most 16 MiB of a file are read. */
enum { TOKEN_FILE_FINGERPRINT = 128 };
void    token_file_fingerprint   (char out[TOKEN_FILE_FINGERPRINT], const TokenFile *token_file);
int32_t token_file_token   (const TokenFile *token_file, int64_t at);                   /* at: tokens from the start of .bin */

/* Written beside and renamed: .bin first, .idx last, so that a pair with an .idx is whole. */
typedef struct TokenFileWriter TokenFileWriter;
Status token_file_create(TokenFileWriter **writer, const char *prefix, int64_t vocabulary);   /* uint16 below 65,500 entries, else int32; refused while another writes the pair */
Status token_file_add   (TokenFileWriter *writer, const int32_t *ids, int64_t count);         /* one sequence, of the document being written */
Status token_file_end_document(TokenFileWriter *writer);
/* All its documents; the width must be the writer's. INTERRUPTED once *stop is not 0; NULL is fine */
Status token_file_merge (TokenFileWriter *writer, const TokenFile *part, const volatile sig_atomic_t *stop);
Status token_file_finish(TokenFileWriter *writer);                                            /* frees it; on failure too */
void   token_file_discard(TokenFileWriter *writer);                                           /* removes what was written */
#endif
