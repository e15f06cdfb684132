/* How much of a delay per message is hidden behind computation: overlap_delay [LAYERS]. Each message takes a quarter of the computation
 * of one layer longer. Prints, for ZeRO 1, 2, 3 and tensor parallelism, the seconds of a step without delay, with it and without
 * overlap, with both; and the part of the loss that overlap regains. To be run on an idle machine. */
#include "train/harness.h"

enum { STEPS = 5, TURNS = 3 };
typedef struct { const char *name; int tp, zero; double least; } Row;
static const Row rows[] = { { "ZeRO 1", 1, 1, 0.5 }, { "ZeRO 2", 1, 2, 0.5 }, { "ZeRO 3", 1, 3, 0.5 }, { "tp 2", 2, 0, 0.4 } };

static TrainConfig config_of(const Row *row, int layers)
{
    TrainConfig config = tiny_config(MODEL_GPT, "cpu", scratch_path("corpus"));
    config.model.layers = layers, config.model.hidden = 256, config.model.ffn = 1024, config.model.heads = 8, config.model.groups = 8;
    config.model.head_dim = 32, config.model.sequence = config.model.positions = 128, config.global = 2 * (3 - row->tp), config.micro = 2;
    config.model.hidden_dropout = config.model.attention_dropout = 0;
    config.head_chunk = 0, config.tp = row->tp, config.zero = row->zero;
    return config;
}

static int compare_doubles(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

/* The least seconds of a step. */
static double seconds(const Row *row, int layers, double delay, bool apart)
{
    double all[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        Job job = { .config = config_of(row, layers), .ranks = 2, .steps = STEPS, .delay = delay };
        job.config.no_overlap = apart;
        job_run(&job);
        qsort(job.lap, STEPS, sizeof *job.lap, compare_doubles);
        all[turn] = job.lap[STEPS / 2];
    }
    qsort(all, TURNS, sizeof *all, compare_doubles);
    return all[0];
}

int main(int argc, char **argv)
{
    int layers = argc > 1 ? atoi(argv[1]) : 8, bad = 0;
    corpus_make(scratch_path("corpus"), 61);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double none = seconds(&rows[i], layers, 0, false);
        double delay = none / layers / 4;                             /* forward and backward of a layer: 1 + 2 thirds */
        delay = rows[i].tp > 1 ? delay / 6 : delay / 2;                /* behind dW of half a layer; behind a backward or forward */
        double apart = seconds(&rows[i], layers, delay, true), beside = seconds(&rows[i], layers, delay, false);
        double regained = (apart - beside) / (apart - none);
        printf("%-7s %.4f s without delay; %.2f ms a message: %.4f s without overlap, %.4f s with it: %.0f%% regained (%.0f%% wanted)\n",
               rows[i].name, none, 1e3 * delay, apart, beside, 100 * regained, 100 * rows[i].least);
        bad += regained < rows[i].least;
    }
    return bad > 0;
}
