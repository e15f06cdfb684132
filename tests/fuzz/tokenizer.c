/* Any bytes as a file of a tokenizer; the first says how many of the last are a text. What opens encodes the text within its own bound and
 * decodes every id, and its file for transformers can be made. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "convert/tokenizer/tokenizer_json.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static size_t decoded;                          /* so that nothing is optimised away */

static void text_turn(Tokenizer *t, const char *text, int64_t bytes)
{
    char    fingerprint[TOKENIZER_FINGERPRINT];
    int64_t most = tokenizer_max_ids(t, text, bytes);
    if (most < 0) return;
    int32_t *ids   = malloc((size_t)(most + !most) * sizeof *ids);
    int64_t  count = t->encode(t, ids, text, bytes);
    if (count > most) abort();
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= t->vocabulary) abort();
        decoded += (size_t)t->decode(t, ids[i]).bytes;
    }
    for (int32_t id = 0; id < t->vocabulary && id < 1000; id++) {
        TextPiece piece = t->decode(t, id);
        if (piece.prefix < 0 || piece.prefix > piece.bytes) abort();
        for (int64_t i = 0; i < piece.bytes; i++) decoded += (uint8_t)piece.text[i];
        for (int place = 0; t->decode_at && place < PIECE_PLACES; place++) {
            piece = t->decode_at(t, id, place);
            for (int64_t i = 0; piece.text && i < piece.bytes; i++) decoded += (uint8_t)piece.text[i];
        }
    }
    tokenizer_fingerprint(fingerprint, t);
    free(ids);
}

static void file_convert(const char *path)
{
    json_t *root = NULL;
    Status  status = OK;
    if (!strcmp(ENDING, ".tiktoken")) status = tiktoken_json(&root, path);
    if (!strcmp(ENDING, ".model"))    status = sentencepiece_json(&root, path);
    if (status == OK) json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char      path[64];
    Tokenizer t;
    if (bytes < 2) return 0;
    size_t asked = data[0] < bytes - 1 ? data[0] : bytes - 1, model = bytes - 1 - asked;
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d", (int)getpid());
    mkdir(path, 0700);
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d/cl100k" ENDING, (int)getpid());       /* the name says how text is split */
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data + 1, 1, model, file) != model || fclose(file) != 0) abort();
    if (tokenizer_open(&t, path) != OK) return 0;
    char *text = malloc(asked + !asked);             /* as long as it is, so that no byte behind it can be read */
    memcpy(text, data + 1 + model, asked);
    text_turn(&t, text, (int64_t)asked);
    if (t.specials) {
        t.parse_special = true;
        text_turn(&t, text, (int64_t)asked);
    }
    free(text);
    tokenizer_close(&t);
    file_convert(path);
    return 0;
}
