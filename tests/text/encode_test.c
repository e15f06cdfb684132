/* Ids against those of other programs, with the published vocabularies where ../shared has them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/testing.h"
#include "base/file.h"
#include "text/pretokenize/regex.h"
#include "text/tokenizer.h"

#define SHARED TESTS_DIR "/../../shared/data/"

static void expect_ids(const Tokenizer *t, const char *text, int64_t bytes, const json_t *want)
{
    int64_t  capacity = tokenizer_max_ids(t, text, bytes);
    int32_t *ids  = malloc((size_t)(capacity + 1) * sizeof *ids);
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

/* Counts and the first ids of whole files; file_goldens compares the rest by a sum over all ids */
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

#define SMALL TESTS_DIR "/data/tokenizers/"

static void goldens(const char *path_of_rows, int least)
{
    Tokenizer t = { 0 };
    char      line[1 << 15], path[1024], open_now[64] = "";
    int       seen = 0, wrong = 0;
    FILE     *file = fopen(path_of_rows, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t       *row  = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char   *name = json_string_value(json_object_get(row, "tokenizer"));
        const json_t *text = json_object_get(row, "text"), *want = json_object_get(row, "ids");
        if (strcmp(name, open_now)) {
            tokenizer_close(&t);
            snprintf(open_now, sizeof open_now, "%s", name);
            snprintf(path, sizeof path, SMALL "%s", name);
            if (tokenizer_open(&t, path) != OK) fail_msg("%s", fail_text());
        }
        t.parse_special = json_is_true(json_object_get(row, "special"));
        int32_t ids[4096];
        assert_true(tokenizer_max_ids(&t, json_string_value(text), (int64_t)json_string_length(text)) <= 4096);
        int64_t count = t.encode(&t, ids, json_string_value(text), (int64_t)json_string_length(text));
        bool    good  = count == (int64_t)json_array_size(want);
        for (int64_t i = 0; i < count && good; i++) good = ids[i] == json_integer_value(json_array_get(want, (size_t)i));
        if (!good) {
            print_error("%s: %s\n", name, line);
            for (int64_t i = 0; i < count; i++) print_error("%d, ", ids[i]);
            print_error("\n");
            wrong++;
        }
        seen++;
        json_decref(row);
    }
    fclose(file);
    tokenizer_close(&t);
    assert_int_equal(wrong, 0);
    assert_true(seen > least);
}

/* Made by tests/oracles/tokenizers_golden.py with tokenizers and tiktoken, and by added_golden.py */
static void small_goldens(void **state) { (void)state; goldens(SMALL "golden.jsonl", 500); }
static void added_tokens (void **state) { (void)state; goldens(SMALL "added.jsonl", 1200); }

static void comes_back(const Tokenizer *t, const char *text, int64_t bytes)
{
    int32_t *ids   = malloc((size_t)tokenizer_max_ids(t, text, bytes) * sizeof *ids + 4);
    int64_t  count = t->encode(t, ids, text, bytes), at = 0;
    assert_true(count >= 0 && count <= tokenizer_max_ids(t, text, bytes));
    for (int64_t i = 0; i < count; i++) {
        TextPiece piece = t->decode(t, ids[i]);
        if (i == 0) piece.text += piece.prefix, piece.bytes -= piece.prefix;
        if (at + piece.bytes > bytes || memcmp(text + at, piece.text, (size_t)piece.bytes))
            fail_msg("%s: byte %lld of %lld does not come back", t->name, (long long)at, (long long)bytes);
        at += piece.bytes;
    }
    assert_int_equal(at, bytes);
    free(ids);
}

