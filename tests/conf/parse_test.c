/* From words to values, and who is believed when two speak. */
#include "line.h"
#include <stdlib.h>

static const char *source_of(const Options *o, OptionIndex option)
{
    static char text[256];
    return options_source_text(text, sizeof text, o, option);
}

static void both_forms(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_TRAIN, "--num-layers 4 --lr=1e-2 --tp 2 --swiglu --normalization rmsnorm "
                                        "--save=a=b --sp=false"));
    assert_int_equal(o.layers, 4);
    assert_true(o.lr == 1e-2);
    assert_int_equal(o.tensor_parallel, 2);
    assert_true(o.swiglu && !o.sequence_parallel);
    assert_int_equal(o.norm.value, CHOICE_norm_rmsnorm);
    assert_string_equal(o.norm.word, "RMSNorm");
    assert_string_equal(o.save, "a=b");
    assert_string_equal(o.source[OPTION_tensor_parallel].name, "--tp");
    assert_string_equal(o.source[OPTION_tensor_parallel].value, "2");
    options_close(&o);
    assert_ok(parse_line(&o, FOR_TRAIN, "--seed 1 --seed 2"));               /* the last word counts */
    assert_int_equal(o.seed, 2);
    options_close(&o);
}

static void words_and_lists(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_PREPARE, "--input a b - --append-eod --input=c --output-prefix p"));
    assert_int_equal(o.input.count, 4);
    assert_string_equal(o.input.text[2], "-");
    assert_string_equal(o.input.text[3], "c");
    options_close(&o);
    assert_ok(parse_line(&o, FOR_DATA_INFO, "one -- --two"));
    assert_int_equal(o.words.count, 2);
    assert_string_equal(o.words.text[1], "--two");
    assert_says(options_expect(&o, 1, "PREFIX"), BAD_USAGE,
                "jotun data info needs PREFIX, and 2 words were given");
    options_close(&o);
}

