/* YAML files of options: what each key gives, which files are refused, and that what is written reads back. */
#include "line.h"
#include <stdlib.h>
#include <unistd.h>
#include "conf/config_file.h"
#include "conf/yaml/yaml_file.h"

static const char *put(int number, const char *text, size_t bytes)
{
    static char path[4][64];
    snprintf(path[number], sizeof path[number], "/tmp/jotun_config_%d_%d.yaml", (int)getpid(), number);
    FILE *out = fopen(path[number], "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
    return path[number];
}

static Status parse_file(Options *o, CommandSet command, const char *text, const char *more)
{
    char line[1024];
    snprintf(line, sizeof line, "--config %s %s", put(0, text, strlen(text)), more);
    return parse_line(o, command, line);
}

static void keys_give_values(void **state)
{
    (void)state;
    Options o;
    char text[256];
    assert_ok(parse_file(&o, FOR_TRAIN,
        "num_layers: 4          # underscores\n"
        "model: gpt2-355m\n"
        "optimizer:\n  lr: 3.0e-4\n  weight-decay: 0.1\n"
        "swiglu: true\nbf16: false\nnormalization: rmsnorm\nsave: 'a b'\nload: null\n"
        "data-path: [0.25, one, 0.75, \"two words\"]\nmin-lr: 1e-5\nseed:\n", "--lr 0.5"));
    assert_int_equal(o.layers, 4);
    assert_int_equal(o.hidden, 1024);                          /* of the preset */
    assert_true(o.lr == 0.5 && o.weight_decay == 0.1 && o.min_lr == 1e-5 && o.swiglu && !o.bf16);
    assert_string_equal(o.norm.word, "RMSNorm");
    assert_string_equal(o.save, "a b");
    assert_null(o.load);
    assert_int_equal(o.seed, 1234);
    assert_int_equal(o.data_path.count, 4);
    assert_string_equal(o.data_path.text[3], "two words");
    assert_int_equal(o.source[OPTION_layers].kind, SOURCE_CONFIG_FILE);
    options_source_text(text, sizeof text, &o, OPTION_layers);
    assert_non_null(strstr(text, ".yaml:1"));
    options_close(&o);
}

/* Weaker than the environment; of two files the later one counts, and its list replaces the other's. */
static void order_of_sources(void **state)
{
    (void)state;
    Options o;
    char line[256];
    static const char first[] = "num-layers: 2\nhidden-size: 64\nseed: 7\ndata-path: [x, y]\n";
    const char *a = put(0, first, sizeof first - 1);
    const char *b = put(1, "num-layers: 3\ndata-path: z\n", 27);
    setenv("JOTUN_SEED", "8", 1);
    snprintf(line, sizeof line, "--config %s --hidden-size 32 --config %s", a, b);
    assert_ok(parse_line(&o, FOR_TRAIN, line));
    unsetenv("JOTUN_SEED");
    assert_int_equal(o.layers, 3);
    assert_int_equal(o.hidden, 32);
    assert_int_equal(o.seed, 8);
    assert_int_equal(o.data_path.count, 1);
    assert_string_equal(o.data_path.text[0], "z");
    options_close(&o);
    setenv("JOTUN_CONFIG", a, 1);
    assert_ok(parse_line(&o, FOR_TRAIN, ""));
    unsetenv("JOTUN_CONFIG");
    assert_int_equal(o.layers, 2);
    options_close(&o);
}

static void other_trainers_and_commands(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_file(&o, FOR_TRAIN, "use_distributed_optimizer: true\nuse-flash-attn: true\n", ""));
    assert_int_equal(o.zero_stage, 1);
    options_close(&o);
    assert_ok(parse_file(&o, FOR_GENERATE, "lr: 1\ntop-k: 3\nuse-flash-attn: true\n", "--load x --prompt y"));
    assert_int_equal(o.top_k, 3);                    /* lr is of train alone: ignored, with a line */
    options_close(&o);
}

