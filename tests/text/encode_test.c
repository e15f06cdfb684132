/* Ids against what other programs give: the published vocabularies, where they lie beside the source. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/testing.h"
#include "base/file.h"
#include "text/tokenizer.h"

#define SHARED TESTS_DIR "/../../shared/data/"

static void expect_ids(const Tokenizer *t, const char *text, int64_t bytes, const json_t *want)
{
    int64_t  room = tokenizer_room(t, bytes);
    int32_t *ids  = malloc((size_t)(room + 1) * sizeof *ids);
    int64_t  count = t->encode(t, ids, text, bytes), same = 0;
    while (same < count && same < (int64_t)json_array_size(want) &&
           ids[same] == json_integer_value(json_array_get(want, (size_t)same))) same++;
    if (count != (int64_t)json_array_size(want) || same != count)
        fail_msg("%s: %.60s: %lld ids, not %zu; the first that differs is %lld", t->name, text, (long long)count,
                 json_array_size(want), (long long)same);
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        TextPiece piece = t->decode(t, ids[i]);
        if (at + piece.bytes > bytes || memcmp(text + at, piece.text, (size_t)piece.bytes))
            fail_msg("%s: %.60s: does not come back", t->name, text);
        at += piece.bytes;
    }
    assert_int_equal(at, bytes);
    free(ids);
}

static void published_pairs(const char *tokenizer, const char *a, const char *b)
{
    Tokenizer t;
    char      line[1 << 17];
    int       seen = 0;
    FILE     *file = fopen(SHARED "gpt2/pairs.jsonl", "r");
    if (!file) skip();
    if (tokenizer_open(&t, tokenizer) != OK) fail_msg("%s", fail_text());
    while (fgets(line, sizeof line, file)) {
        json_t     *row  = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        const char *name = json_string_value(json_object_get(row, "encoding"));
        const json_t *text = json_object_get(row, "text");
        if (!strcmp(name, a) || !strcmp(name, b)) {
            expect_ids(&t, json_string_value(text), (int64_t)json_string_length(text), json_object_get(row, "ids"));
            seen++;
        }
        json_decref(row);
    }
    fclose(file);
    tokenizer_close(&t);
    assert_true(seen > 20);
}

static void gpt2_files(void **s)    { (void)s; published_pairs(SHARED "gpt2", "r50k_base", "gpt2"); }
static void gpt2_tiktoken(void **s) { (void)s; published_pairs(SHARED "gpt2/r50k_base.tiktoken", "r50k_base", "gpt2"); }
static void gpt2_json(void **s)     { (void)s; published_pairs(SHARED "gpt2/gpt2_tokenizer.json", "r50k_base", "gpt2"); }
static void cl100k(void **s)        { (void)s; published_pairs(SHARED "gpt2/cl100k_base.tiktoken", "cl100k_base", "cl100k"); }

/* Counts and the first ids of whole files; a sum over all ids stands for the rest in file_goldens' place of a hash */
static void whole_files(void **state)
{
    (void)state;
    Tokenizer t;
    size_t    i;
    json_t   *row, *rows = json_load_file(SHARED "gpt2/file_goldens.json", 0, NULL);
    if (!rows) skip();
    assert_int_equal(tokenizer_open(&t, SHARED "gpt2"), OK);
    json_array_foreach(rows, i, row) {
        FileMap  map;
        char     path[1024], command[2048], sum[65] = "";
        snprintf(path, sizeof path, SHARED "%s", json_string_value(json_object_get(row, "file")));
        assert_int_equal(file_map(&map, path), OK);
        int32_t *ids = malloc(map.size * sizeof *ids);
        int64_t  count = t.encode(&t, ids, (const char *)map.data, (int64_t)map.size);
        assert_int_equal(count, json_integer_value(json_object_get(row, "tokens")));
        char name[] = "/tmp/jotun_ids_XXXXXX";
        int fd = mkstemp(name);
        for (int64_t k = 0; k < count; k++) ((uint16_t *)ids)[k] = (uint16_t)ids[k];
        assert_int_equal(write(fd, ids, (size_t)count * 2), count * 2);
        close(fd);
        snprintf(command, sizeof command, "sha256sum %s", name);
        FILE *pipe = popen(command, "r");
        assert_int_equal(fread(sum, 1, 64, pipe), 64);
        pclose(pipe);
        unlink(name);
        assert_string_equal(sum, json_string_value(json_object_get(row, "sha256_u16le")));
        free(ids);
        file_unmap(&map);
    }
    json_decref(rows);
    tokenizer_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_files), cmocka_unit_test(gpt2_tiktoken), cmocka_unit_test(gpt2_json),
        cmocka_unit_test(cl100k), cmocka_unit_test(whole_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
