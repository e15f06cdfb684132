/* Options from a model configuration of NeMo: its keys are names of a dialect, nemo.def. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/array.h"
#include "compat/import.h"
#include "conf/yaml/yaml_file.h"

enum { REFERENCES = 8 }; /* of keys to keys, one after the other */
#define CONSTANT_STEPS "model.optim.sched.constant_steps"
#define NO_GELU        "swiglu fast-swiglu squared-relu quick-geglu"

/* The value of a text such as ${model.encoder_seq_length}, ${.hidden_size} or ${multiply:4, ${.hidden_size}}
 * in the value of the key `at`; false: it is not understood. out has `size` bytes. */
static bool nemo_value(char *out, size_t size, const YamlFile *file, const char *at, const char *value,
                       int depth);

/* multiply:A, B and div:A, B */
static bool nemo_product(char *out, size_t size, const YamlFile *file, const char *at, const char *text,
                         size_t letters, int depth)
{
    const char *colon = memchr(text, ':', letters), *end = text + letters;
    char        part[2][128], number[2][128];
    if (!colon) return false;
    bool divides = !strncmp(text, "div:", 4);
    if (!divides && strncmp(text, "multiply:", 9)) return false;
    const char *comma = memchr(colon, ',', (size_t)(end - colon));
    if (!comma || comma - colon > 127 || end - comma > 127) return false;
    snprintf(part[0], sizeof part[0], "%.*s", (int)(comma - colon - 1), colon + 1);
    snprintf(part[1], sizeof part[1], "%.*s", (int)(end - comma - 1), comma + 1);
    int64_t factor[2], result;
    for (int i = 0; i < 2; i++) {
        char *rest;
        if (!nemo_value(number[i], sizeof number[i], file, at, part[i] + strspn(part[i], " "), depth + 1))
            return false;
        factor[i] = strtoll(number[i], &rest, 10);
        if (rest == number[i] || rest[strspn(rest, " ")]) return false;
    }
    if (divides && (factor[1] <= 0 || factor[0] % factor[1])) return false;
    if (divides) result = factor[0] / factor[1];
    else if (__builtin_mul_overflow(factor[0], factor[1], &result)) return false;
    snprintf(out, size, "%" PRId64, result);
    return true;
}

static bool nemo_value(char *out, size_t size, const YamlFile *file, const char *at, const char *value,
                       int depth)
{
    char   key[YAML_KEY];
    size_t letters = strlen(value);
    if (depth > REFERENCES || letters >= size) return false;
    if (strncmp(value, "${", 2)) return snprintf(out, size, "%s", value) >= 0;
    if (value[letters - 1] != '}') return false;
    if (memchr(value, ':', letters)) return nemo_product(out, size, file, at, value + 2, letters - 3, depth);
    const char *dot = strrchr(at, '.');
    if (value[2] == '.')
        snprintf(key, sizeof key, "%.*s%.*s", dot ? (int)(dot - at) : 0, at, (int)letters - 3, value + 2);
    else snprintf(key, sizeof key, "%.*s", (int)letters - 3, value + 2);
    const YamlEntry *e = yaml_file_find(file, *key == '.' ? key + 1 : key);
    return e && e->count == 1 && !e->list && nemo_value(out, size, file, e->key, e->value[0], depth + 1);
}

/* Whether a key of the file has one of these values, which blanks separate. */
static bool nemo_has(const YamlFile *file, const char *key, const char *values)
{
    char             text[128];
    const YamlEntry *e = yaml_file_find(file, key);
    if (!e || e->count != 1 || !nemo_value(text, sizeof text, file, e->key, e->value[0], 0)) return false;
    return name_in(values, text, strcasecmp);
}

/* Keys that have no effect beside another one with these values, or without them. */
static const struct { const char *key, *other, *values; bool beside; const char *why; } idle_rows[] = {
    { "model.rotary_percentage", "model.position_embedding_type", "rope", false,
      "without position_embedding_type: rope it has no effect" },
    { "model.openai_gelu", "model.activation", NO_GELU, true, "the activation is no GELU" },
    { "model.bias_activation_fusion", "model.activation", NO_GELU, true, "the activation is no GELU" },
    { "model.bias_gelu_fusion", "model.activation", NO_GELU, true, "the activation is no GELU" },
    { "model.bias_activation_fusion", "model.openai_gelu", "true", true, "openai_gelu: true is GELU by tanh" },
    { "model.bias_gelu_fusion", "model.openai_gelu", "true", true, "openai_gelu: true is GELU by tanh" },
    { "model.tokenizer.vocab_file", "model.tokenizer.library", "sentencepiece", true,
      "library: sentencepiece reads only model" },
};

