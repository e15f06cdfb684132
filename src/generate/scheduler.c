/* Continuous batching: requests begin and end between any two forwards. */
#include "generate/scheduler.h"
#include <stdlib.h>
#include <string.h>
#include "base/integer.h"
#include "generate/forward.h"

static void *list_new(int64_t count, size_t bytes)
{
    void *p = calloc((size_t)most_of(count, 1), bytes);
    CHECK(p, "no memory for %lld slots of generation", (long long)count);
    return p;
}

static int64_t slots(const Scheduler *s) { return data_ranks(s->g) * s->g->sequences; }
static int     data_of(const Scheduler *s, int64_t slot) { return (int)(slot / s->g->sequences); }
static int     own_number(const Scheduler *s, int64_t slot) { return (int)(slot % s->g->sequences); }

void scheduler_open(Scheduler *s, const EngineSetup *g, const RequestSource *source)
{
    int64_t pages = engine_pages(g), most = text_pages(g, g->capacity);
    *s = (Scheduler){ .g = g, .source = source };
    s->slot = list_new(slots(s), sizeof *s->slot);
    s->pool = list_new(data_ranks(g), sizeof *s->pool);
    s->list  = list_new(g->sequences, sizeof *s->list);
    s->drawn = list_new(data_ranks(g), sizeof *s->drawn);
    s->word  = list_new(slots(s), sizeof *s->word);
    for (int64_t i = 0; i < slots(s); i++) s->slot[i].page = list_new(most, sizeof(int32_t));
    for (int d = 0; d < data_ranks(g); d++) {
        PagePool *pool = &s->pool[d];
        *pool = (PagePool){ list_new(pages, sizeof(int32_t)), list_new(pages, sizeof(int32_t)), pages };
        for (int64_t i = 0; i < pages; i++) pool->free[i] = (int32_t)(pages - 1 - i);
    }
    plan_clear(&s->plan);
}

void scheduler_close(Scheduler *s)
{
    for (int64_t i = 0; s->slot && i < slots(s); i++) {
        free(s->slot[i].page);
        beams_close(s->slot[i].search);
    }
    for (int d = 0; s->pool && d < data_ranks(s->g); d++) {
        free(s->pool[d].free);
        free(s->pool[d].uses);
    }
    free(s->slot);
    free(s->pool);
    free(s->list);
    free(s->drawn);
    free(s->word);
    plan_close(&s->plan);
}

/* ---- pages ---- */

static int32_t page_take(PagePool *pool)
{
    CHECK(pool->frees > 0, "no page is free for a text that has begun");
    int32_t page = pool->free[--pool->frees];
    pool->uses[page] = 1;
    return page;
}

static void pages_give(PagePool *pool, const int32_t *page, int64_t pages)
{
    for (int64_t i = 0; i < pages; i++)
        if (--pool->uses[page[i]] == 0) pool->free[pool->frees++] = page[i];
}

/* Beams share the pages of what they have in common. When they fork each may copy its last one,
 * while the pages of beams that end are in use yet. */
static int64_t pages_wanted(const Scheduler *s, const Request *r)
{
    int64_t each = text_pages(s->g, r->count + r->most);
    return r->beams > 0 ? r->beams * (each + 1) : each;
}

static int64_t slots_wanted(const Request *r) { return most_of(r->beams, 1); }

/* ---- begin ---- */

static int64_t slots_free(const Scheduler *s, int data)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->g->sequences; i++) n += s->slot[data * s->g->sequences + i].state == SLOT_FREE;
    return n;
}

/* Pages that the beams of a search have, shared ones once; they are at the same place in all tables. */
static int64_t search_pages(const Scheduler *s, const TextSlot *leader)
{
    int64_t n = 0;
    for (int b = 0; b < leader->request.beams; b++) {
        const TextSlot *slot = &s->slot[leader->beam[b]];
        for (int64_t k = 0; k < slot->pages; k++) {
            bool shared = false;
            for (int a = 0; a < b; a++) {
                const TextSlot *other = &s->slot[leader->beam[a]];
                shared |= k < other->pages && other->page[k] == slot->page[k];
            }
            n += !shared;
        }
    }
    return n;
}

/* Pages that searches which run may yet take, besides those that they have. */
static int64_t pages_promised(const Scheduler *s, int data)
{
    int64_t n = 0;
    for (int64_t i = data * s->g->sequences; i < (data + 1) * s->g->sequences; i++)
        if (s->slot[i].search) n += pages_wanted(s, &s->slot[i].request) - search_pages(s, &s->slot[i]);
    return n;
}

