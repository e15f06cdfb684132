#include <stdlib.h>
#include "cli/command.h"
#include "cli/setup.h"
#include "plan/memory.h"
#include "plan/draw.h"
#include "train/loop.h"

static Status on_rank(Transport *transport, void *context) { return loop_run(context, transport); }

static Status draw(const Recipe *r, int world)
{
    Schedule all[64];
    int micros = (int)(r->global / r->micro / (world / (r->tp * r->cp * r->pp)));
    if (r->pp > 64) return fail(BAD_OPTION, "--draw-schedule draws at most 64 stages, not %d", r->pp);
    Status status = OK;
    int made = 0;
    for (; status == OK && made < r->pp; made++) status = schedule_make(&all[made], r->schedule, r->pp, made, r->chunks, micros);
    if (status == OK) {
        char *picture = draw_schedule(all, r->pp);
        printf("%s", picture);
        free(picture);
    }
    while (made > 0) schedule_free(&all[--made]);
    return status;
}

static Status train(Options *o, int argc, char **argv)
{
    Transport *mpi;
    Recipe recipe;
    char json[8192];
    TRY(setup_options(o, &mpi, FOR_TRAIN, argc, argv));
    TRY(setup_recipe(&recipe, o, json));
    if (o->draw_schedule) return draw(&recipe, (int)o->ranks);
    if (o->dry_run) return memory_show(&recipe, (int)o->ranks);
    loop_catch_signals();
    return setup_run(o, mpi, on_rank, &recipe);
}

Status cmd_train(int argc, char **argv)
{
    Options o;
    Status status = train(&o, argc, argv);
    if (status == INTERRUPTED) status_signal(loop_signal());
    options_close(&o);
    return status;
}
