/* A parser of the few Python expressions that are lists of layers. */
#include "conf/layer_pattern.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What is left to read, and the list so far; longer lists are cut, since they are refused. */
typedef struct {
    const char *at;
    uint8_t layer[LAYER_PATTERN_MAX + 1];
    int64_t count;
    bool    bad;
    int     depth;                     /* of parentheses */
} Pattern;

static bool next_is(Pattern *p, char c)
{
    while (isspace((unsigned char)*p->at)) p->at++;
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static int64_t number(Pattern *p)
{
    char *end;
    while (isspace((unsigned char)*p->at)) p->at++;
    int64_t value = isdigit((unsigned char)*p->at) ? strtoll(p->at, &end, 10) : -1;
    if (value < 0 || value > LAYER_PATTERN_MAX) p->bad = true;
    else p->at = end;
    return value;
}

static void append(Pattern *p, uint8_t layer)
{
    if (p->count <= LAYER_PATTERN_MAX) p->layer[p->count++] = layer;
}

static void sum(Pattern *p);

/* [0,1,...] or ( sum ), then any number of * N */
static void term(Pattern *p)
{
    int64_t first = p->count;
    if (next_is(p, '[')) {
        while (!p->bad && !next_is(p, ']')) {
            int64_t value = number(p);
            if (value > 1) p->bad = true;
            append(p, value == 1);
            if (!next_is(p, ',') && *p->at != ']') p->bad = true;
        }
    } else if (p->depth < 16 && next_is(p, '(')) {
        p->depth++;
        sum(p);
        p->depth--;
        if (!next_is(p, ')')) p->bad = true;
    } else p->bad = true;
    while (!p->bad && next_is(p, '*')) {
        int64_t times = number(p), length = p->count - first;
        if (times == 0) p->count = first;
        for (int64_t i = length; i < length * times && p->count <= LAYER_PATTERN_MAX; i++)
            append(p, p->layer[first + i % length]);
    }
}

static void sum(Pattern *p)
{
    do term(p);
    while (!p->bad && next_is(p, '+'));
}

static Status pattern_number(uint8_t layer[], const LayerPattern *a)
{
    Pattern p = { .at = a->text };
    int64_t every = number(&p);
    if (p.bad || every == 0 || *p.at)
        return fail(BAD_OPTION, "%s %s is no number from 1 to %d; %s", a->option, a->text, LAYER_PATTERN_MAX,
                    a->cure);
    for (int64_t l = 0; l < a->layers; l++)
        layer[l] = a->number == LAYERS_FIRST ? l % every == 0
                 : (l % every == every - 1) == (a->number == LAYERS_LAST);
    return OK;
}

Status layer_pattern(uint8_t layer[LAYER_PATTERN_MAX], LayerPattern a)
{
    Pattern p = { .at = a.text };
    if (a.layers > LAYER_PATTERN_MAX)
        return fail(BAD_OPTION, "--num-layers %lld with %s are more than %d layers; give fewer",
                    (long long)a.layers, a.with, LAYER_PATTERN_MAX);
    if (isdigit((unsigned char)*a.text)) return pattern_number(layer, &a);
    sum(&p);
    while (isspace((unsigned char)*p.at)) p.at++;
    if (p.bad || *p.at)
        return fail(BAD_OPTION, "%s %s is neither a number nor a list of 0 and 1; write for instance "
                    "[0]*3+[1]*29", a.option, a.text);
    if (p.count != a.layers)
        return fail(BAD_OPTION, "%s %s has %s%lld layers, and the model has --num-layers %lld; give a list "
                    "of as many", a.option, a.text, p.count > LAYER_PATTERN_MAX ? "more than " : "",
                    p.count > LAYER_PATTERN_MAX ? LAYER_PATTERN_MAX : (long long)p.count,
                    (long long)a.layers);
    memcpy(layer, p.layer, (size_t)a.layers);
    return OK;
}

Status options_expert_layers(uint8_t layer[LAYER_PATTERN_MAX], const Options *o)
{
    return layer_pattern(layer, (LayerPattern){ "--moe-layer-freq", o->moe_layer_freq, "--num-experts",
        "give 1 for experts in all layers", o->layers, LAYERS_FIRST });
}

/* 0, the default of both: all layers have it; so many layers that there is no list of them then. */
static bool of_all(const char *text) { return !strcmp(text, "0"); }

Status options_window_layers(uint8_t layer[LAYER_PATTERN_MAX], const Options *o)
{
    if (of_all(o->window_skip)) { memset(layer, 1, LAYER_PATTERN_MAX); return OK; }
    return layer_pattern(layer, (LayerPattern){ "--window-attn-skip-freq", o->window_skip,
        "--window-attn-skip-freq", "leave it out for a window in all layers", o->layers,
        LAYERS_ALL_BUT_LAST });
}

Status options_no_rope_layers(uint8_t layer[LAYER_PATTERN_MAX], const Options *o)
{
    if (of_all(o->no_rope_freq)) { memset(layer, 0, LAYER_PATTERN_MAX); return OK; }
    return layer_pattern(layer, (LayerPattern){ "--no-rope-freq", o->no_rope_freq, "--no-rope-freq",
        "leave it out for RoPE in all layers", o->layers, LAYERS_LAST });
}
