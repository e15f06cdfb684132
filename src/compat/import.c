/* What is said of other trainers' files, and one option of them at a time. */
#include "compat/import.h"
#include <stdarg.h>
#include <stdlib.h>
#include "base/array.h"
#include "base/log.h"
#include "conf/value.h"

void import_open(Import *m, const Options *so_far)
{
    *m = (Import){ .taken = 0 };
    options_copy(&m->copy, so_far);
}

void import_remark(Import *m, Options *o, const char *from, const char *format, ...)
{
    char    text[2 * IMPORT_LINE], line[3 * IMPORT_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%s: %s", from, text);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' '; /* a comment is one line */
    text_list_add(&m->remarks, options_hold(o, line));
}

void import_refuse(Import *m, Options *o, const char *from, const char *format, ...)
{
    char    why[IMPORT_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    import_remark(m, o, from, "not taken: %s", why);
    log_line("%s: %s", from, why);
    m->refused++;
}

static void take_ends(Import *m, Options *o, const char *from, TextList *notes, Status status)
{
    for (int i = 0; i < notes->count; i++) import_remark(m, o, from, "%s", notes->text[i]);
    free(notes->text);
    if (status == OK) m->taken++;
    else import_refuse(m, o, from, "%s", fail_text());
}

void import_take(Import *m, Options *o, const char *from, int count, char **words)
{
    TextList    notes = { 0 };
    OptionWords typed = { 0 }, ours = { 0 };
    words_command_line(&typed, SOURCE_CONFIG_FILE, from, "", count, words);
    translate_words(&ours, &typed, o->command, dialects_understood(o->command));
    take_ends(m, o, from, &notes, options_take(o, &ours, &notes));
    words_close(&typed);
    words_close(&ours);
}

void import_take_name(Import *m, Options *o, const char *from, const Dialect *row, const char *name,
                      const char *value)
{
    TextList     notes  = { 0 };
    OptionSource source = option_source(SOURCE_CONFIG_FILE, name, value, from);
    Status       status = translate_name(o, row, value, source, &notes);
    take_ends(m, o, from, &notes, status);
}

void import_default(Import *m, Options *o, const char *from, const char *word, const char *why)
{
    char text[128], *words[] = { text };
    snprintf(text, sizeof text, "%s", word);
    import_remark(m, o, from, "%s: %s is written", why, word);
    import_take(m, o, from, 1, words);
}

void import_gelu(Import *m, Options *o, const char *from)
{
    char word[] = "--gelu-approximate=none", *words[] = { word };
    bool other = o->swiglu || o->geglu || o->quick_geglu || o->squared_relu || o->relu;
    if (other || !o->disable_bias || options_said(o, OPTION_gelu_approximate)) return;
    import_remark(m, o, from, "GELU is by tanh there where it is fused with a bias, and by erf where linear "
                  "layers have none: --gelu-approximate none");
    import_take(m, o, from, 1, words);
}

void import_data_order(Import *m, Options *o, const char *from, const char *order)
{
    static const OptionIndex data[] = {OPTION_data_path, OPTION_train_data_path, OPTION_data_file_list,
                                       OPTION_train_parts, OPTION_train_parts_file};
    char                     word[64], *words[] = { word };
    if (options_said(o, OPTION_data_order)) return;
    for (size_t i = 0; i < COUNT(data); i++) {
        if (!options_said(o, data[i])) continue;
        snprintf(word, sizeof word, "--data-order=%s", order);
        import_remark(m, o, from, "samples come in the order that they have there, and data sets are "
                      "blended as there: %s", word);
        import_take(m, o, from, 1, words);
        return;
    }
}

void import_show(FILE *out, const Import *m)
{
    for (int i = 0; i < m->remarks.count; i++) fprintf(out, "# %s\n", m->remarks.text[i]);
    if (m->remarks.count) fprintf(out, "\n");
}

Status import_ends(const Import *m, const char *path)
{
    if (!m->refused) return OK;
    return fail(BAD_OPTION, "%s: %d of its %d options %s not taken, as said above; the others are written",
                path, m->refused, m->refused + m->taken, m->refused == 1 ? "is" : "are");
}

void import_close(Import *m)
{
    free(m->remarks.text);
    options_close(&m->copy);
    *m = (Import){ .taken = 0 };
}
