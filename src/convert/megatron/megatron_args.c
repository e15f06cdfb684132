/* The arguments that Megatron-LM saves with a model, as options here. */
#include <stdio.h>
#include <string.h>
#include "convert/megatron/megatron_internal.h"

typedef enum { NEEDED, SAME, FLAG, NOT, ONLY } Kind;
static const struct { const char *argument; Kind kind; const char *option, *condition; } rows[] = {
#define ARGUMENT(argument, kind, option, condition) { #argument, kind, option, condition },
#include "convert/megatron/megatron_args.def"
};

static bool is_none(const PickleValue *v) { return !v || v->kind == PICKLE_NONE; }

static bool is_true(const PickleValue *v)
{
    int64_t value;
    return pickle_integer(v, &value) && value != 0;
}

/* A number, a truth or a text as JSON; NULL for what is none of them. */
static json_t *value_json(const PickleValue *v)
{
    char text[128];
    if (is_none(v)) return json_null();
    switch (v->kind) {
    case PICKLE_BOOL:  return json_boolean(v->integer);
    case PICKLE_INT:   return json_integer((json_int_t)v->integer);
    case PICKLE_FLOAT: return json_real(v->real);
    case PICKLE_TEXT:  return json_string(pickle_text(text, sizeof text, v));
    default:           return NULL;
    }
}

/* "false", "null", "1" (also of 1.0) or a text. */
static bool equals(const PickleValue *v, const char *value)
{
    double real, wanted;
    if (is_none(v)) return true; /* None is the default, and the default is supported */
    if (strcmp(value, "false") == 0 || strcmp(value, "true") == 0) return is_true(v) == (value[0] == 't');
    if (pickle_is_text(v, value)) return true;
    return sscanf(value, "%lf", &wanted) == 1 && pickle_real(v, &real) && real == wanted;
}

static Status argument_take(MegatronRead *m, const PickleValue *args, size_t i, const char *path)
{
    const char        *name = rows[i].argument, *option = rows[i].option;
    const PickleValue *v    = pickle_get(args, name);
    const char *condition = rows[i].condition;
    bool rope = pickle_is_text(pickle_get(args, "position_embedding_type"), "rope")
             || is_true(pickle_get(args, "use_rotary_position_embeddings"));
    if (strcmp(condition, "rope") == 0 ? !rope : *condition && !is_true(pickle_get(args, condition)))
        return OK;
    if (rows[i].kind == NEEDED && is_none(v))
        return fail(BAD_FILE, "%s: its arguments have no %s", path, name);
    if (rows[i].kind == ONLY) {
        if (equals(v, option)) return OK;
        return fail(BAD_FILE, "%s: its argument %s is not %s; such a model is not built here", path, name,
                    option);
    }
    if (is_none(v)) return OK;
    if (rows[i].kind == FLAG || rows[i].kind == NOT) {
        if (is_true(v) == (rows[i].kind == FLAG)) json_object_set_new(m->options, option, json_true());
        return OK;
    }
    json_t *value = value_json(v);
    if (!value) return fail(BAD_FILE, "%s: its argument %s is neither a number nor a text", path, name);
    json_object_set_new(m->options, option, value);
    return OK;
}

Status megatron_arguments(MegatronRead *m, const PickleValue *args, const char *path)
{
    int64_t value = 0;
    if (!pickle_is_record(args, "argparse.Namespace"))
        return fail(BAD_FILE, "%s: no arguments of Megatron-LM, which say what the model is", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) TRY(argument_take(m, args, i, path));
    /* Without the argument of HEAD's name, older versions say it by another one. */
    if (is_none(pickle_get(args, "position_embedding_type")) &&
        is_true(pickle_get(args, "use_rotary_position_embeddings")))
        json_object_set_new(m->options, "position-embedding-type", json_string("rope"));
    bool learned = !json_object_get(m->options, "position-embedding-type") ||
                   !strcmp(json_string_value(json_object_get(m->options, "position-embedding-type")),
                           "learned_absolute");
    if (learned && pickle_integer(pickle_get(args, "max_position_embeddings"), &value))
        json_object_set_new(m->options, "max-position-embeddings", json_integer((json_int_t)value));
    m->gated = is_true(pickle_get(args, "swiglu"));
    const PickleValue *fused = pickle_get(args, "bias_gelu_fusion"); /* by tanh; torch's own is by erf */
    if (fused && !is_true(fused) && !m->gated && !is_true(pickle_get(args, "squared_relu"))
        && !is_true(pickle_get(args, "openai_gelu")))
        json_object_set_new(m->options, "gelu-approximate", json_string("none"));
    if (!pickle_integer(pickle_get(args, "num_layers"), &value) || value < 1 || value > 1 << 20)
        return fail(BAD_FILE, "%s: its argument num_layers is no number of layers", path);
    m->layers = (int)value;
    if (pickle_integer(pickle_get(args, "vocab_size"), &value) && value > 0) m->vocabulary = value;
    return OK;
}
