/* Opens a tokenizer by the argument of --tokenizer: calls the reader of the kind of file that it means. */
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "text/bytes.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/tokenizer_file.h"

/* Added tokens beside a vocabulary and merges. */
static Status pair_read(BpeTokenizer *m, const TokenizerFile *file, const char *config)
{
    char added[1024], map[1024];
    TRY(bpe_read_gpt2(m, file->path, file->merges));
    if (!tokenizer_file_beside(added, file, "added_tokens.json")) return OK;
    tokenizer_file_beside(map, file, "special_tokens_map.json");
    return bpe_read_added(m, added, file->path, config, map);
}

static Status bpe_read(BpeTokenizer *m, const TokenizerFile *file)
{
    char config[1024];
    tokenizer_file_beside(config, file, "tokenizer_config.json");
    if (file->kind == TOKENIZER_FILE_TIKTOKEN) return bpe_read_tiktoken(m, file->path);
    TRY(file->kind == TOKENIZER_FILE_JSON ? bpe_read_json(m, file->path) : pair_read(m, file, config));
    return *config ? bpe_read_config(m, config) : OK;
}

Status tokenizer_limit(Tokenizer *t, int64_t ids)
{
    if (t->vocabulary <= ids) return OK;
    if (bpe_tokenizer_of(t)) return bpe_tokenizer_limit(t, (int32_t)ids);
    return fail(BAD_OPTION, "--tokenizer %s has %d ids, and the model has %lld; give the tokenizer it was "
                "trained with", t->name, t->vocabulary, (long long)ids);
}

bool tokenizer_is_none(const char *name) { return strcmp(name, TOKENIZER_NONE) == 0; }

static int64_t encode_nothing(const Tokenizer *t, int32_t *ids, const char *text, int64_t bytes)
{
    (void)t, (void)ids, (void)text, (void)bytes;
    fail(BAD_OPTION, "without a tokenizer a text has no ids");
    return -1;
}

static TextPiece decode_nothing(const Tokenizer *t, int32_t id)
{
    (void)t, (void)id;
    return (TextPiece){ .text = "" };
}

void tokenizer_ids_only(Tokenizer *t, int32_t vocabulary)
{
    *t = (Tokenizer){ .name = TOKENIZER_NONE, .vocabulary = vocabulary, .eod = -1, .encode = encode_nothing,
                      .decode = decode_nothing };
}

static Status refuse_pointer(const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    Status status = file_fetched(path, map.data, map.size);
    file_unmap(&map);
    return status;
}

Status tokenizer_open(Tokenizer *t, const char *name)
{
    BpeTokenizer *bpe;
    TokenizerFile file;
    *t = bytes_tokenizer;
    if (tokenizer_is_none(name))
        return fail(BAD_OPTION, "--tokenizer none is for ids without text, and here text is read or written;"
                    " give a file, a directory or `bytes`");
    TRY(tokenizer_file_find(&file, name));
    if (file.kind == TOKENIZER_FILE_BYTES) return OK;
    TRY(refuse_pointer(file.path));
    if (file.kind == TOKENIZER_FILE_SENTENCEPIECE) return sentencepiece_open(t, file.path);
    TRY(bpe_tokenizer_open(&bpe, name));
    Status status = bpe_read(bpe, &file);
    if (status == OK) return bpe_tokenizer_make(t, bpe);
    bpe_tokenizer_close(bpe);
    return status;
}
