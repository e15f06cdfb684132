/* jotun train: pretrains a model on the ranks that the launcher or --ranks provides. Two options only look at
 * the plan of the run: --dry-run prints the memory that it needs, --draw-schedule its pipeline schedule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/generation/training_samples.h"
#include "cli/in_out.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "cli/signals.h"
#include "conf/rows.h"
#include "data/blend_spec.h"
#include "plan/memory.h"
#include "plan/draw.h"
#include "text/bytes.h"
#include "text/tokenizer.h"
#include "train/loop.h"

typedef struct { TrainConfig config; const volatile sig_atomic_t *stop; } TrainingRun;

static Status on_rank(Transport *transport, void *context)
{
    const TrainingRun *run = context;
    return loop_run(&run->config, transport, run->stop);
}

/* One schedule for each pipeline stage; they are drawn together, one row each. */
static Status draw(const TrainConfig *r, int world, const char *svg)
{
    Schedule all[64];
    int micros = (int)(r->global / r->micro / (world / (r->tp * r->cp * r->pp)));
    ScheduleShape shape = train_config_schedule(r, micros);
    if (r->pp > 64) return fail(BAD_OPTION, "--draw-schedule draws at most 64 stages, not %d", r->pp);
    Status status = OK;
    int made = 0;
    for (; status == OK && made < r->pp; made++)
        status = schedule_make(&all[made], &shape, made);
    char *picture = status != OK ? NULL : svg ? draw_schedule_svg(all, r->pp) : draw_schedule(all, r->pp);
    if (picture && svg)  status = file_write_whole(svg, picture, strlen(picture));
    if (picture && !svg) printf("%s", picture);
    free(picture);
    while (made > 0) schedule_free(&all[--made]);
    return status;
}

/* Neither needs other ranks, so that under MPI rank 0 does it and the others return. */
static Status look(const Options *o, const TrainConfig *config, Transport *mpi)
{
    Status status = OK;
    if (mpi && mpi->rank != 0) status = OK;
    else if (o->dry_run)       status = memory_show(config, (int)o->ranks, o->verbose);
    else                       status = draw(config, (int)o->ranks, o->schedule_svg);
    if (mpi) mpi->close(mpi);
    return status;
}

/* A token file's bytes or its index, or the path itself. */
static Status path_spared(const char *path, const char *output)
{
    static const char *const ending[] = { "", ".bin", ".idx", ".facts.json" };
    char file[1024];
    for (int i = 0; i < COUNT(ending); i++) {
        snprintf(file, sizeof file, "%s%s", path, ending[i]);
        TRY(input_spared(file, output));
    }
    return OK;
}

/* read: whether there is a list. One that cannot be read is refused, with its reason, where data are
 * opened. */
static Status list_spared(BlendSpec *list, Status read, const char *output)
{
    Status status = OK;
    if (read != OK) return OK;
    for (int i = 0; i < list->count && status == OK; i++)
        status = path_spared(list->part[i].prefix, output);
    blend_spec_close(list);
    return status;
}

/* What an option writes may be no file that another one names, nor a token file of a list. */
static Status inputs_spared(const Options *o, OptionIndex writes)
{
    const TextList *groups[] = { &o->train_parts, &o->valid_parts, &o->test_parts };
    const char *output = *(const char *const *)option_field_of(o, writes);
    BlendSpec list;
    for (OptionIndex i = 0; output && i < OPTIONS; i++) {
        const void *field = option_field_of(o, i);
        const TextList *paths = option_rows[i].kind == KIND_LIST ? field : NULL;
        const char *const *path = paths ? (const char *const *)paths->text : field;
        if (i == writes || !option_rows[i].path || !option_taken(i, FOR_TRAIN)) continue;
        for (int w = 0; w < (paths ? paths->count : *path != NULL); w++) TRY(path_spared(path[w], output));
    }
    if (!output) return OK;
    if (o->data_file_list) TRY(list_spared(&list, blend_spec_file(&list, o->data_file_list), output));
    for (int g = 0; g < COUNT(groups); g++)
        for (int i = 0; i < groups[g]->count; i++)
            TRY(list_spared(&list, blend_spec_group(&list, groups[g]->text[i]), output));
    return OK;
}

static Status train(Options *o, int argc, char **argv)
{
    Transport *mpi;
    TrainingRun run;
    TRY(setup_options(o, &mpi, FOR_TRAIN, argc, argv));
    Status status = setup_train_config(&run.config, o);
    if (status == OK) status = inputs_spared(o, OPTION_schedule_svg);
    if (status == OK) status = inputs_spared(o, OPTION_metrics);
    if (status == OK) status = inputs_spared(o, OPTION_profile);
    /* Rank 0 alone opens the file. */
    bool first = !mpi || mpi->rank == 0, looks = o->draw_schedule || o->schedule_svg || o->dry_run;
    if (status == OK && first && !looks && o->metrics) status = output_directory("--metrics", o->metrics);
    if (status == OK && first && !looks && o->profile) status = output_directory("--profile", o->profile);
    TRY(setup_agree(mpi, status));
    TRY(setup_device(&run.config, o, mpi));            /* <-> world; same on every rank */
    if (first && !looks && setup_is_foreign(FOR_TRAIN, argc, argv))           /* whose own runs are on GPUs */
        log_line("computes on %s", strcmp(run.config.device, "cuda") == 0 ? "GPUs" : "CPUs, not on GPUs");
    char tokenizer[1200];
    const TokenizerRecord *record = &run.config.tokenizer;
    snprintf(tokenizer, sizeof tokenizer, "--tokenizer %.900s (%s)", record->name ? record->name : "",
             record->fingerprint ? record->fingerprint : "");
    TRY(setup_agree_on(mpi, tokenizer, "give all hosts the same file"));
    TrainingSamples samples;
    TRY(setup_agree(mpi, training_samples_open(&samples, o, &run.config)));
    if (looks) {
        status = look(o, &run.config, mpi);
        training_samples_close(&samples);
        return status;
    }
    bool unnamed = o->source[OPTION_tokenizer].kind == SOURCE_DEFAULT && !o->mock_data;
    if (unnamed && run.config.model.vocabulary != BYTES_IDS)
        log_line("--tokenizer was not given: id 256 is taken for the end of a document, and checkpoints "
                 "record `bytes`; give the tokenizer that the tokens were made with, or none");
    /* A launcher forwards the signal to every rank; one of them is enough to say so. */
    run.stop = signals_catch(
        first ? "\njotun: stops after this step; the same signal again ends it at once\n" : "");
    /* For bits per byte in evaluations, which no run fails for the lack of. */
    Tokenizer t = { 0 };
    uint16_t *id_bytes = NULL;
    if (run.config.eval_iters > 0 && record->name && tokenizer_open(&t, setup_tokenizer_path(o)) == OK)
        id_bytes = tokenizer_id_bytes(&t);
    run.config.ids = t.vocabulary;
    run.config.id_bytes = id_bytes;
    tokenizer_close(&t);
    static char advice[1200];
    snprintf(advice, sizeof advice, "jotun: --load %.1100s resumes from its last checkpoint, or starts from "
             "new weights where it has none\n", run.config.save ? run.config.save : "");
    if (run.config.save) stop_world_advice(advice);
    status = setup_run(o, mpi, on_rank, &run);
    free(id_bytes);
    training_samples_close(&samples);
    return status;
}

Status cmd_train(int argc, char **argv)
{
    Options o;
    Status status = train(&o, argc, argv);
    options_close(&o);
    return status;
}
