/* The arguments that Megatron-LM saves with a model, as options here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "base/words.h"
#include "convert/megatron/megatron_internal.h"

typedef enum { NEEDED, SAME, ABOVE, LAYERS, WINDOW, FLAG, NOT, HERE } Kind;
/* option: NULL: that of the same name */
typedef struct { const char *arguments; Kind kind; const char *option, *condition; } Row;
static const Row rows[] = {
#define ARGUMENT(argument, kind, option, condition) { #argument, kind, option, condition },
#define NAMED(kind, condition, arguments) { arguments, kind, NULL, condition },
#include "convert/megatron/megatron_args.def"
};

typedef struct { const char *argument, *values, *condition, *why; } OnlyRow;
static const OnlyRow only_rows[] = {
#define ONLY(argument, values, condition, ...) { #argument, values, condition, __VA_ARGS__ },
#include "convert/megatron/megatron_args.def"
};

/* Names that say nothing of the model, or nothing more than an argument of only_rows. */
static const char *const passed_over[] = {
#define UNDER(argument, names) names,
#define RUN(names) names,
#include "convert/megatron/megatron_args.def"
};

enum { ROWS = COUNT(rows), ONLY_ROWS = COUNT(only_rows) };
enum { PASSED_OVER = COUNT(passed_over), ARGUMENTS_MOST = 4096 };

/* ---- values ---- */

static bool is_none(const PickleValue *v) { return !v || v->kind == PICKLE_NONE; }

static bool is_true(const PickleValue *v)
{
    int64_t value;
    return pickle_integer(v, &value) && value != 0;
}

static bool is_several(const PickleValue *v)
{
    return v && (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE);
}

/* A number other than 0, a text or a list with something in it. */
static bool is_set(const PickleValue *v)
{
    double real;
    if (is_none(v)) return false;
    if (pickle_real(v, &real)) return real != 0;
    if (v->kind == PICKLE_TEXT) return v->bytes > 0;
    return !is_several(v) || v->items > 0;
}

/* As Python writes it, cut to a buffer. */
static const char *python_text(char out[128], const PickleValue *v)
{
    int64_t integer = 0;
    double  real    = 0;
    pickle_integer(v, &integer);
    pickle_real(v, &real);
    if (is_none(v)) return "None";
    switch (v->kind) {
    case PICKLE_BOOL:  return integer ? "True" : "False";
    case PICKLE_INT:   snprintf(out, 128, "%" PRId64, integer); return out;
    case PICKLE_FLOAT: snprintf(out, 128, "%g", real); return out;
    case PICKLE_TEXT:  return pickle_text(out, 128, v);
    case PICKLE_LIST:  return v->items ? "a list" : "[]";
    case PICKLE_TUPLE: return "a tuple";
    default:           return "an object";
    }
}

/* A number, a truth or a text as JSON, or a list of one of these; NULL for what is none of them. */
static json_t *value_json(const PickleValue *v)
{
    char text[128];
    if (is_several(v) && v->items == 1) v = v->item[0];
    switch (v->kind) {
    case PICKLE_BOOL:  return json_boolean(v->integer);
    case PICKLE_INT:   return json_integer((json_int_t)v->integer);
    case PICKLE_FLOAT: return json_real(v->real);
    case PICKLE_TEXT:  return json_string(pickle_text(text, sizeof text, v));
    default:           return NULL;
    }
}

/* "3", or "[0,1,1]"; NULL where it is neither. */
static json_t *layers_json(const PickleValue *v)
{
    int64_t layer = 0;
    if (v->kind == PICKLE_INT) return json_sprintf("%" PRId64, v->integer);
    if (!is_several(v) || !v->items) return NULL;
    char *text = malloc(2 * (size_t)v->items + 2), *end = text;
    for (uint32_t i = 0; text && i < v->items; i++) {
        bool known = pickle_integer(v->item[i], &layer) && (layer == 0 || layer == 1);
        *end++ = i ? ',' : '[';
        *end++ = known ? (char)('0' + layer) : '?';
    }
    if (text) memcpy(end, "]", 2);
    json_t *json = text && !strchr(text, '?') ? json_string(text) : NULL;
    free(text);
    return json;
}

/* "127,0" */
static json_t *window_json(const PickleValue *v)
{
    int64_t side[2];
    if (!is_several(v) || v->items != 2) return NULL;
    for (int i = 0; i < 2; i++)
        if (!pickle_integer(v->item[i], &side[i])) return NULL;
    return json_sprintf("%" PRId64 ",%" PRId64, side[0], side[1]);
}

