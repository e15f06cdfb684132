/* Round trips under every cut, and what is said of a checkpoint that is damaged or not the one asked for. */
#include "store/fixture.h"
#include <dirent.h>
#include <jansson.h>
#include <xxhash.h>

static void any_cut_loads_under_any_other(void **unused)
{
    (void)unused;
    char dir[64], path[1024];
    bool found;
    folder_fresh(dir, "cuts");
    for (int ranks = 1; ranks <= 8; ranks++) {
        assert_int_equal(save(dir, ranks, (uint64_t)ranks, ranks, 0), OK);
        assert_int_equal(checkpoint_find(dir, path, &found), OK);
        assert_true(found);
        for (int other = 1; other <= 8; other++)
            assert_true(loads_equal(path, other, (uint64_t)(100 * ranks + other), ranks));
    }
    assert_int_equal(folder_remove(dir), OK);
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char    path[2][1200];
    FileMap map[2];
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    for (int i = 0; i < 2; i++) assert_int_equal(file_map(&map[i], path[i]), OK);
    assert_int_equal(map[0].size, map[1].size);
    assert_memory_equal(map[0].data, map[1].data, map[0].size);
    for (int i = 0; i < 2; i++) file_unmap(&map[i]);
}

static void bytes_do_not_depend_on_the_cut(void **unused)
{
    (void)unused;
    char dir[2][64], path[2][1024];
    bool found;
    folder_fresh(dir[0], "one");
    folder_fresh(dir[1], "many");
    assert_int_equal(save(dir[0], 1, 1, 7, 0), OK);
    for (int ranks = 2; ranks <= 6; ranks++) {
        /* the same step again: it is replaced */
        assert_int_equal(save(dir[1], ranks, (uint64_t)ranks, 7, 0), OK);
        for (int i = 0; i < 2; i++) assert_int_equal(checkpoint_find(dir[i], path[i], &found), OK);
        for (int b = 0; b < FILES; b++) assert_same_file(path[0], path[1], files[b].name);
        assert_same_file(path[0], path[1], "manifest.json");
    }
    for (int i = 0; i < 2; i++) assert_int_equal(folder_remove(dir[i]), OK);
}