static void wrong_words(void **state)
{
    (void)state;
    static const struct { CommandSet command; const char *line; Status code; const char *says; } row[] = {
        { FOR_TRAIN, "--num-layer 3",       BAD_USAGE,
          "--num-layer is no option of jotun train; did you mean --num-layers?" },
        { FOR_TRAIN, "--use-flash-atn",     BAD_USAGE,  "did you mean --use-flash-attn?" },
        { FOR_TRAIN, "--no-swiglu",         BAD_USAGE,  "--swiglu is off unless it is given, or --swiglu=false" },
        { FOR_TRAIN, "--swiglu true",       BAD_USAGE,  "--swiglu takes no value: leave true out, or write --swiglu=true or" },
        { FOR_TRAIN, "--fp8-recipe mxfp8",  BAD_OPTION,
          "--fp8-recipe mxfp8: scales of 32 numbers are not built; give delayed or tensorwise" },
        { FOR_TRAIN, "--optimizer tiger",   BAD_OPTION, "--optimizer tiger is not known; give adam, sgd, lion, " },
        { FOR_TRAIN, "--moe_latent_size 2", BAD_USAGE,  "experts are routed by a top-k router" },
        { FOR_TRAIN, "--d_model 64",        BAD_USAGE,  "here it is --hidden-size" },
        { FOR_TRAIN, "--dp 2",              BAD_USAGE,  "here it is --ranks: data-parallel ranks are" },
        { FOR_TRAIN, "--zzzzzzzzzz",        BAD_USAGE,
          "--zzzzzzzzzz is no option of jotun train; its --help lists them" },
        { FOR_TRAIN, "--prompt x",          BAD_USAGE,
          "--prompt is no option of jotun train but of jotun generate" },
        { FOR_TRAIN, "--num-layers",        BAD_USAGE,  "--num-layers needs a value" },
        { FOR_TRAIN, "--save --swiglu",     BAD_USAGE,  "--save needs a value" },
        { FOR_TRAIN, "file",                BAD_USAGE,  "file: jotun train takes no positional argument" },
        { FOR_TRAIN, "-n 3",                BAD_USAGE,  "-n is no option" },
        { FOR_TRAIN, "--num-layers ten",    BAD_OPTION,
          "--num-layers ten is not a whole number; give a value from 1 to 65536" },
        { FOR_TRAIN, "--num-layers 4.5",    BAD_OPTION, "--num-layers 4.5 is not a whole number" },
        { FOR_TRAIN, "--num-layers=",       BAD_OPTION, "--num-layers= is not a whole number" },
        { FOR_TRAIN, "--num-layers 0",      BAD_OPTION, "--num-layers 0 is out of range; give a value from 1 to 65536" },
        { FOR_TRAIN, "--seed 99999999999999999999", BAD_OPTION, "out of range" },
        { FOR_TRAIN, "--tp -2",             BAD_OPTION, "--tp -2 is out of range; give a value from 1 to 1024" },
        { FOR_TRAIN, "--lr nan",            BAD_OPTION, "--lr nan is out of range; give a value from 0 to 1000" },
        { FOR_TRAIN, "--lr fast",           BAD_OPTION, "--lr fast is not a decimal number" },
        { FOR_TRAIN, "--normalization x",   BAD_OPTION,
          "--normalization x is not known; give LayerNorm or RMSNorm" },
        { FOR_TRAIN, "--optimizer dist_muon", BAD_OPTION, "muon is sharded by --zero-stage; give muon" },
        { FOR_TRAIN, "--swiglu=maybe",      BAD_OPTION, "neither true nor false" },
        { FOR_GENERATE, "--prompt=",        BAD_OPTION, "--prompt= is empty; give --prompt S (the text to continue)" },
        { FOR_TRAIN, "--save=",             BAD_OPTION, "--save= is empty" },
        { FOR_TRAIN, "--model gpt5",        BAD_OPTION, "--model gpt5 is not known; give a model that jotun train --help lists, such as gpt2-124m" },
        { FOR_TRAIN, "--model llama-7b",    BAD_OPTION, "--model llama-7b is not known; did you mean llama1-7b, llama2-7b, llama2-70b, llama3-8b, llama3-70b? jotun train --help lists all" },
        { FOR_TRAIN, "--model Llama3.2",    BAD_OPTION, "did you mean llama3.2-1b, llama3.2-3b?" },
        { FOR_TRAIN, "--universal-checkpoint", BAD_OPTION, "leave it out" },
        { FOR_TRAIN, "--transformer-impl",  BAD_USAGE,  "--transformer-impl of Megatron-LM needs a value" },
        { FOR_DATA_INFO, "--lr 1 p",        BAD_USAGE,
          "--lr is no option of jotun data info but of jotun train" },
        { FOR_PREPARE, "--seed 1",          BAD_USAGE,  "jotun prepare but of jotun train, jotun generate, jotun speedrun and jotun data info" },
        { FOR_EVAL,  "--split 1",           BAD_USAGE,  "jotun eval perplexity but of jotun train" },
        { FOR_TRAIN, "--seed -1",           BAD_OPTION, "--seed -1 is out of range; give a value from 0 to 9000000000000000" },
        { FOR_TRAIN, "--norm-epsilon 0",    BAD_OPTION, "--norm-epsilon 0 is out of range; give a value from 1e-30 to 1" },
        { FOR_TRAIN, "--lr 0x1p-3",         BAD_OPTION, "--lr 0x1p-3 is not a decimal number; give a value from 0 to 1000" },
        { FOR_TRAIN, "--n_layer 3",         BAD_USAGE,  "--n_layer is a name of nanoGPT and no option of jotun train; here it is --num-layers" },
        { FOR_TRAIN, "--max-iters 3",       BAD_USAGE,  "here it is --train-iters" },
        { FOR_TRAIN, "--per_device_train_batch_size 3", BAD_USAGE, "a name of Hugging Face and" },
        { FOR_TRAIN, "--save-every 3",      BAD_USAGE,  "here it is --save-interval" },
        { FOR_TRAIN, "--TP 3",              BAD_USAGE,  "--TP is no option of jotun train" },
        { FOR_TRAIN, "--universal-checkpoint", BAD_OPTION, "--universal-checkpoint of Megatron-DeepSpeed is refused: universal checkpoints" },
        { FOR_TOKENIZER_ENCODE, "--format txt", BAD_OPTION, "--format txt is not known; give text, u16 or i32" },
        { FOR_CLEAN, "--format u16",        BAD_OPTION, "--format u16 is not known; give txt or jsonl" },
        { FOR_TRAIN, "--adam-eps 0",        BAD_OPTION, "--adam-eps 0 is out of range; give a value from 1e-30 to 1" },
        { FOR_TRAIN, "--use-distributed-optimizer=false", BAD_OPTION, "leave it out, or give --zero-stage" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        Options o;
        assert_says(parse_line(&o, row[i].command, row[i].line), row[i].code, row[i].says);
    }
}

static void foreign_words(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_TRAIN, "--model-parallel-size 4 --use-distributed-optimizer "
                                        "--use-rotary-position-embeddings --transformer-impl local "
                                        "--use-flash-attn --attention-backend=flash --num-layers 3"));
    assert_int_equal(o.tensor_parallel, 4);
    assert_int_equal(o.zero_stage, 1);
    assert_int_equal(o.position.value, CHOICE_position_rope);
    assert_int_equal(o.layers, 3);                      /* what follows a passed option is read */
    assert_string_equal(o.source[OPTION_tensor_parallel].name, "--model-parallel-size");
    options_close(&o);
}