static int64_t pages_left(const Scheduler *s, int data)
{
    return s->pool[data].frees - pages_promised(s, data);
}

/* The data rank with the most free pages of those that have room; -1: none has. */
static int data_for(const Scheduler *s, const Request *r)
{
    int best = -1;
    for (int d = 0; d < data_ranks(s->g); d++) {
        bool room = slots_free(s, d) >= slots_wanted(r) && pages_left(s, d) >= pages_wanted(s, r);
        if (room && (best < 0 || pages_left(s, d) > pages_left(s, best))) best = d;
    }
    return best;
}

static bool runs_at_all(const Scheduler *s, const Request *r)
{
    return r->count >= 1 && r->most >= 0 && r->count + r->most <= s->g->capacity &&
           (r->generated_count == 0 || r->generated_count < r->most) &&
           slots_wanted(r) <= s->g->sequences && pages_wanted(s, r) <= engine_pages(s->g);
}

static int64_t slot_take(Scheduler *s, int data)
{
    int64_t i = data * s->g->sequences;
    while (s->slot[i].state != SLOT_FREE) i++;
    return i;
}

static void slot_begin(Scheduler *s, int64_t i, int64_t leader, const Request *r, int64_t pages)
{
    TextSlot *slot = &s->slot[i];
    int32_t *page = slot->page;
    *slot = (TextSlot){ .state = i == leader ? SLOT_PROMPT : SLOT_BEAM, .order = s->orders, .request = *r,
                    .length = r->count + r->generated_count, .page = page, .pages = pages,
                    .leader = (int)leader };
    for (int64_t k = 0; k < pages; k++) page[k] = page_take(&s->pool[data_of(s, i)]);
    plan_begin(&s->plan, data_of(s, i), own_number(s, i), r);
    plan_table(&s->plan, data_of(s, i), own_number(s, i), page, pages);
}

/* A text has all its pages from the start; a beam search those of its prompt. */
static void begin(Scheduler *s, int data, const Request *r)
{
    int64_t leader = slot_take(s, data);
    slot_begin(s, leader, leader, r, text_pages(s->g, r->beams > 0 ? r->count : r->count + r->most));
    if (r->beams > 0) {
        TextSlot *slot = &s->slot[leader];
        slot->search  = beams_open(r, s->g->end);
        slot->beam[0] = (int)leader;
        for (int b = 1; b < r->beams; b++) {
            slot->beam[b] = (int)slot_take(s, data);
            slot_begin(s, slot->beam[b], leader, r, 0);
        }
    }
    s->orders++;
    s->running++;
}

static void slot_end(Scheduler *s, int64_t i)
{
    TextSlot *slot = &s->slot[i];
    pages_give(&s->pool[data_of(s, i)], slot->page, slot->pages);
    beams_close(slot->search);
    slot->search = NULL;
    slot->state  = SLOT_FREE;
    plan_end(&s->plan, data_of(s, i), own_number(s, i));
}

static void end(Scheduler *s, int64_t leader, GenerationEnd reason)
{
    TextSlot *slot = &s->slot[leader];
    int64_t number = slot->request.number;
    int beams = slot->search ? slot->request.beams : 0, beam[BEAMS_MOST];
    memcpy(beam, slot->beam, sizeof beam);
    for (int b = 1; b < beams; b++) slot_end(s, beam[b]);
    slot_end(s, leader);
    s->running--;
    s->source->ended(s->source->context, number, reason);
}

static void ask(Scheduler *s)
{
    const RequestSource *source = s->source;
    RequestAnswer answer;
    while ((answer = source->next(source->context, s->running == 0, &s->pending)) == REQUEST_GIVEN &&
           !runs_at_all(s, &s->pending))
        source->ended(source->context, s->pending.number, END_TOO_LONG);
    s->has_pending = answer == REQUEST_GIVEN;
    s->closed     |= answer == REQUEST_CLOSED;
}

static bool any_slot_free(const Scheduler *s)
{
    for (int d = 0; d < data_ranks(s->g); d++)
        if (slots_free(s, d) > 0) return true;
    return false;
}

