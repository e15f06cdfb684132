/* Any bytes as a text of each markup, and as the beginning of a file whose format is to be found: it ends, valid UTF-8 stays valid, and nothing but line ends, blanks and soft hyphens is lost or
 * added. */
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "corpus/prose/html_to_text.h"
#include "corpus/prose/reflow.h"
#include "corpus/read/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static Buffer out;

/* The bytes that are no white space, soft hyphens left out. */
static size_t letters(char *to, const char *text, int64_t bytes)
{
    size_t count = 0;
    for (int64_t i = 0; i < bytes; i++) {
        if (i + 1 < bytes && !memcmp(text + i, "\xC2\xAD", 2)) i++;
        else if (!memchr(" \t\r\n\f\v", text[i], 6)) to[count++] = text[i];
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!bytes) return 0;
    Markup markup = (Markup)(MARKUP_HTML + data[0] % (MARKUP_TEX - MARKUP_HTML + 1));
    int64_t length = (int64_t)bytes - 1;
    char *text = malloc(bytes);                 /* as long as it is, so that no byte behind it can be read */
    memcpy(text, data + 1, bytes - 1);
    bool valid = utf8_broken(text, length) < 0;
    out.bytes = 0;
    if ((markup == MARKUP_HTML ? html_to_text(&out, text, length) : reflow(&out, text, length, markup)) != OK) abort();
    if (valid && utf8_broken(out.text, out.bytes) >= 0) abort();
    if (markup != MARKUP_HTML && valid) {
        char  *before = malloc(bytes), *after = malloc((size_t)out.bytes + 1);
        size_t was = letters(before, text, length), is = letters(after, out.text, out.bytes);
        if (was != is || memcmp(before, after, was) != 0) abort();
        free(before);
        free(after);
    }
    lines_look(text, length);
    FileFormat format;
    for (int i = 0; i < 4; i++) {
        static const char *const name[] = { "a.txt", "a", "a.xml", "-" };
        if (format_by_beginning(&format, name[i], BLOCK_AUTO, text, length) == OK && format.kind <= BLOCK_AUTO) abort();
    }
    free(text);
    return 0;
}
