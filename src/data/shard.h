#ifndef DATA_SHARD_H
#define DATA_SHARD_H
/* Megatron's `.bin/.idx` pair, mapped to read and written whole (docs/formats.md). Little-endian, header of 34 bytes, arrays unaligned. */
#include "base/file.h"

typedef struct {
    FileMap  index, bin;
    int      width;                 /* bytes of a token: 2 (uint16, code 8) or 4 (int32, code 4) */
    int64_t  sequences, documents, tokens;
    const uint8_t *length, *pointer, *document;   /* unaligned arrays in the map */
} Shard;

Status  shard_open (Shard *shard, const char *prefix);      /* every offset checked against the sizes; BAD_FILE names file and offset */
void    shard_close(Shard *shard);
int64_t shard_length  (const Shard *shard, int64_t sequence);             /* tokens */
int64_t shard_start   (const Shard *shard, int64_t sequence);             /* first token, counted from the start of .bin */
int64_t shard_document(const Shard *shard, int64_t document);             /* its first sequence; document == documents gives sequences */
int32_t shard_token   (const Shard *shard, int64_t at);                   /* at: tokens from the start of .bin */

/* Written beside and renamed: .bin first, .idx last, so that a pair with an .idx is whole. */
typedef struct ShardWriter ShardWriter;
Status shard_create(ShardWriter **writer, const char *prefix, int64_t vocabulary);   /* uint16 below 65,500 entries, else int32; refused while another writes the pair */
Status shard_add   (ShardWriter *writer, const int32_t *ids, int64_t count);         /* one sequence, of the document being written */
Status shard_end_document(ShardWriter *writer);
Status shard_merge (ShardWriter *writer, const Shard *part);                         /* all its documents; the width must be the writer's */
Status shard_finish(ShardWriter *writer);                                            /* frees it; on failure too */
void   shard_discard(ShardWriter *writer);                                           /* removes what was written */
#endif