static uint32_t dice(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

/* Random bytes, half of them from a small set, so that words and runs occur; without U+2581, which llama2
 * decodes as a space */
static void any_bytes_come_back(void **state)
{
    (void)state;
    static const char *const lossless[] = { SMALL "cl100k_small.tiktoken", SMALL "o200k_small.tiktoken", SMALL "llama2.json",
                                            SMALL "llama3.json", SMALL "o200k_hf.json" };
    uint32_t seed = 1;
    for (size_t k = 0; k < sizeof lossless / sizeof lossless[0]; k++) {
        Tokenizer t;
        if (tokenizer_open(&t, lossless[k]) != OK) fail_msg("%s", fail_text());
        for (int round = 0; round < 400; round++) {
            char text[300];
            int  bytes = (int)(dice(&seed) % sizeof text), mode = round % 3;
            for (int i = 0; i < bytes; i++)
                text[i] = mode == 0 ? (char)dice(&seed) : "ab Z'lL12\n\r \xC3\xA5\xE2\x80\x93\xFF.,"[dice(&seed) % (mode == 1 ? 20 : 8)];
            char *exact = malloc((size_t)bytes + 1);              /* so that a sanitizer sees a read beyond
                                                                   * it */
            memcpy(exact, text, (size_t)bytes);
            comes_back(&t, exact = realloc(exact, (size_t)bytes + (bytes == 0)), bytes);
            free(exact);
        }
        tokenizer_close(&t);
    }
}

/* ---- fingerprints ---- */

static void fingerprint_of(char out[TOKENIZER_FINGERPRINT], const json_t *json)
{
    Tokenizer t;
    char name[] = "/tmp/jotun_tokenizer_XXXXXX.json";
    close(mkstemps(name, 5));
    assert_int_equal(json_dump_file(json, name, JSON_INDENT(2)), 0);
    if (tokenizer_open(&t, name) != OK) fail_msg("%s", fail_text());
    tokenizer_fingerprint(out, &t);
    tokenizer_close(&t);
    unlink(name);
}

/* What a change of the file is, against the file as it was: a decoder gives a text no other ids. */
static void fingerprints(void **state)
{
    (void)state;
    char    was[TOKENIZER_FINGERPRINT], now[TOKENIZER_FINGERPRINT];
    json_t *json = json_load_file(SMALL "gpt2.json", 0, NULL), *merges = json_array(), *old;
    json_t *model = json_object_get(json, "model"), *scan = json_object_get(json, "pre_tokenizer");
    assert_non_null(json);
    fingerprint_of(was, json);
    assert_int_equal(tokenizer_match("700 ids, print 0123456789abcdef", was), TOKENIZER_OTHER_VERSION);

    json_object_set_new(json, "decoder", json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1));
    json_object_set_new(json, "normalizer", json_null());
    fingerprint_of(now, json);
    assert_int_equal(tokenizer_match(was, now), TOKENIZER_SAME);

    json_object_set_new(json, "normalizer", json_pack("{s:s}", "type", "NFC"));
    fingerprint_of(now, json);
    assert_int_equal(tokenizer_match(was, now), TOKENIZER_OTHER_RULES);
    json_object_del(json, "normalizer");

    json_object_set_new(scan, "add_prefix_space", json_false());
    fingerprint_of(now, json);
    assert_int_equal(tokenizer_match(was, now), TOKENIZER_OTHER_RULES);
    json_object_set_new(scan, "add_prefix_space", json_true());

    json_t *token = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 300, "content", "", "lstrip", 0, "rstrip", 0,
                              "single_word", 0, "normalized", 1, "special", 0);
    const char *text;
    json_t *id;
    json_object_foreach(json_object_get(model, "vocab"), text, id)
        if (json_integer_value(id) == 300) json_object_set_new(token, "content", json_string(text));
    json_object_set_new(json, "added_tokens", json_pack("[o]", token));
    fingerprint_of(now, json);
    assert_int_equal(tokenizer_match(was, now), TOKENIZER_OTHER_RULES);
    json_object_set_new(json, "added_tokens", json_array());

    old = json_object_get(model, "merges");
    for (size_t i = json_array_size(old); i-- > 0;) json_array_append(merges, json_array_get(old, i));
    json_object_set_new(model, "merges", merges);
    fingerprint_of(now, json);
    assert_int_equal(tokenizer_match(was, now), TOKENIZER_OTHER);
    json_decref(json);
}