static EngineUse use_of(const Scheduler *s)
{
    EngineUse use = { .running = s->running, .places = slots(s), .prompt_tokens = s->prompt_tokens };
    for (int d = 0; d < data_ranks(s->g); d++) {
        use.pages      += engine_pages(s->g);
        use.pages_used += engine_pages(s->g) - s->pool[d].frees;
    }
    return use;
}

/* In the order in which they are given: a long one is not overtaken for ever by short ones. */
static void take_requests(Scheduler *s)
{
    const RequestSource *source = s->source;
    if (source->use) source->use(source->context, use_of(s));
    for (int64_t i = 0; source->wanted && i < slots(s); i++)
        if ((s->slot[i].state == SLOT_PROMPT || s->slot[i].state == SLOT_TEXT) && s->slot[i].leader == i &&
            !source->wanted(source->context, s->slot[i].request.number)) end(s, i, END_CANCELLED);
    if (s->has_pending && source->wanted && !source->wanted(source->context, s->pending.number)) {
        s->has_pending = false;
        source->ended(source->context, s->pending.number, END_CANCELLED);
    }
    for (;;) {
        if (!s->has_pending && !s->closed && any_slot_free(s)) ask(s);
        int data = s->has_pending ? data_for(s, &s->pending) : -1;
        if (data < 0) return;
        s->has_pending = false;
        begin(s, data, &s->pending);
    }
}

/* ---- forwards ---- */

/* The slots of a data rank in this state, in the order of their requests. */
static int64_t slots_in(const Scheduler *s, int data, SlotState state, int64_t *list)
{
    int64_t n = 0;
    for (int64_t i = data * s->g->sequences; i < (data + 1) * s->g->sequences; i++) {
        if (s->slot[i].state != state) continue;
        int64_t at = n++;
        for (; at > 0 && s->slot[list[at - 1]].order > s->slot[i].order; at--) list[at] = list[at - 1];
        list[at] = i;
    }
    return n;
}

static void segment_add(const Scheduler *s, ForwardPlan *f, int64_t i, int64_t micro, int64_t count,
                        int64_t draws)
{
    const TextSlot *slot = &s->slot[i];
    const Request *r = &slot->request;
    *forward_segment(f) = (Segment){ .data = data_of(s, i), .slot = own_number(s, i), .micro = (int32_t)micro,
        .draws = (int32_t)draws, .position = slot->cached, .count = count };
    int64_t wanted = r->beams > 0 ? 2 * r->beams : r->alternatives;
    if (draws) f->alternatives = most_of(f->alternatives, wanted);
    if (micro >= f->micros) f->micros = micro + 1;
}

/* Chunks of prompts, as many as there is room for. One that is scored wants the logits of all its rows. */
static void plan_prompts(Scheduler *s, ForwardPlan *f, int data, int64_t *list)
{
    int64_t n = slots_in(s, data, SLOT_PROMPT, list), micro = 0, used = 0, results = 0;
    int64_t most = s->g->schedule->shape.micros, rows = s->g->rows;
    for (int64_t k = 0; k < n; k++) {
        TextSlot *slot = &s->slot[list[k]];
        bool scores = slot->request.scores_prompt;
        while (slot->cached < slot->length) {
            int64_t count = least(scores ? least(rows, SCORED_ROWS) : rows, slot->length - slot->cached);
            int64_t draws = scores ? count : slot->cached + count == slot->length;
            if (used + count > rows) micro++, used = 0;
            if (results + draws > logits_room(s->g)) micro = most;
            if (micro == most) break;
            segment_add(s, f, list[k], micro, count, draws);
            used += count;
            slot->cached += count;
            s->prompt_tokens += count;
            results += draws;
            f->rows = most_of(f->rows, used);
        }
        if (micro == most) break;
    }
    f->results = most_of(f->results, results);
}

/* One position of each text. Micro-batches have equally many. */
static void plan_texts(Scheduler *s, ForwardPlan *f, int data, int64_t each, int64_t *list)
{
    int64_t n = slots_in(s, data, SLOT_TEXT, list);
    for (int64_t k = 0; k < n; k++) {
        segment_add(s, f, list[k], k / each, 1, 1);
        s->slot[list[k]].cached++;
    }
    f->results = most_of(f->results, n);
}

