/* A loop as an engine has it: requests, then a step of all, then the tokens. */
#include "serve/fake_engine.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/random.h"

/* tests/serve/clients.py has the same text. */
static const char text[] = "the r\xc3\xa4ksm\xc3\xb6rg\xc3\xa5s sees \xe9\x9b\xa8 and \xf0\x9f\x8c\xa7 <b>&amp;</b> \"so\" it goes.\n";

typedef struct { Request r; int64_t generated; uint32_t at; int32_t *prompt; } Row;

/* FNV-1a of the prompt's ids, of the seed where sampling uses one, and of the choice */
static uint32_t place(const Request *r)
{
    uint32_t hash = 2166136261u;
    for (int64_t i = 0; i < r->count; i++) hash = (hash ^ (uint32_t)r->id[i]) * 16777619u;
    if (r->sampling.temperature > 0) {
        hash = (hash ^ (uint32_t)r->sampling.seed) * 16777619u;
        hash = (hash ^ (uint32_t)r->stream) * 16777619u;
    }
    return hash % (sizeof text - 1);
}

static bool ends(const Row *row)
{
    return row->r.id[row->r.count - 1] == '!' && row->generated == 10;
}

/* Of a row; the reason to end, or -1 */
static int step(Row *row, const RequestSource *s)
{
    enum { MOST = 32 };
    int32_t id[MOST];
    float logprob[MOST];
    if (!s->wanted(s->context, row->r.number)) return END_CANCELLED;
    if (row->generated > 0 && ends(row)) return END_OF_TEXT;
    int k = row->r.alternatives < 0 ? 0 : row->r.alternatives < MOST ? row->r.alternatives : MOST;
    int32_t now = (unsigned char)text[row->at++ % (sizeof text - 1)];
    for (int64_t i = 1; row->r.scores_prompt && row->generated == 0 && i < row->r.count; i++) {
        int32_t of[MOST];
        for (int a = 0; a < k; a++) of[a] = (row->r.id[i] + a) % 256, logprob[a] = -(float)(i % 8) / 8 - (float)a;
        GeneratedToken scored = { row->r.id[i], -(float)(i % 8) / 8, k, of, logprob };
        s->prompt_token(s->context, row->r.number, i, &scored);
    }
    if (row->r.most == 0) return END_LENGTH;
    row->generated++;
    for (int i = 0; i < k; i++) id[i] = (now + i) % 256, logprob[i] = -0.25f - (float)i;
    GeneratedToken token = { now, -0.25f, k, id, logprob };
    if (!s->token(s->context, row->r.number, &token)) return END_STOPPED;
    return row->generated == row->r.most ? END_LENGTH : -1;
}

void fake_engine_run(const FakeEngine *e, const RequestSource *s)
{
    Row *row = calloc((size_t)e->rows, sizeof *row);
    RequestAnswer answer = REQUEST_NONE;
    int rows = 0;
    while (row && (answer != REQUEST_CLOSED || rows)) {
        Request request;
        while (rows < e->rows && (answer = s->next(s->context, rows == 0, &request)) == REQUEST_GIVEN)
            row[rows++] = (Row){ .r = request, .generated = request.generated_count, .at = place(&request) + (uint32_t)request.generated_count };
        if (rows && e->step_us) usleep((useconds_t)e->step_us);
        s->use(s->context, (EngineUse){ .running = rows, .places = e->rows });
        for (int i = rows; i-- > 0; ) {
            int reason = step(&row[i], s);
            if (reason < 0) continue;
            s->ended(s->context, row[i].r.number, (GenerationEnd)reason);
            row[i] = row[--rows];
        }
    }
    free(row);
}
