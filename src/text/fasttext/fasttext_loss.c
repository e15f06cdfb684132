/* The output layer of a fastText classifier: hierarchical softmax as a search through a Huffman tree, the
 * other losses as a matrix-vector product over all labels. Order and precision of the arithmetic are
 * fastText's (loss.cc). */
#include "text/fasttext/fasttext_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, SIGMOIDS = 512, SIGMOID_MAX = 8 };
static const int64_t COUNT_UNBUILT = 1000000000000000;  /* above the sum of all label counts, which the
                                                         * reader checks */

/* fastText's std_log: of a float, computed in double, rounded to float */
static float log_shifted(float x) { return (float)log((double)x + 1e-5); }

/* ---- the best labels so far: a heap with the worst on top. Equal scores come out in the order of
 * std::pop_heap, which fastText uses: a hole sinks to the bottom along the worse children, and the element
 * that fills it rises from there. ---- */

static void heap_sift_up(LangidGuess *heap, int hole, LangidGuess guess)
{
    while (hole > 0 && heap[(hole - 1) / 2].probability > guess.probability) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = guess;
}

/* Moves the worst to the end, heap[count - 1]. */
static void heap_pop_worst(LangidGuess *heap, int count)
{
    LangidGuess worst = heap[0], last = heap[count - 1];
    int hole = 0, left = count - 1;
    for (int child = 2; child <= left; child = 2 * hole + 2) {
        if (child == left || heap[child].probability > heap[child - 1].probability) child--;
        heap[hole] = heap[child];
        hole = child;
    }
    heap_sift_up(heap, hole, last);
    heap[count - 1] = worst;
}

typedef struct { LangidGuess *heap; int count, most; } TopGuesses;        /* heap: capacity most + 1 */

static bool top_accepts(const TopGuesses *b, float score)
{
    return b->count < b->most || !(score < b->heap[0].probability);
}

static void top_add(TopGuesses *b, int label, float score)
{
    heap_sift_up(b->heap, b->count++, (LangidGuess){ label, score });
    if (b->count > b->most) heap_pop_worst(b->heap, b->count--);
}

static int top_write(LangidGuess *guess, TopGuesses *b)
{
    for (int left = b->count; left > 1; left--) heap_pop_worst(b->heap, left);
    for (int i = 0; i < b->count; i++) {
        float probability = expf(b->heap[i].probability);
        guess[i] = (LangidGuess){ b->heap[i].label, probability < 1 ? probability : 1 };
    }
    return b->count;
}

/* ---- a tree of labels ---- */

/* A depth-first search. With f = 1 / (1 + exp(-hidden . row)) the right child has probability f, the left one
 * 1 - f. A subtree below probability 1e-5, or below the worst of `most` labels found, is skipped. */
static void tree_walk(const FasttextLoss *l, FasttextTreeStep *step, TopGuesses *best, const float *hidden)
{
    float least = log_shifted(0);
    int   steps = 0;
    step[steps++] = (FasttextTreeStep){ 0, 2 * l->labels - 2 };
    while (steps) {
        FasttextTreeStep at = step[--steps];
        if (at.score < least || !top_accepts(best, at.score)) continue;
        FasttextTreeNode node = l->node[at.node];
        if (node.left < 0) {
            top_add(best, at.node, at.score);
            continue;
        }
        const float *row = l->weight + (int64_t)(at.node - l->labels) * l->dim;
        float dot = 0;
        for (int d = 0; d < l->dim; d++) dot += row[d] * hidden[d];
        float f = (float)(1.0 / (double)(1 + expf(-dot)));
        step[steps++] = (FasttextTreeStep){ at.score + log_shifted(f), node.right };
        step[steps++] = (FasttextTreeStep){ at.score + log_shifted((float)(1.0 - (double)f)), node.left };
    }
}

/* Builds the Huffman tree with two queues, in linear time: labels are sorted by count, so the rarest
 * remaining one is the next leaf, and inner nodes are made in order of their counts. */
static void tree_build(FasttextTreeNode *node, int64_t *count, const FasttextModel *m)
{
    int32_t n = m->labels, leaf = n - 1, next = n;
    for (int32_t i = 0; i < 2 * n - 1; i++) {
        node[i]  = (FasttextTreeNode){ -1, -1 };
        count[i] = i < n ? m->word[m->words + i].count : COUNT_UNBUILT;
    }
    for (int32_t i = n; i < 2 * n - 1; i++) {
        int32_t pair[2];
        for (int k = 0; k < 2; k++) pair[k] = leaf >= 0 && count[leaf] < count[next] ? leaf-- : next++;
        node[i]  = (FasttextTreeNode){ pair[0], pair[1] };
        count[i] = count[pair[0]] + count[pair[1]];
    }
}

static Status tree_open(FasttextLoss *l, const FasttextModel *m)
{
    size_t nodes = 2 * (size_t)l->labels - 1;
    int64_t *count = malloc(nodes * sizeof *count);
    l->node = malloc(nodes * sizeof *l->node);
    if (count && l->node) tree_build(l->node, count, m);
    free(count);
    return count && l->node ? OK
         : fail(NO_MEMORY, "%s: no memory for a tree of %d labels", m->file.path, l->labels);
}

/* ---- scores of all labels ---- */

static int32_t lane_groups(int32_t labels) { return (labels + LANES - 1) / LANES; }

/* output = weight hidden. Each label's sum is over the dimensions in order, as in fastText; sixteen labels
 * are computed at once, so the compiler vectorizes over labels, which changes no sum. */
