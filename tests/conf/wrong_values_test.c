/* A wrong value of each name of each dialect, made from the rows: no number, a number out of range, a word that is not known, a list or
 * an object. Each is refused with the name as it was typed, the place where it was (FILE:LINE, the path of a key, a variable), and with
 * what would work, and no name of jotun's own comes before the one that was typed. */
#include "compat/dialects.h"
#include "line.h"
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/log.h"
#include "compat/import.h"

enum { SAID = 1 << 16 };
static char folder[64], said[SAID];
static int  asked, wrong, log_file;

/* ---- what is said ---- */

/* The lines of the log go to a file from here on. */
static int log_begin(void)
{
    int kept = dup(2);
    assert_int_equal(ftruncate(log_file, 0), 0);
    lseek(log_file, 0, SEEK_SET);
    dup2(log_file, 2);
    return kept;
}

/* The log's lines that refuse, then the failure's message. */
static void log_end(int kept, Status status)
{
    char text[SAID / 2], *rest = NULL;
    dup2(kept, 2), close(kept);
    ssize_t got = pread(log_file, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    said[0] = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool other = strstr(line, " is ignored: ") || strstr(line, " are ignored: ") || strstr(line, "are not given") || strstr(line, " are auto: ") || strstr(line, " is not given: ");
        size_t used = strlen(said);
        if (!other) snprintf(said + used, sizeof said - used, "%s\n", line + (strncmp(line, "jotun: ", 7) ? 0 : 7));
    }
    size_t used = strlen(said);
    if (status != OK) snprintf(said + used, sizeof said - used, "%s\n", fail_text());
}

static const char *const CURES[] = { "; give ", "; leave ", "; did you mean ", "; put ", "; make ", ": give ", ", or give ", "here it is", "; jotun ", "; use ", "; these are", " or leave it out", "; train ",
                                     "; mend ", ", give ", "; compare ", "; write ", "; start ", "; --", "has no effect without", "; pass ", "; divide ", "; set ", "; multiply ", "; prepare " };

/* The line that names it, with a cure; before the name there is no name of an option. */
static bool answered(const char *name, const char *place)
{
    char copy[SAID], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", said);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, name), *ours = strstr(line, "--");
        if (!at || (place && !strstr(line, place)) || (ours && ours < at)) continue;
        for (size_t i = 0; i < sizeof CURES / sizeof CURES[0]; i++)
            if (strstr(line, CURES[i])) return true;
    }
    return false;
}

static void judge(Status status, const char *name, const char *place, const char *value)
{
    asked++;
    if (status != OK && answered(name, place)) return;
    if (wrong++ < 200) print_error("%s %s%s: %s\n", name, value, status == OK ? " is taken" : "", said);
}

/* ---- wrong values of a kind ---- */

typedef struct { char text[8][64]; int count; } Values;

static void add(Values *v, const char *text) { snprintf(v->text[v->count++], sizeof v->text[0], "%s", text); }

static void add_outside(Values *v, double low, double high)
{
    char text[64];
    if (low > -1e17) snprintf(text, sizeof text, "%.0f", low - 1 - (low < 0 ? -low : low)), add(v, text);
    if (high < 1e17) snprintf(text, sizeof text, "%.0f", 2 * high + 1), add(v, text);
}

static Values values_of(OptionKind kind, double low, double high)
{
    Values v = { .count = 0 };
    if (kind == KIND_CHOICE) add(&v, "no-such-word");
    if (kind == KIND_FLAG)   add(&v, "maybe");
    if (kind != KIND_INT && kind != KIND_REAL) return v;
    add(&v, "many"), add(&v, "7x"), add(&v, "nan"), add(&v, "1e400");
    if (kind == KIND_INT) add(&v, "1.5");
    add_outside(&v, low, high);
    return v;
}

static Values values_of_option(int option, Conversion convert)
{
    const OptionRow *row = &option_rows[option];
    if (convert == CONVERT_POWER_OF_TWO) return values_of(KIND_INT, 0, 1000);
    return values_of(row->kind, row->low, row->high);
}