/* The most slots in this state that a data rank has. */
static int64_t most_slots(const Scheduler *s, SlotState state)
{
    int64_t most = 0;
    for (int d = 0; d < data_ranks(s->g); d++) {
        int64_t n = 0;
        for (int64_t i = 0; i < s->g->sequences; i++) n += s->slot[d * s->g->sequences + i].state == state;
        most = most_of(most, n);
    }
    return most;
}

/* Forwards of prompts and of texts alternate where there are both, so that neither waits for long. */
void scheduler_plan(Scheduler *s, ForwardPlan *f)
{
    int64_t *list = s->list, micros = s->g->schedule->shape.micros;
    take_requests(s);
    *f = (ForwardPlan){ .segment = f->segment, .room = f->room };
    int64_t prompts = most_slots(s, SLOT_PROMPT), texts = most_slots(s, SLOT_TEXT);
    bool of_texts = texts > 0 && (prompts == 0 || s->texts_next);
    int64_t each = divide_up(texts, most_of(least(texts, micros), 1));
    for (int d = 0; d < data_ranks(s->g); d++) {
        if (of_texts)         plan_texts(s, f, d, each, list);
        else if (prompts > 0) plan_prompts(s, f, d, list);
    }
    s->texts_next = !of_texts;
    f->rows   = rows_shared(s->g, of_texts ? each : f->rows);
    f->closed = s->closed && !s->has_pending && s->running == 0;
    plan_forward(&s->plan, f);
}

/* ---- results ---- */

static float number_at(const int32_t *word)
{
    float x;
    memcpy(&x, word, sizeof x);
    return x;
}

static void text_continues(Scheduler *s, int64_t i, int32_t id)
{
    TextSlot *slot = &s->slot[i];
    slot->state = SLOT_TEXT;
    slot->length++;
    plan_token(&s->plan, data_of(s, i), own_number(s, i), slot->length, id);
}

static GeneratedToken token_of(const Request *r, const int32_t *word, int64_t alternatives)
{
    return (GeneratedToken){ .id = word[RESULT_ID], .logprob = number_at(word + RESULT_LOGPROB),
        .alternatives = (int)most_of(r->alternatives, 0), .alternative_id = word + RESULT_FIRST,
        .alternative_logprob = (const float *)(const void *)(word + RESULT_FIRST + alternatives) };
}

/* The results of a segment: what scores its prompt is given out. Returns that from which the next token
 * follows, or one that is not finite; NULL: the text is not known so far. */
static const int32_t *take_scores(const Scheduler *s, const TextSlot *slot, const Segment *of,
                                  const int32_t *word, int64_t alternatives)
{
    const Request *r = &slot->request;
    for (int64_t next = of->position + of->count - of->draws + 1; ; next++) {
        if (next > of->position + of->count) return NULL;
        if (next == slot->length || word[RESULT_ID] == NOT_FINITE) return word;
        GeneratedToken token = token_of(r, word, alternatives);
        s->source->prompt_token(s->source->context, r->number, next, &token);
        word += result_words(alternatives);
    }
}

static void take_token(Scheduler *s, int64_t i, const int32_t *word, int64_t alternatives)
{
    TextSlot *slot = &s->slot[i];
    const Request *r = &slot->request;
    if (word[RESULT_ID] == NOT_FINITE) { end(s, i, END_NOT_FINITE); return; }
    if (r->most == 0)                  { end(s, i, END_LENGTH);     return; }
    if (word[RESULT_ID] == s->g->end)  { end(s, i, END_OF_TEXT);    return; }
    GeneratedToken token = token_of(r, word, alternatives);
    if (!s->source->token(s->source->context, r->number, &token)) end(s, i, END_STOPPED);
    else if (slot->length + 1 - r->count >= r->most)              end(s, i, END_LENGTH);
    else text_continues(s, i, token.id);
}

/* ---- results of beam search ---- */

/* The pages of the beams that continue: whole pages of their parents are shared, the last one, which both
 * would write to, is copied for all children but the first. Then each has a page for its next position. */
