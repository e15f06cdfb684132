/* Options of attention: sliding windows, rotary positions, and how context-parallel ranks reach each
 * other's keys. */
#include "conf/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/integer.h"
#include "conf/conf.h"
#include "conf/layer_pattern.h"
#include "conf/value.h"

/* ---- sliding windows ---- */

/* "L,R" or "(L,R)", as Megatron-LM reads it */
static bool window_read(const char *text, long long *left, long long *right)
{
    int end = 0;
    bool brackets = *text == '(';
    if (sscanf(text + brackets, " %lld , %lld %n", left, right, &end) != 2) return false;
    text += brackets + end;
    return brackets ? text[0] == ')' && !text[1] : !*text;
}

Status rule_window(const Options *o)
{
    long long left, right;
    const char *typed = TYPED(OPTION_window_size);
    if (!window_read(o->window_size, &left, &right) || left < -1 || left >= INT32_MAX)
        return fail(BAD_OPTION, "%s is not two numbers L,R; give the positions before a query that it sees"
                    " and 0, such as 1023,0", typed);
    if (right != 0 && right != -1)
        return fail(BAD_OPTION, "%s: attention is causal, so that a query sees no position after its own;"
                    " give %lld,0", typed, left);
    if (left < 0 && strcmp(o->window_skip, "0"))
        return fail(BAD_OPTION, "%s has no effect without --window-size L,0", TYPED(OPTION_window_skip));
    uint8_t layer[LAYER_PATTERN_MAX];
    return options_window_layers(layer, o);
}

int64_t options_window(const Options *o)
{
    long long left, right;
    return window_read(o->window_size, &left, &right) ? left + 1 : 0;
}

/* ---- rotary positions ---- */

static bool rotary(const Options *o)
{
    return o->position.value == CHOICE_position_rope || o->position.value == CHOICE_position_yarn;
}

int64_t options_rotary(const Options *o)
{
    if (o->mla) return rotary(o) ? o->qk_rope_dim : 0;
    return rotary(o) ? (int64_t)(o->rotary_percent * (double)o->kv_channels) : 0;
}

/* Latents are of all heads, without biases. */
static Status rule_latent(const Options *o)
{
    const char *typed = TYPED(OPTION_mla);
    if (!o->mla || !o->qk_layernorm) return OK;                  /* its WANTS row asks for norms */
    if (o->groups != o->heads)
        return fail(BAD_OPTION, "%s: each head has its own keys and values, and there are %s; leave it out",
                    typed, TYPED(OPTION_groups));
    if (!o->disable_bias || o->add_qkv_bias || o->add_out_bias)
        return fail(BAD_OPTION, "%s has no biases; give --disable-bias-linear without --add-qkv-bias and "
                    "--add-attention-output-bias", typed);
    if (o->qk_norm_width.value != CHOICE_qk_norm_width_head)
        return fail(BAD_OPTION, "%s normalizes latents, not heads; leave out %s", typed,
                    TYPED(OPTION_qk_norm_width));
    if (o->rotary_percent < 1)
        return fail(BAD_OPTION, "%s turns --qk-pos-emb-head-dim channels of a head; leave out %s", typed,
                    TYPED(OPTION_rotary_percent));
    if (o->fp8_format.value != CHOICE_fp8_format_none)
        return fail(BAD_OPTION, "%s: its projections have no inputs of 8 bits; leave out %s", typed,
                    TYPED(OPTION_fp8_format));
    return OK;
}

/* The shape of a checkpoint's model cannot be changed. */
static Status refuse_width(const Options *o, int64_t channels)
{
    char cure[SAID] = "such a model is not built";
    if (o->source[OPTION_kv_channels].kind != SOURCE_CHECKPOINT)
        snprintf(cure, sizeof cure, "give --kv-channels %" PRId64 " or another --rotary-percent",
                 o->kv_channels + o->kv_channels % 2);
    return fail(BAD_OPTION, "%s needs heads of even width, and of %s %s leaves %" PRId64 " channels; %s",
                TYPED(OPTION_position), TYPED(OPTION_kv_channels), TYPED(OPTION_rotary_percent), channels,
                cure);
}

