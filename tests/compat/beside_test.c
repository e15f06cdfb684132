/* Arguments of Megatron-LM and its forks that are read beside others, numbers as Python reads them, and what has to be given. The values
 * are those of the programs' own arguments.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "cli/setup/setup.h"
#include "compat/import.h"
#include "conf/value.h"
#include <cmocka.h>             /* last: its fail() is a macro */

static const char SIZES[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
                            "--micro-batch-size 1 --lr 1e-4 --train-iters 10";

/* What becomes of a list of arguments: 0, or the options that are not taken. option: the value that it has then. */
static int refused_of(char *value, size_t size, char *remarks, size_t room, const char *sizes, const char *line, const char *option)
{
    char    path[64];
    Options o;
    Import  m;
    snprintf(path, sizeof path, "/tmp/jotun_beside_%d.args", (int)getpid());
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "%s\n%s\n", sizes, line);
    fclose(out);
    assert_int_equal(setup_parse(&o, FOR_CONFIG_COMMAND, 2, (char *[]){ "--from-megatron", path }), OK);
    import_open(&m, &o);
    log_mute(true);
    assert_int_equal(import_megatron(&m, &m.copy), OK);
    log_mute(false);
    remarks[0] = 0;
    for (int i = 0; i < m.remarks.count; i++)
        snprintf(remarks + strlen(remarks), room - strlen(remarks), "%s\n", m.remarks.text[i]);
    if (option) options_value_text(value, size, &m.copy, option_find(option, FOR_TRAIN));
    int refused = m.refused;
    import_close(&m);
    options_close(&o);
    unlink(path);
    return refused;
}

typedef struct { const char *line, *option, *value, *says; } Taken;

static void check_with(const char *sizes, const Taken *row, size_t rows)
{
    char value[256], remarks[8192];
    for (size_t i = 0; i < rows; i++) {
        int refused = refused_of(value, sizeof value, remarks, sizeof remarks, sizes, row[i].line, row[i].option);
        if ((refused > 0) != !row[i].option) fail_msg("%s: %d not taken\n%s", row[i].line, refused, remarks);
        if (row[i].option && strcmp(value, row[i].value)) fail_msg("%s: --%s is %s, not %s\n%s", row[i].line, row[i].option, value, row[i].value, remarks);
        if (!strstr(remarks, row[i].says)) fail_msg("%s: \"%s\" is not said in\n%s", row[i].line, row[i].says, remarks);
    }
}
#define CHECK_ROWS(row) check_with(SIZES, row, sizeof row / sizeof row[0])

static void parts_of_data_sets_come_in_the_order_of_the_forks(void **state)
{
    (void)state;
    static const Taken row[] = {
        { "--train-weighted-split-paths 't: 1 0:0.9 p'", "data-order", "megatron-forks", "" },
        { "--train-weighted-split-paths 't: 1 0:0.9 p'", "final-epoch-cut", "0.8", "" },
        { "--train-weighted-split-paths-path f --valid-num-workers 0", "data-order", "megatron-forks", "" },
        { "--train-weighted-split-paths-path f --valid-num-workers 0", "final-epoch-cut", "0.95", "as in BigScience's fork" },
    };
    CHECK_ROWS(row);
}

static void numbers_are_read_as_python_reads_them(void **state)
{
    (void)state;
    static const Taken row[] = {
        { "--train-iters 220_000", "train-iters", "220000", "" },
        { "--train-iters=1_0", "train-iters", "10", "" },
        { "--train-iters ' 12 '", "train-iters", "12", "" },
        { "--lr 1_0.5e-0_4", "lr", "0.00105", "" },
        { "--lr .5", "lr", "0.5", "" },
        { "--global-batch-size 16 --rampup-batch-size 8 8 9_765_625", "global-batch-size", "16", "" },
        { "--lr-decay-tokens 64_000", "lr-decay-samples", "1000", "1000 of 64 tokens" },
        { "--save 1_0/x --save-interval 5", "save", "1_0/x", "" },                 /* no number */
        { "--train-iters 1__0", NULL, NULL, "not a whole number" },
        { "--train-iters _10", NULL, NULL, "not a whole number" },
        { "--train-iters 10_", NULL, NULL, "not a whole number" },
        { "--train-iters 1e3", NULL, NULL, "not a whole number" },                 /* as int("1e3") */
        { "--lr nan", NULL, NULL, "--lr nan" },
    };
    CHECK_ROWS(row);
}

