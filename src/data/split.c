/* Dividing the sequences of a token file by --split, with the rounding of Megatron-LM or of its DeepSpeed
 * forks. */
#include <math.h>
#include <stdlib.h>
#include "data/split.h"

const char *split_name(SplitKind kind) { return (const char *const[]){ "train", "valid", "test" }[kind]; }

/* Reads up to three weights and divides them by their sum; missing ones are 0. */
static bool weights_read(double weight[3], const char *split)
{
    const char *p = split;
    for (int i = 0; i < 3; i++) {
        char *end;
        weight[i] = strtod(p, &end);
        if (end == p || !isfinite(weight[i]) || weight[i] < 0) return false;
        if (*end == 0) break;
        if (*end != ',' || i == 2) return false;
        p = end + 1;
    }
    double sum = weight[0] + weight[1] + weight[2];
    for (int i = 0; i < 3; i++) weight[i] /= sum;      /* NaN if all are zero, which the next line refuses */
    return sum > 0;
}

/* Megatron and its forks say "documents" and divide the sequences of the index; the two differ only if
 * there are empty documents or if the text was prepared sentence by sentence. */
Status split_range(int64_t *begin, int64_t *end, const char *split, SplitKind kind, SplitRounding rounding,
                   int64_t sequences)
{
    double  weight[3] = { 0 }, sum = 0, count = (double)sequences;
    int64_t border[4] = { 0 };
    *begin = 0;
    *end   = sequences;
    if (!split) return OK;
    if (!weights_read(weight, split))
        return fail(BAD_OPTION, "--split %s: give weights of train, valid and test, for example 969,30,1",
                    split);
    for (int i = 0; i < 3; i++) {
        sum += weight[i];
        border[i + 1] = rounding == SPLIT_SUMS ? (int64_t)rint(sum * count)
                                               : border[i] + (int64_t)rint(weight[i] * count);
    }
    int64_t over = rounding == SPLIT_SUMS ? 0 : border[3] - sequences;
    for (int i = 1; i <= 3; i++) border[i] -= over;
    /* With few sequences a shift may exceed a part. */
    for (int i = 1; i <= 3; i++) {
        if (border[i] < border[i - 1]) border[i] = border[i - 1];
        if (border[i] > sequences)     border[i] = sequences;
    }
    *begin = border[kind];
    *end   = border[kind + 1];
    return OK;
}
