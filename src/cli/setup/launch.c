/* Where ranks start: the ranks of a launcher, threads of this process, and what they agree on first. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/log.h"
#include "base/team.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "comm/broadcast.h"
#include "convert/weights/foreign_weights.h"
#include "train/trainer_checkpoint.h"

Status setup_agree(Transport *mpi, Status mine)
{
    if (!mpi) return mine;
    Status status = agree_at_start(mpi, mine);
    if (status != OK) mpi->close(mpi);
    return status;
}

Status setup_agree_on(Transport *mpi, const char *mine, const char *what_to_do)
{
    if (!mpi) return OK;
    Status status = agree_on_text_at_start(mpi, mine, what_to_do);
    if (status != OK) mpi->close(mpi);
    return status;
}

/* Options decide which collectives a rank enters, so that ranks with different ones would wait for ever, or
 * train with different numbers. Other options come from the environment of one host, for example. */
static Status agree_on_options(const Options *o, Transport *mpi)
{
    char *text = NULL;
    size_t bytes;
    if (!mpi) return OK;
    FILE *out = open_memstream(&text, &bytes);
    if (out) options_show_common(out, o, AGREE_SHOWN);
    bool whole = out && fclose(out) == 0;
    Status status = setup_agree(mpi, whole ? OK : fail(NO_MEMORY, "no memory for the options as text"));
    if (status == OK) status = setup_agree_on(mpi, text, "give all ranks the same options");
    free(text);
    return status;
}

/* The ranks that a preset of --model was published with. */
static bool ranks_of_preset(const Options *o)
{
    const OptionSource *ranks = &o->source[OPTION_ranks];
    return ranks->kind == SOURCE_PRESET && !strncmp(ranks->from, "--model ", 8);
}

/* The launcher's ranks count as given by nobody, so that --ranks can contradict them only with a message. */
static Status take_ranks(Options *o, const Transport *mpi)
{
    if (mpi && ranks_of_preset(o)) o->source[OPTION_ranks].kind = SOURCE_NOTHING;
    if (mpi) options_fill(o, OPTION_ranks, mpi->size, "the launcher");
    if (!mpi || o->ranks == mpi->size) return OK;
    return fail(BAD_OPTION, "--ranks %lld, but the launcher started %d; leave --ranks out",
                (long long)o->ranks, mpi->size);
}

/* A rank without MPI cannot agree with the others, so it prints its own message. */
static Status unagreed(Status status)
{
    char host[64] = "";
    if (transport_launcher_rank() == 0) return status;
    log_mute(false);
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");
    return fail_prefix(status, "rank %d on %s: ", transport_launcher_rank(), host);
}

/* Other ranks may have a command and wait for this one. Without MPI rank 0 writes it, since what is wrong is
 * almost always wrong on all. */
Status setup_refused(Status status, int argc, char **argv)
{
    enum { SECONDS = 600 };                     /* the default of --watchdog-seconds */
    Failure failure = { 0 };
    Transport *mpi = NULL;
    if (!transport_launcher()) return status;
    failure_keep(&failure, status);
    log_mute(transport_launcher_rank() != 0);
    Status opened = transport_open(&mpi, SECONDS, 0, &argc, &argv);
    status = failure_report(&failure);
    return opened == OK ? setup_agree(mpi, status) : status;
}

/* Rank 0 reads the files of --config for all. A failure of one rank is returned on all; one whose command is
 * refused takes part by setup_agree. */
static Status send_configs(char **packed, size_t *bytes, const Options *o, Transport *mpi, Status status)
{
    if (status == OK && mpi->rank == 0) status = options_config_texts(packed, bytes, o);
    status = broadcast_bytes_at_start(mpi, status, packed, bytes);
    if (status != OK) free(*packed), mpi->close(mpi);
    return status;
}

/* What was parsed before knew no file, and so is parsed again. */
static Status parse_again(Options *o, ConfigTexts texts, AgptRun *run, CommandSet command, int argc,
                          char **argv)
{
    options_close(o);
    Status status = setup_parse_found(o, command, texts, run, argc, argv);
    return status == OK ? options_needed(o) : status;
}

/* Variables of a script mean what the machine and its files say: rank 0 looks, and the others take what it
 * has found. */
