/* Any bytes as the files beside a tokenizer: config.json, generation_config.json, tokenizer_config.json, of which the first six
 * bytes are the lengths, and chat_template.jinja. What is found can be named and written. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "convert/tokenizer/special_ids.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define ADDED(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"special\":true,\"single_word\":false,\"lstrip\":false," \
                        "\"rstrip\":false,\"normalized\":false}"
static const char TOKENIZER[] =
    "{\"added_tokens\":[" ADDED("3", "<s>") "," ADDED("4", "</s>") "],"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]}}";

static void file_put(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (bytes == 0) return;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) abort();
}

static void written(const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (!text) abort();
    free(text);
}

static void everything_named(const SpecialIds *ids, const Tokenizer *t)
{
    char    text[SPECIAL_TEXT];
    int64_t id[SPECIAL_ENDS_MOST + 3] = { ids->bos, ids->pad, ids->unknown };
    if (ids->ends < 0 || ids->ends > SPECIAL_ENDS_MOST) abort();
    for (int i = 0; i < ids->ends; i++) id[i + 3] = ids->end[i];
    for (int i = 0; i < ids->ends + 3; i++)
        if (special_text(text, t, id[i]) && (id[i] < 0 || id[i] >= t->vocabulary)) abort();
    written(ids->config);
    written(ids->generation);
    if (ids->chat) written(ids->chat);
}

/* Once: the reader of tokenizers has a target of its own. */
static const Tokenizer *tokenizer(TokenizerFile *file, const char *folder)
{
    static Tokenizer t;
    if (!t.vocabulary) {
        mkdir(folder, 0700);
        file_put(folder, "tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
        if (tokenizer_open(&t, folder) != OK) abort();
    }
    if (tokenizer_file_find(file, folder) != OK) abort();
    return &t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = { "config.json", "generation_config.json", "tokenizer_config.json" };
    char          folder[64];
    size_t        length[3];
    TokenizerFile file;
    SpecialIds    ids;
    if (bytes < 6) return 0;
    for (int i = 0; i < 3; i++) length[i] = (size_t)data[2 * i] | (size_t)data[2 * i + 1] << 8;
    data += 6, bytes -= 6;
    snprintf(folder, sizeof folder, "/dev/shm/jotun-fuzz-ids-%d", (int)getpid());
    const Tokenizer *t = tokenizer(&file, folder);
    for (int i = 0; i < 3; i++) {
        if (length[i] > bytes) length[i] = bytes;
        file_put(folder, names[i], data, length[i]);
        data += length[i], bytes -= length[i];
    }
    file_put(folder, "chat_template.jinja", data, bytes);
    if (special_ids_find(&ids, t, &file) == OK) everything_named(&ids, t);
    special_ids_free(&ids);
    return 0;
}
