/* Any bytes as words: each is a stretch of the text behind the one before, not empty, and by itself it is the same word; and
 * as many shingles as words allow, a set of them sorted, each once. */
#include <stdlib.h>
#include <string.h>
#include "corpus/dedup/shingle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void word_check(const char *text, WordSpan word, bool digits)
{
    WordWalk alone = { .text = text + word.from, .bytes = word.end - word.from, .digits = digits };
    WordSpan same, more;
    if (!word_next(&alone, &same) || same.hash != word.hash || same.from || same.end != word.end - word.from) abort();
    if (word_next(&alone, &more)) abort();
}

static int64_t words_check(const char *text, int64_t bytes, bool digits)
{
    WordWalk walk = { .text = text, .bytes = bytes, .digits = digits };
    WordSpan word;
    int64_t  count = 0, end = 0;
    for (; word_next(&walk, &word); count++) {
        if (word.from < end || word.end <= word.from || word.end > bytes || (count && word.from == end)) abort();
        word_check(text, word, digits);
        end = word.end;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static Shingles all, set;
    if (!bytes) return 0;
    int  n = 1 + data[0] % SHINGLE_WORDS_MOST;
    char *text = malloc(bytes);                             /* to the byte, so that one read too far is seen */
    memcpy(text, data + 1, bytes - 1);
    int64_t size = (int64_t)bytes - 1, count = words_check(text, size, false);
    words_check(text, size, true);
    if (shingles_of(&all, n, text, size) != OK || shingles_of(&set, n, text, size) != OK || shingles_set(&set) != OK) abort();
    if (all.count != (count < n ? 0 : count - n + 1) || set.count > all.count) abort();
    for (int64_t i = 1; i < set.count; i++)
        if (set.hash[i - 1] >= set.hash[i]) abort();
    if (set.count && shingles_jaccard(&set, &set) != 1) abort();
    free(text);
    return 0;
}
