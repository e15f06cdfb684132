/* Tokenizers composed of all components that are read, by tests/outside/tokenizer_compose.py, which wrote the
 * ids and the decoded texts of Hugging Face's library beside them:
 *
 *     {"tokenizers": "0.23.3", "seed": 1, "texts": [text, ...]}                             the first line
 *     {"file": tokenizer.json, "special": true, "ids": [[id, ...], ...], "decoded": [text, ...]}   the others
 *
 * special: special tokens in a text become their ids. In ids, null: the library refuses the text; false: it
 * panics. In decoded, null: the text itself; false: it panics, or decodes otherwise by intent (docs/formats.md). The comparison runs this program with another
 * file as its argument. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/testing.h"
#include "text/decoder.h"
#include "text/unicode.h"

static const char *path = TESTS_DIR "/golden/text/composed.jsonl.gz";
static int most = 3;                                                  /* texts of a tokenizer that are shown */

/* A line without its end, to be freed; NULL at the end of the file */
static char *line_read(FILE *file)
{
    size_t used = 0, capacity = 1 << 16;
    char  *line = malloc(capacity);
    while (fgets(line + used, (int)(capacity - used), file)) {
        used += strlen(line + used);
        if (used && line[used - 1] == '\n') return line;
        line = realloc(line, capacity *= 2);
    }
    free(line);
    return NULL;
}

/* The library shows bytes that are no character as U+FFFD; how many of them is not compared. */
static char *shown(const char *text, size_t bytes)
{
    char  *out = malloc(3 * bytes + 1);
    size_t used = 0;
    for (size_t at = 0; at < bytes; ) {
        Rune r = rune_at((const uint8_t *)text + at, (int64_t)(bytes - at));
        bool broken = r.point == RUNE_BROKEN || r.point == 0xFFFD;
        bool again  = broken && used >= 3 && !memcmp(out + used - 3, "\xEF\xBF\xBD", 3);
        if (broken && !again) memcpy(out + used, "\xEF\xBF\xBD", 3), used += 3;
        if (!broken) memcpy(out + used, text + at, (size_t)r.bytes), used += (size_t)r.bytes;
        at += (size_t)r.bytes;
    }
    out[used] = 0;
    for (size_t i = 0; i < used; i++) if (!out[i]) out[i] = 1;          /* so that NUL ends no comparison */
    return out;
}

static int tell(const char *what, const json_t *row, const char *text, const char *want, const char *got)
{
    json_t *file = json_deep_copy(json_object_get(row, "file"));
    json_t *model = json_object_get(file, "model");
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    char *parts = json_dumps(file, JSON_COMPACT);
    fprintf(stderr, "%s of %s\n  want %s\n  got  %s\n  by   %s\n", what, text, want, got, parts);
    free(parts);
    json_decref(file);
    return 1;
}

static char *ids_text(const int32_t *ids, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static int decoded_compare(const Tokenizer *t, const json_t *row, const json_t *text, const json_t *want,
                           const int32_t *ids, int64_t count)
{
    char   *said = NULL;
    size_t  bytes = 0;
    int     wrong = 0;
    FILE   *out = open_memstream(&said, &bytes);
    Decoder d = { .tokenizer = t };
    if (json_is_null(want)) want = text;
    for (int64_t i = 0; i < count; i++) decoder_put(&d, out, ids[i]);
    decoder_end(&d, out);
    fclose(out);
    char *a = shown(said, bytes), *b = shown(json_string_value(want), json_string_length(want));
    if (strcmp(a, b)) wrong = tell("decoded", row, json_string_value(text), b, a);
    free(a);
    free(b);
    free(said);
    return wrong;
}

static int text_compare(const Tokenizer *t, const json_t *row, const json_t *text, const json_t *want,
                        const json_t *decoded)
{
    const char *s = json_string_value(text);
    int64_t  bytes = (int64_t)json_string_length(text), bound = tokenizer_max_ids(t, s, bytes);
    int32_t *ids = malloc((size_t)(bound + 1) * sizeof *ids);
    int64_t  count = t->encode(t, ids, s, bytes);
    int      wrong = count > bound ? tell("number of ids", row, s, "", "more than the bound") : 0;
    char    *got = count < 0 ? strdup("null") : ids_text(ids, count);
    char    *wanted = json_dumps(want, JSON_COMPACT | JSON_ENCODE_ANY);
    if (json_is_false(want)) {
        free(got);
        got = strdup(wanted);
        decoded = want;
    }
    if (strcmp(got, wanted)) wrong = tell("ids", row, s, wanted, got);
    else if (count >= 0 && !json_is_false(decoded)) wrong = decoded_compare(t, row, text, decoded, ids, count);
    free(got);
    free(wanted);
    free(ids);
    return wrong;
}

/* How many texts differ */
static int tokenizer_compare(const json_t *row, const json_t *texts)
{
    Tokenizer t;
    char      name[] = "/tmp/jotun_composed_XXXXXX.json";
    int       wrong = 0;
    close(mkstemps(name, 5));
    assert_int_equal(json_dump_file(json_object_get(row, "file"), name, JSON_COMPACT), 0);
    if (tokenizer_open(&t, name) != OK) wrong = tell("opening", row, "", "", fail_text());
    else {
        t.parse_special = t.specials && json_is_true(json_object_get(row, "special"));
        for (size_t i = 0; i < json_array_size(texts) && wrong < most; i++)
            wrong += text_compare(&t, row, json_array_get(texts, i),
                                  json_array_get(json_object_get(row, "ids"), i),
                                  json_array_get(json_object_get(row, "decoded"), i));
        tokenizer_close(&t);
    }
    unlink(name);
    return wrong;
}

static void as_the_library(void **state)
{
    (void)state;
    char    command[1100], *line;
    json_t *head = NULL;
    int     tokenizers = 0, other = 0;
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE   *file = popen(command, "r");
    assert_non_null(file);
    while ((line = line_read(file))) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        free(line);
        if (!head) {
            head = row;
            continue;
        }
        tokenizers++;
        other += tokenizer_compare(row, json_object_get(head, "texts")) > 0;
        json_decref(row);
    }
    pclose(file);
    json_decref(head);
    print_message("%d tokenizers, %d give other ids or texts\n", tokenizers, other);
    assert_int_equal(other, 0);
    assert_true(tokenizers > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_the_library) };
    if (argc > 1) path = argv[1], most = 20;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