/* default < preset < checkpoint < environment < command line, wherever each is named */
static void sources(void **state)
{
    (void)state;
    Options o;
    setenv("JOTUN_NUM_LAYERS", "7", 1);
    setenv("JOTUN_HIDDEN_SIZE", "700", 1);
    setenv("JOTUN_PROMPT", "not for train", 1);
    assert_ok(parse_line(&o, FOR_TRAIN, "--num-layers 9 --model gpt2-355m"));
    const char *saved = "{\"num-layers\":5,\"hidden-size\":500,\"num-attention-heads\":5,\"lr\":0.5}";
    assert_ok(options_from_json(&o, saved, "step_1", FOR_CHECKPOINT_ARGS));
    assert_int_equal(o.layers, 9);
    assert_string_equal(source_of(&o, OPTION_layers), "command line");
    assert_int_equal(o.hidden, 700);
    assert_string_equal(source_of(&o, OPTION_hidden), "JOTUN_HIDDEN_SIZE");
    assert_int_equal(o.heads, 5);
    assert_string_equal(source_of(&o, OPTION_heads), "step_1");
    assert_int_equal(o.vocabulary, 50257);
    assert_string_equal(source_of(&o, OPTION_vocabulary), "--model gpt2-355m");
    assert_true(o.lr == 3e-4);                          /* a checkpoint gives the model alone */
    assert_string_equal(source_of(&o, OPTION_lr), "default");
    assert_null(o.prompt);
    options_close(&o);
    setenv("JOTUN_NUM_LAYERS", "many", 1);
    assert_says(parse_line(&o, FOR_TRAIN, ""), BAD_OPTION, "JOTUN_NUM_LAYERS=many is not a whole number");
    unsetenv("JOTUN_NUM_LAYERS");
    unsetenv("JOTUN_HIDDEN_SIZE");
    unsetenv("JOTUN_PROMPT");
}

static void names_in_the_environment(void **state)
{
    (void)state;
    Options o;
    setenv("JOTUN_TP", "2", 1);
    setenv("JOTUN_DECODER_LAYERS", "6", 1);
    setenv("JOTUN_USE_DISTRIBUTED_OPTIMIZER", "1", 1);
    setenv("JOTUN_USE_FLASH_ATTN", "1", 1);
    assert_ok(parse_line(&o, FOR_TRAIN, ""));
    assert_int_equal(o.tensor_parallel, 2);
    assert_string_equal(source_of(&o, OPTION_tensor_parallel), "JOTUN_TP");
    assert_int_equal(o.layers, 6);
    assert_int_equal(o.zero_stage, 1);
    options_close(&o);
    setenv("JOTUN_UNIVERSAL_CHECKPOINT", "1", 1);
    assert_says(parse_line(&o, FOR_TRAIN, ""), BAD_OPTION, "JOTUN_UNIVERSAL_CHECKPOINT of Megatron-DeepSpeed is refused");
    assert_ok(parse_line(&o, FOR_PREPARE, ""));                 /* a variable for one command troubles no other */
    options_close(&o);
    unsetenv("JOTUN_UNIVERSAL_CHECKPOINT");
    unsetenv("JOTUN_TP");
    unsetenv("JOTUN_DECODER_LAYERS");
    unsetenv("JOTUN_USE_DISTRIBUTED_OPTIMIZER");
    unsetenv("JOTUN_USE_FLASH_ATTN");
}

/* The words of a list are split as a shell splits them. */
static void lists_in_the_environment(void **state)
{
    (void)state;
    static const struct { const char *value, *words; } row[] = {
        { "2 2 100", "2|2|100" },                  { " a\tb\n", "a|b" },                 { "'a b' \"c d\"e", "a b|c de" },
        { "a\\ b \\'c\\\"", "a b|'c\"" },           { "'a\\b' \"\\\\\\\"\\n$x\"", "a\\b|\\\"\\n$x" },
        { "'' x\\", "|x\\" },
    };
    Options o;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char words[64] = "";
        setenv("JOTUN_RAMPUP_BATCH_SIZE", row[i].value, 1);
        assert_ok(parse_line(&o, FOR_TRAIN, ""));
        for (int k = 0; k < o.rampup_batch.count; k++)
            snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", k ? "|" : "", o.rampup_batch.text[k]);
        assert_string_equal(words, row[i].words);
        options_close(&o);
    }
    assert_ok(parse_line(&o, FOR_TRAIN, "--rampup-batch-size 4 4 30"));
    assert_int_equal(o.rampup_batch.count, 3);
    options_close(&o);
    setenv("JOTUN_RAMPUP_BATCH_SIZE", "2 'a", 1);
    assert_says(parse_line(&o, FOR_TRAIN, ""), BAD_OPTION, "JOTUN_RAMPUP_BATCH_SIZE=2 'a: a quote is not closed; close it");
    setenv("JOTUN_RAMPUP_BATCH_SIZE", " ", 1);
    assert_says(parse_line(&o, FOR_TRAIN, ""), BAD_OPTION, "is empty; give it a value or unset it");
    unsetenv("JOTUN_RAMPUP_BATCH_SIZE");
}

