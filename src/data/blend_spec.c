/* Reading the list of data sets from --data-path, a group of parts or a file, and normalising weights with
 * numpy's rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "data/blend_spec.h"

/* PARTS_MAX: Megatron-LM's limit, since a blend's index of data sets has 16 bits. LIST_BYTES: of a list in
 * a file, 2 KiB per data set. */
enum { PARTS_MAX = 32766, LIST_BYTES = 64 << 20 };

/* ---- weights ---- */

/* numpy.sum of doubles (pairwise summation): eight partial sums for up to 128 elements, above that the sum
 * of two halves. It must be the same to the last bit, which decides ties in a blend. */
static double sum_pairwise(const double *x, int n)
{
    double sum = 0, r[8];
    int i = 0;
    if (n > 128) {
        int half = n / 2 - n / 2 % 8;
        return sum_pairwise(x, half) + sum_pairwise(x + half, n - half);
    }
    if (n >= 8) {
        for (int j = 0; j < 8; j++) r[j] = x[j];
        for (i = 8; i + 8 <= n; i += 8)
            for (int j = 0; j < 8; j++) r[j] += x[i + j];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}

Status weights_normalize(double *weight, int count, WeightSum how)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        if (!(weight[i] > 0) || !isfinite(weight[i]))
            return fail(BAD_OPTION, "weight %g, number %d of %d, is no number above 0; leave that data set "
                        "out", weight[i], i + 1, count);
        sum += weight[i];
    }
    if (how == SUM_NUMPY) sum = sum_pairwise(weight, count);
    for (int i = 0; i < count; i++) weight[i] /= sum;
    return OK;
}

/* ---- lists ---- */

static Status part_add(BlendSpec *list, const char *prefix, const char *corpus, double weight)
{
    if (list->count == PARTS_MAX)
        return fail(BAD_OPTION, "more than %d data sets; join some of them with `jotun data merge`",
                    PARTS_MAX);
    TRY(ARRAY_RESERVE(list->part, list->room, list->count + 1));
    BlendPart *part = &list->part[list->count++];
    *part = (BlendPart){ .prefix = strdup(prefix), .corpus = corpus ? strdup(corpus) : NULL,
                         .weight = weight };
    if (part->prefix && (part->corpus || !corpus)) return OK;
    return fail(NO_MEMORY, "no memory for %d data sets", list->count);
}

/* Decimal, as numbers of options are: strtod takes 0x10 and nan as well. */
static bool number_read(double *value, const char *word)
{
    char *end;
    *value = strtod(word, &end);
    return end != word && *end == 0 && !word[strspn(word, "0123456789+-.eE")];
}

/* Whether every second word is a weight. A prefix that looks like a number would be ambiguous, so a
 * mixture is refused. */
static Status words_weighed(bool *weighted, const char *const *words, int count)
{
    int numbers = 0;
    double value;
    for (int i = 0; count % 2 == 0 && i < count; i += 2) numbers += number_read(&value, words[i]);
    *weighted = numbers > 0;
    if (*weighted && numbers != count / 2)
        return fail(BAD_OPTION,
                    "--data-path: %d of %d weights are numbers; give WEIGHT PREFIX WEIGHT PREFIX ... or"
                    " prefixes without weights", numbers, count / 2);
    return OK;
}

Status blend_spec_words(BlendSpec *list, const char *const *words, int count)
{
    *list = (BlendSpec){ 0 };
    Status status = words_weighed(&list->weighted, words, count);
    for (int i = 0; i < count && status == OK; i++) {
        double weight = 1;
        if (list->weighted) number_read(&weight, words[i++]);
        status = part_add(list, words[i], NULL, weight);
    }
    if (status != OK) blend_spec_close(list);
    return status;
}

