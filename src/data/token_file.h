#ifndef DATA_TOKEN_FILE_H
#define DATA_TOKEN_FILE_H
/* Token files in Megatron-LM's format, a `.bin` and an `.idx` of the same prefix (docs/formats.md): mapped
 * for reading and written atomically; those of fairseq are read as well. Its newer format (`mmap`) begins
 * like Megatron-LM's and differs from it in length; the older one (`lazy`, `cached`; TNTIDX) stores each id
 * plus one. Numbers are little-endian, the arrays of .idx are unaligned. Opening takes no memory but the
 * mappings, and one pass over .idx. */
#include <signal.h>
#include "base/file.h"

/* ITEMS: ids of a dictionary of fairseq; each item, a line of the text, is a sequence and a document. */
typedef enum { TOKEN_FILE_MEGATRON, TOKEN_FILE_ITEMS, TOKEN_FILE_ITEMS_OLDER } TokenFileKind;
const char *token_file_kind_name(TokenFileKind kind);

typedef struct {
    FileMap  index, bin;
    TokenFileKind kind;
    int      code, width;           /* of a token: its type as the formats number them, its bytes */
    int64_t  sequences, documents, tokens;
    /* Unaligned arrays in the mapping: [sequences] i32 tokens, [sequences] i64 byte offsets in .bin (of the
     * older format i64 tokens, and offsets in tokens), [documents + 1] i64 first sequences; NULL: each
     * sequence is a document. */
    const uint8_t *length, *pointer, *document;
    /* Ids of made tokens (--mock-data), of which there is no file, and their end of document; 0: a file */
    int64_t  mock;
    int32_t  mock_eod;
} TokenFile;

/* Checks every offset against the sizes, so that the accessors below are in bounds; BAD_FILE names file
 * and offset. Tokens are uint16 (code 8) or int32 (code 4). */
Status  token_file_open (TokenFile *token_file, const char *prefix);
/* The same, also in fairseq's older format and with integers of other types: the ids are token_file_id's. */
Status  token_file_open_any(TokenFile *token_file, const char *prefix);
int64_t token_file_id   (const TokenFile *token_file, int64_t at);      /* at: as of token_file_token */
const char *token_file_type(const TokenFile *token_file);               /* "uint16" */
/* Tokens of so many ids that are computed instead of read, for runs without data; eod ends each document, -1:
 * nothing does. Takes no memory. */
void    token_file_mock (TokenFile *token_file, int64_t vocabulary, int32_t eod);
void    token_file_close(TokenFile *token_file);
int64_t token_file_length  (const TokenFile *token_file, int64_t sequence);             /* tokens */
/* First token, from the start of .bin; sequence == sequences gives the number of tokens. */
int64_t token_file_start   (const TokenFile *token_file, int64_t sequence);
/* The first sequence of a document; document == documents gives the number of sequences. */
int64_t token_file_document(const TokenFile *token_file, int64_t document);
/* The id; at: tokens from the start of .bin. */
int32_t token_file_token   (const TokenFile *token_file, int64_t at);
/* Runs body(context), which reads the files through the accessors, under guard_run (base/guard.h): it holds
 * no lock and owns no memory. BAD_FILE where a file was truncated since token_file_open, so that what was
 * read may be zeros that are not data, or where its disk fails. */
Status  token_file_guarded (const TokenFile *token_file, void (*body)(void *context), void *context);
/* ".bin 120 bytes, .idx 96 bytes, print 0123456789abcdef, blocks 0123456789abcdef": a fingerprint by which
 * replaced files are recognised. `print` hashes the sizes and the first and last 4,096 bytes of both files
 * (older checkpoints have only this). `blocks` hashes each file whole up to `blocks` times 64 KiB, and of a
 * longer one `blocks` + 1 blocks of 64 KiB at equal distances: a change longer than a (`blocks` - 1)th of
 * the file is certainly found, a shorter one with a probability. At most that much of each file is read.
 * With fewer blocks than TOKEN_FILE_BLOCKS the word is "16 blocks", since hashes of different numbers of
 * blocks cannot be compared. */
enum { TOKEN_FILE_FINGERPRINT = 128, TOKEN_FILE_BLOCKS = 256, TOKEN_FILE_BLOCKS_LEAST = 8 };
void    token_file_fingerprint   (char out[TOKEN_FILE_FINGERPRINT], const TokenFile *token_file, int blocks);
/* The blocks of each file of a list of `files` token files, so that a start reads at most 512 MiB or 1 MiB
 * of each token file. A power of two, so that a list that grows a little keeps its number. */
int     token_file_blocks        (int64_t files);

/* Writes token files: to temporary names, renamed at the end, .bin first and .idx last, so that a prefix
 * with an .idx is complete. */
typedef struct TokenFileWriter TokenFileWriter;
/* Tokens are uint16 for vocabularies below 65,500 entries (Megatron's rule), else int32. BAD_FILE while
 * another process writes the same prefix. */
Status token_file_create(TokenFileWriter **writer, const char *prefix, int64_t vocabulary);
/* The same in fairseq's newer format, where each sequence is an item and documents are not counted. */
Status token_file_create_items(TokenFileWriter **writer, const char *prefix, int64_t vocabulary);
/* Appends one sequence to the present document; ids below the vocabulary. This and the functions below fail
 * with IO_FAILED, and with BAD_FILE where a count exceeds what the format can hold. */
Status token_file_add   (TokenFileWriter *writer, const int32_t *ids, int64_t count);
Status token_file_end_document(TokenFileWriter *writer);
/* Appends all documents of `part`, whose tokens must have the writer's width. INTERRUPTED once *stop is
 * not 0; stop may be NULL. */
Status token_file_merge (TokenFileWriter *writer, const TokenFile *part, const volatile sig_atomic_t *stop);
/* The largest id so far; -1: there is none. */
int64_t token_file_largest(const TokenFileWriter *writer);
/* The pair gets a PREFIX.facts.json (data/token_facts.h) with this tokenizer and these options; counts,
 * largest id and hash are the writer's. Without a call it gets none. */
struct TokenFacts;
void   token_file_describe(TokenFileWriter *writer, const struct TokenFacts *facts);
/* Writes .idx and renames both files. Frees the writer, on failure too. */
Status token_file_finish(TokenFileWriter *writer);
/* Removes what was written and frees the writer. */
void   token_file_discard(TokenFileWriter *writer);
#endif