/* Variables of ALCF's scripts, for a command that chooses their namespace. */
static void argonne_variables(void **state)
{
    (void)state;
    static const char *const set[][2] = { { "TP", "2" }, { "NLAYERS", "6" }, { "SEQ", "512" }, { "GLOBAL_BATCH", "4" }, { "OPT", "adamw" },
                                          { "TRAIN_TOKENS", "4673780159710" }, { "SP", "1" }, { "DEEPSPEED_TIMEOUT", "2" } };
    Options o;
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) setenv(set[i][0], set[i][1], 1);
    assert_ok(parse_line(&o, FOR_TRAIN, ""));                               /* jotun train does not read them */
    assert_int_equal(o.layers, 12);
    options_close(&o);
    char *words[] = { "--seq-length", "1024" };
    setenv("JOTUN_DIALECT", "argonne", 1);
    assert_ok(setup_parse(&o, FOR_TRAIN, 2, words));
    assert_ok(options_derive(&o));
    assert_int_equal(o.tensor_parallel, 2);
    assert_int_equal(o.layers, 6);
    assert_string_equal(source_of(&o, OPTION_layers), "NLAYERS");
    assert_int_equal(o.sequence, 1024);                                     /* the command line is stronger */
    assert_int_equal(o.train_iters, 4673780159710 / 1024 / 4);
    assert_string_equal(source_of(&o, OPTION_train_iters), "derived from TRAIN_TOKENS");
    assert_true(o.watchdog_seconds == 120);
    assert_int_equal(o.optimizer.value, CHOICE_optimizer_adam);
    options_close(&o);
    setenv("SP", "2", 1);
    assert_ok(setup_parse(&o, FOR_TRAIN, 0, NULL));      /* DeepSpeed's sequence parallelism is Ulysses's */
    assert_int_equal(o.context_parallel, 2);
    assert_int_equal(o.cp_comm_type.value, CHOICE_cp_comm_type_a2a);
    options_close(&o);
    setenv("SP", "1", 1);
    setenv("OPT", "tiger", 1);
    assert_says(setup_parse(&o, FOR_TRAIN, 0, NULL), BAD_OPTION, "OPT=tiger is not known; give adam, sgd, lion, ");
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) unsetenv(set[i][0]);
    unsetenv("JOTUN_DIALECT");
}

/* One flag that means different things in two commands is two rows. */
static void rows_of_a_command(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_LANGID, "--model lid.bin"));
    assert_string_equal(o.langid_model, "lid.bin");
    assert_null(o.model);
    options_close(&o);
    assert_ok(parse_line(&o, FOR_TOKENIZER_TRAIN, "--vocab-size 300"));
    assert_int_equal(o.learned_vocabulary, 300);
    assert_int_equal(o.source[OPTION_vocabulary].kind, SOURCE_NOTHING);
    options_close(&o);
    assert_ok(parse_line(&o, FOR_CLEAN, "--format jsonl --input i"));
    assert_int_equal(o.clean_format.value, CHOICE_clean_format_jsonl);
    assert_int_equal(o.clean_input.count, 1);
    options_close(&o);
}

/* Checkpoints of version 0.1.0 have these names; an unknown one would refuse the checkpoint. */
static void names_in_old_checkpoints(void **state)
{
    (void)state;
    static const char *const saved[] = {
        "model", "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads",
        "num-query-groups", "seq-length", "max-position-embeddings", "vocab-size", "normalization",
        "norm-epsilon", "position-embedding-type", "rotary-base", "swiglu", "squared-relu",
        "disable-bias-linear", "untie-embeddings-and-output-weights", "attention-dropout",
        "hidden-dropout", "init-method-std", "data-path", "train-data-path", "valid-data-path",
        "test-data-path", "data-file-list", "data-order", "final-epoch-cut",
        "mid-level-dataset-surplus", "shuffle-sample-in-corpus", "blend-sample-in-corpus",
        "data-cache-path", "tokenizer", "split", "reset-position-ids", "reset-attention-mask",
        "eod-mask-loss", "train-iters", "micro-batch-size", "global-batch-size", "lr", "min-lr",
        "lr-decay-style", "lr-warmup-iters", "lr-decay-iters", "optimizer", "weight-decay",
        "adam-beta1", "adam-beta2", "adam-eps", "clip-grad", "seed", "ranks",
        "tensor-model-parallel-size", "sequence-parallel", "pipeline-model-parallel-size",
        "num-layers-per-virtual-pipeline-stage", "pipeline-schedule", "context-parallel-size",
        "zero-stage", "device", "threads", "distributed-timeout-minutes", "watchdog-seconds", "load",
        "save", "save-interval", "keep-last", "exit-interval", "exit-on-missing-checkpoint",
        "use-checkpoint-args", "log-interval", "eval-interval", "eval-iters", "metrics", "dry-run",
        "draw-schedule", "draw-schedule-svg"
    };
    for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++)
        if (option_find(saved[i], FOR_CONFIG) < 0) fail_msg("no option %s", saved[i]);
}