static void experts_of_deepspeed(void **state)
{
    (void)state;
    static const Taken row[] = {
        { "--num-experts 1 --topk 2 --moe-loss-coeff 0.01 --moe-train-capacity-factor 1 --moe-expert-parallel-size 1 --mlp-type residual", "num-experts", "0", "there is one expert, which is a dense model" },
        { "--num-experts 1 1 --create-moe-param-group", "num-experts", "0", "dense" },
        { "--topk 2", "num-experts", "0", "dense" },
        { "--num-experts 4 --topk 2", NULL, NULL, "give --moe-router-topk" },
        { "--num-experts 4 --moe-loss-coeff 0.01", NULL, NULL, "give --moe-aux-loss-coeff" },
        { "--num-experts 4 --moe-train-capacity-factor 1.5", NULL, NULL, "give --moe-expert-capacity-factor" },
        { "--num-experts 32 64", NULL, NULL, "another number for each layer" },
        { "--num-experts 4 --mlp-type residual", NULL, NULL, "no dense MLP beside" },
        { "--num-experts 4 --mlp-type standard", "num-experts", "4", "it is the default" },
        /* Habana's */
        { "--num-experts 4 --moe-capacity-bins-num 10 --moe-capacity-bins-exp-base 1.5 --moe-router-fp32", "num-experts", "4", "changes no result" },
        { "--num-experts 4 --moe-capacity-bins-num 10 --moe-expert-capacity-factor 1.5", "moe-expert-capacity-factor", "0", "drops no token" },
        { "--num-experts 4 --moe-capacity-bins-num 0 --moe-expert-capacity-factor 1.5", "moe-expert-capacity-factor", "1.5", "" },
        { "--num-experts 4 --moe-aux-loss-coeff 0.01", "moe-router-load-balancing-type", "aux_loss", "within a micro-batch" },
        { "--num-experts 4 --moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type seq_aux_loss", "moe-router-load-balancing-type", "seq_aux_loss", "" },
    };
    CHECK_ROWS(row);
}

static void names_of_the_forks(void **state)
{
    (void)state;
    static const Taken row[] = {
        { "--glu-activation swiglu", "ffn-hidden-size", "256", "4 x --hidden-size" },        /* not 8/3 */
        { "--glu-activation swiglu --ffn-hidden-size 96", "ffn-hidden-size", "96", "" },
        { "--t5-swiglu", "ffn-hidden-size", "256", "4 x --hidden-size" },
        { "--t5-swiglu --ffn-hidden-size 96", "swiglu", "true", "" },
        { "--glu-activation geglu", "gelu-approximate", "none", "" },                        /* torch's F.gelu */
        { "--glu-activation reglu", NULL, NULL, "give swiglu or geglu" },
        { "--position-embedding-type rotary", "position-embedding-type", "rope", "" },
        { "--position-embedding-type absolute", "position-embedding-type", "learned_absolute", "" },
        { "--activations-checkpoint-method uniform --activations-checkpoint-num-layers 2", "recompute-granularity", "full", "" },
        { "--attention-head-type multiquery", "num-query-groups", "1", "" },
        { "--num-query-groups 2", "num-query-groups", "", "reads it only beside --group-query-attention" },
        { "--group-query-attention", "num-query-groups", "1", "Megatron-LM's default, one group" },
        { "--group-query-attention --num-query-groups 2", "num-query-groups", "2", "" },
        { "--multi-latent-attention --position-embedding-type rope", "position-embedding-type", "yarn", "where --rope-type is not rope" },
        { "--multi-latent-attention --position-embedding-type rope --rope-type=rope", "position-embedding-type", "rope", "" },
        { "--multi-latent-attention --position-embedding-type rope --rotary-scaling-factor 40", "position-embedding-type", "yarn", "multiply them by t(--mscale)^2" },
        { "--multi-latent-attention --position-embedding-type rope --rope-type rope --rotary-scaling-factor 40", NULL, NULL, "leave it out" },
        { "--save-interval 5", "save-interval", "", "--save-interval is left out: it does nothing without --save" },
        { "--lr-wsd-decay-iters 2", "lr-wsd-decay-iters", "", "it does nothing without --lr-decay-style WSD" },
        { "--position-embedding-type rope --rope-type rope", "position-embedding-type", "rope", "--rope-type rope is ignored" },
        { "--position-embedding-type rope --rope-type yarn", NULL, NULL, "give --position-embedding-type yarn" },
        { "--DDP-impl local --kill-switch-path off --log-optimizer-states-to-tensorboard", "num-layers", "2", "is ignored" },
        { "--data-path d --deepspeed --kill-switch-path off", "final-epoch-cut", "0.95", "as in BigScience's fork" },
        { "--data-path d --deepspeed", "final-epoch-cut", "0.8", "" },
        { "--universal-checkpoint", "num-layers", "2", "one of DeepSpeed is refused where it is met" },
        { "--global-batch-size 8 --step-batch-size-schedule 0:4 2B:8", "step-batch-size-schedule", "0:4 2B:8", "" },
        { "--profile", "profile", "profile.json", "" },
        { "--exit-interval 0", "exit-interval", "", "--exit-interval 0 is never" },
        { "--profile none", "profile", "", "it is the default" },
        { "--optimizer sophiag --sophiag-beta2 0.9", "adam-beta2", "0.9", "" },
        { "--optimizer adam --adam-beta2 0.95 --sophiag-beta2 0.9", "adam-beta2", "0.95", "it is of --optimizer sophiag" },
        { "--deepspeed --optimizer sophiag --adam-beta2 0.99", "adam-beta2", "0.95", "does not read it there" },
        { "--deepspeed --optimizer sophiag", "sophia-rho", "0.01", "a default of this optimizer" },
        { "--deepspeed --optimizer dshampooadamw", "precondition-frequency", "100", "" },
        { "--deepspeed --optimizer muon --muonadamw-beta2 0.97 --adam-beta2 0.9", "adam-beta2", "0.97", "" },
        { "--deepspeed --optimizer muon", "adam-eps", "1e-12", "" },
        { "--optimizer muon", "adam-eps", "1e-08", "" },                                      /* Megatron-LM's own */
        { "--optimizer muon --muon-nesterov False", "muon-nesterov", "true", "any value is" },                 /* type=bool */
        { "--tensor-model-parallel-size 2 4", NULL, NULL, "has one value here" },
        { "--no-such-option 1 --no-such-other 2", NULL, NULL, "--no-such-other" },
        { "--goldfish-loss", NULL, NULL, "use the program that has it" },
        { "--data-path <Specify path> --bf16", NULL, NULL, "--data-path <Specify path>: that is a placeholder" },
        { "--data-path /path/to/data", "data-path", "/path/to/data", "looks like a placeholder" },
        { "--data-path 1.0 data/* --bf16", NULL, NULL, "--data-path data/*: no file matches this pattern" },
        { "--data-path=data/*", NULL, NULL, "--data-path data/*: no file matches this pattern" },
    };
    CHECK_ROWS(row);
}