/* Whether it is one of "None|0", as Python writes them; 1 is 1.0. None is the default, which is supported. */
static bool is_one_of(const PickleValue *v, const char *values)
{
    double real, wanted;
    char   text[128];
    if (is_none(v)) return true;
    for (uint32_t i = 0; is_several(v) && v->items; i++) {
        if (i == v->items) return true;
        if (is_several(v->item[i]) || !is_one_of(v->item[i], values)) return false;
    }
    const char *said = python_text(text, v);
    for (const char *a = values; *a; a += strcspn(a, "|"), a += *a == '|') {
        char *end;
        if (strlen(said) == strcspn(a, "|") && !strncmp(a, said, strlen(said))) return true;
        wanted = strtod(a, &end);
        if (end > a && strchr("|", *end) && v->kind != PICKLE_BOOL && pickle_real(v, &real) && real == wanted)
            return true;
    }
    return false;
}

/* ---- rows ---- */

typedef enum { OTHER_POSITIONS, LEARNED, ROPE, YARN, LATENT_ROPE, LATENT_YARN } Positions;

/* Without a rope_type latent attention has YaRN. An argument of older versions is stronger than HEAD's. */
static Positions positions_of(const PickleValue *args)
{
    const PickleValue *type = pickle_get(args, "position_embedding_type");
    if (is_true(pickle_get(args, "multi_latent_attention")))
        return pickle_is_text(pickle_get(args, "rope_type"), "rope") ? LATENT_ROPE : LATENT_YARN;
    if (pickle_is_text(type, "yarn")) return YARN;
    if (pickle_is_text(type, "rope") || is_true(pickle_get(args, "use_rotary_position_embeddings")))
        return ROPE;
    return is_none(type) || pickle_is_text(type, "learned_absolute") ? LEARNED : OTHER_POSITIONS;
}

static bool holds(const PickleValue *args, const char *condition)
{
    Positions positions = positions_of(args);
    if (!*condition) return true;
    if (*condition == '!') return !is_set(pickle_get(args, condition + 1));
    if (strcmp(condition, "learned") == 0)     return positions == LEARNED;
    if (strcmp(condition, "rope") == 0)        return positions == ROPE;
    if (strcmp(condition, "yarn") == 0)        return positions == YARN;
    if (strcmp(condition, "rotary") == 0)      return positions == ROPE || positions == YARN;
    if (strcmp(condition, "latent") == 0)      return positions >= LATENT_ROPE;
    if (strcmp(condition, "latent yarn") == 0) return positions == LATENT_YARN;
    if (strcmp(condition, "WSD") == 0) return pickle_is_text(pickle_get(args, "lr_decay_style"), "WSD");
    if (strcmp(condition, "warmup by steps") == 0)
        return !is_set(pickle_get(args, "lr_warmup_samples")) &&
               !is_set(pickle_get(args, "lr_warmup_fraction"));
    if (strcmp(condition, "weight decay by step") == 0) {
        const PickleValue *style = pickle_get(args, "weight_decay_incr_style");
        return !is_none(style) && !pickle_is_text(style, "constant");
    }
    return is_set(pickle_get(args, condition));
}

static Status argument_take(MegatronRead *m, const PickleValue *args, const Row *row, const char *argument,
                            const char *option, const char *path)
{
    const PickleValue *v = pickle_get(args, argument);
    double  real;
    json_t *value = NULL;
    char    text[128];
    if (is_none(v))
        return row->kind != NEEDED ? OK : fail(BAD_FILE, "%s: its arguments have no %s", path, argument);
    switch (row->kind) {
    case FLAG:
    case NOT:
        if (is_true(v) != (row->kind == FLAG)) return OK;
        value = json_true();
        break;
    case ABOVE:
        if (pickle_real(v, &real) && real <= 0) return OK;
        value = value_json(v);
        break;
    case NEEDED:
    case SAME:   value = value_json(v); break;
    case LAYERS: value = layers_json(v); break;
    case WINDOW: value = window_json(v); break;
    case HERE:   break;
    }
    if (!value)
        return fail(BAD_FILE, "%s: its argument %s is %s, and has to be %s", path, argument,
                    python_text(text, v), row->kind == LAYERS ? "a number, or a list of 0 and 1"
                    : row->kind == WINDOW ? "two numbers" : "a number or a text");
    json_object_set_new(m->options, option, value);
    return OK;
}

static Status row_take(MegatronRead *m, const PickleValue *args, const Row *row, const char *path)
{
    char argument[64], option[64];
    if (row->kind == HERE || !holds(args, row->condition)) return OK;
    for (const char *a = row->arguments; *a; a += strcspn(a, " "), a += *a == ' ') {
        snprintf(argument, sizeof argument, "%.*s", (int)strcspn(a, " "), a);
        snprintf(option, sizeof option, "%s", row->option ? row->option : argument);
        for (char *c = option; !row->option && (c = strchr(c, '_'));) *c = '-';
        TRY(argument_take(m, args, row, argument, option, path));
    }
    return OK;
}

