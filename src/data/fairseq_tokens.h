#ifndef DATA_FAIRSEQ_TOKENS_H
#define DATA_FAIRSEQ_TOKENS_H
/* fairseq's pairs, mapped to be looked at (docs/formats.md). Its newer one (`mmap`) begins as Megatron's does and is told from
 * it by its length; its older one (`lazy`, `cached`; TNTIDX) stores each id raised by one, which is taken off here.
 * Opening takes no memory but the maps, and one pass over .idx.
 *
 *     TokenFileKind kind;
 *     TRY(token_file_kind(&kind, prefix));
 *     if (kind == TOKEN_FILE_MEGATRON) ... token_file_open ... else ... fairseq_tokens_open                                          */
#include "base/file.h"

typedef enum { TOKEN_FILE_MEGATRON, TOKEN_FILE_FAIRSEQ_MMAP, TOKEN_FILE_FAIRSEQ_TNT } TokenFileKind;
Status      token_file_kind(TokenFileKind *kind, const char *prefix);     /* by the .idx alone; Megatron's where it is neither of fairseq's */
const char *token_file_kind_name(TokenFileKind kind);

typedef struct {
    FileMap  index, bin;
    TokenFileKind kind;
    int      code, width;              /* of a token: its type as the format numbers them, its bytes */
    int64_t  items, tokens;
    const uint8_t *length, *start;     /* unaligned arrays in the map */
} FairseqTokens;

Status  fairseq_tokens_open  (FairseqTokens *f, const char *prefix);   /* every offset checked against the sizes; BAD_FILE names file and offset */
void    fairseq_tokens_close (FairseqTokens *f);
int64_t fairseq_tokens_length(const FairseqTokens *f, int64_t item);   /* tokens */
int64_t fairseq_tokens_start (const FairseqTokens *f, int64_t item);   /* first token, counted from the start of .bin */
int64_t fairseq_tokens_token (const FairseqTokens *f, int64_t at);
const char *fairseq_tokens_type(const FairseqTokens *f);               /* "uint16" */
#endif
