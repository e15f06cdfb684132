/* Threads change nothing: three steps with 1, 2 and 3 of them leave the same checkpoint to the byte, losses
 * and norms too. The model on `cpu` is large enough that each kind of op is cut into several chunks. Two
 * ranks with teams of their own as well.   */
#include "train/harness.h"

enum { STEPS = 3 };

static TrainConfig wide_config(ModelName model, const char *data)
{
    TrainConfig config = tiny_config(model, "cpu", data);
    config.model.layers = 1;  config.model.hidden = 72;  config.model.ffn = 240;  config.model.head_dim = 18;
    config.model.vocabulary = 120;
    config.model.positions = config.model.sequence = 144;
    config.micro = 2;  config.global = 2;  config.eod = 119;
    return config;
}

static void assert_same_file(const char *one, const char *other, const char *name)
{
    FileMap map[2];
    char path[2][1024];
    snprintf(path[0], sizeof path[0], "%s/step_%08d/%s", one, STEPS, name);
    snprintf(path[1], sizeof path[1], "%s/step_%08d/%s", other, STEPS, name);
    for (int i = 0; i < 2; i++) if (file_map(&map[i], path[i]) != OK) fail_msg("%s", fail_text());
    bool same = map[0].size == map[1].size && !memcmp(map[0].data, map[1].data, map[0].size);
    if (!same) fail_msg("%s and %s differ", path[0], path[1]);
    for (int i = 0; i < 2; i++) file_unmap(&map[i]);
}

static void assert_same_checkpoint(const char *one, const char *other, const ModelConfig *shape)
{
    for (int64_t b = 0; b < params_blocks(shape); b++) {
        ParamBlock block;
        char name[64];
        params_block(&block, shape, b, 1, 0);
        snprintf(name, sizeof name, "block_%04d.safetensors", (int)b);
        if (block.params > 0) assert_same_file(one, other, name);
    }
    assert_same_file(one, other, "manifest.json");
}

static void compare(const char *word, TrainConfig config, int ranks)
{
    char folder[3][512];
    Job job[3];
    for (int i = 0; i < 3; i++) {
        snprintf(folder[i], sizeof folder[i], "%s/%s-%d", scratch_folder(), word, i + 1);
        job[i] = (Job){ .config = config, .ranks = ranks, .steps = STEPS, .save = folder[i] };
        job[i].config.threads = i + 1;
        job_run(&job[i]);
    }
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(job[i].loss, job[0].loss, sizeof job[0].loss);
        assert_memory_equal(job[i].norm, job[0].norm, sizeof job[0].norm);
        assert_same_checkpoint(folder[0], folder[i], &config.model);
    }
    printf("%-6s %d ranks: loss %.9f -> %.9f under 1, 2 and 3 threads, checkpoints the same\n", word, ranks,
           job[0].loss[0], job[0].loss[STEPS - 1]);
}

static void test_cpu(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("wide"));
    corpus_make(data, 120);
    compare("gpt",   wide_config(MODEL_GPT,   data), 1);
    compare("llama", wide_config(MODEL_LLAMA, data), 1);
    TrainConfig halves = wide_config(MODEL_GPT, data);
    halves.tp = 2;
    halves.sequence_parallel = true;
    compare("halves", halves, 2);
}

static void test_ref(void **state)
{
    (void)state;
    char data[512];
    snprintf(data, sizeof data, "%s", scratch_path("tiny"));
    corpus_make(data, 61);
    compare("ref", tiny_config(MODEL_GPT, "ref", data), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cpu), cmocka_unit_test(test_ref) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
