/* The program: finds the command, runs it, and turns its Status into an exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "base/words.h"
#include "cli/help.h"
#include "cli/setup/setup.h"
#include "comm/transport.h"

/* Output that cannot be written is a failure even where the command knows nothing of it. Where an earlier
 * write has failed its reason is lost. Rank 0 writes the message that all have agreed on: the others end
 * after it, since a launcher kills all once one has failed. */
static int ended(Status status)
{
    errno = 0;
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (status == OK && !written)
        status = fail(IO_FAILED, "standard output cannot be written: %s",
                      errno ? strerror(errno) : "a part is lost");
    if (status != OK && transport_launcher_rank() > 0) usleep(500000);
    if (status != OK) log_line("%s", fail_text());
    return status_exit_code(status);
}

static bool is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h"); }

/* After "--" a word is an argument, whatever it looks like, and behind another program's script it is that
 * script's. */
static bool asks_help(int argc, char **argv)
{
    bool script = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!script && is_help(argv[i])) return true;
        script |= !strncmp(argv[i], "--", 2) && i + 1 < argc && !is_help(argv[i + 1]) &&
                  words_have(COMPAT_REST, argv[i] + 2, strlen(argv[i] + 2));
    }
    return false;
}

/* "jotun help", "jotun help train", "jotun help tokenizer": what --help shows. words: those after "help" */
static Status help_asked(int words, char **word)
{
    const Command *command;
    int used;
    bool half = false;
    if (words == 0 || is_help(word[0])) {
        help_program(stdout);
        return OK;
    }
    for (int i = 0; i < command_count; i++) half |= words == 1 && command_begins(&commands[i], word[0]);
    if (half) help_subcommands(stdout, word[0]);
    else {
        TRY(command_find(&command, &used, words, word));
        help_command(stdout, command);
    }
    return OK;
}

/* Handles an option, or the word help or version, that is given instead of a command. false: there is a
 * command. */
static bool about_the_program(Status *status, int argc, char **argv)
{
    *status = OK;
    if (is_help(argv[1])) help_program(stdout);
    else if (!strcmp(argv[1], "help")) *status = help_asked(argc - 2, argv + 2);
    else if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version"))
        printf("jotun %s\n", JOTUN_VERSION);
    else if (!strcmp(argv[1], "--help-markdown")) help_markdown(stdout);
    else if (!strcmp(argv[1], "--help-words")) help_words(stdout, argc - 2, argv + 2);
    else return false;
    return true;
}

/* A command that does not divide its work over ranks would do all of it once for each rank of the launcher,
 * and the ranks would write the same files. */
static Status started_alone(const Command *command)
{
    const char *launcher = transport_launcher();
    if (command_divides(command) || !launcher) return OK;
    return fail(BAD_USAGE, "%s runs as one process, but %s started several; start it without a launcher",
                command->name, launcher);
}

/* The words that follow the command's name. */
static Status run_called(const Command *command, int argc, char **argv)
{
    if (asks_help(argc, argv)) {
        help_command(stdout, command);
        return OK;
    }
    Status status = started_alone(command);
    return status == OK ? command_run(command, argc, argv) : setup_refused(status, argc, argv);
}

static Status run(int argc, char **argv)
{
    const Command *command;
    int used;
    /* "jotun tokenizer" is no command, but "jotun tokenizer --help" lists the commands that begin so. */
    if (argc > 1 && is_help(argv[1])) return help_asked(1, argv);
    Status status = command_find(&command, &used, argc, argv);
    return status == OK ? run_called(command, argc - used, argv + used) : setup_refused(status, argc, argv);
}

/* Where a standard stream is closed, the next file opened would get its number, and our output would be
 * written into that file. /dev/null takes the number instead, opened for the wrong direction, so that a use
 * of the stream is still an error. */
static void standard_streams_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

/* Called through a link by the name of a command of another program, the program is that command. */
static const Command *called_as(const char *path)
{
    const char *name = path_leaf(path, strlen(path));
    for (int i = 0; i < command_count; i++)
        if (commands[i].program && strchr(name, '-') && !strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    standard_streams_fill();
    seam_fault_open();
    /* Above `ulimit -f` a write then fails instead of ending the process; it is reported like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    const Command *called = argc > 0 ? called_as(argv[0]) : NULL;
    if (called) return ended(run_called(called, argc - 1, argv + 1));
    if (argc < 2) {
        help_program(stderr);
        return status_exit_code(BAD_USAGE);
    }
    Status status;
    if (!about_the_program(&status, argc, argv)) status = run(argc - 1, argv + 1);
    return ended(status);
}
