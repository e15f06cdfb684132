#ifndef TESTS_CONF_LINE_H
#define TESTS_CONF_LINE_H
/* A command line written as one string, and cmocka. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "conf/rows.h"
#include <cmocka.h>             /* last: its fail() is a macro */

static inline Status parse_line(Options *o, CommandSet command, const char *line)
{
    char words[1024], *word[64], *rest;
    int count = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) word[count++] = w;
    return setup_parse(o, command, count, word);
}

static inline Status validate_line(CommandSet command, const char *line)
{
    Options o;
    Status status = parse_line(&o, command, line);
    if (status == OK) status = options_derive(&o);
    if (status == OK) status = options_validate(&o);
    options_close(&o);
    return status;
}

#define assert_ok(call) do { if ((call) != OK) fail_msg("%s: %s", #call, fail_text()); } while (0)
/* That it fails so, and that the message holds the text */
#define assert_says(call, code, text) do {                                                  \
        assert_int_equal(call, code);                                                        \
        if (!strstr(fail_text(), text)) fail_msg("no \"%s\" in \"%s\"", text, fail_text());   \
    } while (0)
#endif