static void outputs_compute(const FasttextLoss *l, float *output, const float *hidden)
{
    const float *w = l->weight;
    for (int32_t s = 0; s < lane_groups(l->labels); s++, output += LANES) {
        float sum[LANES] = { 0 };
        for (int32_t d = 0; d < l->dim; d++, w += LANES)
            for (int k = 0; k < LANES; k++) sum[k] += w[k] * hidden[d];
        memcpy(output, sum, sizeof sum);
    }
}

/* Subtracts the maximum first, so that no exponential overflows. */
static void softmax(float *output, int32_t labels)
{
    float most = output[0], sum = 0;
    for (int32_t i = 1; i < labels; i++) most = output[i] > most ? output[i] : most;
    for (int32_t i = 0; i < labels; i++) {
        output[i] = expf(output[i] - most);
        sum += output[i];
    }
    for (int32_t i = 0; i < labels; i++) output[i] /= sum;
}

/* fastText's approximation of the logistic function by a table */
static float sigmoid(const float *table, float x)
{
    if (x < -SIGMOID_MAX) return 0;
    if (x > SIGMOID_MAX)  return 1;
    return table[(int)((x + SIGMOID_MAX) * SIGMOIDS / SIGMOID_MAX / 2)];
}

static Status sigmoids_open(FasttextLoss *l, const FasttextModel *m)
{
    l->sigmoid = malloc((SIGMOIDS + 1) * sizeof *l->sigmoid);
    if (!l->sigmoid) return fail(NO_MEMORY, "%s: no memory for its labels", m->file.path);
    for (int i = 0; i <= SIGMOIDS; i++) {
        float x = (float)(i * 2 * SIGMOID_MAX) / SIGMOIDS - SIGMOID_MAX;
        l->sigmoid[i] = (float)(1.0 / (1.0 + (double)expf(-x)));
    }
    return OK;
}

static void outputs_guess(const FasttextLoss *l, float *output, TopGuesses *best, const float *hidden)
{
    outputs_compute(l, output, hidden);
    if (l->kind == FASTTEXT_SOFTMAX) softmax(output, l->labels);
    for (int32_t i = 0; i < l->labels; i++) {
        float score = log_shifted(l->sigmoid ? sigmoid(l->sigmoid, output[i]) : output[i]);
        if (top_accepts(best, score)) top_add(best, i, score);
    }
}

/* ---- guesses, opening and closing ---- */

int fasttext_loss_guess(const FasttextLoss *l, FasttextScratch *s, LangidGuess *guess, int most,
                        const float *hidden)
{
    TopGuesses best = { s->best, 0, most < l->labels ? most : l->labels };
    if (best.most < 1) return 0;
    if (l->node) tree_walk(l, s->step, &best, hidden);
    else         outputs_guess(l, s->output, &best, hidden);
    return top_write(guess, &best);
}

/* Unpacks the rows of the output matrix into the layout of the loss. In a real model they are few compared
 * with the input's rows, so the limit refuses only damaged files. */
static Status weights_open(FasttextLoss *l, const FasttextModel *m)
{
    int64_t most = (int64_t)m->file.size * 64;
    int64_t rows = l->kind == FASTTEXT_HIERARCHICAL ? l->labels : lane_groups(l->labels) * (int64_t)LANES;
    if (l->labels * (int64_t)l->dim * 4 > most)
        return fail(BAD_FILE, "%s: its output matrix unpacks to more than 64 times the file; the model is"
                    " damaged", m->file.path);
    l->weight  = calloc((size_t)rows * (size_t)l->dim, sizeof *l->weight);
    float *row = malloc((size_t)l->dim * sizeof *row);
    for (int64_t i = 0; l->weight && row && i < l->labels; i++) {
        memset(row, 0, (size_t)l->dim * sizeof *row);
        fasttext_rows_sum(row, &m->output, &i, 1);
        for (int64_t d = 0; d < l->dim; d++)
            l->weight[rows == l->labels && l->kind == FASTTEXT_HIERARCHICAL ? i * l->dim + d
                      : i / LANES * LANES * l->dim + d * LANES + i % LANES] = row[d];
    }
    free(row);
    return l->weight && row ? OK : fail(NO_MEMORY, "%s: no memory for its output matrix", m->file.path);
}

Status fasttext_loss_open(FasttextLoss *l, const FasttextModel *m)
{
    *l = (FasttextLoss){ .kind = m->loss, .labels = m->labels, .dim = m->dim };
    Status status = weights_open(l, m);
    if (status == OK && l->kind == FASTTEXT_HIERARCHICAL) status = tree_open(l, m);
    if (status == OK && (l->kind == FASTTEXT_NEGATIVE || l->kind == FASTTEXT_ONE_VS_ALL))
        status = sigmoids_open(l, m);
    if (status != OK) fasttext_loss_close(l);
    return status;
}

void fasttext_loss_close(FasttextLoss *l)
{
    free(l->weight);
    free(l->node);
    free(l->sigmoid);
    *l = (FasttextLoss){ 0 };
}

Status fasttext_scratch_open(FasttextScratch *s, const FasttextLoss *l)
{
    size_t labels = (size_t)l->labels;
    s->step   = malloc((labels + 2) * sizeof *s->step);
    s->best   = malloc((labels + 1) * sizeof *s->best);
    s->output = malloc((labels + LANES) * sizeof *s->output);
    if (s->step && s->best && s->output) return OK;
    fasttext_scratch_close(s);
    return fail(NO_MEMORY, "no memory for guesses among %d labels", l->labels);
}

void fasttext_scratch_close(FasttextScratch *s)
{
    free(s->step);
    free(s->best);
    free(s->output);
    *s = (FasttextScratch){ 0 };
}
