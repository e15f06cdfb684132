/* How fast languages are identified, by CPU time, of lines in memory: bench_langid MODEL FILE.txt [PASSES]
 * The first pass meets each word for the first time, the others know many of them. Then one word after the other:
 * known ones, and ones that were never met.                                                                        */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "text/fasttext/langid.h"

enum { WORDS = 200000, WORD_ROOM = 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t pass(const Langid *l, LangidSpace *s, const char *text, size_t bytes)
{
    LangidGuess guess;
    int64_t lines = 0;
    for (const char *at = text, *stop = text + bytes, *end; at < stop; at = end + 1, lines++) {
        end = memchr(at, '\n', (size_t)(stop - at));
        if (!end) end = stop;
        langid_guess(l, s, at, end - at, &guess, 1);
    }
    return lines;
}

/* Words of 4 to 11 letters, `kinds` of them that differ, as one text */
static double words_time(const Langid *l, LangidSpace *s, int kinds, uint32_t first)
{
    static char text[WORDS * WORD_ROOM];
    size_t bytes = 0;
    for (int i = 0; i < WORDS; i++) {
        uint32_t random = (first + (uint32_t)(i % kinds)) * 2654435761u;
        for (uint32_t n = 4 + random % 8; n; n--, random = random * 1664525u + 1013904223u) text[bytes++] = (char)('a' + (random >> 24) % 26);
        text[bytes++] = ' ';
    }
    LangidGuess guess;
    double begun = now();
    langid_guess(l, s, text, (int64_t)bytes, &guess, 1);
    return (now() - begun) / WORDS * 1e9;
}

static Status bench(const char *model, const char *path, int passes)
{
    FileMap file;
    Langid *l;
    LangidSpace *s;
    TRY(file_map(&file, path));
    double begun = now();
    TRY(langid_open(&l, model));
    TRY(langid_space_open(&s, l));
    printf("open %.1f ms\n", (now() - begun) * 1e3);
    for (int i = 1; i <= passes; i++) {
        begun = now();
        int64_t lines = pass(l, s, (const char *)file.data, file.size);
        double  time  = now() - begun;
        printf("pass %d: %.1f MB/s, %" PRId64 " lines of %.0f bytes\n", i, 1e-6 * (double)file.size / time, lines,
               (double)file.size / (double)lines);
    }
    words_time(l, s, 1000, 0);
    printf("a known word %.0f ns", words_time(l, s, 1000, 0));
    printf(", a new one %.0f ns\n", words_time(l, s, WORDS, 1000000));
    langid_space_close(s);
    langid_close(l);
    file_unmap(&file);
    return OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "bench_langid MODEL FILE.txt [PASSES]\n");
        return 2;
    }
    if (bench(argv[1], argv[2], argc > 3 ? (int)strtol(argv[3], NULL, 10) : 3) == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