/* Of a row of a dialect. A row that refuses every value is asked for one; what is ignored has no wrong value. */
static Values values_of_row(const Dialect *row)
{
    Values v = { .count = 0 };
    if (row->verb == VERB_REFUSE && row->values) add(&v, *row->given ? row->given : "no-such-word");
    if (row->option < 0 || *row->given || row->verb == VERB_MEANS) return v;
    Values all = values_of_option(row->option, row->convert);
    for (int n = 0; n < all.count; n++)                       /* of some a row says what it means */
        if (dialect_find(1u << row->whose, row->name, all.text[n]) == row || dialect_has_names(row)) add(&v, all.text[n]);
    return v;
}

/* A name of the row; names that end in a star are any. */
static bool next_name(char out[128], const char **names)
{
    *names += **names == ' ';
    int letters = (int)strcspn(*names, " ");
    snprintf(out, 128, "%.*s", letters, *names);
    *names += letters;
    if (letters && out[letters - 1] == '*') snprintf(out + letters - 1, 4, "any");
    return letters > 0;
}

/* ---- asking ---- */

static Status parsed(CommandSet command, int count, char **words)
{
    Options o;
    int     kept = log_begin();
    Status  status = setup_parse(&o, command, count, words);
    if (status == OK) status = options_derive(&o);
    if (status == OK) status = options_validate_file(&o);
    log_end(kept, status);
    options_close(&o);
    return status;
}

static const char *put(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void ask_option(const char *name, const char *value)
{
    char word[256], typed[160], variable[160], text[400], place[160];
    snprintf(typed, sizeof typed, "--%s", name);
    snprintf(word, sizeof word, "--%s=%s", name, value);
    judge(parsed(FOR_TRAIN, 1, (char *[]){ word }), typed, NULL, value);
    snprintf(variable, sizeof variable, "JOTUN_%s", name);
    for (char *c = variable; *c; c++) *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? *c - 32 : *c;
    setenv(variable, value, 1);
    judge(parsed(FOR_TRAIN, 0, NULL), variable, NULL, value);
    unsetenv(variable);
    snprintf(text, sizeof text, "# a file\n%s: \"%s\"\n", name, value);
    const char *path = put("run.yaml", text);
    snprintf(place, sizeof place, "%s:2", path);
    judge(parsed(FOR_TRAIN, 2, (char *[]){ "--config", (char *)(uintptr_t)path }), typed, place, value);
}

/* A list of arguments, and what `jotun config` says of it. */
static void ask_script(const char *name, const char *value, bool flag)
{
    Options o;
    Import  m = { 0 };
    char    text[640], typed[160], place[160];
    /* Argonne's options of one optimizer are read beside that alone. */
    const char *optimizer = !strncmp(name, "dshampooadamw-", 14) ? "dshampooadamw" : !strncmp(name, "sophiag-", 8) ? "sophiag" : !strncmp(name, "muonadamw-", 10) ? "muon" : NULL;
    snprintf(typed, sizeof typed, "--%s", name);
    snprintf(text, sizeof text, "# arguments\n--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --lr 0.1 %s%s \\\n   --%s%s%s\n", optimizer ? "--optimizer " : "", optimizer ? optimizer : "", name, flag ? "=" : " ", value);
    const char *path = put("run.args", text);
    snprintf(place, sizeof place, "%s:3", path);
    int    kept = log_begin();
    Status status = setup_parse(&o, FOR_CONFIG_COMMAND, 2, (char *[]){ "--from-megatron", (char *)(uintptr_t)path });
    if (status == OK) import_open(&m, &o), status = import_megatron(&m, &m.copy);
    if (status == OK) status = options_derive(&m.copy);
    if (status == OK) status = import_ends(&m, path);
    if (status == OK) status = options_validate_file(&m.copy);
    log_end(kept, status);
    judge(status, typed, place, value);
    import_close(&m);
    options_close(&o);
}

static void ask_fairseq(const char *name, const char *value)
{
    static char *base[] = { "--as=fairseq-train", "--mock-data", "--task", "language_modeling", "--arch", "transformer_lm_gpt", "--optimizer", "adam", "--batch-size", "8", "--max-update", "5",
                            "--vocab-size", "64", "--share-decoder-input-output-embed" };
    char *words[20], typed[160], given[80];
    int   count = 0;
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++) words[count++] = base[i];
    snprintf(typed, sizeof typed, "--%s", name);
    snprintf(given, sizeof given, "%s", value);
    words[count++] = typed;
    if (*value) words[count++] = given;
    Options o;
    int     kept = log_begin();
    Status  status = setup_parse(&o, FOR_TRAIN, count, words);
    if (status == OK) status = options_derive(&o);
    if (status == OK) status = options_validate(&o);
    log_end(kept, status);
    options_close(&o);
    judge(status, typed, NULL, value);
}

