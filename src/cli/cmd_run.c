/* jotun run --local N -- COMMAND: N processes of this machine that are the ranks of one command. They find
 * each other over TCP (comm/tcp/) by the variables that torchrun sets too. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "base/team.h"
#include "cli/child_process.h"
#include "cli/command.h"
#include "comm/socket.h"

/* SPEAK_SECONDS: in which the other ranks report a failure and end by themselves, as the watchdog makes them;
 * then it is said which rank has failed, and the rest are ended. LAST_WORDS: bytes
 * of a line that a rank wrote last. */
enum { SPEAK_SECONDS = 5, LAST_WORDS = 512, LOOK_MS = 500 };

/* What rank 0 writes goes straight to our standard error, so that its progress line stays one. That of the
 * others passes through a pipe, from which their last words are kept. */
typedef struct {
    pid_t  process;                                   /* 0: ended */
    int    pipe;                                      /* -1: none, or closed */
    char   line[LAST_WORDS];                          /* that is being written, truncated */
    size_t bytes;
    char   words[LAST_WORDS];                         /* the last whole line */
    char   end[80];                                   /* how it ended, where it failed */
} LocalRank;

typedef struct {
    int        count, running;
    LocalRank *rank;                                  /* [count] */
    int        signals;                               /* signalfd */
    int        port;                                  /* a socket that keeps it */
    uint16_t   master_port;
    char       secret[33];
    int        failed, code;                          /* the rank that failed, its exit code; -1: none */
    bool       killed;                                /* it was ended by a signal */
    int64_t    judged;                                /* seam.clock from which on no other is the cause */
    int        asked;                                 /* the last signal that we were sent; 0: none */
    int64_t    deadline;                              /* seam.clock when the others are ended; 0: none */
    bool       terminated;                            /* they have got SIGTERM */
} LocalRun;

static const int64_t SECOND = 1000000000;

/* ---- starting ---- */
/* A port that nobody has, kept by a socket that does not listen: the system gives it to no other program, and
 * rank 0 may still listen there (SO_REUSEADDR). */
static Status keep_port(LocalRun *run)
{
    const SocketAddress here = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
    run->port = socket_reserve(&here, &run->master_port);
    return run->port >= 0 ? OK : fail(IO_FAILED, "no free port: %s", strerror(errno));
}

static Status make_secret(LocalRun *run)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return fail(IO_FAILED, "the system has no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(run->secret + 2 * i, 3, "%02x", bytes[i]);
    return OK;
}

/* Whether the child gets another value, or none. JOTUN_SECRET_FILE beside a secret would be refused. */
static bool is_replaced(const char *variable)
{
    static const char *const names[] = { "JOTUN_LAUNCHER", "JOTUN_SECRET", "JOTUN_SECRET_FILE", "RANK",
                                         "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                         "MASTER_PORT" };
    size_t letters = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == letters && strncmp(names[i], variable, letters) == 0) return true;
    return false;
}

/* Threads of a rank are by default all cores, of which each of these ranks has a share. */
static void environment_make(WordList *list, const LocalRun *run, int rank)
{
    int share = team_cores() / run->count;
    for (char **variable = environ; *variable; variable++)
        if (!is_replaced(*variable)) word_list_add(list, "%s", *variable);
    word_list_add(list, "JOTUN_LAUNCHER=run");
    word_list_add(list, "JOTUN_SECRET=%s", run->secret);
    word_list_add(list, "RANK=%d", rank);
    word_list_add(list, "WORLD_SIZE=%d", run->count);
    word_list_add(list, "LOCAL_RANK=%d", rank);
    word_list_add(list, "LOCAL_WORLD_SIZE=%d", run->count);
    word_list_add(list, "MASTER_ADDR=127.0.0.1");
    word_list_add(list, "MASTER_PORT=%u", (unsigned)run->master_port);
    if (!getenv("JOTUN_THREADS")) word_list_add(list, "JOTUN_THREADS=%d", share > 0 ? share : 1);
}

static Status rank_start(LocalRun *run, int rank, char *const *words)
{
    LocalRank *r = &run->rank[rank];
    WordList   environment = { 0 };
    int ends[2] = { -1, -1 };
    if (rank > 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return fail(NO_MEMORY, "no pipe for rank %d: %s", rank, strerror(errno));
    if (rank > 0) fcntl(ends[1], F_SETFL, 0);         /* the rank's own end waits for us */
    environment_make(&environment, run, rank);
    Status status = child_start(&r->process, (ChildStart){ .word = words, .out = -1, .err = ends[1],
                                                           .environment = environment.word,
                                                           .orphan_signal = SIGTERM, .group = true });
    word_list_free(&environment);
    if (ends[1] >= 0) close(ends[1]);
    r->pipe = ends[0];
    if (status == OK) run->running++;
    return status;
}

/* ---- what the ranks write ---- */
static void words_take(LocalRank *r, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n') {
            if (r->bytes < sizeof r->line - 1) r->line[r->bytes++] = text[i];
            continue;
        }
        r->line[r->bytes] = '\0';
        if (r->bytes > 0) memcpy(r->words, r->line, sizeof r->words);
        r->bytes = 0;
    }
}

