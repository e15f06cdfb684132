#include "cli/child_process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/array.h"
#include "base/buffer.h"
#include "base/shell/shell_word.h"

enum { EXIT_NO_START = 3 };          /* what jotun's commands return where the system fails them */

/* Ends a child that could not become the command. */
static void end_with(const char *why)
{
    if (write(STDERR_FILENO, why, strlen(why)) < 0) _exit(EXIT_NO_START);
    _exit(EXIT_NO_START);
}

/* Between fork and exec only calls that are safe there. All signals are blocked until none of this process's
 * handlers can take one that is meant for the child. */
static void become(const ChildStart *start, char **words, pid_t parent, const sigset_t *mask)
{
    int               in       = start->group ? open("/dev/null", O_RDONLY) : STDIN_FILENO;
    if (start->group) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, start->orphan_signal);
    if (getppid() != parent) _exit(128 + start->orphan_signal); /* it died before the line above */
    if (in < 0 || (in != STDIN_FILENO && dup2(in, STDIN_FILENO) < 0)) _exit(EXIT_NO_START);
    if (start->out >= 0 && dup2(start->out, STDOUT_FILENO) < 0) _exit(EXIT_NO_START);
    if (start->err >= 0 && dup2(start->err, STDERR_FILENO) < 0) _exit(EXIT_NO_START);
    if (in != STDIN_FILENO) close(in);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) != 0 || now.sa_handler == SIG_IGN) continue;
        signal(number, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    execve("/proc/self/exe", words, start->environment ? start->environment : environ);
    if (errno == E2BIG)
        end_with("jotun: the command line of a stage is longer than the system takes; give a directory, or "
                 "@F, a list of files\n");
    end_with("jotun: the program cannot be started again\n");
}

Status child_start(pid_t *process, ChildStart start)
{
    int count = 0;
    while (start.word[count]) count++;
    char **words = malloc((size_t)(count + 2) * sizeof *words);
    if (!words) return fail(NO_MEMORY, "no memory for a command line of %d words", count);
    words[0] = "jotun";
    memcpy(words + 1, start.word, (size_t)(count + 1) * sizeof *words);
    fflush(stdout);
    sigset_t all, mask;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask);
    pid_t parent = getpid();
    *process     = fork();
    if (*process == 0) become(&start, words, parent, &mask);
    int error = errno;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    free(words);
    if (*process < 0) return fail(NO_MEMORY, "no process for jotun %s: %s", start.word[0], strerror(error));
    if (start.group) setpgid(*process, *process); /* here too: whichever comes first */
    return OK;
}

bool child_ended(pid_t process, int *state)
{
    pid_t ended = waitpid(process, state, WNOHANG);
    CHECK(ended >= 0 || errno == EINTR, "process %d cannot be waited for: %s", (int)process, strerror(errno));
    return ended == process;
}

bool child_succeeded(int state) { return WIFEXITED(state) && WEXITSTATUS(state) == 0; }

void child_end_words(char *text, size_t room, int state)
{
    if (WIFSIGNALED(state))
        snprintf(text, room, "ended by signal %d (%s)%s", WTERMSIG(state), strsignal(WTERMSIG(state)),
                 WTERMSIG(state) == SIGKILL ? "; dmesg tells whether memory ran out" : "");
    else snprintf(text, room, "exit code %d", WEXITSTATUS(state));
}

/* ---- words ---- */

static char *formatted(const char *format, va_list arguments)
{
    char *text = NULL;
    CHECK(vasprintf(&text, format, arguments) >= 0, "no memory for a word of a command line");
    return text;
}

/* Takes the word over. */
static void push(WordList *list, char *word)
{
    ARRAY_RESERVE_OR_STOP(list->word, list->room, list->count + 2);
    CHECK(word, "no memory for the words of a command line");
    list->word[list->count++] = word;
    list->word[list->count] = NULL;
}

void word_list_add(WordList *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    push(list, formatted(format, arguments));
    va_end(arguments);
}

void word_list_option(WordList *list, const char *name, const char *value)
{
    push(list, strdup(name));
    push(list, strdup(value));
}

void word_list_split(WordList *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *rest = NULL, *text = formatted(format, arguments);
    va_end(arguments);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        push(list, strdup(word));
    free(text);
}

void word_list_free(WordList *list)
{
    for (int i = 0; i < list->count; i++) free(list->word[i]);
    free(list->word);
    *list = (WordList){ 0 };
}

void word_list_write(FILE *out, const WordList *list)
{
    for (int i = 0; i < list->count; i++) {
        fputc(' ', out);
        shell_word_write(out, list->word[i]);
    }
}

/* Of a word that is not UTF-8, which JSON has no text for, "bytes " and its bytes in hexadecimal digits. */
static json_t *word_json(const char *word)
{
    json_t *value = json_string(word);
    if (value) return value;
    Buffer text = { 0 };
    buffer_add_text_or_stop(&text, "bytes ");
    for (; *word; word++) CHECK(buffer_format(&text, "%02x", (unsigned char)*word) == OK, "%s", fail_text());
    value = json_stringn(text.text, (size_t)text.bytes);
    buffer_free(&text);
    return value;
}

json_t *words_json(const char *const *word, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        CHECK(json_array_append_new(array, word_json(word[i])) == 0, "no memory for a command line");
    return array;
}