static void ask_agpt(const char *name, const char *value)
{
    char place[256];
    setenv(name, value, 1);
    Status status = parsed(FOR_TRAIN, 2, (char *[]){ "--agpt-variables", "--mock-data" });
    unsetenv(name);
    snprintf(place, sizeof place, "%s=%s", name, value);
    judge(status, place, NULL, value);
}

/* ---- DeepSpeed's JSON ---- */

static const char *scheduler_of(const char *key)
{
    if (strstr(key, "ratio")) return "WarmupCosineLR";
    if (strstr(key, "range_test")) return "LRRangeTest";
    return strstr(key, "cycle") || strstr(key, "decay") ? "OneCycle" : "WarmupDecayLR";
}

static bool has_row(const char *group, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", group, name);
    return dialect_find(DIALECT_DSJSON, key, NULL) != NULL;
}

/* { "optimizer": { "params": { "lr": value } } }, with what the groups around need to count; owns value */
static json_t *nested(const char *key, json_t *value)
{
    char    group[128];
    json_t *whole = json_object(), *at = whole;
    bool    list = false;
    for (const char *part = key; *part; part += strcspn(part, "."), part += *part == '.') {
        char   name[128];
        size_t letters = strcspn(part, ".");
        snprintf(name, sizeof name, "%.*s", (int)letters, part);
        snprintf(group, sizeof group, "%.*s", (int)(part + letters - key), key);
        list = part[letters] && !part[letters + 2] && strchr("01", part[letters + 1]);      /* betas.0 */
        if (list) {
            json_t *both = json_pack("[f, f]", 0.9, 0.95);
            json_array_set_new(both, part[letters + 1] - '0', value);
            json_object_set_new(at, name, both);
            break;
        }
        if (!part[letters]) {
            json_object_set_new(at, name, value);
            break;
        }
        json_t *inner = json_object();
        json_object_set_new(at, name, inner);
        at = inner;
        if (has_row(group, "enabled")) json_object_set_new(inner, "enabled", json_true());
        if (!strcmp(name, "optimizer")) json_object_set_new(inner, "type", json_string("Adam"));
        if (!strcmp(name, "scheduler")) json_object_set_new(inner, "type", json_string(scheduler_of(key)));
        if (!strcmp(group, "scheduler.params") && !strcmp(scheduler_of(key), "OneCycle")) json_object_set_new(inner, "cycle_min_lr", json_real(0)), json_object_set_new(inner, "cycle_max_lr", json_real(0.1)), json_object_set_new(inner, "cycle_momentum", json_false());
    }
    return whole;
}

static void ask_json(const char *key, json_t *value)
{
    char  *shown = json_dumps(value, JSON_ENCODE_ANY);
    json_t *whole = nested(key, value);
    char  *text = json_dumps(whole, JSON_INDENT(1));
    const char *path = put("ds.json", text);
    Status status = parsed(FOR_TRAIN, 8, (char *[]){ "--train-iters", "10", "--lr", "0.1", "--min-lr", "0", "--deepspeed-config", (char *)(uintptr_t)path });
    judge(status, key, path, shown);
    free(shown), free(text);
    json_decref(whole);
}

static void json_rows(void)
{
    for (int i = 0; i < dialect_count; i++) {
        const Dialect *row = &dialects[i];
        if (row->whose != DIALECT_DSJSON_INDEX) continue;
        const char *names = row->name;
        for (char key[128]; next_name(key, &names);) {
            Values v = values_of_row(row);
            for (int n = 0; n < v.count; n++) ask_json(key, json_string(v.text[n]));
            bool number = row->verb == VERB_HELD && strstr(key, "scheduler.params") && !strstr(key, "cycle_momentum") && !strstr(key, "staircase");
            if (number) ask_json(key, json_string("many"));
            if (row->option < 0 || *row->given || row->verb != VERB_SAME) continue;
            ask_json(key, json_object());
            if (option_rows[row->option].kind != KIND_TEXT) ask_json(key, json_pack("[i]", 1));
            double high = option_rows[row->option].high;
            if (option_rows[row->option].kind == KIND_INT) ask_json(key, json_real(1.5));
            if (option_rows[row->option].kind == KIND_INT && high < 1e17) ask_json(key, json_integer((json_int_t)high + 1));
        }
        if (strstr(row->name, ".enabled") && !dialect_has_names(row)) ask_json(row->name, json_string("perhaps"));
    }
}

