/* Layouts drawn from a printed seed, each against one rank: losses, gradient norms, in double weights too, within
 * the bounds of docs/numerics.md; bytes of every arena as the dry run said.
 *
 *     layouts [--seed S] [--count N] [--run N] [--only I]     draws N of a seed, runs the first ones, or one alone
 *     layouts ... --list                                      prints the options of each instead
 *     layouts ... --traffic FILE                              what each rank sent in a step, for traffic.py
 *
 * The matrix of pairs that the layouts cover is printed, and the program fails where a pair is left out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "layouts/coverage.h"
#include "layouts/run.h"
#include "train/harness.h"

/* Absolute of losses (about 5.5), relative of gradient norms; in the first step, and after updates */
typedef struct { double loss, norm, later_loss, later_norm, weights; } Within;
static const Within within[] = {            /* by draw_size of TYPE */
    { 1e-12, 1e-12, 1e-12, 1e-11, 1e-11 },
    { 2e-6,  1e-5,  2e-6,  1e-5,  INFINITY },
    { 1e-3,  3e-2,  2e-3,  3e-2,  INFINITY },
};

enum { SEED = 23, COUNT = 200, REFERENCES = 400, SECONDS = 120 };
typedef struct { int seed, count, run, only; bool list; const char *traffic; } Arguments;

/* Runs of one rank, by their options */
typedef struct { char words[WORDS_MOST], folder[128]; Result *result; } Reference;
typedef struct {
    const char *data, *program;
    int   seconds;
    Reference reference[REFERENCES];
    int   references;
    FILE *traffic;
    double worst[3][5];                     /* of each type, as in Within, for the last line */
} Test;

static const Reference *reference_of(Test *test, const Draw *d)
{
    char words[WORDS_MOST];
    draw_words(words, d, true);
    for (int i = 0; i < test->references; i++)
        if (!strcmp(test->reference[i].words, words)) return &test->reference[i];
    CHECK(test->references < REFERENCES, "%d runs of one rank", REFERENCES);
    Reference *r = &test->reference[test->references++];
    memcpy(r->words, words, sizeof words);
    snprintf(r->folder, sizeof r->folder, "%s/one%d", scratch_folder(), test->references);
    r->result = result_new();
    CHECK(r->result, "no memory");
    run_layout(r->result, &(LayoutRun){ .words = r->words, .data = test->data, .save = r->folder, .steps = STEPS, .seconds = test->seconds });
    return r;
}

/* ---- comparing ---- */

static double fmaxnan(double a, double b) { return isnan(b) || b > a ? b : a; }

static void differences(double off[5], const Result *a, const Result *b)
{
    for (int i = 0; i < 5; i++) off[i] = 0;
    for (int s = 0; s < STEPS; s++) {
        int later = s > 0 ? 2 : 0;
        off[later]     = fmaxnan(off[later], fabs(a->loss[s] - b->loss[s]));
        off[later + 1] = fmaxnan(off[later + 1], fabs(a->norm[s] / b->norm[s] - 1));
    }
    off[2] = fmaxnan(off[2], fabs(a->valid - b->valid));
    off[4] = a->weights;
}

/* What is out of bounds, in `why`; NULL: nothing */
static const char *judge(char why[FAILURE_MOST], Test *test, const Draw *d, const Result *mine, const Result *one)
{
    static const char *const what[] = { "loss of step 1", "gradient norm of step 1", "loss after updates", "gradient norm after updates", "weight" };
    int type = draw_size(d, TYPE);
    const Within *w = &within[type];
    double bound[5] = { w->loss, w->norm, w->later_loss, w->later_norm, w->weights }, off[5];
    if (one->failure[0])  return snprintf(why, FAILURE_MOST, "one rank: %.500s", one->failure), why;
    if (mine->failure[0]) return snprintf(why, FAILURE_MOST, "%.500s", mine->failure), why;
    differences(off, mine, one);
    for (int i = 0; i < 5; i++) test->worst[type][i] = fmaxnan(test->worst[type][i], off[i]);
    for (int i = 0; i < 5; i++)
        if (!(off[i] <= bound[i]))
            return snprintf(why, FAILURE_MOST, "%s differs by %g, not %g (%s)", what[i], off[i], bound[i], i == 4 ? mine->worst : "against one rank"), why;
    return NULL;
}

