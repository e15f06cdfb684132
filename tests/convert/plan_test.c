/* Names and views: a model's tensors are gathered from a GPT-2 and a Mixtral checkpoint whose numbers are
 * their places, by windows of any size, and are what formulas written for this test say; gathered back they
 * are the checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail                      /* cmocka's; base/status.h has another */
#include "convert/plan.h"

static const ModelConfig gpt2 = { .layers = 2, .hidden = 6, .ffn = 10, .heads = 3, .groups = 3, .head_dim = 2,
    .vocabulary = 7, .positions = 5, .sequence = 5, .norm = NORM_LAYER, .position = POSITION_LEARNED,
    .activation = ACT_GELU_TANH, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .tied = true };
static const ModelConfig mixtral = {.layers     = 2,
                                    .hidden     = 6,
                                    .ffn        = 10,
                                    .heads      = 4,
                                    .groups     = 2,
                                    .head_dim   = 4,
                                    .vocabulary = 7,
                                    .positions  = 5,
                                    .sequence   = 5,
                                    .experts    = 3,
                                    .expert_ffn = 5,
                                    .moe        = {.topk = 2},
                                    .norm       = NORM_RMS,
                                    .position   = POSITION_ROPE,
                                    .activation = ACT_SWIGLU};

static const ModelConfig latent = { .layers = 2, .hidden = 6, .ffn = 10, .heads = 4, .groups = 4, .head_dim = 5,
    .vocabulary = 7, .sequence = 5, .norm = NORM_RMS, .position = POSITION_ROPE, .activation = ACT_SWIGLU,
    .latent = { .query_rank = 3, .kv_rank = 7, .rope_dim = 2, .value_dim = 4 } };

/* Maps a file of these numbers. */
static const char *numbers_map(ForeignFile *file, const float *number, int64_t count)
{
    char path[] = "/tmp/jotun_plan_XXXXXX";
    int  map, fd = mkstemp(path);
    assert_int_equal(write(fd, number, (size_t)count * sizeof *number), count * (int64_t)sizeof *number);
    close(fd);
    assert_int_equal(foreign_map(file, &map, path), OK);
    unlink(path);
    return (const char *)file->map[map].data;
}

static int64_t volume(const LinkTensor *t) { return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]; }

static bool has(const ForeignFile *file, const char *name)
{
    for (int i = 0; i < file->tensors; i++)
        if (!strcmp(file->tensor[i].name, name)) return true;
    return false;
}

/* Their checkpoint: tensor after tensor of the links, each number its index in the file. `leave` is left out,
 * `more` added. */
static void theirs_make(ForeignFile *file, const Links *links, const char *leave, const char *more)
{
    enum { MOST = 100000 };
    float  *number = malloc(MOST * sizeof *number);
    int64_t at = 0;
    int     tensor;
    for (int i = 0; i < MOST; i++) number[i] = (float)i;
    foreign_begin(file, "theirs");
    const char *data = numbers_map(file, number, MOST);
    free(number);
    for (int i = 0; i < links->count; i++) {
        const LinkTensor *t = &links->link[i].theirs;
        if (has(file, t->name) || (leave && !strcmp(leave, t->name))) continue;
        assert_int_equal(foreign_tensor(file, &tensor, FOREIGN_WEIGHT, t->name, F32, t->dims, t->shape), OK);
        assert_int_equal(foreign_whole(file, tensor, data + 4 * at), OK);
        at += volume(t);
    }
    if (more) assert_int_equal(foreign_tensor(file, &tensor, FOREIGN_WEIGHT, more, F32, 1, (const int64_t[]){ 0 }), OK);
    assert_true(at < MOST);
    assert_int_equal(foreign_finish(file), OK);
}

static void plan_of(Plan *plan, const Links *links, Naming naming, PlanDirection direction,
                    const ForeignFile *from)
{
    assert_int_equal(plan_make(plan, &(PlanRules){ links, naming, direction, true, INT64_MAX, false }, from), OK);
}

/* All elements, by windows of `window`. */
static float *gathered(const Plan *plan, const PlanTensor *t, int64_t window)
{
    int64_t count = plan_count(t);
    float  *all = calloc((size_t)count, sizeof *all);
    for (int64_t first = 0; first < count; first += window)
        plan_gather(plan, t, first, count - first < window ? count - first : window, all + first, F32);
    return all;
}

static float their(const ForeignFile *file, const char *name, int64_t element)
{
    float value;
    const ForeignTensor *t = foreign_find(file, FOREIGN_WEIGHT, name);
    assert_non_null(t);
    foreign_read(t, element, 1, 1, &value, F32);
    return value;
}

/* Rows [first, first + rows) of the columns of a matrix kept as [C, whole]. */
static void expect_turned(const Plan *plan, const ForeignFile *file, const char *ours, const char *theirs,
                          int first, int rows, int columns, int whole)
{
    for (int64_t window = 1; window < 40; window += 6) {
        float *w = gathered(plan, plan_find(plan, ours), window);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++)
                assert_true(w[r * columns + c] == their(file, theirs, c * whole + first + r));
        free(w);
    }
}