/* The values that arguments.py, training.py and learning_rates.py of Megatron-LM v1.1.5 make of them. */
static void names_of_version_1(void **state)
{
    (void)state;
    static const char sizes[] = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --lr 1e-4 --train-iters 10";
    static const Taken row[] = {
        { "--batch-size 8", "micro-batch-size", "8", "--batch-size of Megatron-LM 1 is --micro-batch-size" },
        { "--batch-size=8", "micro-batch-size", "8", "" },
        { "--batch-size 8", "lr-warmup-fraction", "0.01", "over a hundredth of the decay" },
        { "--batch-size 8 --warmup .05", "lr-warmup-fraction", "0.05", "" },
        { "--batch-size 8", "lr-schedule-rule", "clipped", "a schedule of its own" },
        { "--batch-size 8", "gelu-approximate", "none", "by erf where it is not fused" },
        { "--batch-size 8 --bias-gelu-fusion", "gelu-approximate", "tanh", "" },
        { "--batch-size 8 --openai-gelu", "gelu-approximate", "tanh", "" },
        { "--batch-size 8 --data-path d", "final-epoch-cut", "0", "no last epoch of its own" },
        { "--batch-size 8 --data-path d", "data-order", "megatron-forks", "" },
        { "--batch-size 8 --gas 16 --pipe-parallel-size 2", "gradient-accumulation-steps", "16", "" },
        { "--batch-size 8 --gas 16 --pipe-parallel-size 2", "pipeline-model-parallel-size", "2", "" },
        { "--batch-size 8 --pipe-parallel-size 0", "pipeline-model-parallel-size", "1", "is one stage" },
        { "--batch-size 8 --model-parallel-size 2", "tensor-model-parallel-size", "2", "" },
        { "--batch-size 8 --geglu", "ffn-hidden-size", "256", "of width 4 x --hidden-size" },
        { "--batch-size 8 --geglu --openai-gelu", NULL, NULL, "leave the second out" },
        { "--batch-size 8 --geglu --bias-gelu-fusion", NULL, NULL, "leave the second out" },
        { "--batch-size 8 --no-weight-tying --scaled-masked-softmax-fusion", "untie-embeddings-and-output-weights", "true", "fusing changes no result" },
        { "--batch-size 8 --sparsity none", "num-layers", "2", "it is the default" },
        { "--batch-size 8 --sparsity interspersed", NULL, NULL, "attention is dense, or within --window-size; give none" },
        { "--batch-size 8 --onebitadam", NULL, NULL, "gradients are not sent as signs" },
        { "--batch-size 8 --lr-decay-style exponential", NULL, NULL, "exponential" },
        { "--micro-batch-size 8 --warmup 0.05", NULL, NULL, "--lr-warmup-fraction or --lr-warmup-iters" },     /* refused by version 2 as well */
        { "--micro-batch-size 8 --batch-size 8", NULL, NULL, "--batch-size" },
        { "--micro-batch-size 8 --gas 2", NULL, NULL, "--gas" },
    };
    check_with(sizes, row, sizeof row / sizeof row[0]);
}

