/* Layouts drawn from a printed seed, each against one rank: losses, gradient norms and weights within
 * the bounds of docs/numerics.md; bytes of every arena as the dry run said; in every type, weights that several ranks
 * hold equal to the bit, and those of 16 bits the rounded master weights. Some are killed and resumed.
 *
 *     layouts [--seed S] [--count N] [--run N] [--only I]     draws N of a seed, runs the first ones, or one alone;
 *             [--from F]                                      of the first ones those from number F on
 *             [--with VALUE]                                  or those with a value of values.c, such as soap
 *     layouts ... --double                                    in double instead of the types that were drawn, so that what
 *                                                             rounding hides is seen
 *     layouts ... --list [--resumed]                          prints the options of each instead, or of those that are
 *                                                             killed and resumed
 *     layouts ... --traffic FILE                              what each rank sent in a step, for traffic_check.py
 *     layouts [--seed S] --in-order N                         N random ones, a step of each on a transport that runs the
 *                                                             calls of a communicator strictly in order: none deadlocks
 *
 * Of the whole run those that are killed and resumed have every value between them, but of overlap and transport;
 * of a shorter one as many values as a third of them can have. The matrix of pairs that the layouts cover is printed,
 * and the program fails where a pair is left out. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/leaks.h"
#include "base/log.h"
#include "base/random.h"
#include "layouts/choices.h"
#include "layouts/session.h"
#include "train/harness.h"

#ifdef __SANITIZE_THREAD__
enum { SANITIZED = 2 };                        /* some 40 s each */
#else
enum { SANITIZED = 3 };
#endif
enum { SEED = 23, COUNT = 200, QUICK = 25, QUICK_DOUBLE = 8, SECONDS = 120 };
typedef struct { int seed, count, run, only, in_order, from, with; bool list, resumed, exact; const char *traffic; } Arguments;

/* For traffic_check.py: the lines of the run, and of that of one rank, or of few, the loads of experts. */
static void traffic_write(Session *session, int number, const char *words, const Result *mine, const Result *one)
{
    char copy[TRAFFIC_MOST], *rest;
    fprintf(session->traffic, "layout %d %s\n%s", number, words, mine->traffic);
    if (!one) return;
    snprintf(copy, sizeof copy, "%s", one->traffic);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, " load ")) fprintf(session->traffic, "one %s\n", strstr(line, " load ") + 6);
}

static bool layout_holds(Session *session, int number)
{
    const Draw *d = &session->coverage->draw[number];
    char words[WORDS_MOST], name[WORDS_MOST], folder[128], why[FAILURE_MOST];
    Result *result = result_new();
    draw_words(words, d, false);
    draw_name(name, d);
    snprintf(folder, sizeof folder, "%s/mine", scratch_folder());
    const Reference *one = session_reference(session, d);
    bool resumes = session->resumes[number];
    run_layout(result, &(LayoutRun){ .words = words, .data = session->data, .save = folder,
        .beside = one->folder, .choices = one->choices, .steps = STEPS, .transport = draw_size(d, TRANSPORT),
        .seconds = session->seconds });
    const char *bad = session_judge(session, d, result, one->result, 0, why);
    if (!bad && resumes) bad = session_resume(session, number, one, result, folder, why);
    printf("%3d %s: %d ranks: %s%s\n", number, name, draw_ranks(d), bad ? bad : "holds",
           !bad && resumes ? ", resumes" : "");
    if (bad)
        printf("    again: %s --seed %d --count %d --only %d\n    options: %s\n", session->program, session->seed,
               session->coverage->count, number, words);
    fflush(stdout);
    if (session->traffic && !result->failure[0])
        traffic_write(session, number, words, result, draw_size(d, TYPE) == 0 ? one->result : NULL);
    folder_remove(folder);
    result_free(result);
    return !bad;
}

/* Whether layout i of the seed, of all that can be, makes three steps on a transport that is strictly in order: by then
 * optimizers have renewed what they renew each second step, for which memory is. */
static bool in_order_holds(Session *session, uint64_t seed, int i)
{
    Dice chance = { .key = random_mix(random_key(seed, "in order"), (uint64_t)i) };
    char words[WORDS_MOST], why[REFUSAL_MOST];
    Draw d;
    Result *result = result_new();
    CHECK(draw_random(&d, &chance, value_named("in-order"), -1, 1000, why), "no layout in 1000 tries: %s", why);
    draw_words(words, &d, false);
    run_layout(result, &(LayoutRun){ .words = words, .data = session->data, .steps = 3, .transport = draw_size(&d, TRANSPORT),
        .seconds = session->seconds });
    bool holds = !result->failure[0];
    if (!holds)
        printf("%d: %s\n    again: %s --seed %d --in-order 1 --only %d\n    options: %s\n", i, result->failure,
               session->program, session->seed, i, words);
    result_free(result);
    return holds;
}

static int run_in_order(Session *session, const Arguments *a)
{
    int failed = 0;
    if (a->only >= 0) return !in_order_holds(session, (uint64_t)a->seed, a->only);
    for (int i = 0; i < a->in_order; i++) failed += !in_order_holds(session, (uint64_t)a->seed, i);
    printf("seed %d: %d random layouts and schedules made a step on a transport strictly in order, %d of them did "
           "not end or failed\n", a->seed, a->in_order, failed);
    return failed;
}

