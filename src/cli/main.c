#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "cli/command.h"
#include "comm/transport.h"

static int ended(Status status)
{
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (status == OK && !written) status = fail(IO_FAILED, "standard output cannot be written");
    if (status != OK) log_line("%s", fail_text());
    return status_exit_code(status);
}

static bool is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

static bool asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (is_help(argv[i])) return true;
    return false;
}

/* What stands in the place of a command; false where it is one */
static bool said_about_itself(const char *word)
{
    if (is_help(word)) help_program(stdout);
    else if (!strcmp(word, "--version")) printf("jotun %s\n", JOTUN_VERSION);
    else if (!strcmp(word, "--help-markdown")) help_markdown(stdout);
    else if (!strcmp(word, "--help-man")) help_man(stdout);
    else return false;
    return true;
}

/* Ranks of a launcher are for what computes on many; any other command would only do its work several times over. */
static Status started_alone(const Command *command)
{
    bool many = command->takes == FOR_TRAIN || command->takes == FOR_EVAL;
    if (many || !transport_launcher()) return OK;
    return fail(BAD_USAGE, "%s runs as one process; start it without mpirun", command->name);
}

static Status run(int argc, char **argv)
{
    const Command *command;
    int used;
    TRY(command_find(&command, &used, argc, argv));
    if (asks_help(argc - used, argv + used)) {
        help_command(stdout, command);
        return OK;
    }
    TRY(started_alone(command));
    return command->run(argc - used, argv + used);
}

/* A file opened under the number of a standard stream that was closed would get our messages. What stands there instead
 * takes nothing and gives nothing, so that a use of it is still told. */
static void standard_streams_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

int main(int argc, char **argv)
{
    standard_streams_fill();
    seam_fault_open();
    signal(SIGXFSZ, SIG_IGN);                   /* above `ulimit -f` a write fails, and is told as one on a full disk */
    if (argc < 2) {
        help_program(stderr);
        return status_exit_code(BAD_USAGE);
    }
    return ended(said_about_itself(argv[1]) ? OK : run(argc - 1, argv + 1));
}