static Status only_judge(const PickleValue *args, const OnlyRow *row, const char *path)
{
    const PickleValue *v = pickle_get(args, row->argument);
    char text[128], values[128];
    if (!holds(args, row->condition) || is_one_of(v, row->values)) return OK;
    snprintf(values, sizeof values, "%s", row->values);
    for (char *c = values; (c = strchr(c, '|')); ) *c = '/';
    return fail(BAD_FILE, "%s: its argument %s is %s, and only %s is read: %s", path, row->argument,
                python_text(text, v), values, row->why);
}

static bool is_known(const char *name)
{
    size_t bytes = strlen(name);
    for (int i = 0; i < ROWS; i++)        if (words_have(rows[i].arguments, name, bytes)) return true;
    for (int i = 0; i < ONLY_ROWS; i++)   if (!strcmp(only_rows[i].argument, name)) return true;
    for (int i = 0; i < PASSED_OVER; i++) if (words_have(passed_over[i], name, bytes)) return true;
    return false;
}

static void note_name(ForeignFile *file, const char *name)
{
    size_t used = strlen(file->unknown), whole = sizeof file->unknown - sizeof ", ..." + 1;
    if (used > 4 && !strcmp(file->unknown + used - 4, " ...")) return;
    if (!message_item(file->unknown, whole, ", ", "%s", name)) strcat(file->unknown, ", ...");
}

/* Of a version or a fork that these tables do not know: what they mean for the model is not known either. */
static void note_unknown(ForeignFile *file, const PickleValue *args)
{
    const PickleValue *all = args->record->state;
    char name[128];
    if (all && all->kind == PICKLE_TUPLE && all->items > 0) all = all->item[0];
    if (!all || all->kind != PICKLE_DICT) return;
    for (uint32_t i = 0; i + 1 < all->items && i < 2 * ARGUMENTS_MOST; i += 2) {
        pickle_text(name, sizeof name, all->item[i]);
        if (*name && is_set(all->item[i + 1]) && !is_known(name)) note_name(file, name);
    }
}

/* Of the losses that balance experts two are built: a model of another one, or of several, is read, and a
 * line says that this is not taken over. */
static void balancing_take(MegatronRead *m, const PickleValue *args)
{
    const PickleValue *type = pickle_get(args, "moe_router_load_balancing_type");
    char said[128];
    if (!holds(args, "num_experts") || is_none(type)) return;
    if (is_several(type) && type->items == 1) type = type->item[0];
    python_text(said, type);
    if (is_one_of(type, "aux_loss|seq_aux_loss|none") && !is_several(type))
        json_object_set_new(m->options, "moe-router-load-balancing-type", json_string(said));
    else note_name(m->file, "moe_router_load_balancing_type");
}

/* GELU is that by tanh where it is fused with biases, and by erf where it is not. */
static bool gelu_by_erf(const PickleValue *args)
{
    const PickleValue *fused = pickle_get(args, "bias_gelu_fusion");
    if (is_true(pickle_get(args, "onnx_safe"))) return true;
    if (is_true(pickle_get(args, "openai_gelu")) || is_true(pickle_get(args, "use_te_activation_func")))
        return false;                                          /* both by tanh */
    return !is_none(fused) && !is_true(fused);
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
        return fail(BAD_FILE, "%s: no arguments of Megatron-LM, which say what the model is; a checkpoint "
                    "that its training saved has them", path);
    for (int i = 0; i < ONLY_ROWS; i++) TRY(only_judge(args, &only_rows[i], path));
    for (int i = 0; i < ROWS; i++) TRY(row_take(m, args, &rows[i], path));
    TRY(latent_take(m, args, path));
    if (positions_of(args) == YARN && !json_object_get(m->options, "rotary-scaling-factor"))
        return fail(BAD_FILE, "%s: its arguments have no rotary_scaling_factor, which YaRN needs; let the "
                    "version of Megatron-LM that trained the model save it again", path);
    note_unknown(m->file, args);
    balancing_take(m, args);
    if (positions_of(args) == ROPE)
        json_object_set_new(m->options, "position-embedding-type", json_string("rope"));
    m->gated = is_true(pickle_get(args, "swiglu")) || is_true(pickle_get(args, "quick_geglu"));
    if (!m->gated && !is_true(pickle_get(args, "squared_relu")) && gelu_by_erf(args))
        json_object_set_new(m->options, "gelu-approximate", json_string("none"));
    if (!pickle_integer(pickle_get(args, "num_layers"), &value) || value < 1 || value > 1 << 20)
        return fail(BAD_FILE, "%s: its argument num_layers is no number of layers", path);
    m->layers = (int)value;
    if (pickle_integer(pickle_get(args, "vocab_size"), &value) && value > 0) m->vocabulary = value;
    return OK;
}