static Arguments arguments_of(int argc, char **argv)
{
    Arguments a = { SEED, COUNT, turns(QUICK, SANITIZED), -1, 0, 0, -1, false, false, false, NULL };
    if (getenv("JOTUN_FULL")) a.run = COUNT;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if      (!strcmp(argv[i], "--list"))    a.list = true;
        else if (!strcmp(argv[i], "--resumed")) a.resumed = true;
        else if (!strcmp(argv[i], "--double"))  a.exact = true, a.run = a.run == QUICK ? QUICK_DOUBLE : a.run;
        else if (!strcmp(argv[i], "--seed"))    a.seed  = atoi(value), i++;
        else if (!strcmp(argv[i], "--count"))   a.count = atoi(value), i++;
        else if (!strcmp(argv[i], "--run"))     a.run   = atoi(value), i++;
        else if (!strcmp(argv[i], "--from"))    a.from  = atoi(value), i++;
        else if (!strcmp(argv[i], "--only"))    a.only  = atoi(value), i++;
        else if (!strcmp(argv[i], "--in-order")) a.in_order = atoi(value), i++;
        else if (!strcmp(argv[i], "--traffic")) a.traffic = value, i++;
        else if (!strcmp(argv[i], "--with") && (a.with = value_named(value)) >= 0) i++;
        else { fprintf(stderr, "layouts: %s %s is not known\n", argv[i], value); exit(2); }
    }
    return a;
}

static void list(const Coverage *c, const Arguments *a, const bool *resumes)
{
    char words[WORDS_MOST];
    for (int i = 0; i < c->count && i < (a->only < 0 ? a->run : c->count); i++) {
        if (a->resumed && a->only < 0 && !resumes[i]) continue;
        draw_words(words, &c->draw[i], false);
        printf("%d %s\n", i, words);
    }
}

static bool chosen(const Coverage *c, const Arguments *a, int i)
{
    if (a->only >= 0) return i == a->only;
    bool has = a->with < 0 || c->draw[i].value[values[a->with].dimension] == a->with;
    return has && i >= a->from && i < a->run;
}

static int run_all(Session *session, const Arguments *a)
{
    int failed = 0, ran = 0;
    for (int i = 0; i < session->coverage->count; i++) {
        if (!chosen(session->coverage, a, i)) continue;
        failed += !layout_holds(session, i);
        ran++;
    }
    session_print_worst(session);
    printf("%d layouts, %d of them killed and resumed, %d fail; %d runs of one rank\n", ran, session->resumed,
           failed, session->references);
    return failed;
}

/* Under AddressSanitizer a run that leaks must fail for it. */
static int leaks_missed(Session *session)
{
    char words[WORDS_MOST];
    Result *result = result_new();
    draw_words(words, &session->coverage->draw[0], true);
    run_layout(result, &(LayoutRun){ .words = words, .data = session->data, .steps = 1, .leaks = true,
        .seconds = session->seconds });
    bool told = !strcmp(result->failure, LEAKS_TOLD);
    if (!told) printf("a run that leaks is not told: %s\n", result->failure[0] ? result->failure : "it succeeds");
    result_free(result);
    return !told;
}

/* What stands in the way of success: pairs that no layout has, values that no layout resumes, layouts that fail. */
static int run_drawn(Session *session, const Arguments *a, int missing)
{
    corpus_make(session->data, 257);
    if (a->traffic) session->traffic = fopen(a->traffic, "w");
    printf("seed %d, %d layouts\n", a->seed, session->coverage->count);
    int bad = coverage_print(session->coverage);
    if (a->only < 0) printf("%d values are in no layout that is resumed\n", missing);
    if (a->run >= session->coverage->count && a->with < 0 && !session->coverage->part) bad += missing;
    if (LEAKS_SEEN && a->only < 0) bad += leaks_missed(session);
    bad += run_all(session, a);
    if (session->traffic) fclose(session->traffic);
    for (int i = 0; i < session->references; i++) {
        result_free(session->reference[i].result);
        choices_free(session->reference[i].choices);
    }
    return bad;
}

int main(int argc, char **argv)
{
    static Session session;
    static char data[512];
    Coverage coverage;
    Arguments a = arguments_of(argc, argv);
    log_mute(true);
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    session.data = data;
    session.program = argv[0];
    session.seed = a.seed;
    session.seconds = turns(SECONDS, 10 * SECONDS);
    if (a.in_order > 0) {
        corpus_make(data, 257);
        int failed = run_in_order(&session, &a);
        folder_remove(scratch_folder());
        return failed ? 1 : 0;
    }
    coverage_draw(&coverage, (uint64_t)a.seed, a.count, a.only < 0 && !a.list ? turns(INT_MAX, a.run) : INT_MAX);
    for (int i = 0; a.exact && i < coverage.count; i++) coverage.draw[i].value[TYPE] = value_named("double");
    session.coverage = &coverage;
    session.resumes = calloc((size_t)coverage.count, sizeof *session.resumes);
    CHECK(session.resumes, "no memory");
    int missing = a.only < 0 ? session_choose_resumed(&session, a.run) : 0;
    if (a.only >= 0 && a.only < coverage.count) session.resumes[a.only] = true;
    int bad = 0;
    if (a.list) list(&coverage, &a, session.resumes);
    else bad = run_drawn(&session, &a, missing);
    free(session.resumes);
    coverage_close(&coverage);
    folder_remove(scratch_folder());
    return bad ? 1 : 0;
}
