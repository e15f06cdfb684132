/* The commands of the stages: their words, shown and run one after another. A stage that fails leaves this
 * process to say what it means. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/process/child_process.h"
#include "cli/speedrun/speedrun.h"

static void show(const WordList *words)
{
    char  *line  = NULL;
    size_t bytes = 0;
    FILE  *out   = open_memstream(&line, &bytes);
    if (out) word_list_write(out, words);
    if (out && fclose(out) == 0) log_line("$ jotun%s", line);
    free(line);
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
    if (WEXITSTATUS(state) != 3 && speedrun_nothing_done(s))
        return fail(BAD_FILE, "jotun %s failed, as the line above says", name);
    return fail(WEXITSTATUS(state) == 3 ? IO_FAILED : BAD_FILE,
                "jotun %s failed, as the line above says; what is done is kept in %s, and the same command "
                "continues there once the cause is mended", name, s->folder);
}

Status child_run(const Speedrun *s, WordList *words, const char *out)
{
    char  part[1100] = "", name[64];
    int   fd         = -1;
    pid_t child      = 0;
    bool  second     = words->count > 1 && isalpha((unsigned char)*words->word[1]);
    snprintf(name, sizeof name, "%s%s%s", words->word[0], second ? " " : "", second ? words->word[1] : "");
    show(words);
    if (out) snprintf(part, sizeof part, "%s.part", out);
    Status status = out ? file_create(&fd, part) : OK;
    if (status == OK && *s->stop)
        status = fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    if (status == OK)
        status = child_start(
            &child, (ChildStart){.word = words->word, .out = fd, .err = -1, .orphan_signal = SIGKILL});
    word_list_free(words);
    if (status == OK) status = wait_for(s, child, name);
    if (fd >= 0 && status != OK) close(fd);
    if (fd >= 0 && status == OK) status = file_finish(fd, part);
    if (fd >= 0 && status == OK) status = file_rename(part, out);
    return status;
}