static void pipe_read(LocalRank *r)
{
    char text[4096];
    ssize_t n;
    while (r->pipe >= 0 && (n = read(r->pipe, text, sizeof text)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        log_write(text, (size_t)n);
        words_take(r, text, (size_t)n);
    }
    if (r->pipe >= 0) close(r->pipe);
    r->pipe = -1;
}

/* ---- ends ---- */
static void signal_all(const LocalRun *run, int number)
{
    for (int r = 0; r < run->count; r++)
        if (run->rank[r].process > 0) kill(run->rank[r].process, number);
}

/* The first failure, but that a rank which a signal ended is the cause of others' exit codes: the watchdog
 * kills a frozen rank last. */
static void take_end(LocalRun *run, int rank, int state)
{
    bool killed = WIFSIGNALED(state);
    if (child_succeeded(state) || (run->failed >= 0 && (run->killed || !killed))) return;
    if (run->failed < 0) run->judged = seam.clock() + SPEAK_SECONDS * SECOND;
    run->killed = killed;
    run->failed = rank;
    run->code   = killed ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    child_end_words(run->rank[rank].end, sizeof run->rank->end, state);
}

static void reap(LocalRun *run)
{
    for (int i = 0; i < run->count; i++) {
        LocalRank *r = &run->rank[i];
        int state;
        if (r->process <= 0 || !child_ended(r->process, &state)) continue;
        r->process = 0;
        run->running--;
        pipe_read(r);
        if (!run->deadline) take_end(run, i, state);
    }
}

/* When all have ended, or have had their time to: a rank that a signal ended may be the last one. */
static void report(LocalRun *run)
{
    if (run->deadline || run->failed < 0 || (run->running > 0 && seam.clock() < run->judged)) return;
    const LocalRank *r = &run->rank[run->failed];
    run->deadline = seam.clock();
    if (run->asked) return;
    log_line("rank %d of %d failed: %s%s%s", run->failed, run->count, r->end,
             *r->words ? "; its last words: " : "", r->words);
}

/* After the report SIGTERM, after the grace time SIGKILL. */
static void end_others(LocalRun *run, double grace)
{
    if (!run->deadline || run->running == 0 || seam.clock() < run->deadline) return;
    signal_all(run, run->terminated ? SIGKILL : SIGTERM);
    run->terminated = true;
    run->deadline   = seam.clock() + (int64_t)(grace * (double)SECOND) + 1;
}

static void take_signals(LocalRun *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        run->asked = (int)info.ssi_signo;
        signal_all(run, run->asked);
    }
}

/* Until all have ended. */
static Status watch(LocalRun *run, double grace)
{
    struct pollfd *ready = calloc((size_t)run->count + 1, sizeof *ready);
    if (!ready) return fail(NO_MEMORY, "no memory for %d ranks", run->count);
    while (run->running > 0) {
        ready[run->count] = (struct pollfd){ .fd = run->signals, .events = POLLIN };
        for (int i = 0; i < run->count; i++)
            ready[i] = (struct pollfd){ .fd = run->rank[i].pipe, .events = POLLIN };
        poll(ready, (nfds_t)run->count + 1, LOOK_MS);
        for (int i = 0; i < run->count; i++)
            if (ready[i].revents) pipe_read(&run->rank[i]);
        take_signals(run);
        reap(run);
        report(run);
        end_others(run, grace);
    }
    free(ready);
    return OK;
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* The signals that a command takes, and that of a child's end, are read, not handled; one that is ignored, as
 * under nohup, stays so: once blocked it would be read. After the start: the ranks have them as we had
 * them. */
static Status signals_open(LocalRun *run)
{
    sigset_t mask;
    sigemptyset(&mask);
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_ignored(numbers[i])) sigaddset(&mask, numbers[i]);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    run->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals >= 0 ? OK : fail(NO_MEMORY, "no descriptor for signals: %s", strerror(errno));
}

static Status local_run(LocalRun *run, const Options *o)
{
    WordList words = { 0 };
    TRY(keep_port(run));
    TRY(make_secret(run));
    for (int i = 0; i < o->words.count; i++) word_list_add(&words, "%s", o->words.text[i]);
    Status status = OK;
    for (int r = 0; r < run->count && status == OK; r++) status = rank_start(run, r, words.word);
    word_list_free(&words);
    if (status == OK) status = signals_open(run);
    if (status != OK) signal_all(run, SIGKILL);
    TRY(status);
    return watch(run, o->run_grace);
}

Status cmd_run(Options *o)
{
    TRY(options_needed(o));
    LocalRun run = { .count = (int)o->run_local, .failed = -1, .port = -1, .signals = -1 };
    if (o->words.count == 0)
        return fail(BAD_USAGE, "jotun run needs a command: jotun run --local %d -- train ...", run.count);
    const Command *command;
    int used;
    TRY(command_find(&command, &used, o->words.count, (char **)o->words.text));
    if (!command_divides(command))
        return fail(BAD_USAGE, "%s runs as one process; start it without jotun run", command->name);
    TRY(socket_raise_limit(run.count, "a pipe for each of %d ranks", run.count));
    signal(SIGCHLD, SIG_DFL);                         /* where it is ignored no child can be waited for */
    run.rank = calloc((size_t)run.count, sizeof *run.rank);
    if (!run.rank) return fail(NO_MEMORY, "no memory for %d ranks", run.count);
    for (int r = 0; r < run.count; r++) run.rank[r].pipe = -1;
    Status status = local_run(&run, o);
    free(run.rank);
    close(run.port);
    close(run.signals);
    if (status != OK || run.failed < 0) return status;
    options_close(o);
    exit(run.code);                                   /* the first failure's, which no Status has */
}
