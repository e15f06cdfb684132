/* Pairwise coverage by a greedy choice among random layouts. */
#include "layouts/coverage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"

enum { CANDIDATES = 40, TRIES = 200 };

static bool one_dimension(int a, int b) { return values[a].dimension == values[b].dimension; }

static void possible_add(Coverage *c, const Draw *d)
{
    for (int i = 0; i < DIMENSIONS; i++)
        for (int j = 0; j < DIMENSIONS; j++)
            if (i != j) c->possible[d->value[i]][d->value[j]] = true;
}

/* Which pairs can be: random layouts show most of them, the others are asked for. */
static void possible_find(Coverage *c, Dice *chance)
{
    char why[REFUSAL_MOST];
    Draw d;
    for (int i = 0; i < 10 * CANDIDATES; i++)
        if (draw_random(&d, chance, -1, -1, 1, why)) possible_add(c, &d);
    for (int a = 0; a < values_count; a++)
        for (int b = 0; b < a; b++)
            if (!one_dimension(a, b) && !c->possible[a][b] && draw_random(&d, chance, a, b, TRIES, why)) possible_add(c, &d);
}

static int gain(const Coverage *c, const Draw *d)
{
    int more = 0;
    for (int i = 0; i < DIMENSIONS; i++)
        for (int j = 0; j < i; j++) more += c->covered[d->value[i]][d->value[j]] == 0;
    return more;
}

/* A pair that no layout has, from a random place on; false: there is none. */
static bool missing(const Coverage *c, Dice *chance, int *a, int *b)
{
    int all = values_count * values_count, from = (int)dice(chance, 0, all - 1);
    for (int i = 0; i < all; i++) {
        *a = (from + i) % all / values_count;
        *b = (from + i) % values_count;
        if (c->possible[*a][*b] && c->covered[*a][*b] == 0) return true;
    }
    *a = *b = -1;
    return false;
}

static void coverage_add(Coverage *c, const Draw *d)
{
    c->draw = realloc(c->draw, (size_t)(c->count + 1) * sizeof *c->draw);
    CHECK(c->draw, "no memory");
    c->draw[c->count++] = *d;
    for (int i = 0; i < DIMENSIONS; i++)
        for (int j = 0; j < DIMENSIONS; j++)
            if (i != j) c->covered[d->value[i]][d->value[j]]++;
}

void coverage_draw(Coverage *c, uint64_t seed, int count, int most_layouts)
{
    char why[REFUSAL_MOST];
    Dice chance = { .key = random_key(seed, "layouts") };
    CHECK(values_count <= VALUES_MOST, "%d values", values_count);
    *c = (Coverage){ .count = 0 };
    possible_find(c, &chance);
    c->part = most_layouts < count;
    for (int a, b; c->count < most_layouts && (missing(c, &chance, &a, &b) || c->count < count);) {
        Draw best, d;
        int most = -1;
        for (int i = 0; i < (a < 0 ? 1 : CANDIDATES); i++) {
            if (!draw_random(&d, &chance, a, b, TRIES, why)) continue;
            if (gain(c, &d) > most) { most = gain(c, &d); best = d; }
        }
        CHECK(most >= 0, "no layout in %d tries: %s", TRIES, why);
        coverage_add(c, &best);
    }
}

void coverage_close(Coverage *c) { free(c->draw); }

/* ---- what is printed ---- */

static bool needed(int a, int b)
{
    const Value *v = &values[a], *other = &values[b];
    for (int n = 0; n < NEEDS; n++)
        if (v->needs[n].dimension == other->dimension && v->needs[n].least > other->size) return true;
    return false;
}

/* That the pair is impossible stands in the rows. */
static bool said(int a, int b)
{
    for (int i = 0; i < impossible_count; i++) {
        int x = value_named(impossible[i].a), y = value_named(impossible[i].b);
        if ((x == a && y == b) || (x == b && y == a)) return true;
    }
    return needed(a, b) || needed(b, a);
}

static int print_bad(const Coverage *c)
{
    char why[REFUSAL_MOST] = "";
    int bad = 0;
    Dice chance = { .key = 1 };
    Draw d;
    for (int a = 0; a < values_count; a++)
        for (int b = 0; b < a; b++) {
            if (one_dimension(a, b) || c->covered[a][b] > 0 || said(a, b)) continue;
            bool possible = c->possible[a][b] || draw_random(&d, &chance, a, b, TRIES, why);
            printf("no layout has %s and %s%s%s\n", values[a].name, values[b].name, possible ? "" : ": ", possible ? "" : why);
            bad++;
        }
    return bad;
}

int coverage_print(const Coverage *c)
{
    int pairs = 0, least[DIMENSIONS][DIMENSIONS];
    for (int i = 0; i < DIMENSIONS; i++)
        for (int j = 0; j < DIMENSIONS; j++) least[i][j] = c->count;
    for (int a = 0; a < values_count; a++)
        for (int b = 0; b < a; b++) {
            if (one_dimension(a, b) || !c->possible[a][b]) continue;
            int *fewest = &least[values[a].dimension][values[b].dimension];
            if (c->covered[a][b] < *fewest) *fewest = c->covered[a][b];
            pairs++;
        }
    printf("fewest of %d layouts with any pair of values of two dimensions, of %d pairs:\n%10s", c->count, pairs, "");
    for (int j = 0; j < DIMENSIONS - 1; j++) printf("%10s", dimension_names[j]);
    for (int i = 1; i < DIMENSIONS; i++) {
        printf("\n%10s", dimension_names[i]);
        for (int j = 0; j < i; j++) printf("%10d", least[i][j]);
    }
    printf("\n");
    return c->part ? 0 : print_bad(c);
}
