#ifndef TESTS_COMPAT_LAUNCH_H
#define TESTS_COMPAT_LAUNCH_H
/* Scripts in a folder of their own, run in one way of shutting in, and cmocka. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "compat/bash/launch_script.h"
#include <cmocka.h>             /* last: its fail() is a macro */

#define assert_ok(call) do { if ((call) != OK) fail_msg("%s: %s", #call, fail_text()); } while (0)

/* The folder of this process, in which it is. */
static inline const char *test_folder(void)
{
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof path, "/tmp/jotun_launch_%d", (int)getpid());
        if (mkdir(path, 0755) || chdir(path)) fail_msg("%s cannot be made", path);
    }
    return path;
}

static inline const char *put(const char *name, const char *text)
{
    test_folder();
    FILE *out = fopen(name, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
    return name;
}

/* Runs a script with "NAME=value... ARGUMENT...", which the record keeps. */
static inline Status launch(LaunchRecord *r, LaunchWay way, const char *text, int words, const char *const *word)
{
    const char *all[32] = { put("run.sh", text) }, *argument[32], *variable[32];
    LaunchInput in;
    for (int i = 0; i < words; i++) all[i + 1] = word[i];
    Status status = launch_words(&in, argument, variable, words + 1, all);
    in.way = way, in.seconds = 60;
    return status == OK ? launch_record(r, &in) : status;
}

/* The words of a call between bars. */
static inline const char *words_of(const LaunchCall *c)
{
    static char out[65536];
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < c->words && used < sizeof out; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", i ? "|" : "", c->word[i].text);
    return out;
}
#endif
