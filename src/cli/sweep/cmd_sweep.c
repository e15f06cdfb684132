/* jotun sweep: runs of jotun train that differ in a few options, and what their losses say: a scaling law
 * over sizes, or the best value of an option. */
#include <stdlib.h>
#include <unistd.h>
#include "base/log.h"
#include "cli/command.h"
#include "cli/signals.h"
#include "cli/sweep/sweep.h"

static Status failed(const Sweep *sweep)
{
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) count += sweep->run[i].state == SWEEP_FAILED;
    if (!count) return OK;
    return fail(BAD_OPTION, "%d of %d runs failed, as the table says; the same command tries them again",
                count, sweep->runs);
}

static Status sweep_all(Sweep *sweep)
{
    TRY(sweep_plan(sweep));
    if (sweep->own->sweep_dry) {
        TRY(sweep_state_read(sweep));
        sweep_show_plan(sweep);
        return OK;
    }
    const volatile sig_atomic_t *stop = signals_catch(
        "\njotun: the runs stop after their steps and save; the same signal again ends them at once\n");
    TRY(sweep_lock(sweep, stop));
    TRY(sweep_state_read(sweep));
    sweep_show_plan(sweep);
    log_line("%d run%s at once", sweep->at_once, sweep->at_once == 1 ? "" : "s");
    TRY(sweep_execute(sweep, stop));
    TRY(sweep_results(sweep));
    TRY(sweep_findings(sweep));
    return failed(sweep);
}

static void sweep_close(Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++) sweep_run_free(&sweep->run[i]);
    for (int a = 0; a < sweep->axes; a++)
        for (int v = 0; v < sweep->axis[a].count; v++) free((char *)sweep->axis[a].value[v]);
    free(sweep->run);
    word_list_free(&sweep->word);
    options_close(sweep->own);
    free(sweep->own);
    if (sweep->lock >= 0) close(sweep->lock);
}

Status cmd_sweep(int argc, char **argv)
{
    Sweep sweep;
    Status status = sweep_words(&sweep, argc, argv);
    if (status == OK) status = sweep_all(&sweep);
    sweep_close(&sweep);
    return status;
}