static void write_file(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

/* Components that look at more than a character, around models that look at a whole text */
#define PARTS(normalizer, pre_tokenizer, model) "{\"normalizer\": " normalizer ", \"pre_tokenizer\": " pre_tokenizer ", \"model\": " model "}"
#define BERT "{\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, \"lowercase\": true}"
static const char *const composed[] = {
    PARTS(BERT, "null", "{\"type\": \"WordPiece\", \"unk_token\": \"u\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 9000000, "
          "\"vocab\": {\"u\": 0, \"a\": 1, \"##a\": 2, \"##aa\": 3, \"##aaaaaaaaaaaaaaaa\": 4}}"),
    PARTS("{\"type\": \"NFKD\"}", "{\"type\": \"UnicodeScripts\"}", "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"u\", -9], [\"a\", -2], [\"aaaa\", -3], [\" \", -1]]}"),
    PARTS("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\s+$\"}, \"content\": \"\"}",
          "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\b|(?=1)\"}, \"behavior\": \"MergedWithNext\", \"invert\": true}",
          "{\"type\": \"WordLevel\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0}}"),
};

/* A million equal characters: quadratic time would be hours */
static void hostile_texts_take_no_longer(void **state)
{
    (void)state;
    enum { LONG = 1000000, COMPOSED = sizeof composed / sizeof composed[0] };
    char file[] = "/tmp/jotun_text_XXXXXX.json";
    close(mkstemps(file, 5));
    static const char *const parts[] = { "a", " ", "\xFF", "\n ", "\xCC\x81\xCC\xA3", ("\xC2\xAA" "B"), "1", "'", "\xE2\x96\x81" };
    static const char *const names[] = { SMALL "cl100k_small.tiktoken", SMALL "o200k_small.tiktoken", SMALL "qwen2.json",
                                         SMALL "llama2.json", SMALL "mixed.json", SMALL "added_qwen2.json" };
    char *text = malloc(LONG);
    for (size_t k = 0; k < COMPOSED + sizeof names / sizeof names[0]; k++) {
        Tokenizer t;
        if (k < COMPOSED) write_file(file, (const uint8_t *)composed[k], strlen(composed[k]));
        if (tokenizer_open(&t, k < COMPOSED ? file : names[k - COMPOSED]) != OK) fail_msg("%s", fail_text());
        int32_t *ids = malloc((size_t)tokenizer_max_ids(&t, text, LONG) * sizeof *ids);
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            for (size_t i = 0; i < LONG; i++) text[i] = parts[p][i % strlen(parts[p])];
            assert_true(t.encode(&t, ids, text, LONG) >= (k >= COMPOSED));
        }
        free(ids);
        tokenizer_close(&t);
    }
    unlink(file);
    free(text);
}

/* Files truncated, with bytes flipped, doubled: refused, or opened, and then encoding stays within its
 * capacity */
static void broken_files_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "cl100k_small.tiktoken", "llama3.json", "llama2.json", "mixed.json", "metaspace_first.json",
                                         "added_qwen2.json", "added_metaspace_always.json" };
    enum { NAMES = sizeof names / sizeof names[0] };
    char     folder[] = "/tmp/jotun_text_XXXXXX", path[1100], from[1100];
    uint32_t seed = 3;
    int      refused = 0;
    assert_non_null(mkdtemp(folder));
    for (int round = 0; round < 420; round++) {
        Tokenizer t;
        FileMap   map;
        snprintf(from, sizeof from, SMALL "%s", names[round % NAMES]);
        snprintf(path, sizeof path, "%s/%s", folder, names[round % NAMES]);
        assert_int_equal(file_map(&map, from), OK);
        uint8_t *data = malloc(map.size);
        size_t   size = round % 7 == 0 ? dice(&seed) % map.size : map.size;
        memcpy(data, map.data, map.size);
        size_t area = round % 2 ? map.size : 600;                 /* the normalizers and pre-tokenizers */
        for (uint32_t i = 0, flips = dice(&seed) % 6; i < flips; i++)
            data[dice(&seed) % area] = round % 3 ? data[dice(&seed) % map.size] : (uint8_t)dice(&seed);
        write_file(path, data, size);
        if (tokenizer_open(&t, path) == OK) {
            const char text[] = "Hello wörld's 123\n\n  e\xCC\x81 \xFF\xFE <tool> x<pad> \n\n \n<left><|end \n \nab <s> \n<|endoftext|>";
            t.parse_special = t.specials && round % 2;
            int32_t   *ids = malloc((size_t)tokenizer_max_ids(&t, text, sizeof text) * sizeof *ids);
            int64_t    count = t.encode(&t, ids, text, sizeof text);
            assert_true(count <= tokenizer_max_ids(&t, text, sizeof text));
            for (int64_t i = 0; i < count; i++) t.decode(&t, ids[i]);
            if (count > 0) assert_int_equal(tokenizer_check(&t, ids, count, "ids"), OK);
            free(ids);
            tokenizer_close(&t);
        } else {
            refused++;
        }
        free(data);
        file_unmap(&map);
        unlink(path);
    }
    rmdir(folder);
    assert_true(refused > 50);
}

#define MODEL_WITH(member) "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], " member "}}"
#define FLAGS "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": false"
#define ADDED(token) "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": [{" token "}]}"
#define BARE_MODEL "\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}"

