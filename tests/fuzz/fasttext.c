/* Any bytes as a fastText model; the first says how many of the last are a text that it is asked about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "text/fasttext/langid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void text_guess(const Langid *langid, const char *text, size_t bytes)
{
    LangidSpace *space;
    LangidGuess  guess[3];
    if (langid_space_open(&space, langid) != OK) return;
    for (int turn = 0; turn < 2; turn++) {
        int count = langid_guess(langid, space, text, (int64_t)bytes, guess, 3);
        if (count < 0 || count > 3) abort();
        for (int i = 0; i < count; i++)
            if (!langid_label(langid, guess[i].label) || !(guess[i].probability >= 0 && guess[i].probability <= 1)) abort();
    }
    langid_space_close(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char    path[64];
    Langid *langid;
    if (bytes < 1) return 0;
    size_t asked = data[0] < bytes - 1 ? data[0] : bytes - 1, model = bytes - 1 - asked;
    snprintf(path, sizeof path, "/dev/shm/jotun-fuzz-%d.ftz", (int)getpid());
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data + 1, 1, model, file) != model || fclose(file) != 0) abort();
    if (langid_open(&langid, path) != OK) return 0;
    char *text = malloc(asked + !asked);             /* as long as it is, so that no byte behind it can be read */
    memcpy(text, data + 1 + model, asked);
    text_guess(langid, text, asked);
    free(text);
    langid_close(langid);
    return 0;
}