static void anchors_and_merges(void **state)
{
    (void)state;
    Options o;
    assert_ok(parse_file(&o, FOR_TRAIN, "data: &a {seq-length: 64, split: '1,0,0'}\nmodel: &b\n  <<: [{num-layers: 5}, {num-layers: 6, hidden-size: 32}]\n"
                                        "  num-attention-heads: &n 4\nexperts: {num-query-groups: *n}\n", ""));
    assert_int_equal(o.layers, 5);                   /* of several the first counts */
    assert_int_equal(o.hidden, 32);
    assert_int_equal(o.groups, 4);
    assert_int_equal(o.sequence, 64);
    options_close(&o);
    assert_ok(parse_file(&o, FOR_TRAIN, "model:\n  <<: {num-layers: 5, hidden-size: 8}\n  num-layers: 3\n", ""));
    assert_int_equal(o.layers, 3);                   /* a key of its own is stronger */
    assert_int_equal(o.hidden, 8);
    options_close(&o);
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct { Status code; const char *text, *says; } row[] = {
        { BAD_USAGE,  "a: 1\n",                      ".yaml:1: --a is no option of jotun train" },
        { BAD_USAGE,  "lr: 1\nnum_layer: 3\n",       ".yaml:2: --num-layer is no option of jotun train; did you mean --num-layers?" },
        { BAD_USAGE,  "n_layer: 3\n",                "here it is --num-layers" },
        { BAD_OPTION, "\n\nlr: fast\n",              ".yaml:3: --lr fast is not a decimal number" },
        { BAD_OPTION, "num-layers: 4.5\n",           ".yaml:1: --num-layers 4.5 is not a whole number" },
        { BAD_OPTION, "num-layers: [1, 2]\n",        ".yaml:1: --num-layers takes one value, and a list of 2 was given" },
        { BAD_OPTION, "data-path: [[1], 2]\n",       "takes words, and its list has more than that" },
        { BAD_OPTION, "swiglu: maybe\n",             "neither true nor false" },
        { BAD_FILE,   "optimiser: {lr: 1}\n",        "optimiser is no group of options; these are: model, " },
        { BAD_FILE,   "model: {optimizer: {lr: 1}}\n", "model.optimizer is no group" },
        { BAD_FILE,   "optimizer:\n\tlr: 1\n",      ".yaml:2: a tab, or a character such as @ or %, begins what should be" },
        { BAD_FILE,   "lr: 1\nlr: 2\n",              ".yaml:2: lr is there twice, first in line 1" },
        { BAD_FILE,   "config: other.yaml\n",        "a file of options names no other" },
        { BAD_FILE,   "- 1\n- 2\n",                  "it is no list of keys and values" },
        { BAD_FILE,   "lr: [1\n",                    ".yaml:2: " },
        { BAD_FILE,   "lr: 1\n---\nlr: 2\n",         ".yaml:2: a second document begins" },
        { BAD_FILE,   "lr: !!python/object x\n",     "a type such as !name is not understood" },
        { BAD_FILE,   "lr: !name x\n",               "a type such as !name is not understood" },
        { BAD_FILE,   "lr: *nobody\n",               ".yaml:1: " },
        { BAD_FILE,   "save: \"a\\0b\"\n",           "a text has a zero byte" },
        { BAD_FILE,   "model: &a {<<: *a}\n",        "" },
        { BAD_FILE,   "{a: 1}: 2\n",                 "a key is no plain word" },
        { BAD_FILE,   "<<: 3\n",                     "<< takes a mapping" },
        { BAD_FILE,   "lr=3: 1\n",                   "is no option's name" },
        { BAD_USAGE,  "moe_latent_size: 2\n",        "experts are routed by a top-k router" },
        { BAD_USAGE,  "prompt_x: 1\n",               "no option" },
    };
    Options o;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_says(parse_file(&o, FOR_TRAIN, row[i].text, ""), row[i].code, row[i].says);
    assert_says(parse_line(&o, FOR_TRAIN, "--config /nowhere/run.yaml"), BAD_FILE, "/nowhere/run.yaml");
}

