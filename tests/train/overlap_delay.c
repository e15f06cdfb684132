/* How much of a delay per message is hidden behind computation that is real: overlap_delay [LAYERS]. Prints, for each row of
 * overlap_rows.h, the seconds of a step without delay, with it and without overlap, with both; and the part of the loss that overlap
 * regains. To be run on an idle machine; train.overlap_delay_test measures the same with computation of fixed times. */
#include "train/overlap_rows.h"

enum { STEPS = 5, TURNS = 3 };

static int compare_doubles(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

/* The least of some medians of the seconds of a step. */
static double seconds(const OverlapRow *row, int layers, double delay, bool apart)
{
    double least = INFINITY;
    for (int turn = 0; turn < TURNS; turn++) {
        Job job = { .config = overlap_config(row, layers, apart), .ranks = row->ranks, .steps = STEPS, .delay = delay };
        ModelConfig *m = &job.config.model;
        m->hidden = 256, m->ffn = m->expert_ffn = 1024, m->heads = 8, m->groups = 8, m->head_dim = 32, m->sequence = m->positions = 128;
        job_run(&job);
        qsort(job.lap, STEPS, sizeof *job.lap, compare_doubles);
        if (job.lap[STEPS / 2] < least) least = job.lap[STEPS / 2];
    }
    return least;
}

int main(int argc, char **argv)
{
    int layers = argc > 1 ? atoi(argv[1]) : 8, bad = 0;
    corpus_make(scratch_path("corpus"), 61);
    for (int i = 0; i < OVERLAP_ROWS; i++) {
        const OverlapRow *row = &overlap_rows[i];
        if (row->ranks > team_cores()) {
            printf("%-8s not measured: %d ranks need as many cores\n", row->name, row->ranks);
            continue;
        }
        double none = seconds(row, layers, 0, false), delay = overlap_delay(row, layers, none);
        double apart = seconds(row, layers, delay, true), beside = seconds(row, layers, delay, false);
        bad += overlap_print(row, row->least, delay, none, apart, beside);
    }
    return bad > 0;
}