/* ---- NeMo ---- */

static void ask_nemo(const char *key, const char *value)
{
    Options o;
    Import  m = { 0 };
    char    text[1024] = "", place[160];
    int     depth = 0, line = 0;
    size_t  used = 0;
    bool    fp8 = !strncmp(key, "model.fp8_", 10);
    for (const char *part = key; *part; part += strcspn(part, "."), part += *part == '.', depth++) {
        int  letters = (int)strcspn(part, ".");
        bool list = part[letters] && !part[letters + 2] && strchr("01", part[letters + 1]);
        line++;
        used += (size_t)snprintf(text + used, sizeof text - used, "%*s%.*s:", 2 * depth, "", letters, part);
        if (list) {
            used += (size_t)snprintf(text + used, sizeof text - used, part[letters + 1] == '0' ? " [\"%s\", 0.9]\n" : " [0.9, \"%s\"]\n", value);
            break;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, part[letters] ? "\n" : " \"%s\"\n", value);
        if (depth == 0 && fp8) used += (size_t)snprintf(text + used, sizeof text - used, "  fp8: true\n"), line++;
        if (depth == 0 && strstr(key, "rotary_percentage")) used += (size_t)snprintf(text + used, sizeof text - used, "  position_embedding_type: rope\n"), line++;
    }
    const char *path = put("nemo.yaml", text);
    snprintf(place, sizeof place, "%s:%d", path, line);
    int    kept = log_begin();
    Status status = setup_parse(&o, FOR_CONFIG_COMMAND, 2, (char *[]){ "--from-nemo", (char *)(uintptr_t)path });
    if (status == OK) import_open(&m, &o), status = import_nemo(&m, &m.copy);
    if (status == OK) status = options_derive(&m.copy);
    if (status == OK) status = import_ends(&m, path);
    log_end(kept, status);
    judge(status, key, place, value);
    import_close(&m);
    options_close(&o);
}

/* ---- the tests ---- */

static void begin(const char *what)
{
    (void)what;
    asked = wrong = 0;
}

static void end(const char *what, int least)
{
    print_message("%s: %d wrong values are asked for, %d without an answer\n", what, asked, wrong);
    assert_int_equal(wrong, 0);
    assert_true(asked >= least);
}

static void options_of_our_own(void **state)
{
    (void)state;
    begin("options");
    for (int i = 0; i < OPTIONS; i++) {
        Values v = values_of_option(i, CONVERT_NONE);
        if (!option_taken(i, FOR_TRAIN)) continue;
        for (int n = 0; n < v.count; n++) {
            ask_option(option_rows[i].name, v.text[n]);
            ask_script(option_rows[i].name, v.text[n], option_rows[i].kind == KIND_FLAG);
        }
    }
    end("options of jotun and Megatron-LM", 3000);
}

/* Rows of a dialect, by a function for its values. */
static void ask_rows(DialectIndex whose, void (*ask)(const char *name, const char *value))
{
    for (int i = 0; i < dialect_count; i++) {
        const Dialect *row = &dialects[i];
        const char    *names = row->name;
        if (row->whose != whose || dialect_only_hints(row)) continue;
        for (char name[128]; next_name(name, &names);) {
            Values v = values_of_row(row);
            for (int n = 0; n < v.count; n++) ask(name, v.text[n]);
        }
    }
}

static void ask_script_value(const char *name, const char *value)
{
    const Dialect *row = dialect_find(DIALECT_MEGATRON | DIALECT_DEEPSPEED, name, value);
    ask_script(name, value, row->option >= 0 && option_rows[row->option].kind == KIND_FLAG);
}

/* Names that are answered by other arguments of the script (tests/compat/beside_test.c). */
static bool is_read_beside(const char *name)
{
    static const char *const begin[] = { "ademamix-", "muonclip-", "topk", "moe-loss-coeff", "moe-train-capacity-factor", "moe-eval-capacity-factor", "moe-min-capacity", "moe-expert-parallel-size",
                                         "expert-interval", "disable-moe-t", "mlp-type", "t5-swiglu", "batch-size", "universal-checkpoint", "lr-decay-tokens", "lr-warmup-tokens" };
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        if (!strncmp(name, begin[i], strlen(begin[i]))) return true;
    return false;
}

