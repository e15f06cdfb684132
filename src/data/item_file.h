#ifndef DATA_ITEM_FILE_H
#define DATA_ITEM_FILE_H
/* fairseq's token files (.bin and .idx), mapped for inspection (docs/formats.md). The newer format
 * (`mmap`) begins like Megatron-LM's and differs from it in length; the older one (`lazy`, `cached`;
 * TNTIDX) stores each id plus one, which is subtracted here. Opening takes no memory but the mappings, and
 * one pass over .idx.
 *
 *     TokenFileKind kind;
 *     TRY(token_file_kind(&kind, prefix));
 *     if (kind == TOKEN_FILE_MEGATRON) ... token_file_open ... else ... item_file_open */
#include "base/file.h"

typedef enum { TOKEN_FILE_MEGATRON, TOKEN_FILE_ITEMS, TOKEN_FILE_ITEMS_OLDER } TokenFileKind;
/* Judges by the .idx alone. TOKEN_FILE_MEGATRON if it is neither of fairseq's formats; BAD_FILE if it
 * cannot be read. */
Status      token_file_kind(TokenFileKind *kind, const char *prefix);
const char *token_file_kind_name(TokenFileKind kind);

typedef struct {
    FileMap  index, bin;
    TokenFileKind kind;
    int      code, width;              /* of a token: its type as the format numbers them, its bytes */
    int64_t  items, tokens;            /* sequences; tokens of all of them */
    const uint8_t *length, *start;     /* unaligned arrays of `items` numbers in the mapping */
} ItemFile;

/* Checks every offset against the sizes; BAD_FILE names file and offset. */
Status  item_file_open  (ItemFile *f, const char *prefix);
void    item_file_close (ItemFile *f);
int64_t item_file_length(const ItemFile *f, int64_t item);   /* tokens */
/* First token, counted from the start of .bin. */
int64_t item_file_start (const ItemFile *f, int64_t item);
int64_t item_file_token (const ItemFile *f, int64_t at);     /* the id; `at` counts tokens */
const char *item_file_type(const ItemFile *f);               /* "uint16" */
#endif