Status rule_rope(const Options *o)
{
    TRY(rule_latent(o));
    uint8_t layer[LAYER_PATTERN_MAX];
    int64_t channels = options_rotary(o);
    if (o->position.value == CHOICE_position_sinusoidal && (o->hidden % 2 || o->hidden < 4))
        return fail(BAD_OPTION, "%s: half of the channels of %s are sines; give an even number of 4 or more",
                    TYPED(OPTION_position), TYPED(OPTION_hidden));
    if (!rotary(o) || o->kv_channels == 0) return OK;        /* rule_dividing says what would work */
    if (channels % 2 || channels == 0) return refuse_width(o, channels);
    if (channels > ROPE_CHANNELS_MOST)
        return fail(BAD_OPTION, "%s turns at most %d channels of a head, and %s has %" PRId64 "; give"
                    " --rotary-percent %.3g", TYPED(OPTION_position), ROPE_CHANNELS_MOST,
                    TYPED(OPTION_kv_channels), channels, (double)ROPE_CHANNELS_MOST / (double)o->kv_channels);
    if (o->rope_scaling && o->position.value == CHOICE_position_yarn)
        return fail(BAD_OPTION, "%s and %s are two scalings of the same frequencies; leave one out",
                    TYPED(OPTION_rope_scaling), TYPED(OPTION_position));
    if (o->rope_scaling && o->rope_low >= o->rope_high)
        return fail(BAD_OPTION, "%s is not below %s; give 1 and 4, as Llama 3 has", TYPED(OPTION_rope_low),
                    TYPED(OPTION_rope_high));
    return options_no_rope_layers(layer, o);
}

/* ---- context parallelism ---- */

/* false: not two numbers */
static bool sizes_read(const Options *o, int64_t size[2])
{
    const TextList *list = &o->hierarchical_cp;
    for (int i = 0; i < 2 && list->count == 2; i++) {
        char *end;
        size[i] = strtoll(list->text[i], &end, 10);
        if (end == list->text[i] || *end || size[i] < 1) return false;
    }
    return list->count == 2;
}

int options_hierarchical(const Options *o)
{
    int64_t size[2];
    return o->context_parallel > 1 && sizes_read(o, size) ? (int)size[0] : 1;
}

static Status rule_sizes(const Options *o)
{
    int64_t cp = o->context_parallel, size[2], part = 2;
    if (sizes_read(o, size) && size[0] * size[1] == cp) return OK;
    int64_t u = common_divisor(cp, o->heads / o->tensor_parallel);
    while (cp % part) part++;
    if (u == cp) u = cp / part;                           /* all would be a2a alone */
    return fail(BAD_OPTION, "%s wants --hierarchical-context-parallel-sizes U R, two sizes whose product is"
                " %s; give %" PRId64 " %" PRId64, TYPED(OPTION_cp_comm_type), TYPED(OPTION_context_parallel),
                u, cp / u);
}

Status rule_context(const Options *o)
{
    int64_t cp = o->context_parallel, heads = o->heads / o->tensor_parallel;
    bool all = o->cp_comm_type.value == CHOICE_cp_comm_type_a2a;
    bool some = o->cp_comm_type.value == CHOICE_cp_comm_type_a2a_p2p;
    if (cp == 1 || (!all && !some)) return OK;
    if (some) TRY(rule_sizes(o));
    int64_t u = all ? cp : options_hierarchical(o), works = common_divisor(u, heads);
    const char *typed = TYPED(OPTION_cp_comm_type), *of = TYPED(OPTION_heads);
    if (works == u) return OK;
    if (works == 1)
        return fail(BAD_OPTION, "%s: %" PRId64 " ranks cannot exchange %" PRId64 " head%s (%s / tensor"
                    " parallel size); give --cp-comm-type p2p or allgather", typed, u, heads,
                    heads == 1 ? "" : "s", of);
    return fail(BAD_OPTION, "%s: %" PRId64 " ranks cannot exchange %" PRId64 " heads (%s / tensor parallel"
                " size); give --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes %" PRId64
                " %" PRId64, typed, u, heads, of, works, cp / works);
}
