/* Opens a tokenizer by the argument of --tokenizer: finds out which kind of file or folder it is, and calls
 * the reader of that kind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "text/bytes.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/sentencepiece/sentencepiece.h"

static bool has_suffix(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Writes "folder/file" where that file exists; otherwise "" and false. */
static bool path_in_folder(char out[1024], const char *folder, const char *file)
{
    if (snprintf(out, 1024, "%s/%s", folder, file) < 1024 && file_exists(out)) return true;
    *out = 0;
    return false;
}

/* GPT-2 publishes its files as encoder.json and vocab.bpe; transformers writes the same as vocab.json and
 * merges.txt. */
static Status folder_read(BpeTokenizer *m, const char *folder)
{
    static const char *const pairs[][2] = { { "encoder.json", "vocab.bpe" }, { "vocab.json", "merges.txt" } };
    char vocab[1024], merges[1024], added[1024], config[1024], map[1024];
    bool found = path_in_folder(vocab, folder, "tokenizer.json");
    path_in_folder(config, folder, "tokenizer_config.json");
    path_in_folder(map, folder, "special_tokens_map.json");
    if (found) TRY(bpe_read_json(m, vocab));
    for (int i = 0; i < 2 && !found; i++) {
        found = path_in_folder(vocab, folder, pairs[i][0]) && path_in_folder(merges, folder, pairs[i][1]);
        if (!found) continue;
        TRY(bpe_read_gpt2(m, vocab, merges));
        if (path_in_folder(added, folder, "added_tokens.json"))
            TRY(bpe_read_added(m, added, vocab, config, map));
    }
    if (found) return *config ? bpe_read_config(m, config) : OK;
    return fail(BAD_OPTION,
                "--tokenizer %s: the directory has neither tokenizer.json, nor encoder.json and vocab.bpe,"
                " vocab.json and merges.txt, nor tokenizer.model", folder);
}

static Status model_read(BpeTokenizer *m, const char *name)
{
    struct stat about;
    if (stat(name, &about) != 0)
        return fail(BAD_OPTION, "--tokenizer %s: no such file; give a path or `bytes`", name);
    if (S_ISDIR(about.st_mode))       return folder_read(m, name);
    if (has_suffix(name, ".json"))  return bpe_read_json(m, name);
    if (has_suffix(name, ".tiktoken") || has_suffix(name, ".model")) return bpe_read_tiktoken(m, name);
    return fail(BAD_OPTION,
                "--tokenizer %s: give the word bytes, a tokenizer.json, a .tiktoken file, a sentencepiece"
                " .model, or a directory with encoder.json and vocab.bpe, or vocab.json and"
                " merges.txt", name);
}

/* Two formats are called .model. A sentencepiece model is a protocol-buffers message, whose first byte is a
 * field tag below ' '; Llama 3's file has the lines of a .tiktoken file, which begin with base64. */
static bool is_sentencepiece(const char *path)
{
    FileMap map;
    if (!has_suffix(path, ".model")) return false;
    if (file_map(&map, path) != OK) return true;                            /* its reader reports why */
    bool result = map.size == 0 || map.data[0] < ' ';
    file_unmap(&map);
    return result;
}

/* A folder with none of the other kinds of files means its tokenizer.model. */
static const char *tokenizer_path_in(char path[1024], const char *name)
{
    static const char *const others[] = { "tokenizer.json", "vocab.bpe", "merges.txt" };
    for (int i = 0; i < 3; i++)
        if (path_in_folder(path, name, others[i])) return name;
    return path_in_folder(path, name, "tokenizer.model") ? path : name;
}

Status tokenizer_open(Tokenizer *t, const char *name)
{
    BpeTokenizer *bpe;
    char   path[1024];
    *t = bytes_tokenizer;
    if (strcmp(name, t->name) == 0) return OK;
    name = tokenizer_path_in(path, name);
    if (is_sentencepiece(name)) return sentencepiece_open(t, name);
    TRY(bpe_tokenizer_open(&bpe, name));
    Status status = model_read(bpe, name);
    if (status == OK) return bpe_tokenizer_make(t, bpe);
    bpe_tokenizer_close(bpe);
    return status;
}