/* Texts of a script are no formats of printf. */
static void texts_with_percent_signs(void **state)
{
    (void)state;
    static const Taken row[] = {
        { "--save 'd/%s%n/100%' --save-interval 5", "save", "d/%s%n/100%", "" },
        { "--data-path '/path/to/%s%n'", "data-path", "/path/to/%s%n", "--data-path /path/to/%s%n looks like a placeholder" },
        { "--data-path '<%s%n>'", NULL, NULL, "--data-path <%s%n>: that is a placeholder" },
        { "--data-path 'd/%s%n*'", NULL, NULL, "--data-path d/%s%n*: no file matches" },
        { "--train-iters %s%n", NULL, NULL, "--train-iters %s%n" },
        { "--no-such-%s%n 1", NULL, NULL, "--no-such-%s%n" },
        { "--optimizer %s%n", NULL, NULL, "%s%n" },
        { "--glu-activation %s%n", NULL, NULL, "--glu-activation %s%n is not built" },
        { "--tensor-model-parallel-size %s %n", NULL, NULL, "--tensor-model-parallel-size %s %n: " },
        { "--pp-partition-method %s%n", NULL, NULL, "%s%n" },
        { "--tokenizer-type %s%n --tiktoken-pattern v2", "num-layers", "2", "%s%n does not read it" },
        { "--tokenizer-model %s%n/x", "tokenizer", "%s%n/x", "" },
        { "--num-experts 4 --moe-capacity-bins-num 9%s%n --moe-expert-capacity-factor 2", "moe-expert-capacity-factor", "0", "9%s%n drops" },
        { "--deepspeed --deepspeed_config '%s%n.json'", NULL, NULL, "%s%n.json is neither written by the script nor a file here" },
    };
    CHECK_ROWS(row);
}

/* What validate_args of pretrain_gpt.py asserts. */
static void sizes_have_to_be_given(void **state)
{
    (void)state;
    static const char *const needed[] = { "--num-layers 2", "--hidden-size 64", "--num-attention-heads 4", "--seq-length 64",
                                          "--max-position-embeddings 64", "--micro-batch-size 1", "--lr 1e-4" };
    enum { NEEDED = sizeof needed / sizeof needed[0] };
    char value[64], remarks[8192], line[512], wanted[64];
    for (int missing = 0; missing < NEEDED; missing++) {
        line[0] = 0;
        for (int i = 0; i < NEEDED; i++)
            if (i != missing) snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", needed[i]);
        assert_int_equal(refused_of(value, sizeof value, remarks, sizeof remarks, "--train-iters 10", line, "train-iters"), 1);
        snprintf(wanted, sizeof wanted, "%.*s is not given", (int)strcspn(needed[missing], " "), needed[missing]);
        if (!strstr(remarks, wanted)) fail_msg("%s: %s", wanted, remarks);
    }
    assert_int_equal(refused_of(value, sizeof value, remarks, sizeof remarks, "--train-iters 10", "--micro-batch-size 1", "train-iters"), 1);
    assert_non_null(strstr(remarks, "--num-layers, --hidden-size, --num-attention-heads, --seq-length, --max-position-embeddings, --lr are not given"));
    assert_int_equal(refused_of(value, sizeof value, remarks, sizeof remarks, "--train-iters 10", "--micro-batch-size 1 --lr 1 --use-checkpoint-args --load ck", "train-iters"), 0);
    assert_non_null(strstr(remarks, "as --use-checkpoint-args says"));
    assert_int_equal(refused_of(value, sizeof value, remarks, sizeof remarks, "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 --lr 1",
                                "--position-embedding-type rope", "train-iters"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_as_python_reads_them),
        cmocka_unit_test(parts_of_data_sets_come_in_the_order_of_the_forks), cmocka_unit_test(experts_of_deepspeed), cmocka_unit_test(names_of_the_forks), cmocka_unit_test(names_of_version_1), cmocka_unit_test(texts_with_percent_signs),
        cmocka_unit_test(sizes_have_to_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