static Status parse_found(Options *o, ConfigTexts texts, CommandSet command, int argc, char **argv,
                          Transport *mpi)
{
    AgptRun run    = { .known = false };
    char   *found  = NULL;
    size_t  bytes  = sizeof run;
    Status  status = OK;
    if (mpi->rank == 0) {
        status = parse_again(o, texts, &run, command, argc, argv);
        if (status == OK && !(found = malloc(bytes)))
            status = fail(NO_MEMORY, "no memory for %zu bytes", bytes);
        run.known = true;
        if (status == OK) memcpy(found, &run, bytes);
    }
    status = broadcast_bytes_at_start(mpi, status, &found, &bytes);                /* <-> world: broadcast */
    if (status == OK) memcpy(&run, found, sizeof run);
    if (status == OK && mpi->rank != 0) status = parse_again(o, texts, &run, command, argc, argv);
    free(found);
    return status;
}

/* What another program's checkpoint says of its model: its config and headers are read by rank 0. */
static Status read_foreign(Options *o, Transport *mpi, Status status)
{
    char  *packed = NULL;
    size_t bytes  = 0;
    if (status == OK) status = setup_continue(o);
    const char *folder = status == OK ? setup_foreign_folder(o) : NULL;
    if (folder && mpi->rank == 0) status = foreign_weights_facts(&packed, &bytes, folder);
    status = broadcast_bytes_at_start(mpi, status, &packed, &bytes);
    if (status == OK && folder && bytes) status = setup_take_foreign(o, packed, bytes);
    free(packed);
    return status;
}

/* It says nothing of a start that is not over TCP. */
static Status refuse_idle_port(const Options *o, const Transport *mpi)
{
    bool tcp = mpi && mpi->kind == TRANSPORT_TCP;
    if (!options_typed_by_person(o, OPTION_control_port) || tcp || o->dry_run) return OK;
    return fail(BAD_OPTION, "--control-port %lld has no effect: it is for ranks that are joined over TCP, "
                "and these are %s", (long long)o->control_port,
                mpi ? "joined by MPI" : "threads of one process");
}

/* Environment, tokenizer and checkpoint may differ on one host, so the ranks agree on what they read; options
 * that could not be parsed are agreed on as well, once MPI is open. */
Status setup_options(Options *o, Transport **mpi, CommandSet command, int argc, char **argv)
{
    char **words = argv;
    int  count = argc;
    Failure failure = { 0 };
    bool launched = transport_launcher() != NULL;
    *mpi = NULL;
    log_mute(launched);                                 /* rank 0 logs for all, once it knows the files */
    Status status = setup_parse_found(o, command, (ConfigTexts){ .none = launched }, NULL, count, words);
    if (status == OK && !launched) status = options_needed(o);
    failure_keep(&failure, status);
    /* Nothing is derived yet; the minutes, from which the seconds follow, are known. */
    bool said = options_typed_by_person(o, OPTION_watchdog_seconds);
    double limit = said ? o->watchdog_seconds : 60 * o->timeout_minutes;
    Status opened = transport_open(mpi, limit, (int)o->control_port, &argc, &argv);
    log_mute(transport_launcher_rank() != 0);
    status = status != OK ? failure_report(&failure) : opened;
    if (opened != OK) return unagreed(status);
    if (*mpi) {
        char  *packed = NULL;
        size_t bytes  = 0;
        TRY(send_configs(&packed, &bytes, o, *mpi, status));                 /* same on every rank */
        ConfigTexts texts = { .packed = packed, .bytes = bytes };
        status = parse_found(o, texts, command, count, words, *mpi);
        free(packed);
    }
    if (status == OK) status = take_ranks(o, *mpi);
    if (*mpi) status = read_foreign(o, *mpi, status);
    if (status == OK) status = setup_values(o);
    if (status == OK) status = setup_validate(o);
    if (status == OK) status = refuse_idle_port(o, *mpi);
    TRY(setup_agree(*mpi, status));
    TRY(agree_on_options(o, *mpi));
    if (setup_is_foreign(command, count, words) && transport_launcher_rank() <= 0)
        log_line("the same: %s", options_command(o, SOURCE_CONFIG_FILE));
    return OK;
}

/* What the first parse has said of the command line is not said twice. */
Status setup_compared(Options *o, CommandSet command, int argc, char **argv)
{
    log_mute(true);
    Status status = setup_parse(o, command, argc, argv);
    log_mute(false);
    TRY(status);
    o->load = o->compare;
    o->source[OPTION_load] = o->source[OPTION_compare];
    TRY(take_ranks(o, NULL));
    TRY(setup_values(o));
    return setup_validate(o);
}

/* An allocation that fails follows from options. */
static Status name_memory_options(Status status)
{
    if (status != NO_MEMORY) return status;
    return fail(NO_MEMORY, "%s; a smaller --micro-batch-size, --seq-length or model, or more ranks "
                "(--tp, --pp, --cp, "
                "--zero-stage) need less; jotun train --dry-run shows what each rank needs", fail_text());
}

