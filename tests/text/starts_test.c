/* pretoken_gpt2_starts finds the same pieces as pretoken_next, with and without vector instructions, for any
 * text. */
#include <stdlib.h>
#include "base/random.h"
#include "text/pretokenize/pretoken.h"
#include "text/pretokenize/pretoken_gpt2.h"

#undef __SSE2__
#define pretoken_gpt2_starts starts_plain            /* the same file once more, as other machines compile it */
uint64_t starts_plain(const uint8_t *text, int64_t bytes);
#include "text/pretokenize/pretoken_gpt2.c"
#undef pretoken_gpt2_starts
#include "base/testing.h"

static const char *const parts[] = {
    "a", "Z", "ord", "\xC3\xA5", "\xC3\x96", "\xC3\x97", "\xC3\xB7", "\xC2\xBB", "\xC2\xA0", "\xC2\xBD", "\xD0\x96", "\xCF\x89", "\xE2\x80\x94",
    "\xE2\x80\x83", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "\xCC\x81", " ", "  ", "   ", "\n", "\r\n", "\t", "1", "42", ".", "!?", "'", "'s", "'ll",
    "'re", "'ve", "'l", "'S", "''", "\xFF", "\xC3", "\xE2\x80", "\x80", "\x1C", "\x85", "", "\xC8\xA1", "\xC9\xBF", "\xCA\x80", "\xD2\x80",
};

static int64_t text_make(uint8_t *text, int64_t capacity, uint64_t seed, int kinds)
{
    int64_t bytes = 0;
    for (uint64_t i = 0; bytes < capacity; i++) {
        uint64_t bits = random_bits(seed, i);
        const char *part = parts[(bits >> 8) % (sizeof parts / sizeof parts[0])];
        if ((int)(bits & 15) >= kinds) part = (bits >> 20) % 3 ? "e" : " ";
        for (; *part && bytes < capacity; part++) text[bytes++] = (uint8_t)*part;
    }
    return bytes;
}

static uint64_t starts_asked(const uint8_t *text, int64_t bytes)
{
    uint64_t starts = 0;
    for (int64_t at = 0; at < GPT2_STARTS_BITS; at += pretoken_next(PRETOKEN_GPT2, text + at, bytes - at)) starts |= 1ull << at;
    return starts;
}

static void agree_on(uint64_t seed, int kinds)
{
    uint8_t *text  = malloc(4096);          /* so that a sanitizer sees a read beyond it */
    int64_t  bytes = text_make(text, 4096, seed, kinds);
    for (int64_t at = 0; bytes - at >= GPT2_READ_BYTES; at += pretoken_next(PRETOKEN_GPT2, text + at, bytes - at)) {
        uint64_t asked = starts_asked(text + at, bytes - at);
        assert_int_equal(pretoken_gpt2_starts (text + at, bytes - at), asked);
        assert_int_equal(starts_plain(text + at, bytes - at), asked);
    }
    free(text);
}

static void blocks_agree_with_pieces(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) agree_on(seed, 1 + (int)(seed % 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(blocks_agree_with_pieces) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
