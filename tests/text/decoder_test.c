/* Streaming detokenization: characters spread over ids, broken characters, the space before a text. */
#include <stdio.h>
#include <stdlib.h>
#include "base/testing.h"
#include "text/bytes.h"
#include "text/decoder.h"

/* Compares what is written after each id, separated by "|" */
static void expect_steps(Decoder *d, const int32_t *ids, int count, const char *want)
{
    char  *said;
    size_t bytes;
    FILE  *out = open_memstream(&said, &bytes);
    for (int i = 0; i < count; i++) {
        decoder_put(d, out, ids[i]);
        fputc('|', out);
    }
    decoder_end(d, out);
    fclose(out);
    assert_string_equal(said, want);
    free(said);
}
#define expect_said(d, want, ...) \
    expect_steps(d, (int32_t[]){ __VA_ARGS__ }, (int)(sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t)), want)

static void characters_come_whole(void **state)
{
    (void)state;
    Decoder d = { .tokenizer = &bytes_tokenizer };
    expect_said(&d, "a||\xC3\xA5|b|", 'a', 0xC3, 0xA5, 'b');
    expect_said(&d, "||\xE2\x82\xAC||||\xF0\x9F\x98\x80|", 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80);
    expect_said(&d, "|\xC3" "a|", 0xC3, 'a');                              /* broken: written unchanged, once known */
    expect_said(&d, "|\xC3|\xC3\xA5|", 0xC3, 0xC3, 0xA5);
    expect_said(&d, "\x80|\xFF|\xC0|", 0x80, 0xFF, 0xC0);                  /* these begin no character */
    expect_said(&d, "|||\xE2\x82", 0xE2, 0x82, BYTES_EOD);                 /* the end writes the held bytes */
}

static TextPiece three(const Tokenizer *t, int32_t id)
{
    static const TextPiece piece[] = { { " a", 2, 1 }, { " ", 1, 1 }, { "x\xE2", 2, 0 }, { "\x82\xAC\xC3", 3, 0 },
                                       { "\xA5y", 2, 0 }, { "", 0, 0 }, { " b", 2, 0 } };
    (void)t;
    return piece[id];
}

static void pieces_of_many_bytes(void **state)
{
    (void)state;
    Tokenizer t = { .vocabulary = 7, .eod = -1, .decode = three };
    Decoder   d = { .tokenizer = &t };
    expect_said(&d, "a|x|\xE2\x82\xAC|\xC3\xA5y|", 0, 2, 3, 4);
    expect_said(&d, "|a| a|", 5, 0, 0);                                    /* an id without text begins no text */
    expect_said(&d, "| a|", 1, 0);
    expect_said(&d, " b| a|", 6, 0);                                       /* this space is of the text */
    expect_said(&d, "x|\xE2 a|", 2, 0);
    t.drops_prefixes = true;
    expect_said(&d, "||a| a|", 1, 1, 0, 0);
    d.continues = true;
    expect_said(&d, " a|", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(characters_come_whole), cmocka_unit_test(pieces_of_many_bytes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