/* Why a key has no effect beside the others of the file; NULL: it has. */
static const char *nemo_idle(const YamlFile *file, const char *key)
{
    const YamlEntry *fp8 = yaml_file_find(file, "model.fp8");
    bool fp8_on = fp8 && fp8->count == 1 && !strcasecmp(fp8->value[0], "true");
    if (!fp8_on && !strncmp(key, "model.fp8_", 10)) return "without model.fp8: true it has no effect";
    if (!strcmp(key, "model.data.splits_string") && yaml_file_find(file, "model.data.data_prefix.train"))
        return "the parts of the data are named one by one";
    for (size_t i = 0; i < COUNT(idle_rows); i++)
        if (!strcmp(key, idle_rows[i].key) &&
            nemo_has(file, idle_rows[i].other, idle_rows[i].values) == idle_rows[i].beside)
            return idle_rows[i].why;
    return NULL;
}

/* betas: [0.9, 0.95] is two options, which have rows of their own names: model.optim.betas.0 */
static void take_nemo(Import *m, Options *o, const YamlFile *file, const YamlEntry *e)
{
    char from[1100], key[YAML_KEY + 16];
    snprintf(from, sizeof from, "%s:%d", file->path, e->line);
    if (e->missing || (e->list && !e->count && !e->nested)) return;
    const char *idle = nemo_idle(file, e->key);
    if (idle) {
        import_remark(m, o, from, "%s of NeMo is ignored: %s", e->key, idle);
        return;
    }
    snprintf(key, sizeof key, "%s.0", e->key);
    const Dialect *first   = e->list ? dialect_find(DIALECT_NEMO, key, NULL) : NULL;
    bool           indexed = first && first->option >= 0;
    for (int i = 0; i < (e->count ? e->count : 1); i++) {
        char        text[IMPORT_LINE - 2 * YAML_KEY];
        const char *value = !e->count                                                     ? ""
                            : nemo_value(text, sizeof text, file, e->key, e->value[i], 0) ? text
                                                                                          : NULL;
        snprintf(key, sizeof key, indexed ? "%s.%d" : "%s", e->key, i);
        const Dialect *row     = dialect_find(DIALECT_NEMO, key, value);
        bool           ignored = row && row->option < 0;
        if (!row)
            return import_refuse(m, o, from,
                                 "%s of NeMo is not known; leave it out, or give the option of jotun for it",
                                 key);
        if (!value && !ignored)
            return import_refuse(m, o, from, "%s: %.200s is not understood; put its value in its place", key,
                                 e->value[i]);
        import_take_name(m, o, from, row, key, value ? value : "");
        if (ignored) return;
    }
}

/* The decay ends constant_steps before the end, and the learning rate stays there: lr-decay-iters counts the
 * warm-up and the decay. */
static void take_constant_steps(Import *m, Options *o, const YamlFile *file)
{
    const YamlEntry *e = yaml_file_find(file, CONSTANT_STEPS);
    char             from[1100], text[128], word[64], *words[] = { word };
    if (!e || e->count != 1 || !nemo_value(text, sizeof text, file, e->key, e->value[0], 0)) return;
    long long constant = strtoll(text, NULL, 10),
              end      = options_said(o, OPTION_lr_decay_iters) ? o->lr_decay_iters : o->train_iters;
    if (constant <= 0) return;
    snprintf(from, sizeof from, "%s:%d", file->path, e->line);
    if (end <= constant) {
        import_refuse(m, o, from, CONSTANT_STEPS " %lld leaves none of %lld steps for the decay; give fewer",
                      constant, end);
        return;
    }
    snprintf(word, sizeof word, "--lr-decay-iters=%lld", end - constant);
    import_remark(m, o, from, CONSTANT_STEPS " %lld: the decay ends so many steps before step %lld: %s",
                  constant, end, word);
    o->source[OPTION_lr_decay_iters].kind = SOURCE_NOTHING;  /* max_steps, so that no line names two values */
    import_take(m, o, from, 1, words);
}

/* PyTorch Lightning, which NeMo trains with, clips no gradient by default. */
static void take_no_clipping(Import *m, Options *o, const char *from)
{
    char word[] = "--clip-grad=0", *words[] = { word };
    if (options_said(o, OPTION_clip_grad)) return;
    import_remark(m, o, from, "trainer.gradient_clip_val is missing, and gradients are not clipped there: "
                  "--clip-grad 0");
    import_take(m, o, from, 1, words);
}

Status import_nemo(Import *m, Options *o)
{
    YamlFile file;
    TRY(yaml_file_open(&file, o->from_yaml));
    for (int i = 0; i < file.count; i++)
        if (strcmp(file.entry[i].key, CONSTANT_STEPS) != 0) take_nemo(m, o, &file, &file.entry[i]);
    take_constant_steps(m, o, &file);
    take_no_clipping(m, o, o->from_yaml);
    import_gelu(m, o, o->from_yaml);
    import_data_order(m, o, o->from_yaml, "megatron");
    yaml_file_close(&file);
    return OK;
}
