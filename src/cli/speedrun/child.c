/* Commands of jotun as child processes: each has its own memory and signals, and a stage that fails leaves
 * this process to say what it means. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/speedrun/speedrun.h"

void child_word(ChildWords *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *begin = c->text + c->used;
    int   bytes = vsnprintf(begin, sizeof c->text - c->used, format, arguments);
    va_end(arguments);
    CHECK(bytes > 0 && c->used + (size_t)bytes + 1 < sizeof c->text && c->words + 64 < CHILD_WORDS,
          "a command line has no more place");
    c->used += (size_t)bytes + 1;
    if (begin[bytes - 1] != ' ') {
        c->word[c->words++] = begin;
        return;
    }
    char *rest = NULL;
    for (char *word = strtok_r(begin, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        c->word[c->words++] = word;
}

static void show(const ChildWords *c)
{
    char   line[2000] = "";
    size_t used       = 0;
    for (int i = 0; i < c->words && used + strlen(c->word[i]) + 2 < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %s", c->word[i]);
    log_line("$ jotun%s", line);
}

/* Between fork and exec only calls that are safe there. */
static void become(const ChildWords *c, int out, pid_t parent)
{
    char *words[CHILD_WORDS + 2] = {"jotun"};
    memcpy(words + 1, c->word, (size_t)c->words * sizeof *words);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it has died before prctl */
    if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) _exit(1);
    execv("/proc/self/exe", words);
    _exit(127);
}

static Status wait_for(const Speedrun *s, pid_t child, const char *name)
{
    int how = 0, sent = 0;
    for (;;) {
        pid_t ended = waitpid(child, &how, WNOHANG);
        if (ended == child) break;
        if (ended < 0 && errno != EINTR)
            return fail(IO_FAILED, "jotun %s cannot be waited for: %s", name, strerror(errno));
        if (*s->stop && sent != *s->stop) {
            sent = *s->stop;
            kill(child, sent);
        }
        usleep(20000);
    }
    if (*s->stop) return fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return OK;
    if (WIFSIGNALED(how))
        return fail(IO_FAILED, "jotun %s was ended by signal %d (%s); the same command resumes %s", name,
                    WTERMSIG(how), strsignal(WTERMSIG(how)), s->folder);
    return fail(WEXITSTATUS(how) == 3 ? IO_FAILED : BAD_FILE,
                "jotun %s failed, as the line above says; the same command resumes %s", name, s->folder);
}

Status child_run(const Speedrun *s, const ChildWords *c, const char *out)
{
    char  part[1100] = "", name[64];
    int   fd         = -1;
    pid_t self       = getpid();
    bool  second     = c->words > 1 && isalpha((unsigned char)*c->word[1]);
    snprintf(name, sizeof name, "%s%s%s", c->word[0], second ? " " : "", second ? c->word[1] : "");
    show(c);
    if (out) {
        snprintf(part, sizeof part, "%s.part", out);
        TRY(file_create(&fd, part));
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) become(c, fd, self);
    Status status = child < 0 ? fail(NO_MEMORY, "no process for jotun %s: %s", name, strerror(errno))
                              : wait_for(s, child, name);
    if (fd >= 0 && status != OK) close(fd);
    if (fd >= 0 && status == OK) status = file_finish(fd, part);
    if (fd >= 0 && status == OK) status = file_rename(part, out);
    return status;
}
