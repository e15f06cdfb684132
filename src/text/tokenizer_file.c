/* Finds the files of a tokenizer: by their names in a directory, by the ending of a single file. */
#include "text/tokenizer_file.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"
#include "base/file.h"

static bool has_suffix(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

bool tokenizer_file_beside(char path[1024], const TokenizerFile *file, const char *name)
{
    if (*file->folder && snprintf(path, 1024, "%s/%s", file->folder, name) < 1024 && file_exists(path))
        return true;
    *path = 0;
    return false;
}

/* Two formats are called .model. A sentencepiece model is a protocol-buffers message, whose first byte is a
 * field tag below ' '; Llama 3's file has the lines of a .tiktoken file, which begin with base64. */
static TokenizerFileKind model_kind(const char *path)
{
    FileMap map;
    if (file_map(&map, path) != OK) return TOKENIZER_FILE_SENTENCEPIECE;    /* its reader reports why */
    bool pieces = map.size == 0 || map.data[0] < ' ';
    file_unmap(&map);
    return pieces ? TOKENIZER_FILE_SENTENCEPIECE : TOKENIZER_FILE_TIKTOKEN;
}

/* What a directory may hold, by preference. GPT-2 publishes its files as encoder.json and vocab.bpe;
 * transformers writes the same as vocab.json and merges.txt. */
static const struct { TokenizerFileKind kind; const char *path, *merges; } in_folders[] = {
    { TOKENIZER_FILE_JSON, "tokenizer.json", NULL },
    { TOKENIZER_FILE_PAIR, "encoder.json", "vocab.bpe" },
    { TOKENIZER_FILE_PAIR, "vocab.json", "merges.txt" },
    { TOKENIZER_FILE_SENTENCEPIECE, "tokenizer.model", NULL },
};

/* Megatron-LM's names, gpt2-vocab.json and gpt2-merges.txt, where the folder has one such pair. Returns how
 * many it has. */
static int named_pair_find(TokenizerFile *f)
{
    static const char end[] = "-vocab.json";
    struct dirent    *entry;
    int               pairs = 0;
    char              path[1024], merges[1024], name[300];
    DIR              *folder = opendir(f->folder);
    if (!folder) return 0;
    while ((entry = readdir(folder))) {
        if (!has_suffix(entry->d_name, end)) continue;
        int letters = (int)(strlen(entry->d_name) - strlen(end));
        snprintf(name, sizeof name, "%.*s-merges.txt", letters, entry->d_name);
        if (!tokenizer_file_beside(path, f, entry->d_name)) continue;
        if (!tokenizer_file_beside(merges, f, name)) continue;
        memcpy(f->path, path, sizeof path);
        memcpy(f->merges, merges, sizeof merges);
        pairs++;
    }
    closedir(folder);
    return pairs;
}

static Status folder_find(TokenizerFile *f, const char *name)
{
    if (snprintf(f->folder, sizeof f->folder, "%s", name) >= (int)sizeof f->folder)
        return fail(BAD_OPTION, "--tokenizer %.60s...: the path has more than %zu bytes", name,
                    sizeof f->folder - 1);
    for (size_t i = 0; i < COUNT(in_folders); i++) {
        bool found = tokenizer_file_beside(f->path, f, in_folders[i].path);
        if (in_folders[i].merges) found = tokenizer_file_beside(f->merges, f, in_folders[i].merges) && found;
        f->kind = in_folders[i].kind;
        if (found && f->kind == TOKENIZER_FILE_SENTENCEPIECE) f->kind = model_kind(f->path);
        if (found) return OK;
    }
    int pairs = named_pair_find(f);
    f->kind = TOKENIZER_FILE_PAIR;
    if (pairs == 1) return OK;
    if (pairs > 1)
        return fail(BAD_OPTION, "--tokenizer %s: the directory has %d pairs of NAME-vocab.json and "
                    "NAME-merges.txt; give a directory with one of them", name, pairs);
    return fail(BAD_OPTION,
                "--tokenizer %s: the directory has neither tokenizer.json, nor encoder.json and vocab.bpe,"
                " vocab.json and merges.txt, NAME-vocab.json and NAME-merges.txt, nor tokenizer.model", name);
}

Status tokenizer_file_find(TokenizerFile *f, const char *name)
{
    struct stat about;
    *f = (TokenizerFile){ .kind = TOKENIZER_FILE_BYTES };
    if (!strcmp(name, "bytes")) return OK;
    if (stat(name, &about) != 0)
        return fail(BAD_OPTION, "--tokenizer %s: no such file; give a path or `bytes`", name);
    if (S_ISDIR(about.st_mode)) return folder_find(f, name);
    bool model = has_suffix(name, ".model");
    f->kind = has_suffix(name, ".json") ? TOKENIZER_FILE_JSON
            : model                     ? model_kind(name)
                                        : TOKENIZER_FILE_TIKTOKEN;
    bool known = model || f->kind == TOKENIZER_FILE_JSON || has_suffix(name, ".tiktoken");
    if (known && snprintf(f->path, sizeof f->path, "%s", name) < (int)sizeof f->path) return OK;
    return fail(BAD_OPTION,
                "--tokenizer %s: give the word bytes, a tokenizer.json, a .tiktoken file, a sentencepiece"
                " .model, or a directory with encoder.json and vocab.bpe, or vocab.json and"
                " merges.txt", name);
}

static void part_add(TokenizerPart *part, const char *path, const char *name)
{
    snprintf(part->path, sizeof part->path, "%s", path);
    snprintf(part->name, sizeof part->name, "%s", name);
}

static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void own_name(char name[64], const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *leaf = leaf_of(path), *dot = strrchr(leaf, '.');
    bool usual = *leaf != '.' && strlen(leaf) < 64 && !leaf[strspn(leaf, plain)];
    if (usual) snprintf(name, 64, "%.63s", leaf);
    else       snprintf(name, 64, "tokenizer%.54s", dot ? dot : "");
}

int tokenizer_file_parts(TokenizerPart part[TOKENIZER_PARTS], const TokenizerFile *f)
{
    static const char *const beside[] = { "tokenizer_config.json", "special_tokens_map.json",
                                          "added_tokens.json", "config.json", "generation_config.json",
                                          "chat_template.jinja", "tokenizer.model" };
    char path[1024], name[64];
    int  parts = 0;
    bool gpt2 = f->kind == TOKENIZER_FILE_PAIR && !strcmp(leaf_of(f->merges), "vocab.bpe");
    if (f->kind == TOKENIZER_FILE_BYTES) return 0;
    own_name(name, f->path);
    bool pair = f->kind == TOKENIZER_FILE_PAIR;
    part_add(&part[parts++], f->path, !pair ? name : gpt2 ? "encoder.json" : "vocab.json");
    if (pair) part_add(&part[parts++], f->merges, gpt2 ? "vocab.bpe" : "merges.txt");
    for (size_t i = 0; i < COUNT(beside); i++)
        if (strcmp(beside[i], part[0].name) && tokenizer_file_beside(path, f, beside[i]))
            part_add(&part[parts++], path, beside[i]);
    return parts;
}
