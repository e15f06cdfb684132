/* Layouts drawn from a printed seed, each against one rank: losses, gradient norms, in double weights too, within
 * the bounds of docs/numerics.md; bytes of every arena as the dry run said. Some are killed and resumed.
 *
 *     layouts [--seed S] [--count N] [--run N] [--only I]     draws N of a seed, runs the first ones, or one alone
 *     layouts ... --list                                      prints the options of each instead
 *     layouts ... --traffic FILE                              what each rank sent in a step, for traffic_check.py
 *
 * The matrix of pairs that the layouts cover is printed, and the program fails where a pair is left out. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "layouts/session.h"
#include "train/harness.h"

enum { SEED = 23, COUNT = 200, QUICK = 25, SANITIZED = 5, SECONDS = 120, RESUME_EVERY = 5 };
typedef struct { int seed, count, run, only; bool list; const char *traffic; } Arguments;

static bool layout_holds(Session *session, int number)
{
    const Draw *d = &session->coverage->draw[number];
    char words[WORDS_MOST], name[WORDS_MOST], folder[128], why[FAILURE_MOST];
    Result *result = result_new();
    draw_words(words, d, false);
    draw_name(name, d);
    snprintf(folder, sizeof folder, "%s/mine", scratch_folder());
    const Reference *one = session_reference(session, d);
    bool weights = draw_size(d, TYPE) == 0, resumes = number % RESUME_EVERY == 2;
    run_layout(result, &(LayoutRun){ .words = words, .data = session->data, .save = folder,
        .beside = weights ? one->folder : NULL, .steps = STEPS, .transport = draw_size(d, TRANSPORT),
        .seconds = session->seconds });
    const char *bad = session_judge(session, d, result, one->result, 0, why);
    if (!bad && resumes) bad = session_resume(session, number, result, folder, why);
    printf("%3d %s: %d ranks: %s%s\n", number, name, draw_ranks(d), bad ? bad : "holds",
           !bad && resumes ? ", resumes" : "");
    if (bad)
        printf("    again: %s --seed %d --count %d --only %d\n    options: %s\n", session->program, session->seed,
               session->coverage->count, number, words);
    fflush(stdout);
    if (session->traffic && !result->failure[0])
        fprintf(session->traffic, "layout %d %s\n%s", number, words, result->traffic);
    folder_remove(folder);
    result_free(result);
    return !bad;
}

static Arguments arguments_of(int argc, char **argv)
{
    Arguments a = { SEED, COUNT, turns(QUICK, SANITIZED), -1, false, NULL };
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

static void list(const Coverage *c, int most)
{
    char words[WORDS_MOST];
    for (int i = 0; i < c->count && i < most; i++) {
        draw_words(words, &c->draw[i], false);
        printf("%d %s\n", i, words);
    }
}

static int run_all(Session *session, const Arguments *a)
{
    int failed = 0, ran = 0;
    for (int i = 0; i < session->coverage->count; i++) {
        if (a->only >= 0 ? i != a->only : i >= a->run) continue;
        failed += !layout_holds(session, i);
        ran++;
    }
    session_print_worst(session);
    printf("%d layouts, %d of them killed and resumed, %d fail; %d runs of one rank\n", ran, session->resumed,
           failed, session->references);
    return failed;
}

int main(int argc, char **argv)
{
    static Session session;
    static char data[512];
    Coverage coverage;
    Arguments a = arguments_of(argc, argv);
    log_mute(true);
    coverage_draw(&coverage, (uint64_t)a.seed, a.count);
    if (a.list) list(&coverage, a.only >= 0 ? coverage.count : a.run);
    if (a.list) return 0;
    snprintf(data, sizeof data, "%s", scratch_path("corpus"));
    corpus_make(data, 257);
    session.coverage = &coverage;
    session.data = data;
    session.program = argv[0];
    session.seed = a.seed;
    session.seconds = turns(SECONDS, 10 * SECONDS);
    if (a.traffic) session.traffic = fopen(a.traffic, "w");
    printf("seed %d, %d layouts\n", a.seed, coverage.count);
    int bad = coverage_print(&coverage);
    bad += run_all(&session, &a);
    if (session.traffic) fclose(session.traffic);
    for (int i = 0; i < session.references; i++) result_free(session.reference[i].result);
    coverage_close(&coverage);
    folder_remove(scratch_folder());
    return bad ? 1 : 0;
}