/* Columns are separated by white space. A fourth column is looked for only to refuse it. */
static Status line_add(BlendSpec *list, char *line, const char *path, int number)
{
    static const char space[] = " \t\r\f\v";
    char  *rest, *column[4] = { 0 };
    double weight;
    int    columns = 0;
    for (char *word = strtok_r(line, space, &rest); word && columns < 4; word = strtok_r(NULL, space, &rest))
        column[columns++] = word;
    if (columns == 0) return OK;
    if (columns != 3)
        return fail(BAD_FILE, "%s: line %d: has %d%s column%s, and must have three: weight, prefix, corpus",
                    path, number, columns, columns > 3 ? " or more" : "", columns == 1 ? "" : "s");
    if (!number_read(&weight, column[0]) || !(weight > 0) || !isfinite(weight))
        return fail(BAD_FILE, "%s: line %d: weight %s is no decimal number above 0; give another, or leave "
                    "that data set out", path, number, column[0]);
    size_t length = strlen(column[1]);
    if (length > 4 && !strcmp(column[1] + length - 4, ".bin")) column[1][length - 4] = 0;
    return part_add(list, column[1], column[2], weight);
}

static Status lines_add(BlendSpec *list, char *text, const char *path)
{
    static const char mark[] = "\xEF\xBB\xBF";            /* a byte order mark, as of Windows' editors */
    int number = 1;
    if (!strncmp(text, mark, strlen(mark))) text += strlen(mark);
    for (char *line = text; line; number++) {
        char *end = strchr(line, '\n');
        if (end) *end++ = 0;
        TRY(line_add(list, line, path, number));
        line = end;
    }
    if (list->count == 0)
        return fail(BAD_FILE, "%s: no line has a data set; a line is: weight, prefix, corpus", path);
    list->weighted = true;
    return OK;
}

/* A zero byte would end the text for strchr and hide the lines after it, so it is refused. */
Status blend_spec_file(BlendSpec *list, const char *path)
{
    FileMap map;
    *list = (BlendSpec){ 0 };
    TRY(file_map(&map, path));
    if (map.size > LIST_BYTES) {
        file_unmap(&map);
        return fail(BAD_FILE, "%s: longer than the %d bytes that a list of data sets may have", path,
                    LIST_BYTES);
    }
    const char *zero = map.size ? memchr(map.data, 0, map.size) : NULL;
    ptrdiff_t   at   = zero ? zero - (const char *)map.data : -1;
    char       *text = strndup((const char *)map.data, map.size);
    file_unmap(&map);
    Status status = OK;
    if (!text) status = fail(NO_MEMORY, "%s: no memory for the list", path);
    else if (zero)
        status = fail(BAD_FILE, "%s: byte %td is 0, and a list is text; a line is: weight, prefix, corpus",
                      path, at);
    else status = lines_add(list, text, path);
    free(text);
    if (status != OK) blend_spec_close(list);
    return status;
}

/* ---- groups ---- */

static Status group_part_add(BlendSpec *list, char *text, const char *group)
{
    char  *rest, *word[4] = { 0 };
    double weight, begin, end;
    int    words = 0;
    for (char *w = strtok_r(text, " \t\n", &rest); w && words < 4; w = strtok_r(NULL, " \t\n", &rest))
        word[words++] = w;
    char *colon = words == 3 ? strchr(word[1], ':') : NULL;
    if (colon) *colon = 0;
    if (!colon || !number_read(&weight, word[0]) || !number_read(&begin, word[1]) ||
        !number_read(&end, colon + 1) || !(begin >= 0 && begin < end && end <= 1))
        return fail(BAD_OPTION, "%.200s: a group is NAME: WEIGHT START:END PREFIX, WEIGHT START:END PREFIX"
                    " ... with 0 <= START < END <= 1, and its part %d is not", group, list->count + 1);
    TRY(part_add(list, word[2], NULL, weight));
    list->part[list->count - 1].begin = begin;
    list->part[list->count - 1].end   = end;
    return OK;
}

Status blend_spec_group(BlendSpec *list, const char *group)
{
    const char *colon = strchr(group, ':');
    char       *text  = strdup(colon ? colon + 1 : "");
    Status      status = text ? OK : fail(NO_MEMORY, "no memory for a list of data sets");
    *list = (BlendSpec){ 0 };
    for (char *part = text; part && status == OK;) {
        char *comma = strchr(part, ',');
        if (comma) *comma++ = 0;
        status = group_part_add(list, part, group);
        part   = comma;
    }
    free(text);
    list->weighted = list->count > 1;
    if (status != OK) blend_spec_close(list);
    return status;
}

void blend_spec_close(BlendSpec *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->part[i].prefix);
        free(list->part[i].corpus);
    }
    free(list->part);
    *list = (BlendSpec){ 0 };
}