static void repeat(char *out, const char *what, int times)
{
    for (*out = 0; times > 0; times--) out += sprintf(out, "%s", what);
}

/* Small files that name very many values, or nest in themselves. */
static void hostile_files(void **state)
{
    (void)state;
    char *text = malloc(2 << 20);
    YamlFile file;
    char bomb[4096] = "a: &a [x,x,x,x,x,x,x,x,x]\n", line[128];
    for (char c = 'b'; c < 'm'; c++) {
        snprintf(line, sizeof line, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
        strcat(bomb, line);
    }
    assert_ok(yaml_file_open(&file, put(0, bomb, strlen(bomb))));             /* lists in lists are not expanded */
    assert_int_equal(file.count, 12);
    assert_true(file.entry[3].nested && !file.entry[3].count);
    yaml_file_close(&file);
    strcpy(bomb, "a: &a {x: 1, y: 2, z: 3, w: 4}\n");
    for (char c = 'b'; c < 'm'; c++) {
        snprintf(line, sizeof line, "%c: &%c {x: *%c, y: *%c, z: *%c, w: *%c}\n", c, c, c - 1, c - 1, c - 1, c - 1);
        strcat(bomb, line);
    }
    assert_says(yaml_file_open(&file, put(0, bomb, strlen(bomb))), BAD_FILE, "more than 2,048 keys, or with its aliases 16,384 values");
    assert_says(yaml_file_open(&file, put(0, "a: &a {b: *a}\n", 14)), BAD_FILE, "");
    assert_says(yaml_file_open(&file, put(0, "&r a: {<<: [*r]}\n", 17)), BAD_FILE, "");
    repeat(text, "[", 100000);
    assert_says(yaml_file_open(&file, put(0, text, 100000)), BAD_FILE, "nested more than 24 levels deep");
    repeat(text, "{a: ", 60000);
    assert_says(yaml_file_open(&file, put(0, text, 240000)), BAD_FILE, "nested more than 24 levels deep");
    repeat(text, "- &a b\n", 30000);
    assert_says(yaml_file_open(&file, put(0, text, 210000)), BAD_FILE, "more than 64 anchors");
    repeat(text, "a\n", 120000);
    assert_says(yaml_file_open(&file, put(0, text, 240000)), BAD_FILE, "");
    strcpy(text, "a: [");
    repeat(text + 4, "x,", 30000);
    assert_says(yaml_file_open(&file, put(0, text, strlen(text))), BAD_FILE, "more than 20,000 values");
    repeat(text, "x", 300000);
    assert_says(yaml_file_open(&file, put(0, text, 300000)), BAD_FILE, "at most 256 KiB");
    assert_says(yaml_file_open(&file, put(0, "\xff\xfe\x00x", 4)), BAD_FILE, "");
    assert_says(yaml_file_open(&file, put(0, "\xc3(: 1", 5)), BAD_FILE, "");
    assert_ok(yaml_file_open(&file, put(0, "", 0)));
    assert_int_equal(file.count, 0);
    yaml_file_close(&file);
    free(text);
}

/* ---- written files ---- */

/* A value of the row that is not its default, as typed. turn: one of several. */
static const char *other_value(OptionIndex option, int turn)
{
    static char text[64];
    static const char *const texts[] = { "a: b # c", "'\"\\ \t\n\x01 {}[]&*!|>%@`", "null", "1e5", "\xc3\xa5\xe2\x82\xac", "-", "~", "true", " x " };
    const OptionRow *row = &option_rows[option];
    int choices = 0;
    switch (row->kind) {
    case KIND_INT:  snprintf(text, sizeof text, "%.0f", turn ? row->high : row->low); return text;
    case KIND_REAL: snprintf(text, sizeof text, "%.17g", row->low + (row->high - row->low) / (turn ? 3 : 7.1)); return text;
    case KIND_FLAG: return turn ? "false" : "true";
    case KIND_TEXT:
    case KIND_LIST: return texts[(option + 3 * turn) % 9];
    case KIND_CHOICE: break;
    }
    for (int i = 1; i < OPTION_CHOICES; i++)
        if (option_choice_rows[i].option == option && (++choices == turn + 1)) return option_choice_rows[i].word;
    return row->text;
}

static const char *json_of(Options *o)
{
    const char *json;
    o->source[OPTION_config].kind = SOURCE_NOTHING;          /* the file's own name is not in it */
    o->command = FOR_TRAIN;
    assert_ok(options_json(o, &json));
    return json;
}

/* Not the names of other files, and not the preset, whose values come back by themselves. */
static bool in_file(OptionIndex i)
{
    return option_taken(i, FOR_CONFIG) && i != OPTION_config && i != OPTION_json_config && i != OPTION_model;
}

/* Each option alone, and all of them at once, two values each. */
static void written_files_read_back(void **state)
{
    (void)state;
    int tried = 0;
    for (int option = -1; option < OPTIONS; option++) {
        for (int turn = 0; turn < 2; turn++) {
            if (option >= 0 && !in_file(option)) continue;
            Options o, again;
            char *text, line[128];
            size_t bytes;
            assert_ok(parse_line(&o, FOR_CONFIG_COMMAND, ""));
            for (int i = 0; i < OPTIONS; i++) {
                OptionSource source = { SOURCE_COMMAND_LINE, "--x", "", "", CONVERT_NONE, false };
                if (!in_file(i) || (option >= 0 && i != option)) continue;
                assert_ok(options_set(&o, i, other_value(i, turn), source));
                if (option_rows[i].kind == KIND_LIST) assert_ok(options_set(&o, i, "second", source));
                tried++;
            }
            FILE *out = open_memstream(&text, &bytes);
            assert_ok(options_yaml(out, &o));
            fclose(out);
            snprintf(line, sizeof line, "--config %s", put(0, text, bytes));
            Status status = parse_line(&again, FOR_CONFIG_COMMAND, line);
            if (status != OK) fail_msg("--%s: %s\n%s", option < 0 ? "all" : option_rows[option].name, fail_text(), text);
            assert_string_equal(json_of(&o), json_of(&again));
            free(text);
            options_close(&o);
            options_close(&again);
        }
    }
    assert_true(tried > 300);
}

/* Values of a preset and derived ones are comments, which come back by themselves. */
static void derived_values_are_comments(void **state)
{
    (void)state;
    Options o;
    char *text;
    size_t bytes;
    assert_ok(parse_line(&o, FOR_CONFIG_COMMAND, "--model llama2-7b --lr 1e-4 --train-iters 10 --save \xff"));
    assert_ok(options_derive(&o));
    FILE *out = open_memstream(&text, &bytes);
    assert_says(options_yaml(out, &o), BAD_OPTION, "--save is not UTF-8");
    o.save = "x";
    rewind(out);
    assert_ok(options_yaml(out, &o));
    fclose(out);
    assert_non_null(strstr(text, "\nmodel: llama2-7b  # command line\n"));
    assert_non_null(strstr(text, "\n# num-layers: 32  # --model llama2-7b\n"));
    assert_non_null(strstr(text, "\n# lr-decay-iters: 10  # derived from --train-iters\n"));
    assert_non_null(strstr(text, "\nlr: 0.0001  # command line\n"));
    free(text);
    options_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_give_values),  cmocka_unit_test(order_of_sources), cmocka_unit_test(other_trainers_and_commands),
        cmocka_unit_test(anchors_and_merges), cmocka_unit_test(wrong_files),     cmocka_unit_test(hostile_files),
        cmocka_unit_test(written_files_read_back), cmocka_unit_test(derived_values_are_comments),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/jotun_config_%d_%d.yaml", (int)getpid(), i);
        remove(path);
    }
    return status;
}
