/* A word in single quotes is taken as it is, without a single quote in it; $'...' knows escapes. */
#include "base/shell/shell_word.h"
#include <stdbool.h>
#include <string.h>

static bool is_control(char c) { return (unsigned char)c < ' ' || c == 0x7f; }

void shell_word_write(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
    bool control = false;
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    for (const char *c = word; *c; c++) control |= is_control(*c);
    fputs(control ? "$'" : "'", out);
    for (const char *c = word; *c; c++) {
        if (is_control(*c)) fprintf(out, "\\x%02x", (unsigned char)*c);
        else if (*c == '\'') fputs(control ? "\\'" : "'\\''", out);
        else if (control && *c == '\\') fputs("\\\\", out);
        else fputc(*c, out);
    }
    fputc('\'', out);
}