static void state_comes_back(void **unused)
{
    (void)unused;
    char dir[64], path[1024];
    bool found;
    assert_int_equal(checkpoint_find(folder_fresh(dir, "state"), path, &found), OK);
    assert_false(found);
    assert_int_equal(save(dir, 2, 1, 42, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_string_equal(strrchr(path, '/'), "/step_00000042");
    assert_state(path, 42);
    char again[1024];
    assert_int_equal(checkpoint_find(path, again, &found), OK);  /* a step's own folder does as well */
    assert_string_equal(again, path);
    assert_int_equal(folder_remove(dir), OK);
}

/* All but the first column of a tensor, or all of one with a single dim. */
static Status load_one(const char *path, const char *name, int dims, int64_t rows, int64_t cols, Dtype dtype,
                       void *out)
{
    int64_t count = dims > 1 ? rows * (cols - 1) : rows;
    TensorShard   shard = { .dims = dims, .global = { rows, cols }, .box = { rows, cols }, .count = count };
    if (dims > 1) shard.offset[1] = 1, shard.box[1] = cols - 1;
    strcpy(shard.name, name);
    shard.local = tensor_at(out, dtype, &count, 1);
    return load_pieces(path, &shard, 1);
}

/* Tensors are loaded as another floating-point type than the saved one. */
static void types_are_converted(void **unused)
{
    (void)unused;
    char     dir[64], path[1024];
    bool     found;
    float    f[2][104];
    double   d[2][104];
    uint16_t half[2][104];
    assert_int_equal(save(folder_fresh(dir, "types"), 3, 5, 1, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_int_equal(load_one(path, "embed.weight", 2, 13, 8, F32, f[0]), OK);
    assert_int_equal(load_one(path, "embed.weight", 2, 13, 8, F64, d[0]), OK);
    assert_int_equal(load_one(path, "embed.weight/m", 2, 13, 8, F32, f[1]), OK);
    assert_int_equal(load_one(path, "embed.weight/m", 2, 13, 8, F64, d[1]), OK);
    for (int i = 0; i < 13 * 7; i++)
        assert_true((double)f[0][i] == d[0][i] && (double)f[1][i] == d[1][i] && f[0][i] != 0);
    assert_int_equal(load_one(path, "embed.weight", 2, 13, 8, BF16, half[0]), OK);
    dtype_convert(half[1], BF16, f[0], F32, 13 * 7);
    assert_memory_equal(half[0], half[1], 13 * 7 * sizeof(uint16_t));
    assert_int_equal(load_one(path, "block.0.bytes", 1, 11, 1, F32, f[0]), OK);
    assert_int_equal(load_one(path, "block.0.bytes", 1, 11, 1, F8_E5M2, half[0]), OK);
    dtype_convert(f[1], F32, half[0], F8_E5M2, 11);
    assert_memory_equal(f[0], f[1], 11 * sizeof(float));
    assert_int_equal(folder_remove(dir), OK);
}

static void assert_said(Status got, Status wanted, const char *words)
{
    assert_int_equal(got, wanted);
    if (strstr(fail_text(), words)) return;
    print_error("'%s' is not in '%s'\n", words, fail_text());
    _fail(__FILE__, __LINE__);
}

static void the_wrong_tensor_is_named(void **unused)
{
    (void)unused;
    char   dir[64], path[1024];
    bool   found;
    double out[200];
    assert_int_equal(save(folder_fresh(dir, "wrong"), 1, 5, 1, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_said(load_one(path, "block.0.down", 2, 8, 12, F32, out), BAD_SHAPE, "no tensor 'block.0.down'");
    assert_said(load_one(path, "head.gains", 1, 5, 1, F32, out), BAD_SHAPE, "the nearest name among its 9 tensors is 'head.gain'");
    assert_said(load_one(path, "embed.weight", 2, 8, 13, F32, out), BAD_SHAPE,
                "is F32 [13, 8], this run needs F32 [8, 13]");
    assert_said(load_one(path, "embed.weight", 1, 104, 1, F32, out), BAD_SHAPE,
                "is F32 [13, 8], this run needs F32 [104]");
    assert_said(load_one(path, "block.0.ids", 1, 7, 1, F32, out), BAD_SHAPE,
                "is I32 [7], this run needs F32 [7]");
    assert_int_equal(folder_remove(dir), OK);
}

/* What the cut of rank 0 of 2 leaves out or has twice is found before anything is published. */
static void every_element_is_written_once(void **unused)
{
    (void)unused;
    char   dir[64], path[1024];
    bool   found;
    Saving saving = { .dir = folder_fresh(dir, "once"), .seed = 9, .step = 1, .drop = true };
    Cut   *cut = cut_make(9, 2, 0);
    char   words[160];
    snprintf(words, sizeof words, "tensor '%s' has ", cut->shard[0].name);
    assert_said(transport_threads_run(2, save_body, &saving), BAD_SHAPE, words);
    saving.drop  = false;
    saving.shift = true;
    assert_said(transport_threads_run(2, save_body, &saving), BAD_SHAPE,
                "that two ranks hold and as many that no rank holds");
    cut_free(cut);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_false(found);
    assert_int_equal(rmdir(dir), 0);                   /* nothing is left in it */
}

/* ---- damage ---- */

static void file_read_all(const char *path, uint8_t **data, size_t *size)
{
    FileMap map;
    assert_int_equal(file_map(&map, path), OK);
    *size = map.size;
    assert_non_null(*data = malloc(map.size + 1));
    memcpy(*data, map.data, map.size);
    file_unmap(&map);
}

static void file_put(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* A flipped bit is found, or (white space of the JSON, say) changes nothing that is read. */
static void flip_every_bit(const char *folder, const char *name, int64_t step)
{
    char     path[1200];
    uint8_t *data;
    size_t   size, refused = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_read_all(path, &data, &size);
    for (size_t bit = 0; bit < 8 * size; bit += 1 + bit % 3) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        file_put(path, data, size);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (checkpoint_verify(folder, false) != OK) refused++;
        else {
            assert_true(loads_equal(folder, 1, 1, step));
            assert_state(folder, step);
        }
    }
    assert_true(refused > size);
    file_put(path, data, size);
    free(data);
}

static void cut_everywhere(const char *folder, const char *name)
{
    char     path[1200];
    uint8_t *data;
    size_t   size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_read_all(path, &data, &size);
    for (size_t left = 0; left < size; left++) {
        file_put(path, data, left);
        assert_int_not_equal(checkpoint_verify(folder, false), OK);
    }
    file_put(path, data, size);
    free(data);
}

static void damage_is_refused(void **unused)
{
    (void)unused;
    char dir[64], path[1024];
    bool found;
    assert_int_equal(save(folder_fresh(dir, "damage"), 2, 5, 3, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    flip_every_bit(path, "head.safetensors", 3);
    flip_every_bit(path, "manifest.json", 3);
    cut_everywhere(path, "head.safetensors");
    cut_everywhere(path, "manifest.json");
    assert_true(loads_equal(path, 2, 8, 3));
    assert_int_equal(folder_remove(dir), OK);
}

/* The manifest again with another value in it, NULL: none, and the checksum that belongs to it. */
static void manifest_forge_json(const char *folder, const char *key, json_t *value)
{
    char    path[1200], sum[24];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    json_object_del(root, "checksum");
    if (value) assert_int_equal(json_object_set_new(root, key, value), 0);
    else       json_object_del(root, key);
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    json_object_set_new(root, "checksum", json_string(sum));
    assert_int_equal(json_dump_file(root, path, 0), 0);
    free(text);
    json_decref(root);
}

static void manifest_forge(const char *folder, const char *key, int64_t value)
{
    manifest_forge_json(folder, key, json_integer(value));
}

/* A newer version is named as such, the older one is read, and so is what a newer one adds to `run`. */
static void versions(void **unused)
{
    (void)unused;
    CheckpointFacts facts;
    char dir[64], path[1024];
    bool found;
    assert_int_equal(save(folder_fresh(dir, "versions"), 1, 5, 3, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    manifest_forge(path, "version", 3);
    assert_said(checkpoint_facts(&facts, path), BAD_FILE, "format version 3; this jotun reads versions 1 to 2");
    manifest_forge(path, "version", 2);
    manifest_forge_json(path, "run", json_pack("{s:[i], s:{s:s}}", "unknown", 1, "tokenizer", "fingerprint", "x"));
    assert_int_equal(checkpoint_facts(&facts, path), OK);
    assert_string_equal(facts.state.tokenizer.name, "");
    assert_string_equal(facts.state.tokenizer.fingerprint, "x");
    checkpoint_facts_free(&facts);
    manifest_forge_json(path, "run", json_pack("{s:s}", "tokenizer", "x"));
    assert_said(checkpoint_facts(&facts, path), BAD_FILE, "tokenizer is not { name, fingerprint }");
    manifest_forge_json(path, "run", json_pack("{s:[f, i]}", "fp8_largest", 448.0, 0));
    assert_said(checkpoint_facts(&facts, path), BAD_FILE, "fp8_largest is not two numbers between 1e-30 and 1e30");
    manifest_forge_json(path, "run", json_array());
    assert_said(checkpoint_facts(&facts, path), BAD_FILE, "run or files are missing or wrong");
    json_t *bad[] = { json_pack("{s:i}", "valid_loss", -1), json_pack("{s:s}", "valid_loss", "low"),
        json_pack("{s:f}", "valid_loss", 1e101), json_pack("{s:{s:i, s:f, s:f}}", "losses", "count", 2, "mean", 5.5, "variance", -1.0),
        json_pack("{s:{s:i, s:f, s:f}}", "losses", "count", -2, "mean", 5.5, "variance", 1.0),
        json_pack("{s:{s:i, s:f, s:f}}", "losses", "count", 2, "mean", 1e140, "variance", 1.0), json_pack("{s:[]}", "losses"),
        json_pack("{s:s}", "lacks", "position"), json_pack("{s:[s]}", "lacks", "weights"), json_pack("{s:[i]}", "lacks", 1),
        json_pack("{s:s}", "due", "valid"), json_pack("{s:[s]}", "due", "train-1"), json_pack("{s:[i]}", "due", 1),
        json_pack("{s:i}", "kernels", 1), json_pack("{s:[]}", "given"),
        json_pack("{s:i}", "estimated", -1), json_pack("{s:I}", "estimated", (json_int_t)1 << 40), json_pack("{s:f}", "estimated", 1.0) };
    static const char *const says[] = { "valid_loss is not a number", "valid_loss is not a number", "valid_loss is not a number",
        "no run has 2 losses", "no run has -2 losses", "mean 1e+140", "losses is not { count", "lacks is not a list", "a name that is not known",
        "a name that is not known", "due is not a list", "due has a name", "due has a name", "kernels is not a text", "given is not a text",
        "estimated is not a number from 0", "estimated is not a number from 0", "estimated is not a number from 0" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        manifest_forge_json(path, "run", bad[i]);
        assert_said(checkpoint_facts(&facts, path), BAD_FILE, says[i]);
    }

    manifest_forge_json(path, "run", json_pack("{s:[s, s, s]}", "due", "test", "valid-15", "samples"));
    assert_int_equal(checkpoint_facts(&facts, path), OK);
    assert_true(facts.state.due == (1ull << SPLIT_TEST | 1ull << (SPLITS + 15) | 1ull << DUE_SAMPLES));
    checkpoint_facts_free(&facts);

    manifest_forge_json(path, "run", NULL);
    manifest_forge(path, "version", 1);
    assert_int_equal(checkpoint_facts(&facts, path), OK);
    assert_null(facts.state.tokenizer.fingerprint);
    checkpoint_facts_free(&facts);
    manifest_forge_json(path, "tokenizer", json_string("a\tb.json\t257 ids, print 0"));
    assert_int_equal(checkpoint_facts(&facts, path), OK);
    assert_string_equal(facts.state.tokenizer.name, "a\tb.json");
    assert_string_equal(facts.state.tokenizer.fingerprint, "257 ids, print 0");
    checkpoint_facts_free(&facts);
    assert_int_equal(folder_remove(dir), OK);
}

/* Sums with them must not leave 2^63, whoever wrote the manifest. */
static void counts_no_run_reaches_are_refused(void **unused)
{
    (void)unused;
    static const char *const key[] = { "step", "samples", "updates" };
    CheckpointState state;
    char dir[64], path[1024];
    bool found;
    assert_int_equal(save(folder_fresh(dir, "counts"), 1, 5, 3, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    for (int k = 0; k < 3; k++) {
        manifest_forge(path, key[k], (int64_t)1 << 53);
        assert_int_equal(checkpoint_state(path, &state), OK);
        manifest_forge(path, key[k], ((int64_t)1 << 53) + 1);
        assert_said(checkpoint_state(path, &state), BAD_FILE, "above 2^53");
        manifest_forge(path, key[k], INT64_MAX);
        assert_said(checkpoint_state(path, &state), BAD_FILE, "9223372036854775807");
        manifest_forge(path, key[k], 3);
    }
    assert_int_equal(folder_remove(dir), OK);
}

/* ---- which one is found, which ones are kept ---- */

static void a_damaged_newest_falls_back(void **unused)
{
    (void)unused;
    char dir[64], path[1024], file[1200];
    bool found;
    folder_fresh(dir, "fallback");
    for (int64_t step = 1; step <= 3; step++) assert_int_equal(save(dir, 2, 1, step, 0), OK);
    for (int64_t step = 3; step >= 1; step--) {
        assert_int_equal(checkpoint_find(dir, path, &found), OK);
        assert_true(found && loads_equal(path, 3, 4, step));
        snprintf(file, sizeof file, "%s/%s", path, step == 2 ? "head.safetensors" : "manifest.json");
        assert_int_equal(truncate(file, 10), 0);
    }
    assert_said(checkpoint_find(dir, path, &found), BAD_FILE, "no checkpoint in it up to the one that `latest` names is complete");
    assert_int_equal(folder_remove(dir), OK);
}

/* A kill between the two renames of a step saved again, where a later step of another branch is there as
 * well. */
static void one_put_aside_is_found(void **unused)
{
    (void)unused;
    char dir[64], path[1024], whole[128], aside[128];
    bool found;
    folder_fresh(dir, "aside");
    for (int64_t step = 2; step >= 1; step--) assert_int_equal(save(dir, 1, 1, step, 0), OK);
    snprintf(whole, sizeof whole, "%s/step_00000001", dir);
    snprintf(aside, sizeof aside, "%s/.step_00000001.old", dir);
    assert_int_equal(rename(whole, aside), 0);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_true(found && loads_equal(path, 1, 1, 1));
    assert_int_equal(folder_remove(dir), OK);
}

static int folders(const char *dir)
{
    int  n = 0;
    DIR *stream = opendir(dir);
    for (struct dirent *e; (e = readdir(stream));) n += strstr(e->d_name, "step_") != NULL;
    closedir(stream);
    return n;
}

static bool holds(const char *dir, int64_t step)
{
    char path[128];
    snprintf(path, sizeof path, "%s/step_%08lld", dir, (long long)step);
    return file_exists(path);
}

static void keep_last_keeps_the_newest(void **unused)
{
    (void)unused;
    char dir[64];
    folder_fresh(dir, "keep");
    for (int64_t step = 10; step <= 60; step += 10)
        assert_int_equal(save(dir, 2, 1, step, step < 40 ? 0 : 3), OK);
    assert_int_equal(folders(dir), 3);
    assert_true(holds(dir, 40) && holds(dir, 50) && holds(dir, 60));
    assert_int_equal(save(dir, 1, 1, 45, 1), OK);  /* gone back and on: later ones are another branch */
    assert_true(holds(dir, 45) && holds(dir, 50) && holds(dir, 60) && !holds(dir, 40));
    assert_int_equal(folder_remove(dir), OK);
}

/* ---- the commands ---- */

static void assert_printed(const char *words, const char *dir, const char *wanted)
{
    char command[512], text[8192];
    snprintf(command, sizeof command, "%s checkpoint %s %s 2>&1", JOTUN_BINARY, words, dir);
    FILE  *out  = popen(command, "r");
    size_t read = fread(text, 1, sizeof text - 1, out);
    text[read]  = 0;
    pclose(out);
    if (strstr(text, wanted)) return;
    print_error("'%s' is not in '%s'\n", wanted, text);
    _fail(__FILE__, __LINE__);
}

static void commands_tell(void **unused)
{
    (void)unused;
    char dir[64], head[128];
    if (!file_exists(JOTUN_BINARY)) {
        print_message("jotun is not built: skipped\n");
        skip();
    }
    assert_printed("info", folder_fresh(dir, "commands"), "holds no checkpoint");
    assert_int_equal(save(dir, 2, 1, 12, 0), OK);
    assert_printed("info", dir, "step       12\nsamples    96\n");
    assert_printed("info", dir, "model = \"tiny\"");
    assert_printed("info", dir, "BF16 [2, 3, 4, 5]        block.0.cube\n");
    assert_printed("verify", dir, "every checksum is right");
    snprintf(head, sizeof head, "%s/step_00000012/head.safetensors", dir);
    FILE *f = fopen(head, "r+b");
    fseek(f, -1, SEEK_END);
    fputc(1, f);
    fclose(f);
    assert_printed("verify", dir, "DAMAGED ");
    assert_printed("verify", dir, "head.safetensors: tensor 'head.gain', bytes ");
    assert_int_equal(folder_remove(dir), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_loads_under_any_other),  cmocka_unit_test(bytes_do_not_depend_on_the_cut),
        cmocka_unit_test(state_comes_back),               cmocka_unit_test(types_are_converted),
        cmocka_unit_test(the_wrong_tensor_is_named),      cmocka_unit_test(every_element_is_written_once),
        cmocka_unit_test(damage_is_refused),              cmocka_unit_test(a_damaged_newest_falls_back),
        cmocka_unit_test(keep_last_keeps_the_newest),     cmocka_unit_test(one_put_aside_is_found),
        cmocka_unit_test(commands_tell),                  cmocka_unit_test(counts_no_run_reaches_are_refused), cmocka_unit_test(versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