static char resume_changes[1000];           /* what the last of them names as changed */

/* As optim/optimizer.c has it, which options do not see. */
static bool share_states(const char *a, const char *b)
{
    return (!strcmp(a, "adam") || !strcmp(a, "lamb")) && (!strcmp(b, "adam") || !strcmp(b, "lamb"));
}

/* What a run that goes on says against what its checkpoint was trained with */
static Status goes_on(const char *begun, const char *now)
{
    Options before, o;
    const char *json;
    assert_ok(parse_line(&before, FOR_TRAIN, begun));
    options_fill(&before, OPTION_vocabulary, 257, "--tokenizer");
    assert_ok(options_derive(&before));
    assert_ok(options_json(&before, &json));
    assert_ok(parse_line(&o, FOR_TRAIN, now));
    if (o.use_checkpoint_args) assert_ok(options_from_json(&o, json, "ck", FOR_CHECKPOINT_ARGS));
    options_fill(&o, OPTION_vocabulary, 257, "--tokenizer");
    assert_ok(options_derive(&o));
    o.checkpoint.position = !o.finetune;
    o.checkpoint.states = o.checkpoint.position && !o.no_load_optim;
    o.checkpoint.given = "";
    o.checkpoint.options = json, o.checkpoint.path = "ck";
    if (o.checkpoint_schedule) assert_ok(options_take_schedule(&o));
    assert_ok(options_derive(&o));
    o.checkpoint.share_states = share_states;
    Status status = options_match_json(&o, json, "ck");
    snprintf(resume_changes, sizeof resume_changes, "%s", o.changed ? o.changed : "");
    options_close(&o);
    options_close(&before);
    return status;
}

static void another_model_is_refused(void **state)
{
    (void)state;
    static const char *const shape[] = {
        "--num-layers 2", "--hidden-size 96", "--ffn-hidden-size 8", "--num-attention-heads 6", "--num-query-groups 1",
        "--vocab-size 300", "--normalization RMSNorm", "--norm-epsilon 1e-6", "--position-embedding-type none",
        "--max-position-embeddings 2048", "--swiglu", "--squared-relu", "--disable-bias-linear",
        "--untie-embeddings-and-output-weights",
    };
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        assert_says(goes_on("", shape[i]), BAD_OPTION, ", but ck was trained with ");
        assert_says(goes_on(shape[i], ""), BAD_OPTION, ", but ck was trained with ");
        assert_ok(goes_on(shape[i], shape[i]));
        assert_ok(goes_on(shape[i], "--use-checkpoint-args"));
    }
    assert_says(goes_on("--num-layers 4", "--num-layers 2"), BAD_OPTION, "--num-layers 2, but ck was trained with 4; "
                "leave --num-layers out and give --use-checkpoint-args, or start a new run without --load");
    assert_says(goes_on("--num-layers 4", "--num-layers 2 --use-checkpoint-args"), BAD_OPTION,
                "leave --num-layers out, or start a new run without --load");
    assert_says(goes_on("--num-layers 4", ""), BAD_OPTION,
                "--num-layers 12 (default), but ck was trained with 4; give --use-checkpoint-args, or");
    assert_says(goes_on("--hidden-size 96", "--hidden-size 96 --swiglu"), BAD_OPTION, "--swiglu, but ck");
    const char *rope = "--position-embedding-type rope --seq-length 64";
    assert_ok(goes_on("--position-embedding-type rope", rope));      /* no learned positions: any length does */
    assert_ok(goes_on("--position-embedding-type rope", "--position-embedding-type rope --max-position-embeddings 2048"));
    assert_says(goes_on(rope, "--position-embedding-type rope --rotary-base 500"), BAD_OPTION, "--rotary-base 500, but");
    assert_ok(goes_on("--seed 5", "--clip-grad 1 --global-batch-size 4 --ranks 2")); /* another course: words alone */
    assert_says(goes_on("--num-layers 4 --hidden-size 96", "--num-layers 2 --hidden-size 48"), BAD_OPTION,
                "2 options contradict ck: --num-layers 2, was 4; --hidden-size 48, was 96; leave what you gave of "
                "them out and give --use-checkpoint-args, or start a new run without --load");
}