static void gpt2_is_turned_and_cut(void **state)
{
    (void)state;
    Links links;
    Plan  plan;
    ForeignFile file;
    assert_int_equal(links_make(&links, NAMING_GPT2, &gpt2), OK);
    theirs_make(&file, &links, NULL, "transformer.h.1.attn.bias");
    plan_of(&plan, &links, NAMING_GPT2, TO_OURS, &file);
    const char *attention = "transformer.h.1.attn.c_attn.weight";
    expect_turned(&plan, &file, "blocks.1.attention.query.weight", attention, 0, 6, 6, 18);
    expect_turned(&plan, &file, "blocks.1.attention.key.weight", attention, 6, 6, 6, 18);
    expect_turned(&plan, &file, "blocks.1.attention.value.weight", attention, 12, 6, 6, 18);
    expect_turned(&plan, &file, "blocks.0.mlp.up.weight", "transformer.h.0.mlp.c_fc.weight", 0, 10, 6, 10);
    expect_turned(&plan, &file, "blocks.0.mlp.down.weight", "transformer.h.0.mlp.c_proj.weight", 0, 6, 10, 6);
    float *bias = gathered(&plan, plan_find(&plan, "blocks.0.attention.value.bias"), 4);
    for (int i = 0; i < 6; i++)
        assert_true(bias[i] == their(&file, "transformer.h.0.attn.c_attn.bias", 12 + i));
    free(bias);
    plan_free(&plan);
    links_free(&links);
    foreign_close(&file);
}

static void experts_are_stacked(void **state)
{
    (void)state;
    Links links;
    Plan  plan;
    char  name[96];
    ForeignFile file;
    assert_int_equal(links_make(&links, NAMING_MIXTRAL, &mixtral), OK);
    theirs_make(&file, &links, NULL, NULL);
    plan_of(&plan, &links, NAMING_MIXTRAL, TO_OURS, &file);
    for (int64_t window = 1; window < 100; window += 9) {
        float *down = gathered(&plan, plan_find(&plan, "blocks.1.experts.down.weight"), window);
        for (int e = 0; e < 3; e++)
            for (int i = 0; i < 30; i++) {
                snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%d.w2.weight", e);
                assert_true(down[e * 30 + i] == their(&file, name, i));
            }
        free(down);
    }
    plan_free(&plan);
    links_free(&links);
    foreign_close(&file);
}

/* Our tensors as a checkpoint, gathered back by windows of `window`, are theirs. */
static void returns(Naming naming, const ModelConfig *config, int64_t window)
{
    Links links;
    Plan  there, back;
    ForeignFile theirs, ours;
    int   tensor;
    assert_int_equal(links_make(&links, naming, config), OK);
    theirs_make(&theirs, &links, NULL, NULL);
    plan_of(&there, &links, naming, TO_OURS, &theirs);
    foreign_begin(&ours, "ours");
    for (int i = 0; i < there.tensors; i++) {
        const PlanTensor *t = &there.tensor[i];
        float *w = gathered(&there, t, window);
        const char *data = numbers_map(&ours, w, plan_count(t));
        free(w);
        assert_int_equal(foreign_tensor(&ours, &tensor, FOREIGN_WEIGHT, t->as.name, F32, t->as.dims, t->as.shape), OK);
        assert_int_equal(foreign_whole(&ours, tensor, data), OK);
    }
    assert_int_equal(foreign_finish(&ours), OK);
    plan_of(&back, &links, naming, TO_THEIRS, &ours);
    assert_int_equal(back.tensors, theirs.tensors);
    for (int i = 0; i < theirs.tensors; i++) {
        float *w = gathered(&back, plan_find(&back, theirs.tensor[i].name), window);
        for (int64_t k = 0; k < foreign_count(&theirs.tensor[i]); k++)
            assert_true(w[k] == their(&theirs, theirs.tensor[i].name, k));
        free(w);
    }
    plan_free(&there);
    plan_free(&back);
    links_free(&links);
    foreign_close(&theirs);
    foreign_close(&ours);
}

static void there_and_back(void **state)
{
    (void)state;
    for (int64_t window = 1; window < 60; window += 11) {
        returns(NAMING_GPT2, &gpt2, window);
        returns(NAMING_MIXTRAL, &mixtral, window);
        returns(NAMING_GGUF_GPT2, &gpt2, window);
        returns(NAMING_GGUF_LLAMA, &mixtral, window);
        returns(NAMING_DEEPSEEK, &latent, window);
        returns(NAMING_GGUF_DEEPSEEK, &latent, window);
    }
}