static void traffic_write(Test *test, int number, const Result *result)
{
    const char *line = result->traffic;
    for (size_t n; test->traffic && *line; line += n + 1) {
        n = strcspn(line, "\n");
        fprintf(test->traffic, "%d %.*s\n", number, (int)n, line);
    }
}

static bool layout_holds(Test *test, const Arguments *arguments, const Draw *d, int number)
{
    char words[WORDS_MOST], name[WORDS_MOST], folder[128], why[FAILURE_MOST];
    Result *result = result_new();
    CHECK(result, "no memory");
    draw_words(words, d, false);
    draw_name(name, d);
    snprintf(folder, sizeof folder, "%s/mine", scratch_folder());
    const Reference *one = reference_of(test, d);
    LayoutRun what = { .words = words, .data = test->data, .save = folder, .beside = one->folder, .steps = STEPS, .seconds = test->seconds };
    if (draw_size(d, TYPE) != 0) what.beside = NULL;
    run_layout(result, &what);
    const char *bad = judge(why, test, d, result, one->result);
    printf("%3d %s: %d ranks: %s\n", number, name, draw_ranks(d), bad ? bad : "holds");
    if (bad) printf("    again: %s --seed %d --count %d --only %d\n    options: %s\n", test->program, arguments->seed, arguments->count, number, words);
    fflush(stdout);
    traffic_write(test, number, result);
    folder_remove(folder);
    result_free(result);
    return !bad;
}

/* ---- the whole ---- */

static Arguments arguments_of(int argc, char **argv)
{
    Arguments a = { SEED, COUNT, turns(25, 5), -1, false, NULL };
    if (getenv("JOTUN_FULL")) a.run = COUNT;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if      (!strcmp(argv[i], "--list"))    a.list = true;
        else if (!strcmp(argv[i], "--seed"))    a.seed  = atoi(value), i++;
        else if (!strcmp(argv[i], "--count"))   a.count = atoi(value), i++;
        else if (!strcmp(argv[i], "--run"))     a.run   = atoi(value), i++;
        else if (!strcmp(argv[i], "--only"))    a.only  = atoi(value), i++;
        else if (!strcmp(argv[i], "--traffic")) a.traffic = value, i++;
        else { fprintf(stderr, "layouts: %s is not known\n", argv[i]); exit(2); }
    }
    return a;
}

static void list(const Coverage *c)
{
    char words[WORDS_MOST];
    for (int i = 0; i < c->count; i++) {
        draw_words(words, &c->draw[i], false);
        printf("%d %d %s\n", i, draw_ranks(&c->draw[i]), words);
    }
}

static int run_all(Test *test, const Arguments *arguments, const Coverage *c)
{
    int failed = 0, ran = 0;
    for (int i = 0; i < c->count; i++) {
        if (arguments->only >= 0 ? i != arguments->only : i >= arguments->run) continue;
        failed += !layout_holds(test, arguments, &c->draw[i], i);
        ran++;
    }
    for (int type = 0; type < 3; type++)
        printf("%-6s off by at most: loss %.1e, norm %.1e; after updates loss %.1e, norm %.1e, weights %.1e\n",
               (const char *[]){ "double", "fp32", "bf16" }[type], test->worst[type][0], test->worst[type][1],
               test->worst[type][2], test->worst[type][3], test->worst[type][4]);
    printf("%d layouts, %d of them fail, %d runs of one rank\n", ran, failed, test->references);
    return failed;
}

int main(int argc, char **argv)
{
    static Test test;
    Coverage coverage;
    Arguments arguments = arguments_of(argc, argv);
    log_mute(true);
    coverage_draw(&coverage, (uint64_t)arguments.seed, arguments.count);
    if (arguments.list) { list(&coverage); return 0; }
    char data[256];
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    corpus_make(data, 257);
    test.data = data;
    test.program = argv[0];
    test.seconds = turns(SECONDS, 10 * SECONDS);
    test.traffic = arguments.traffic ? fopen(arguments.traffic, "w") : NULL;
    printf("seed %d, %d layouts\n", arguments.seed, coverage.count);
    int bad = coverage_print(&coverage);
    bad += run_all(&test, &arguments, &coverage);
    if (test.traffic) fclose(test.traffic);
    for (int i = 0; i < test.references; i++) result_free(test.reference[i].result);
    coverage_close(&coverage);
    folder_remove(scratch_folder());
    return bad ? 1 : 0;
}