/* What a resume takes of the checkpoint decides what may differ from it. */
static void optimizer_and_schedule_of_a_resume(void **state)
{
    (void)state;
    const char *load = " --load ck";
    char now[200];
    static const struct { const char *begun, *now, *says; } row[] = {
        { "--optimizer adam", "--optimizer muon", "--optimizer muon, but ck was trained with adam; the states of the "
                                                  "two differ: --no-load-optim begins with new ones" },
        { "--optimizer muon", "", "--optimizer adam (default), but ck was trained with muon" },
        { "--optimizer adam", "--optimizer lamb", NULL },
        { "--optimizer adam", "--optimizer muon --no-load-optim", NULL },
        { "--optimizer adam", "--optimizer muon --lr 3 --finetune", NULL },
        { "--lr 0.5", "--lr 0.25", "--lr 0.25, but ck was trained with 0.5; --override-opt-param-scheduler takes the new "
                                   "schedule, --use-checkpoint-opt-param-scheduler the checkpoint's" },
        { "--lr 0.5 --min-lr 0.1", "--weight-decay 0.1", "3 options contradict ck: --lr 0.0003 (default), was 0.5; --min-lr 0 "
                                   "(default), was 0.1; --weight-decay 0.1, was 0.01; --override-opt-param-scheduler" },
        { "--lr 0.5", "--lr 0.25 --override-opt-param-scheduler", NULL },
        { "--lr 0.5 --train-iters 9", "--lr 0.5 --train-iters 18", NULL },   /* derived --lr-decay-iters: named alone */
        { "--lr 0.5 --train-iters 9", "--lr 0.5 --train-iters 18 --num-layers 3", "--num-layers 3, but ck" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        snprintf(now, sizeof now, "%s%s", row[i].now, load);
        if (row[i].says) assert_says(goes_on(row[i].begun, now), BAD_OPTION, row[i].says);
        else             assert_ok(goes_on(row[i].begun, now));
    }
}

#define STEPS " --train-iters 40 --global-batch-size 8"
#define SAMPLES " --train-samples 320 --global-batch-size 8"

/* A value on one side alone, and lengths in steps, in samples or as a share of them. */
static void values_that_one_side_lacks(void **state)
{
    (void)state;
    const char *load = " --load ck";
    char now[300];
    static const struct { const char *begun, *now, *says, *changes; } row[] = {
        { "--decoupled-lr 0.5", "", "no --decoupled-lr, but ck was trained with 0.5; --override-opt-param-scheduler", "" },
        { "", "--decoupled-lr 0.5", "--decoupled-lr 0.5, but ck was trained with none; --override-opt-param-scheduler", "" },
        { "--decoupled-lr 0.5 --decoupled-min-lr 0.1", "--decoupled-lr 0.5", "no --decoupled-min-lr, but ck was trained with 0.1", "" },
        { "--decoupled-lr 0.5", "--override-opt-param-scheduler", NULL, "no --decoupled-lr, was 0.5" },
        { "", "--decoupled-lr 0.5 --override-opt-param-scheduler", NULL, "--decoupled-lr 0.5, was none" },
        { "--decoupled-lr 0.5", "--use-checkpoint-opt-param-scheduler", NULL, "" },
        { "", "--decoupled-lr 0.5 --use-checkpoint-opt-param-scheduler", NULL, "" },
        { "--decoupled-lr 0.5", "--finetune", NULL, "" },
        { "--lr-warmup-fraction 0.25" STEPS, STEPS, "--lr-warmup-iters 0 (default), but ck was trained with --lr-warmup-fraction 0.25", "" },
        { STEPS, "--lr-warmup-fraction 0.25" STEPS, "--lr-warmup-fraction 0.25, but ck was trained with --lr-warmup-iters 0", "" },
        { "--lr-warmup-samples 80" STEPS, STEPS, "--lr-warmup-iters 0 (default), but ck was trained with --lr-warmup-samples 80", "" },
        { "--lr-warmup-iters 9" STEPS, "--lr-warmup-samples 80" STEPS, "--lr-warmup-samples 80, but ck was trained with --lr-warmup-iters 9", "" },
        { "--lr-warmup-iters 10" STEPS, "--lr-warmup-samples 80" STEPS, NULL, "" },
        { "--lr-warmup-iters 12" STEPS, "--lr-warmup-fraction 0.3" STEPS, NULL, "" },
        { "--lr-warmup-iters 12" STEPS, "--lr-warmup-fraction 0.4 --use-checkpoint-opt-param-scheduler" STEPS, NULL, "" },
        { "--lr-warmup-iters 10" SAMPLES, "--lr-warmup-samples 80" STEPS, NULL, "" },
        { SAMPLES, STEPS, NULL, "" },
        { STEPS, SAMPLES, NULL, "" },
        { "--lr-decay-samples 160" SAMPLES, "--lr-decay-iters 20" STEPS, NULL, "" },
        { "--lr-decay-samples 168" SAMPLES, "--lr-decay-iters 20" STEPS, "--lr-decay-iters 20, but ck was trained with --lr-decay-samples 168", "" },
        { "--lr-decay-samples 168" SAMPLES, STEPS, NULL,
          "--lr-decay-iters 40 (derived from --train-iters), was --lr-decay-samples 168, which keeps that" },
        { "--lr-decay-style WSD --lr-wsd-decay-samples 80" SAMPLES, "--lr-decay-style WSD --lr-wsd-decay-iters 10" STEPS, NULL, "" },
        { "--lr-decay-style WSD --lr-wsd-decay-samples 80" SAMPLES, "--lr-decay-style WSD --lr-wsd-decay-iters 9" STEPS,
          "--lr-wsd-decay-iters 9, but ck was trained with --lr-wsd-decay-samples 80", "" },
        { "--weight-decay-incr-style linear --start-weight-decay 0.1 --end-weight-decay 0.2", "--weight-decay-incr-style linear",
          "2 options contradict ck: no --start-weight-decay, was 0.1; no --end-weight-decay, was 0.2", "" },
        { "--data-path a --iterations-to-skip 3", "--train-data-path b", NULL,
          "no --data-path, was a; --train-data-path b, was none; no --iterations-to-skip, was 3" },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        snprintf(now, sizeof now, "%s%s", row[i].now, load);
        if (row[i].says) assert_says(goes_on(row[i].begun, now), BAD_OPTION, row[i].says);
        else             assert_ok(goes_on(row[i].begun, now));
        if (!row[i].says) assert_string_equal(resume_changes, row[i].changes);
    }
}

/* A dynamic scale has no option to compare with. */
static void a_loss_scale_that_becomes_constant(void **state)
{
    (void)state;
    static const struct { const char *json, *now, *says; } row[] = {
        { "{\"fp16\":true}",                    "--fp16 --loss-scale 64", "--loss-scale 64, was dynamic" },
        { "{\"fp16\":true,\"loss-scale\":64.0}", "--fp16",               "a dynamic loss scale, was --loss-scale 64" },
        { "{\"fp16\":true,\"loss-scale\":64.0}", "--fp16 --loss-scale 64", NULL },
        { "{\"fp16\":true}",                    "--fp16",                 NULL },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        Options o;
        assert_ok(parse_line(&o, FOR_TRAIN, row[i].now));
        o.checkpoint.position = true;
        assert_ok(options_match_json(&o, row[i].json, "ck"));
        if (row[i].says) assert_string_equal(o.changed, row[i].says);
        else             assert_null(o.changed);
        options_close(&o);
    }
}

static void changes_without_room_are_counted(void **state)
{
    (void)state;
    Options o;
    char json[1000], was[300];
    memset(was, 'w', sizeof was);
    assert_ok(parse_line(&o, FOR_TRAIN, "--seed 5 --data-path a --train-data-path b --lr 1"));
    o.checkpoint.position = true;
    snprintf(json, sizeof json, "{\"data-path\":[\"%.299s\"],\"train-data-path\":[\"%.299s\"],\"split\":\"%.299s\",\"seed\":7}",
             was, was, was);
    assert_ok(options_match_json(&o, json, "ck"));
    const char *end = "www; --seed 5, was 7; and 1 more";
    size_t bytes = strlen(o.changed);
    assert_true(bytes > strlen(end));
    assert_string_equal(o.changed + bytes - strlen(end), end);
    options_close(&o);
}

static void derived(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_line(&o, FOR_TRAIN, "--hidden-size 4096 --tp 2 --micro-batch-size 3 --train-iters 50"));
    options_fill(&o, OPTION_ranks, 8, "the launcher");
    assert_ok(options_derive(&o));
    assert_int_equal(o.ffn, 4 * 4096);
    assert_string_equal(source_of(&o, OPTION_ffn), "derived from --hidden-size");
    assert_int_equal(o.groups, 12);
    assert_int_equal(o.vocabulary, 0);                  /* the tokenizer says it, which is looked at elsewhere */
    assert_int_equal(o.ranks, 8);                       /* not derived over what the program knows */
    assert_string_equal(source_of(&o, OPTION_ranks), "derived from the launcher");
    assert_int_equal(o.global_batch, 12);
    assert_int_equal(o.lr_decay_iters, 50);
    assert_true(o.watchdog_seconds == 600);
    OptionSource typed = { SOURCE_COMMAND_LINE, "--swiglu", "", "", CONVERT_NONE, false };
    assert_ok(options_set(&o, OPTION_swiglu, "true", typed));
    assert_ok(options_derive(&o));                      /* again, after more was said */
    assert_int_equal(o.ffn, 10880);                     /* 10922.67 down to a multiple of 64 */
    options_close(&o);
    assert_ok(parse_line(&o, FOR_TRAIN, "--ffn-hidden-size 99 --ranks 2"));
    options_fill(&o, OPTION_ranks, 8, "the launcher");
    assert_ok(options_derive(&o));
    assert_int_equal(o.ffn, 99);
    assert_int_equal(o.ranks, 2);
    options_close(&o);
}

