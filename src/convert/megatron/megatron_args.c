/* The arguments that Megatron-LM saves with a model, as options here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "convert/megatron/megatron_internal.h"

typedef enum { NEEDED, SAME, TEXT, FLAG, NOT, ONLY, NEVER } Kind;
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

/* Given, and neither false nor 0. */
static bool is_given(const PickleValue *v)
{
    int64_t value;
    return !is_none(v) && (!pickle_integer(v, &value) || value != 0);
}

/* ---- conditions ---- */

typedef enum { OTHER_POSITIONS, ROPE, YARN, LATENT_ROPE, LATENT_YARN } Positions;

/* Without a rope_type latent attention has YaRN. */
static Positions positions_of(const PickleValue *args)
{
    const PickleValue *type = pickle_get(args, "position_embedding_type");
    if (is_true(pickle_get(args, "multi_latent_attention")))
        return pickle_is_text(pickle_get(args, "rope_type"), "rope") ? LATENT_ROPE : LATENT_YARN;
    if (pickle_is_text(type, "yarn")) return YARN;
    return pickle_is_text(type, "rope") || is_true(pickle_get(args, "use_rotary_position_embeddings"))
         ? ROPE : OTHER_POSITIONS;
}

static bool holds(const char *condition, const PickleValue *args)
{
    Positions positions = positions_of(args);
    if (!*condition) return true;
    if (*condition == '!') return !is_given(pickle_get(args, condition + 1));
    if (strcmp(condition, "rope") == 0) return positions == ROPE;
    if (strcmp(condition, "yarn") == 0) return positions == YARN;
    if (strcmp(condition, "latent") == 0) return positions >= LATENT_ROPE;
    if (strcmp(condition, "latent yarn") == 0) return positions == LATENT_YARN;
    return is_given(pickle_get(args, condition));
}

/* ---- values ---- */

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

/* A number, or those of a list or a tuple; NULL for what is none of them. */
static json_t *numbers_json(const PickleValue *v)
{
    char   *text  = NULL;
    size_t  bytes = 0;
    int64_t one;
    bool    list  = v->kind == PICKLE_LIST, several = list || v->kind == PICKLE_TUPLE, known = true;
    FILE   *out   = open_memstream(&text, &bytes);
    if (!out) return NULL;
    if (list) fputc('[', out);
    for (uint32_t i = 0; i < (several ? v->items : 1); i++) {
        known &= pickle_integer(several ? v->item[i] : v, &one);
        if (known) fprintf(out, "%s%" PRId64, i ? "," : "", one);
    }
    if (list) fputc(']', out);
    json_t *made = fclose(out) == 0 && known ? json_string(text) : NULL;
    free(text);
    return made;
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
    if (!holds(rows[i].condition, args)) return OK;
    if (rows[i].kind == NEEDED && is_none(v))
        return fail(BAD_FILE, "%s: its arguments have no %s", path, name);
    if (rows[i].kind == ONLY) {
        if (equals(v, option)) return OK;
        return fail(BAD_FILE, "%s: its argument %s is not %s; such a model is not built here", path, name,
                    option);
    }
    if (is_none(v)) return OK;
    if (rows[i].kind == NEVER) {
        if (!pickle_is_text(v, option)) return OK;
        return fail(BAD_FILE, "%s: its argument %s is %s, which is not built here", path, name, option);
    }
    if (rows[i].kind == FLAG || rows[i].kind == NOT) {
        if (is_true(v) == (rows[i].kind == FLAG)) json_object_set_new(m->options, option, json_true());
        return OK;
    }
    json_t *value = rows[i].kind == TEXT ? numbers_json(v) : value_json(v);
    if (!value)
        return fail(BAD_FILE, "%s: its argument %s is neither a number nor a %s", path, name,
                    rows[i].kind == TEXT ? "list of whole numbers" : "text");
    json_object_set_new(m->options, option, value);
    return OK;
}

/* Latent attention makes its own rotary embeddings, of channels that are neighbours. Its scores are
 * multiplied by what YaRN would do even without YaRN. */
static Status latent_take(MegatronRead *m, const PickleValue *args, const char *path)
{
    Positions          positions = positions_of(args);
    const PickleValue *type      = pickle_get(args, "position_embedding_type");
    double             all = 0, factor = 1;
    int64_t            query = 0, kv = 0, rotated = 0;
    if (positions < LATENT_ROPE) return OK;
    if (!pickle_is_text(type, "rope") && !pickle_is_text(type, "none"))
        return fail(BAD_FILE, "%s: its argument multi_latent_attention is true, and position_embedding_type"
                    " is neither rope nor none; such a model is not built here", path);
    pickle_real(pickle_get(args, "mscale_all_dim"), &all);
    pickle_real(pickle_get(args, "rotary_scaling_factor"), &factor);
    if (positions == LATENT_ROPE && all != 0 && factor > 1)
        return fail(BAD_FILE, "%s: its arguments have mscale_all_dim %g and rotary_scaling_factor %g with"
                    " rope_type rope; such a model is not built here", path, all, factor);
    json_object_set_new(m->options, "position-embedding-type",
                        json_string(positions == LATENT_ROPE ? "rope" : "yarn"));
    json_object_set_new(m->options, "rotary-interleaved", json_true());
    pickle_integer(pickle_get(args, "q_lora_rank"), &query);
    pickle_integer(pickle_get(args, "kv_lora_rank"), &kv);
    pickle_integer(pickle_get(args, "qk_pos_emb_head_dim"), &rotated);
    m->query_down = query;
    if (!__builtin_add_overflow(kv, rotated, &m->kv_down)) return OK;
    return fail(BAD_FILE, "%s: its argument kv_lora_rank is no size", path);
}

Status megatron_arguments(MegatronRead *m, const PickleValue *args, const char *path)
{
    int64_t value = 0;
    if (!pickle_is_record(args, "argparse.Namespace"))
        return fail(BAD_FILE, "%s: no arguments of Megatron-LM, which say what the model is", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) TRY(argument_take(m, args, i, path));
    TRY(latent_take(m, args, path));
    /* Without the argument of HEAD's name, older versions say it by another one. */
    if (is_none(pickle_get(args, "position_embedding_type")) &&
        is_true(pickle_get(args, "use_rotary_position_embeddings")))
        json_object_set_new(m->options, "position-embedding-type", json_string("rope"));
    const json_t *positions = json_object_get(m->options, "position-embedding-type");
    bool learned = !positions || (json_is_string(positions)
                                  && !strcmp(json_string_value(positions), "learned_absolute"));
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