static void refused(const char *leave, const char *more, const char *why)
{
    Links links;
    Plan  plan;
    ForeignFile file;
    assert_int_equal(links_make(&links, NAMING_GPT2, &gpt2), OK);
    theirs_make(&file, &links, leave, more);
    PlanRules rules = { &links, NAMING_GPT2, TO_OURS, true, INT64_MAX, false };
    assert_int_equal(plan_make(&plan, &rules, &file), BAD_SHAPE);
    assert_non_null(strstr(fail_text(), why));
    links_free(&links);
    foreign_close(&file);
}

static void missing_and_surplus_are_named(void **state)
{
    (void)state;
    refused("transformer.ln_f.bias", NULL, "'transformer.ln_f.bias' is missing");
    refused(NULL, "transformer.h.0.extra", "'transformer.h.0.extra' has no place");
    refused(NULL, "transformer.h.x.attn.bias", "has no place");
    assert_true(links_surplus(NAMING_GPT2, "lm_head.weight", true));
    assert_false(links_surplus(NAMING_GPT2, "lm_head.weight", false));
    assert_true(links_surplus(NAMING_GPT2, "h.11.attn.masked_bias", false));
}

/* Beside each weight two moments, and of one weight the optimizer's copy; all numbers of a kind are its own. */
static void states_make(ForeignFile *file, const Links *links, const char *leave)
{
    enum { MOST = 2000 };
    float number[FOREIGN_KINDS * MOST];
    int   tensor;
    for (int i = 0; i < FOREIGN_KINDS * MOST; i++) number[i] = (float)i;
    foreign_begin(file, "theirs");
    file->position.updates = 7;
    const char *data = numbers_map(file, number, FOREIGN_KINDS * MOST);
    for (ForeignKind k = 0; k < FOREIGN_KINDS; k++)
        for (int i = 0; i < links->count; i++) {
            const LinkTensor *t = &links->link[i].theirs;
            bool taken = i > 0 && !strcmp(links->link[i - 1].theirs.name, t->name);
            for (int j = 0; j < i; j++) taken |= !strcmp(links->link[j].theirs.name, t->name);
            if (taken || (k == FOREIGN_MASTER && i > 0) || (k == FOREIGN_SQUARE && leave && !strcmp(leave, t->name)))
                continue;
            assert_int_equal(foreign_tensor(file, &tensor, k, t->name, F32, t->dims, t->shape), OK);
            assert_int_equal(foreign_whole(file, tensor, data + 4 * MOST * k), OK);
        }
    assert_int_equal(foreign_finish(file), OK);
    assert_true(file->states);
}

static void moments_follow_their_weights(void **state)
{
    (void)state;
    Links links;
    Plan  plan;
    ForeignFile file;
    assert_int_equal(links_make(&links, NAMING_GPT2, &gpt2), OK);
    states_make(&file, &links, NULL);
    PlanRules rules = { &links, NAMING_GPT2, TO_OURS, true, INT64_MAX, true };
    assert_int_equal(plan_make(&plan, &rules, &file), OK);
    assert_int_equal(plan.tensors, 3 * links.count);
    assert_string_equal(plan.tensor[1].as.name, "embed.token.weight.exp_avg");
    for (int i = 0; i < plan.tensors; i++) assert_int_equal(plan.tensor[i].kind, i % 3);
    const char *names[] = { "embed.token.weight", "embed.token.weight.exp_avg_sq", "blocks.1.mlp.up.bias",
                            "blocks.1.mlp.up.bias.exp_avg" };
    const float first[] = { 6000, 4000, 0, 2000 };               /* the first one's from the optimizer's copy */
    for (int i = 0; i < 4; i++) {
        float *w = gathered(&plan, plan_find(&plan, names[i]), 5);
        for (int k = 0; k < 5; k++) assert_true(w[k] == first[i] + (float)k);
        free(w);
    }
    plan_free(&plan);
    rules.states = false;                                        /* then states are no surplus */
    assert_int_equal(plan_make(&plan, &rules, &file), OK);
    assert_int_equal(plan.tensors, links.count);
    float *w = gathered(&plan, plan_find(&plan, names[0]), 5);
    assert_true(w[1] == 1);
    free(w);
    plan_free(&plan);
    foreign_close(&file);
    states_make(&file, &links, "transformer.ln_f.bias");
    rules.states = true;
    assert_int_equal(plan_make(&plan, &rules, &file), BAD_SHAPE);
    assert_non_null(strstr(fail_text(), "'transformer.ln_f.bias' has no exp_avg_sq"));
    foreign_leave_states(&file, "as %s", "told");
    assert_string_equal(file.states_unread, "as told");
    assert_null(foreign_find(&file, FOREIGN_MOMENT, "transformer.ln_f.bias"));
    links_free(&links);
    foreign_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_turned_and_cut), cmocka_unit_test(experts_are_stacked),
        cmocka_unit_test(there_and_back),         cmocka_unit_test(missing_and_surplus_are_named),
        cmocka_unit_test(moments_follow_their_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
