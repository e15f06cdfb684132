/* The part of `jotun data info` that prints what a run with the given --data-path options would read. It
 * measures the datasets with the same functions as a run, but writes no indices. */
#include "cli/data_run.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/log.h"
#include "cli/setup/setup.h"

bool data_run_asked(const Options *o)
{
    return o->data_path.count || o->train_data_path.count || o->valid_data_path.count ||
           o->test_data_path.count || o->data_file_list || o->train_parts.count || o->train_parts_file;
}

static void part_show(const BlendPart *part, bool weighted, const Order *order)
{
    char weight[32] = "";
    const OrderPlan *p = &order->plan;
    if (weighted) snprintf(weight, sizeof weight, "weight %g, ", part->weight);
    printf("  %s%s%s%s: %s%" PRId64 " tokens per epoch, %" PRId64 " epoch%s%s, %" PRId64 " samples\n",
           part->prefix, part->corpus ? " (" : "", part->corpus ? part->corpus : "", part->corpus ? ")" : "",
           weight, p->tokens, p->epochs,
           p->epochs == 1 ? "" : "s", p->separate ? ", the last one shuffled separately" : "", p->samples);
}

static void split_show(const Datasets *datasets, int set, int64_t sequence)
{
    char bytes[24];
    const Blend *b = &datasets->blend[set];
    const DatasetFiles *files = datasets_files(datasets, set);
    int64_t wanted = datasets->spec.wanted[set] < 0 ? b->samples : datasets->spec.wanted[set];
    /* The order `jotun` computes the index of a sample instead of storing it. */
    double stored = datasets->spec.rules.order == ORDER_JOTUN ? 0 : (double)blend_bytes(b);
    printf("%-10s %" PRId64 " samples, %" PRId64 " tokens; %s of indices\n", split_name(set_split(set)),
           wanted,
           wanted * sequence, log_bytes(bytes, stored));
    for (int i = 0; i < files->list.count; i++)
        part_show(&files->list.part[i], files->list.weighted, &b->order[i]);
}

/* A split without data is reported but is no error, because a run may never read it. */
static void split_measure(Datasets *datasets, int set, const LoaderConfig *shape)
{
    if (!datasets_has(&datasets->spec.rules, set)) return;
    if (datasets_measure(datasets, set, shape) == OK) split_show(datasets, set, shape->sequence);
    else printf("%-10s nothing: %s\n", split_name(set_split(set)), fail_text());
}

/* Counts the samples as a run does. Without --train-iters or --eval-interval the length of a run is unknown,
 * and one epoch of the split is counted. */
static void samples_count(DatasetsPlan *spec, const Options *o)
{
    int64_t batch = o->global_batch ? o->global_batch : 1;
    int64_t evaluations = o->eval_interval ? o->train_iters / o->eval_interval + 1 : 1;
    int64_t evaluated = o->eval_global_batch ? o->eval_global_batch : batch;
    int64_t evaluation = o->eval_interval ? o->eval_iters * evaluated : 0;
    int64_t train = o->train_samples ? o->train_samples : o->train_iters * batch;
    bool whole = !evaluation || o->full_validation;
    spec->wanted[SPLIT_TRAIN] = train ? train : ORDER_ONE_EPOCH;
    spec->wanted[SPLIT_VALID] = whole ? ORDER_ONE_EPOCH : evaluations * evaluation;
    for (int set = SPLITS; set < DATA_SETS; set++) spec->wanted[set] = spec->wanted[SPLIT_VALID];
    spec->wanted[SPLIT_TEST]  = evaluation ? evaluation : ORDER_ONE_EPOCH;
}

Status data_run_show(Options *o)
{
    Datasets datasets;
    TRY(options_derive(o));
    TRY(options_validate(o));
    DatasetsPlan spec = { .split = o->split };
    TRY(setup_datasets(&spec.rules, o));
    LoaderConfig shape = { .sequence = o->sequence, .micro = 1, .global = 1, .dp = 1, .cp = 1,
                           .seed = (uint64_t)o->seed, .eod = -1 };
    samples_count(&spec, o);
    TRY(datasets_open(&datasets, &spec));
    printf("order      %s, seed %" PRId64 ", samples of %" PRId64 " tokens\n", o->data_order.word, o->seed,
           o->sequence);
    for (int set = 0; set < DATA_SETS; set++) split_measure(&datasets, set, &shape);
    datasets_close(&datasets);
    return OK;
}