static void json_round_trip(void **state)
{
    (void)state;
    Options o, back;
    const char *json, *again;
    assert_ok(parse_line(&o, FOR_TRAIN, "--model tinyllama-1.1b --init-method-std 0.1234567890123456 "
                                        "--norm-epsilon 3e-7 --save a\"b"));
    assert_ok(options_derive(&o));
    assert_ok(options_json(&o, &json));
    assert_non_null(strstr(json, "\"save\":\"a\\\"b\""));
    assert_null(strstr(json, "\"load\""));                                /* nobody said it */
    assert_ok(parse_line(&back, FOR_TRAIN, "--save a\"b"));
    assert_ok(options_from_json(&back, json, "here", FOR_CHECKPOINT_ARGS));
    assert_true(back.init_std == o.init_std && back.epsilon == o.epsilon);
    assert_int_equal(back.norm.value, CHOICE_norm_rmsnorm);
    for (int i = 0; i < OPTIONS; i++) {
        char one[256], two[256];
        if (!option_taken(i, FOR_CHECKPOINT_ARGS)) continue;
        options_value_text(one, sizeof one, &o, i);
        options_value_text(two, sizeof two, &back, i);
        assert_string_equal(one, two);
        assert_int_equal(back.source[i].kind, SOURCE_CHECKPOINT);
    }
    assert_ok(options_derive(&back));
    back.model = o.model, back.source[OPTION_model] = o.source[OPTION_model];
    assert_ok(options_json(&back, &again));
    assert_string_equal(json, again);
    assert_says(options_from_json(&back, "{\"num-layers\":-1}", "here", FOR_CHECKPOINT_ARGS), BAD_FILE,
                "here: --num-layers -1 is out of range");
    assert_says(options_from_json(&back, "{\"num-layers\":[]}", "here", FOR_CHECKPOINT_ARGS), BAD_FILE,
                "is not a number, a text or true or false");
    assert_says(options_from_json(&back, "{\"num-layerz\":1}", "here", FOR_CHECKPOINT_ARGS), BAD_FILE, "num-layerz is unknown");
    assert_ok(options_from_json(&back, "{\"a-flag-of-another-version\":false}", "here", FOR_CHECKPOINT_ARGS));       /* it asks for nothing */
    assert_says(options_from_json(&back, "{\"a-flag-of-another-version\":true}", "here", FOR_CHECKPOINT_ARGS), BAD_FILE, "is unknown");
    assert_says(options_from_json(&back, "{\"num-la", "here", FOR_CHECKPOINT_ARGS), BAD_FILE, "not a JSON object");
    options_close(&back);
    options_close(&o);
}

