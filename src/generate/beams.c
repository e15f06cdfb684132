/* Beam search: which continuations are kept, and which texts are finished. */
#include "generate/beams.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static BeamText *texts_new(int n, int64_t most)
{
    BeamText *text = calloc((size_t)n, sizeof *text);
    CHECK(text, "no memory for %d beams", n);
    for (int i = 0; i < n; i++) {
        text[i].id      = calloc((size_t)most + 1, sizeof *text[i].id);
        text[i].logprob = calloc((size_t)most + 1, sizeof *text[i].logprob);
        CHECK(text[i].id && text[i].logprob, "no memory for beams of %lld tokens", (long long)most);
    }
    return text;
}

static void texts_free(BeamText *text, int n)
{
    for (int i = 0; i < n; i++) {
        free(text[i].id);
        free(text[i].logprob);
    }
    free(text);
}

BeamSearch *beams_open(const Request *r, int32_t end)
{
    BeamSearch *s = calloc(1, sizeof *s);
    CHECK(s, "no memory for a beam search");
    *s = (BeamSearch){ .beams = r->beams, .most = r->most, .length_penalty = r->length_penalty, .end = end,
        .running = texts_new(r->beams, r->most), .other = texts_new(r->beams, r->most),
        .finished = texts_new(r->beams, r->most), .alive = 1 };
    return s;
}

void beams_close(BeamSearch *s)
{
    if (!s) return;
    texts_free(s->running, s->beams);
    texts_free(s->other, s->beams);
    texts_free(s->finished, s->beams);
    free(s);
}

static void text_copy(BeamText *to, const BeamText *from, double score)
{
    to->score = score;
    to->count = from->count;
    memcpy(to->id, from->id, (size_t)from->count * sizeof *to->id);
    memcpy(to->logprob, from->logprob, (size_t)from->count * sizeof *to->logprob);
}

/* The texts with the best scores are kept, as many as there are beams. `length` counts the end. */
static void finish(BeamSearch *s, const BeamText *text, double sum, int64_t length)
{
    double score = sum / pow((double)length, s->length_penalty);
    int worst = 0;
    for (int i = 1; i < s->done; i++)
        if (s->finished[i].score < s->finished[worst].score) worst = i;
    if (s->done < s->beams) worst = s->done++;
    else if (score <= s->finished[worst].score) return;
    text_copy(&s->finished[worst], text, score);
}

typedef struct { double sum; int beam; int64_t of; } Ranked;

/* Descending sums; of equal ones the earlier beam, and then the likelier token. */
static bool ranks_before(Ranked a, Ranked b)
{
    if (a.sum != b.sum) return a.sum > b.sum;
    return a.beam != b.beam ? a.beam < b.beam : a.of < b.of;
}

/* The first 2 beams candidates of all beams, in order. */
static int rank_candidates(const BeamSearch *s, const BeamCandidates *from, Ranked *ranked)
{
    int n = 0, most = 2 * s->beams;
    for (int b = 0; b < s->alive; b++)
        for (int64_t k = 0; k < most && from[b].id[k] >= 0; k++) {
            Ranked next = { s->running[b].score + (double)from[b].logprob[k], b, k };
            int at = n;
            if (n == most && !ranks_before(next, ranked[n - 1])) break;      /* later ones are worse */
            if (n < most) n++;
            else          at = most - 1;
            for (; at > 0 && ranks_before(next, ranked[at - 1]); at--) ranked[at] = ranked[at - 1];
            ranked[at] = next;
        }
    return n;
}

bool beams_step(BeamSearch *s, const BeamCandidates *from, int parent[BEAMS_MOST])
{
    Ranked ranked[2 * BEAMS_MOST];
    int n = rank_candidates(s, from, ranked), alive = 0;
    for (int i = 0; i < n && alive < s->beams; i++) {
        const BeamText *text = &s->running[ranked[i].beam];
        int32_t id = from[ranked[i].beam].id[ranked[i].of];
        if (id == s->end) {
            if (i < s->beams) finish(s, text, ranked[i].sum, s->made + 1);
            continue;
        }
        BeamText *next = &s->other[alive];
        text_copy(next, text, ranked[i].sum);
        next->id[next->count] = id;
        next->logprob[next->count++] = from[ranked[i].beam].logprob[ranked[i].of];
        parent[alive++] = ranked[i].beam;
    }
    BeamText *running = s->other;
    s->other   = s->running;
    s->running = running;
    s->alive   = alive;
    s->made++;
    if (s->done == s->beams || alive == 0) return false;
    if (s->made < s->most) return true;
    for (int i = 0; i < alive; i++) finish(s, &s->running[i], s->running[i].score, s->made);
    return false;
}

const BeamText *beams_best(const BeamSearch *s)
{
    int best = 0;
    for (int i = 1; i < s->done; i++)
        if (s->finished[i].score > s->finished[best].score) best = i;
    return s->done > 0 ? &s->finished[best] : NULL;
}
