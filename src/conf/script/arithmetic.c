/* Whole numbers of $(( )): + - * / % ** comparisons && || ! ( ) and names of variables. */
#include <ctype.h>
#include <string.h>
#include "conf/script/inside.h"

/* known: false once a variable is not set or not a number, or a number is out of range */
typedef struct {
    Reader     *r;
    const char *at;
    bool        known;
    int         depth;
} Sum;

static int64_t level(Sum *s, int least);

static void blanks(Sum *s)
{
    while (isspace((unsigned char)*s->at)) s->at++;
}

static int64_t unknown(Sum *s)
{
    s->known = false;
    return 0;
}

static int64_t digits(Sum *s, const char **at)
{
    int64_t value = 0;
    for (; isdigit((unsigned char)**at); (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **at - '0', &value))
            return unknown(s);
    return value;
}

/* A variable's value is a number here, not another expression. */
static int64_t named(Sum *s)
{
    const char *begin = s->at;
    while (isalnum((unsigned char)*s->at) || *s->at == '_') s->at++;
    const Variable *v    = variable_find(s->r, begin, (size_t)(s->at - begin));
    const char     *text = v && v->values.count ? v->values.word[0].text : "", *end = text + (*text == '-');
    if (!isdigit((unsigned char)*end)) return unknown(s);
    int64_t value = digits(s, &end);
    if (*end) return unknown(s);
    return *text == '-' ? -value : value;
}

static int64_t primary(Sum *s)
{
    blanks(s);
    if (++s->depth > SCRIPT_DEPTH) return unknown(s);
    int64_t value = 0;
    if (isdigit((unsigned char)*s->at)) value = digits(s, &s->at);
    else if (isalpha((unsigned char)*s->at) || *s->at == '_') value = named(s);
    else if (*s->at == '-' || *s->at == '+' || *s->at == '!') {
        char sign = *s->at++;
        value     = primary(s);
        if (sign == '-' && __builtin_sub_overflow((int64_t)0, value, &value)) unknown(s);
        if (sign == '!') value = !value;
    } else if (*s->at == '(') {
        s->at++;
        value = level(s, 1);
        blanks(s);
        if (*s->at == ')') s->at++;
        else unknown(s);
    } else unknown(s);
    s->depth--;
    return value;
}

/* Longer signs first. */
static const struct {
    const char *sign;
    int         level;
} signs[] = {
    {"**", 7}, {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4},
    {"<", 4},  {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"%", 6},
};
enum { SIGNS = sizeof signs / sizeof signs[0] };

static int64_t power(Sum *s, int64_t base, int64_t exponent)
{
    int64_t value = 1;
    if (exponent < 0 || exponent > 63) return base == 1 || (base == 0 && exponent > 0) ? base : unknown(s);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(value, base, &value)) return unknown(s);
    return value;
}

static int64_t apply(Sum *s, const char *sign, int64_t a, int64_t b)
{
    int64_t value = 0;
    switch (sign[0]) {
    case '+':
        return __builtin_add_overflow(a, b, &value) ? unknown(s) : value;
    case '-':
        return __builtin_sub_overflow(a, b, &value) ? unknown(s) : value;
    case '*':
        if (sign[1]) return power(s, a, b);
        return __builtin_mul_overflow(a, b, &value) ? unknown(s) : value;
    case '/':
        return b == 0 || (b == -1 && a == INT64_MIN) ? unknown(s) : a / b;
    case '%':
        return b == 0 || b == -1 ? (b ? 0 : unknown(s)) : a % b;
    case '<':
        return sign[1] ? a <= b : a < b;
    case '>':
        return sign[1] ? a >= b : a > b;
    case '=':
        return a == b;
    case '!':
        return a != b;
    case '|':
        return a || b;
    default:
        return a && b;
    }
}

static int sign_at(Sum *s)
{
    blanks(s);
    for (int i = 0; i < SIGNS; i++)
        if (!strncmp(s->at, signs[i].sign, strlen(signs[i].sign))) return i;
    return -1;
}

static int64_t level(Sum *s, int least)
{
    int64_t value = primary(s);
    for (int i; s->known && (i = sign_at(s)) >= 0 && signs[i].level >= least;) {
        s->at += strlen(signs[i].sign);
        value = apply(s, signs[i].sign, value, level(s, signs[i].level + 1));
    }
    return value;
}

bool arithmetic(Reader *r, int64_t *value, const char *text, int line)
{
    (void)line;
    Sum s  = {r, text, true, 0};
    *value = level(&s, 1);
    blanks(&s);
    return s.known && !*s.at;
}
