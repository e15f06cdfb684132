/* The tables of 8-bit codes. */
#include "tensor/dynamic_code.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { CODE_DECADES = 7 };

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Bound i of `parts` equal parts of [0.1, 1], as PyTorch's linspace has it: from the nearer end, rounded
 * once. */
static float part_bound(int i, int parts)
{
    float step = (1.0f - 0.1f) / (float)parts;
    return i < (parts + 1) / 2 ? (float)((double)0.1f + (double)step * i)
                               : (float)(1.0 - (double)step * (parts - i));
}

/* With F = 2^i fractions, or 2^(i + 1) without signs, for i = 0 .. 6: the midpoints of F equal parts of
 * [0.1, 1] times 10^(i - 6), and with signs their negatives; 0 and 1. Bounds, midpoints and products are
 * rounded to FP32, each once. */
static void values_set(DynamicCode *code, bool with_signs)
{
    static const float power[CODE_DECADES] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1 };
    int n = 0;
    code->value[n++] = 0, code->value[n++] = 1;
    for (int i = 0; i < CODE_DECADES; i++)
        for (int k = 0, parts = with_signs ? 1 << i : 2 << i; k < parts; k++) {
            float value = (part_bound(k, parts) + part_bound(k + 1, parts)) / 2 * power[i];
            code->value[n++] = value;
            if (with_signs) code->value[n++] = -value;
        }
    qsort(code->value, CODE_VALUES, sizeof *code->value, ascending);
}

static void middles_set(DynamicCode *code)
{
    for (int i = 0; i < CODE_VALUES - 1; i++) {
        double middle = ((double)code->value[i] + (double)code->value[i + 1]) / 2;
        float  below  = (float)middle;
        code->middle[i] = middle;
        code->middle_float[i] = (double)below > middle ? nextafterf(below, -INFINITY) : below;
    }
    code->middle[CODE_VALUES - 1] = code->middle_float[CODE_VALUES - 1] = INFINITY;
}

/* The least float of a sign and a key is the one of largest magnitude where the sign is minus. */
static void first_set(DynamicCode *code)
{
    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t key = 0; key < CODE_KEYS; key++) {
            uint32_t least = key > 0 ? (key + CODE_KEY_LEAST) << 16 : 0, most = (key + CODE_KEY_LEAST) << 16 | 0xffff;
            uint32_t bits = sign ? most | sign << 31 : least;
            float x;
            memcpy(&x, &bits, sizeof x);
            int32_t *first = &code->first[sign * CODE_KEYS + key];
            for (*first = 0; code->middle_float[*first] < x; ) ++*first;
        }
}

static DynamicCode tables[2];

static void tables_set(void)
{
    for (int with_signs = 0; with_signs < 2; with_signs++) {
        values_set(&tables[with_signs], with_signs);
        middles_set(&tables[with_signs]);
        first_set(&tables[with_signs]);
    }
}

const DynamicCode *dynamic_code(bool with_signs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tables_set);
    return &tables[with_signs];
}
