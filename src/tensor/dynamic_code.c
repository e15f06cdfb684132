/* The tables of 8-bit codes. */
#include "tensor/dynamic_code.h"
#include <math.h>
#include <pthread.h>

static void values_set(DynamicCode *code, bool with_signs)
{
    for (int i = 0; i < CODE_VALUES; i++) code->value[i] = code_value(i, with_signs);
    for (int i = 0; i < CODE_VALUES - 1; i++) {
        code->middle[i] = code_middle(code->value[i], code->value[i + 1]);
        code->middle_float[i] = code_middle_float(code->value[i], code->value[i + 1]);
    }
    code->middle[CODE_VALUES - 1] = code->middle_float[CODE_VALUES - 1] = INFINITY;
}

/* The least float of a sign and a key is the one of largest magnitude where the sign is minus. */
static void first_set(DynamicCode *code)
{
    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t key = 0; key < CODE_KEYS; key++) {
            uint32_t upper = (key + CODE_KEY_LEAST) << 16;
            uint32_t bits  = sign ? upper | 0xffff | sign << 31 : key > 0 ? upper : 0;
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
        first_set(&tables[with_signs]);
    }
}

const DynamicCode *dynamic_code(bool with_signs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tables_set);
    return &tables[with_signs];
}