static void pages_fork(Scheduler *s, TextSlot *leader, const int *parent, int64_t length)
{
    BeamSearch *search = leader->search;
    int data = data_of(s, leader->leader);
    PagePool *pool = &s->pool[data];
    int64_t most = text_pages(s->g, s->g->capacity), whole = length / page_span(s->g);
    int64_t part = length % page_span(s->g) > 0, old[BEAMS_MOST];
    bool had[BEAMS_MOST] = { false };
    int32_t *before = list_new(search->beams * most, sizeof *before);
    for (int b = 0; b < search->beams; b++) {
        TextSlot *slot = &s->slot[leader->beam[b]];
        memcpy(before + b * most, slot->page, (size_t)most * sizeof *before);
        old[b] = slot->pages;
        slot->pages = 0;
    }
    for (int b = 0; b < search->alive; b++) {
        TextSlot *slot = &s->slot[leader->beam[b]];
        const int32_t *from = before + parent[b] * most;
        slot->pages = whole + 1;
        for (int64_t k = 0; k < whole; k++) pool->uses[slot->page[k] = from[k]]++;
        if (part && !had[parent[b]]) pool->uses[slot->page[whole] = from[whole]]++;
        else slot->page[whole] = page_take(pool);
        if (part && had[parent[b]]) plan_copy(&s->plan, data, from[whole], slot->page[whole]);
        had[parent[b]] = true;
    }
    for (int b = 0; b < search->beams; b++) pages_give(pool, before + b * most, old[b]);
    free(before);
}

static void answer(Scheduler *s, int64_t leader, GenerationEnd reason)
{
    const RequestSource *source = s->source;
    const Request *r = &s->slot[leader].request;
    const BeamText *best = beams_best(s->slot[leader].search);
    bool taken = best != NULL;
    if (best && source->scored) source->scored(source->context, r->number, best->score);
    for (int64_t i = 0; taken && i < best->count; i++)
        taken = source->token(source->context, r->number,
                                &(GeneratedToken){ .id = best->id[i], .logprob = best->logprob[i] });
    if (best && best->count < r->most) reason = END_OF_TEXT;
    end(s, leader, best && !taken ? END_STOPPED : reason);
}

/* word: [alive], the results of the beams */
static void take_beams(Scheduler *s, int64_t i, const int32_t **word, int64_t alternatives)
{
    TextSlot *leader = &s->slot[i];
    BeamSearch *search = leader->search;
    BeamCandidates from[BEAMS_MOST];
    int parent[BEAMS_MOST];
    int64_t length = leader->length;
    for (int b = 0; b < search->alive; b++) {
        if (word[b][RESULT_ID] == NOT_FINITE) { end(s, i, END_NOT_FINITE); return; }
        from[b] = (BeamCandidates){ word[b] + RESULT_FIRST,
            (const float *)(const void *)(word[b] + RESULT_FIRST + alternatives) };
    }
    if (!beams_step(search, from, parent)) { answer(s, i, END_LENGTH); return; }
    pages_fork(s, leader, parent, length);
    for (int b = 0; b < search->beams; b++) {
        TextSlot *slot = &s->slot[leader->beam[b]];
        slot->state  = SLOT_BEAM;
        slot->cached = slot->length = length;
        if (b >= search->alive) continue;
        plan_table(&s->plan, data_of(s, i), own_number(s, leader->beam[b]), slot->page, slot->pages);
        text_continues(s, leader->beam[b], search->running[b].id[search->made - 1]);
    }
}

void scheduler_take(Scheduler *s, const ForwardPlan *f, const int32_t *results)
{
    int64_t W = result_words(f->alternatives), *drawn = s->drawn;
    const int32_t **word = s->word;
    memset(drawn, 0, (size_t)data_ranks(s->g) * sizeof *drawn);
    for (int64_t i = 0; i < slots(s); i++) word[i] = NULL;
    plan_clear(&s->plan);
    for (int64_t k = 0; k < f->segments; k++) {
        const Segment *segment = &f->segment[k];
        int64_t rank = (int64_t)segment->data * cp_ranks(s->g);                 /* cp rank 0 of a data rank */
        int64_t i = segment->data * s->g->sequences + segment->slot;
        const int32_t *first = results + (rank * f->results + drawn[segment->data]) * W;
        drawn[segment->data] += segment->draws;
        if (!word[i]) word[i] = take_scores(s, &s->slot[i], segment, first, f->alternatives);
    }
    for (int64_t i = 0; i < slots(s); i++) {
        const int32_t *of[BEAMS_MOST];
        TextSlot *slot = &s->slot[i];
        if (!word[i] || slot->leader != i) continue;
        for (int b = 0; slot->search && b < slot->search->alive; b++) of[b] = word[slot->beam[b]];
        if (slot->search) take_beams(s, i, of, f->alternatives);
        else              take_token(s, i, word[i], f->alternatives);
    }
}
