/* The commands of the stages: their words, shown and run one after another. A stage that fails leaves this
 * process to say what it means. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/process/child_process.h"
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

static Status wait_for(const Speedrun *s, pid_t child, const char *name)
{
    char end[80];
    int  state = 0, sent = 0;
    while (!child_ended(child, &state)) {
        if (*s->stop && sent != *s->stop) {
            sent = *s->stop;
            kill(child, sent);
        }
        usleep(20000);
    }
    if (*s->stop) return fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    if (child_succeeded(state)) return OK;
    child_end_words(end, sizeof end, state);
    if (WIFSIGNALED(state))
        return fail(IO_FAILED, "jotun %s was %s; the same command resumes %s", name, end, s->folder);
    return fail(WEXITSTATUS(state) == 3 ? IO_FAILED : BAD_FILE,
                "jotun %s failed, as the line above says; the same command resumes %s", name, s->folder);
}

Status child_run(const Speedrun *s, const ChildWords *c, const char *out)
{
    char  part[1100] = "", name[64];
    int   fd         = -1;
    pid_t child      = 0;
    bool  second     = c->words > 1 && isalpha((unsigned char)*c->word[1]);
    snprintf(name, sizeof name, "%s%s%s", c->word[0], second ? " " : "", second ? c->word[1] : "");
    show(c);
    if (out) {
        snprintf(part, sizeof part, "%s.part", out);
        TRY(file_create(&fd, part));
    }
    Status status = child_start(
        &child, (ChildStart){.word = c->word, .out = fd, .err = -1, .orphan_signal = SIGKILL});
    if (status == OK) status = wait_for(s, child, name);
    if (fd >= 0 && status != OK) close(fd);
    if (fd >= 0 && status == OK) status = file_finish(fd, part);
    if (fd >= 0 && status == OK) status = file_rename(part, out);
    return status;
}