/* Of ranks that are threads: each has a stack, and a part in every collective of every other. */
enum { THREAD_RANKS_MAX = 1024 };

/* An MPI launcher may bind each process to a part of the host's cores. */
static void warn_of_too_many_threads(const Options *o, const Transport *mpi)
{
    bool bound = !mpi || o->threads > team_cores();
    int64_t ranks = !mpi ? o->ranks : bound ? 1 : transport_launcher_local();
    int64_t cores = bound ? team_cores() : sysconf(_SC_NPROCESSORS_ONLN);
    if (ranks * o->threads > cores)
        log_line("%lld rank%s x --threads %lld are more threads than the %lld core%s %s: the run is slower "
                 "than with fewer", (long long)ranks, ranks == 1 ? "" : "s", (long long)o->threads,
                 (long long)cores, cores == 1 ? "" : "s",
                 bound ? "that this process may use" : "of this host");
}

/* Processes of one job that do not know of each other would each train the whole run, and write to the same
 * files. WORLD_SIZE and SLURM_STEP_NUM_TASKS are only set for such processes; the others may be those of a
 * shell, in which a person starts something else. */
static Status refuse_lonely_rank(const Options *o, const Transport *mpi)
{
    static const struct { const char *size, *wants[2]; } started[] = {
        { "WORLD_SIZE", { "RANK", "MASTER_ADDR" } },
        { "SLURM_STEP_NUM_TASKS", { "SLURM_PROCID", "SLURM_JOB_ID" } },
        { "SLURM_NTASKS", { NULL } }, { "OMPI_COMM_WORLD_SIZE", { NULL } }, { "PMI_SIZE", { NULL } } };
    if (mpi || o->ranks > 1 || o->dry_run) return OK;
    for (int i = 0; i < COUNT(started); i++) {
        const char *count = getenv(started[i].size), *missing = NULL;
        if (!count || strtol(count, NULL, 10) <= 1) continue;
        for (int w = 0; w < 2 && started[i].wants[w] && !missing; w++)
            if (!getenv(started[i].wants[w])) missing = started[i].wants[w];
        if (missing)
            return fail(BAD_OPTION, "%s is %s, but %s is not set, without which this process cannot join the "
                        "others; jotun run, torchrun, srun and mpirun set it; unset %s for a run of 1 rank",
                        started[i].size, count, missing, started[i].size);
        log_line("%s is %s, and this process is a run of its own, with 1 rank: srun, mpirun, torchrun or "
                 "jotun run join processes, and --ranks N makes ranks of one", started[i].size, count);
        return OK;
    }
    return OK;
}

Status setup_run(const Options *o, Transport *mpi, RankBody *body, void *context)
{
    TRY(refuse_lonely_rank(o, mpi));
    if (!mpi && ranks_of_preset(o) && o->ranks > team_cores())
        return fail(BAD_OPTION, "%s is laid out for %lld ranks (tp %lld x pp %lld x dp %lld), and this is "
                    "one process with %d cores: start them by mpirun -n %lld, or give --ranks, --tp and "
                    "--pp; --dry-run shows what each needs", o->source[OPTION_ranks].from,
                    (long long)o->ranks, (long long)o->tensor_parallel, (long long)o->pipeline_parallel,
                    (long long)options_data_parallel(o), team_cores(), (long long)o->ranks);
    if (!mpi && o->ranks > THREAD_RANKS_MAX)
        return fail(BAD_OPTION, "--ranks %lld as threads of one process are too many: up to %d are possible; "
                    "start more by mpirun, or look at their plan with --dry-run", (long long)o->ranks,
                    THREAD_RANKS_MAX);
    warn_of_too_many_threads(o, mpi);
    if (!mpi) return name_memory_options(transport_threads_run((int)o->ranks, body, context));
    Status status = name_memory_options(body(mpi, context));
    mpi->close(mpi);
    return status;
}

Status setup_load(Trainer *t, char path[1024], int64_t *step)
{
    bool found;
    CheckpointState state = { .step = -1 };
    /* A checkpoint exists, because setup_options has read its options; `found` needs no look. */
    TRY(agree(t->comms.world, trainer_find(t->config->load, path, &found, &state)));
    TRY(agree_on(t->comms.world, state.step, "the step found in --load"));
    watchdog_work(t->comms.world, "loading");
    Status status = trainer_load(t, path);
    watchdog_work(t->comms.world, NULL);
    *step = state.step;
    return status;
}