/* A faulty file, which is refused with a message that names it */
static void faults_are_named(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } rows[] = {
        { "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": {\"type\": \"NFC\"}}}", "\"normalizers\" of a Sequence is missing or no list" },
        { "{\"normalizer\": {\"type\": \"Sequence\"}}", "\"normalizers\" of a Sequence is missing" },
        { "{\"pre_tokenizer\": {\"type\": \"Sequence\"}}", "\"pretokenizers\" of a Sequence is missing" },
        { "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": null}}", "\"decoders\" of a Sequence is missing" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": {}}", "\"added_tokens\" is missing or no list" },
        { "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"((\"}, \"behavior\": \"Isolated\"}}", "the pattern (( is wrong" },
        { MODEL_WITH("\"dropout\": \"0.5\""), "\"dropout\" is not a number" },
        { MODEL_WITH("\"unk_token\": 5"), "\"unk_token\" is not a text" },
        { MODEL_WITH("\"byte_fallback\": 1"), "\"byte_fallback\" is not true or false" },
        { "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": \"yes\", \"add_prefix_space\": true, \"trim_offsets\": true}, " BARE_MODEL, "\"use_regex\" is not true or false" },
        { "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, " BARE_MODEL, "\"add_prefix_space\" is missing" },
        { "{\"normalizer\": {\"type\": \"Strip\", \"strip_left\": true}, " BARE_MODEL, "\"strip_right\" is missing" },
        { "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [null]}, " BARE_MODEL, "has one that is no object" },
        { "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\", \"Regex\": \"b\"}, \"content\": \"\"}, " BARE_MODEL, "Replace without a pattern" },
        { "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}, " BARE_MODEL, "damaged" },
        { "{\"normalizer\": \"NFC\", " BARE_MODEL, "the normalizer (without a type) is not known" },
        { "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"ab\"}, " BARE_MODEL, "\"replacement\" is not one character" },
        { "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": false, \"prepend_scheme\": \"first\"}, " BARE_MODEL, "\"add_prefix_space\" is not true where" },
        { "{\"pre_tokenizer\": {\"type\": \"FixedLength\", \"length\": 0}, " BARE_MODEL, "\"length\" is not 1 or more" },
        { "{\"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": null}, " BARE_MODEL, "behavior (missing) is not known" },
        { "{\"decoder\": {\"type\": \"CTC\"}, " BARE_MODEL, "CTC drops tokens that repeat" },
        { "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"WordPiece\", \"prefix\": \"\", \"cleanup\": true}]}, " BARE_MODEL, "WordPiece after ByteLevel or Fuse" },
        { "{\"version\": \"2.0\", " BARE_MODEL, "version 2.0 of the format" },
        { "{\"model\": {\"type\": \"Other\", \"vocab\": {}}}", "the model Other is not known" },
        { "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}", "\"unk_token\" is missing" },
        { "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, \"unk_token\": \"a\", \"continuing_subword_prefix\": \"\"}}", "\"max_input_chars_per_word\" is missing" },
        { "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}", "token 0 of the vocabulary is not [token, score]" },
        { "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1]], \"unk_id\": 1}}", "unk_id is not one of the ids 0 to 0" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", "id 0 is given to two tokens" },
        { "{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", "id -1 of a token is not one of" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}", "what they make is no token" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", \"b\"], \"a b\"]}}", "merge 1 is not two tokens" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b c\"]}}", "merge 0 is not two tokens" },
        { ADDED("\"id\": 5, \"content\": \"new\", " FLAGS), "has id 5, and Hugging Face's library, which numbers added tokens in order from the size of the model's vocabulary on, gives it 1" },
        { ADDED("\"id\": 0, \"content\": \"new\", " FLAGS), "gives it 1" },
        { ADDED("\"id\": 1, \"content\": \"a\", " FLAGS), "gives it 0" },
        { ADDED("\"id\": 1, \"content\": \"new\""), "\"single_word\" is missing" },
        { ADDED("\"id\": null, \"content\": \"new\", " FLAGS), "without content or id" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 2}, \"merges\": []}, \"added_tokens\": [{\"id\": 2, \"content\": \"new\", " FLAGS "}]}", "which is another token's" },
    };
    char folder[] = "/tmp/jotun_text_XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.json", folder);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Tokenizer t;
        write_file(path, (const uint8_t *)rows[i].text, strlen(rows[i].text));
        if (tokenizer_open(&t, path) != BAD_FILE) fail_msg("%s: is read", rows[i].text);
        if (!strstr(fail_text(), rows[i].says)) fail_msg("%s: %s", rows[i].text, fail_text());
        assert_non_null(strstr(fail_text(), path));
    }
    unlink(path);
    rmdir(folder);
}

