/* jotun train: pretrains a model on the ranks that the launcher or --ranks provides. Two options only look at
 * the plan of the run: --dry-run prints the memory that it needs, --draw-schedule its pipeline schedule. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/setup.h"
#include "cli/signals.h"
#include "plan/memory.h"
#include "plan/draw.h"
#include "train/loop.h"

typedef struct { TrainConfig config; const volatile sig_atomic_t *stop; } TrainingRun;

static Status on_rank(Transport *transport, void *context)
{
    const TrainingRun *run = context;
    return loop_run(&run->config, transport, run->stop);
}

static Status show(const Schedule *all, int stages, const char *svg)
{
    char *picture = svg ? draw_schedule_svg(all, stages) : draw_schedule(all, stages);
    Status status = svg ? file_write_whole(svg, picture, strlen(picture)) : OK;
    if (!svg) printf("%s", picture);
    free(picture);
    return status;
}

/* One schedule for each pipeline stage; they are drawn together, one row each. */
static Status draw(const TrainConfig *r, int world, const char *svg)
{
    Schedule all[64];
    int micros = (int)(r->global / r->micro / (world / (r->tp * r->cp * r->pp)));
    if (r->pp > 64) return fail(BAD_OPTION, "--draw-schedule draws at most 64 stages, not %d", r->pp);
    Status status = OK;
    int made = 0;
    for (; status == OK && made < r->pp; made++)
        status = schedule_make(&all[made], r->schedule, r->pp, made, r->chunks, micros);
    if (status == OK) status = show(all, r->pp, svg);
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

static Status train(Options *o, int argc, char **argv)
{
    Transport *mpi;
    TrainingRun run;
    TRY(setup_options(o, &mpi, FOR_TRAIN, argc, argv));
    TRY(setup_agree(mpi, setup_train_config(&run.config, o)));
    char tokenizer[1200];
    snprintf(tokenizer, sizeof tokenizer, "--tokenizer %s", run.config.tokenizer);
    TRY(setup_agree_on(mpi, tokenizer, "give all hosts the same file"));
    if (o->draw_schedule || o->schedule_svg || o->dry_run) return look(o, &run.config, mpi);
    /* Rank 0 alone opens the file. */
    bool first = !mpi || mpi->rank == 0;
    TRY(setup_agree(mpi, first && o->metrics ? output_directory("--metrics", o->metrics) : OK));
    /* A launcher forwards the signal to every rank; one of them is enough to say so. */
    run.stop = signals_catch(
        first ? "\njotun: stops after this step; the same signal again ends it at once\n" : "");
    return setup_run(o, mpi, on_rank, &run);
}

Status cmd_train(int argc, char **argv)
{
    Options o;
    Status status = train(&o, argc, argv);
    options_close(&o);
    return status;
}