static void arguments_of_scripts(void **state)
{
    (void)state;
    begin("scripts");
    ask_rows(DIALECT_MEGATRON_INDEX, ask_script_value);
    ask_rows(DIALECT_DEEPSPEED_INDEX, ask_script_value);
    for (int i = 0; i < dialect_count; i++) {                        /* names that are not understood */
        const char *names = dialects[i].name;
        for (char name[128]; dialect_only_hints(&dialects[i]) && next_name(name, &names);) if (!is_read_beside(name)) ask_script(name, "7", false);
    }
    end("other arguments of scripts", 300);
}

/* Values of an argument of fairseq's that is used together with others. */
static Values held_values(OptionKind kind, const char *name, double low, double high)
{
    static const char *const texts[] = { "task", "arch", "optimizer", "adam-betas", "lr-scheduler", "update-freq", "activation-fn" };
    Values v = values_of(kind, low, high);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!strcmp(name, texts[i])) add(&v, "no-such-word");
    return kind == KIND_FLAG ? (Values){ .count = 0 } : v;
}

static void arguments_of_fairseq(void **state)
{
    (void)state;
    static const struct { const char *name; OptionKind kind; double low, high; } held[] = {
#define HELD_FAIRSEQ_LINE(field, names, text, help, kind, low, high, ...) { names, KIND_##kind, low, high },
#include "compat/dialects.def"
    };
    begin("fairseq");
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        const char *names = held[i].name;
        for (char name[128]; next_name(name, &names);) {
            Values v = held_values(held[i].kind, name, held[i].low, held[i].high);
            for (int n = 0; n < v.count; n++) ask_fairseq(name, v.text[n]);
        }
    }
    ask_rows(DIALECT_FAIRSEQ_LINE_INDEX, ask_fairseq);
    for (int i = 0; i < dialect_count; i++) {
        const char *names = dialects[i].name;
        bool flag = dialects[i].whose == DIALECT_FAIRSEQ_LINE_INDEX && dialects[i].verb == VERB_REFUSE && !dialects[i].values;
        for (char name[128]; flag && next_name(name, &names);) ask_fairseq(name, "");
    }
    end("arguments of fairseq", 200);
}

static void variables_of_argonne(void **state)
{
    (void)state;
    begin("agpt");
    setenv("TOKENIZER_TYPE", "Llama2Tokenizer", 1);
    ask_rows(DIALECT_ARGONNE_INDEX, ask_agpt);
    static const char *const numbers[] = { "WORLD_SIZE", "NGPU_PER_HOST", "GRAD_ACC_STEPS", "TP", "PP", "SP", "SEQ", "HIDDEN", "TRAIN_TOKENS" };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        ask_agpt(numbers[i], "many"), ask_agpt(numbers[i], "0"), ask_agpt(numbers[i], "-3"), ask_agpt(numbers[i], "1.5");
        ask_agpt(numbers[i], "99999999999999999999");
    }
    ask_agpt("MODEL_ARCH", "13B"), ask_agpt("HOSTFILE", "nowhere"), ask_agpt("TRAIN_SPLIT", "many");
    ask_agpt("VAL_SPLIT", "-1"), ask_agpt("TOKENIZER_MODEL", "nowhere/model");
    unsetenv("TOKENIZER_TYPE");
    end("variables of Argonne's script", 150);
}

static void keys_of_deepspeed(void **state)
{
    (void)state;
    begin("DeepSpeed");
    json_rows();
    end("keys of DeepSpeed's JSON", 150);
}

static void keys_of_nemo(void **state)
{
    (void)state;
    begin("NeMo");
    ask_rows(DIALECT_NEMO_INDEX, ask_nemo);
    end("keys of NeMo", 150);
}

int main(void)
{
    char path[128];
    snprintf(folder, sizeof folder, "/tmp/jotun_wrong_%d", (int)getpid());
    if (mkdir(folder, 0700)) return 1;
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *file = fopen(path, "w+");
    if (!file) return 1;
    log_file = fileno(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_our_own),  cmocka_unit_test(arguments_of_scripts), cmocka_unit_test(arguments_of_fairseq),
        cmocka_unit_test(variables_of_argonne), cmocka_unit_test(keys_of_deepspeed),   cmocka_unit_test(keys_of_nemo),
    };
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(path, sizeof path, "rm -r %s", folder);
    fclose(file);
    return system(path) || bad;
}
