#ifndef TESTS_TRAIN_COMPARE_H
#define TESTS_TRAIN_COMPARE_H
/* A run under some layout against one rank, and a run that was interrupted against one that was not. */
#include "train/harness.h"

/* A configuration with its layout. */
typedef struct { const char *name; TrainConfig config; int ranks; } Setup;

/* The steps of the configuration on one rank; `alone` becomes its checkpoint. The loss must fall by `learned`
 * over all steps. */
static inline Job one_run(TrainConfig config, const char *word, int steps, double learned, char alone[512])
{
    Job one = { .config = config, .ranks = 1, .steps = steps, .save = alone };
    snprintf(alone, 512, "%s/%s-one", scratch_folder(), word);
    one.config.eval_iters = 2;
    job_run(&one);
    assert_true(one.loss[steps - 1] < one.loss[0] - learned);
    printf("%s, one rank: loss %.6f -> %.6f, valid %.6f -> %.6f\n", word, one.loss[0], one.loss[steps - 1],
           one.first_valid, one.valid);
    return one;
}

/* The same steps under the layout: losses within 1e-12 of those of one rank, gradient norms and weights within
 * 1e-11. */
static inline void one_compare(const Job *one, const Setup *setup, const char *word)
{
    static int number;                                  /* of the folder */
    char folder[512], worst[128] = "";
    Job job = { .config = setup->config, .ranks = setup->ranks, .steps = one->steps, .save = folder };
    snprintf(folder, sizeof folder, "%s/%s-%d", scratch_folder(), word, number++);
    job.config.eval_iters = 2;
    job_run(&job);
    double most = fabs(job.valid - one->valid), norms = 0;
    for (int s = 0; s < one->steps; s++) most  = larger(most, fabs(job.loss[s] - one->loss[s]));
    for (int s = 0; s < one->steps; s++) norms = larger(norms, fabs(job.norm[s] - one->norm[s]));
    double weights = checkpoints_differ(one->save, folder, one->steps, false, worst);
    printf("%-8s %-31s losses off by %.1e, norms by %.1e, weights by %.1e (%s)\n", word, setup->name, most, norms,
           weights, worst);
    if (!(most <= 1e-12)) fail_msg("%s %s: losses differ by %g", word, setup->name, most);
    if (!(norms <= 1e-11)) fail_msg("%s %s: gradient norms differ by %g", word, setup->name, norms);
    if (!(weights <= 1e-11)) fail_msg("%s %s: %s differs by %g", word, setup->name, worst, weights);
}

static inline Job setup_job(const Setup *setup, int steps, const char *save, const char *load)
{
    return (Job){ .config = setup->config, .ranks = setup->ranks, .steps = steps, .save = save, .load = load };
}

/* A run of 2 `half` steps under `from`, and one that is interrupted in the middle. Resumed under `from` it has
 * the same bits, states too. Under each of `into` what is loaded and saved again has the same bits, and losses
 * go on within `losses_within`, weights and states within `states_within`. */
static inline void resume_compare(const char *word, const Setup *from, const Setup *into, int count, int half,
                                  double losses_within, double states_within)
{
    char whole[512], middle[512], again[512], worst[128] = "";
    snprintf(whole,  sizeof whole,  "%s/%s-whole",  scratch_folder(), word);
    snprintf(middle, sizeof middle, "%s/%s-middle", scratch_folder(), word);
    Job straight = setup_job(from, 2 * half, whole, NULL), first = setup_job(from, half, middle, NULL);
    job_run(&straight);
    job_run(&first);
    for (int i = -1; i < count; i++) {
        const Setup *to = i < 0 ? from : &into[i];
        snprintf(again, sizeof again, "%s/%s-again%d", scratch_folder(), word, i + 1);
        Job copy = setup_job(to, 0, again, middle), rest = setup_job(to, half, again, middle);
        job_run(&copy);
        double off = checkpoints_differ(middle, again, half, true, worst), most = 0;
        if (off != 0) fail_msg("%s from %s into %s: %s differs by %g", word, from->name, to->name, worst, off);
        job_run(&rest);
        for (int s = 0; s < half; s++) most = larger(most, fabs(rest.loss[s] - straight.loss[half + s]));
        double states = checkpoints_differ(whole, again, 2 * half, true, worst);
        printf("%s from %s into %-30s states to the bit, losses off by %.1e, states by %.1e\n", word, from->name,
               i < 0 ? "itself" : to->name, most, states);
        if (!(most <= (i < 0 ? 0 : losses_within)))
            fail_msg("%s from %s into %s: losses differ by %g", word, from->name, to->name, most);
        if (!(states <= (i < 0 ? 0 : states_within)))
            fail_msg("%s from %s into %s: %s differs by %g", word, from->name, to->name, worst, states);
    }
}
#endif