/* As many prefixes as a run may blend are kept with a checkpoint. */
static void long_lists_are_kept(void **state)
{
    (void)state;
    enum { PREFIXES = 3000 };
    Options o, back;
    static char prefix[PREFIXES][80];
    static char *argv[PREFIXES + 1] = { "--data-path" };
    const char *json;
    for (int i = 0; i < PREFIXES; i++) {
        snprintf(prefix[i], sizeof prefix[i], "/a/folder/of/many/parts/of/a/corpus/part_%04d_text_document", i);
        argv[i + 1] = prefix[i];
    }
    assert_ok(setup_parse(&o, FOR_TRAIN, PREFIXES + 1, argv));
    assert_ok(options_json(&o, &json));
    assert_true(strlen(json) > PREFIXES * strlen(prefix[0]));
    assert_ok(parse_line(&back, FOR_TRAIN, ""));
    assert_ok(options_from_json(&back, json, "here", FOR_CHECKPOINT_ARGS));
    options_close(&back);
    options_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_old_checkpoints),
        cmocka_unit_test(argonne_variables), cmocka_unit_test(rows_of_a_command),
        cmocka_unit_test(both_forms),    cmocka_unit_test(words_and_lists), cmocka_unit_test(wrong_words),
        cmocka_unit_test(foreign_words), cmocka_unit_test(sources),         cmocka_unit_test(derived),
        cmocka_unit_test(json_round_trip), cmocka_unit_test(names_in_the_environment), cmocka_unit_test(lists_in_the_environment),
        cmocka_unit_test(another_model_is_refused), cmocka_unit_test(optimizer_and_schedule_of_a_resume),
        cmocka_unit_test(values_that_one_side_lacks),
        cmocka_unit_test(a_loss_scale_that_becomes_constant),
        cmocka_unit_test(changes_without_room_are_counted), cmocka_unit_test(long_lists_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