/* Constructs that PCRE2 knows too, but with another meaning. By Oniguruma's manual (doc/RE): \w has marks and
 * all numbers of Latin-1, \h is a hexadecimal digit, ^ and $ match at lines, U+180E is not white space. */
static void patterns_are_oniguruma_s(void **state)
{
    (void)state;
    static const struct { const char *pattern, *text; int64_t from, to; } rows[] = {
        { "\\w+", " e\xCC\x81x\xC2\xB2_ ", 1, 8 }, { "\\h+", "xyz BEg", 4, 6 }, { "[\\h_]+", "xyz B_g", 4, 6 }, { "^b", "a\nb", 2, 3 },
        { "a$", "a\nb", 0, 1 }, { "\\s", "\xE1\xA0\x8E ", 3, 4 }, { "\\bx", "e\xCC\x81x x", 5, 6 }, { "[]\\]]+", "a]]", 1, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Regex      *r;
        RegexSpace *space = NULL;
        int64_t     from, to;
        bool        found;
        assert_int_equal(regex_open(&r, rows[i].pattern), OK);
        assert_int_equal(regex_next(r, &space, (const uint8_t *)rows[i].text, (int64_t)strlen(rows[i].text), 0, &from, &to, &found), OK);
        assert_true(found);
        assert_int_equal(from, rows[i].from);
        assert_int_equal(to, rows[i].to);
        regex_space_close(space);
        regex_close(r);
    }
    static const char *const bad[] = { "(?m:a.b)", "(?i-m)a", "[a-z&&[^c]]", "[[:alpha:]]", "[\\W]", "a[\\H]" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Regex *r;
        assert_int_equal(regex_open(&r, bad[i]), BAD_FILE);
        assert_null(r);
        assert_non_null(strstr(fail_text(), bad[i]));
    }
}

static void expect_facts(const char *name, int32_t vocabulary, int32_t eod, bool specials)
{
    Tokenizer t;
    if (tokenizer_open(&t, name) != OK) fail_msg("%s", fail_text());
    assert_int_equal(t.vocabulary, vocabulary);
    assert_int_equal(t.eod, eod);
    assert_int_equal(t.specials, specials);
    assert_false(t.parse_special);
    tokenizer_close(&t);
}

static void copy_file(const char *folder, const char *name, const char *from)
{
    FileMap map;
    char    path[1100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_map(&map, from), OK);
    write_file(path, map.data, map.size);
    file_unmap(&map);
}

/* The files of a folder, and its end of document */
static void folders_and_names(void **state)
{
    (void)state;
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "tokenizer.model" };
    char folder[] = "/tmp/jotun_text_XXXXXX", path[1100];
    const char config[] = "{\"eos_token\": {\"content\": \"<s>\"}}", wrong[] = "{\"eos_token\": \"<nix>\"}";
    assert_non_null(mkdtemp(folder));
    copy_file(folder, "tokenizer.model", TESTS_DIR "/golden/text/unigram.model");
    expect_facts(folder, 420, 2, false);
    copy_file(folder, "tokenizer.json", SMALL "added_qwen2.json");                     /* takes precedence */
    expect_facts(folder, 716, 700, true);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    write_file(path, (const uint8_t *)config, sizeof config - 1);
    expect_facts(folder, 716, 701, true);
    write_file(path, (const uint8_t *)wrong, sizeof wrong - 1);
    Tokenizer t;
    assert_int_equal(tokenizer_open(&t, folder), BAD_FILE);
    assert_non_null(strstr(fail_text(), "eos_token <nix> is no token"));
    copy_file(folder, "gpt2x.model", SMALL "cl100k_small.tiktoken");                   /* base64, whatever its name */
    snprintf(path, sizeof path, "%s/gpt2x.model", folder);
    expect_facts(path, 701, 700, true);
    remove(path);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_files), cmocka_unit_test(gpt2_tiktoken), cmocka_unit_test(gpt2_json),
        cmocka_unit_test(cl100k), cmocka_unit_test(whole_files),
        cmocka_unit_test(small_goldens), cmocka_unit_test(fingerprints), cmocka_unit_test(added_tokens), cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(hostile_texts_take_no_longer), cmocka_unit_test(broken_files_are_refused), cmocka_unit_test(faults_are_named), cmocka_unit_test(patterns_are_oniguruma_s),
        cmocka_unit_test(folders_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
