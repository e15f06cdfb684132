/* Drawn layouts that are killed and go on, under the same layout and under another. */
#include "layouts/session.h"
#include <string.h>
#include "base/file.h"
#include "train/harness.h"

/* SAVED: the step after which the killed run has a checkpoint. Of more than FEW layouts every fifth is resumed, and so
 * many more that all values are; of fewer about a third, those that have most of them. */
enum { SAVED = 1, RESUME_EVERY = 5, FEW = 50 };

/* ---- which ---- */

/* OVERLAP and TRANSPORT change no state. */
enum { RESUMED_OF = SUMS + 1 };

/* Values that no resumed layout has. */
static int more(const Draw *d, const bool *has)
{
    int count = 0;
    for (int i = 0; i < RESUMED_OF; i++) count += !has[d->value[i]];
    return count;
}

int session_choose_resumed(Session *session, int run)
{
    const Coverage *c = session->coverage;
    bool has[VALUES_MOST] = { false };
    int missing = 0, chosen = 0, count = run < c->count ? run : c->count;
    for (int n = 0; n < count; n++) session->resumes[n] = run > FEW && n % RESUME_EVERY == 2;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < RESUMED_OF && session->resumes[n]; i++) has[c->draw[n].value[i]] = true;
    for (; run > FEW || chosen < 2 + run / 3; chosen++) {
        int best = -1;
        for (int n = 0; n < count; n++)
            if (more(&c->draw[n], has) > (best < 0 ? 0 : more(&c->draw[best], has))) best = n;
        if (best < 0) break;
        session->resumes[best] = true;
        for (int i = 0; i < RESUMED_OF; i++) has[c->draw[best].value[i]] = true;
    }
    for (int v = 0; v < values_count; v++) missing += values[v].dimension <= SUMS && !has[v];
    return missing;
}

/* ---- how ---- */

static bool same_bits(const Result *rest, const Result *whole)
{
    size_t bytes = (STEPS - SAVED) * sizeof *rest->loss;
    return memcmp(rest->loss, whole->loss + SAVED, bytes) == 0 && memcmp(rest->norm, whole->norm + SAVED, bytes) == 0
        && memcmp(&rest->valid, &whole->valid, sizeof rest->valid) == 0 && rest->weights.off == 0;
}

/* Another drawn layout that computes the same; NULL: there is none. */
static const Draw *other_layout(const Coverage *c, int number)
{
    char mine[WORDS_MOST], other[WORDS_MOST];
    draw_words(mine, &c->draw[number], true);
    for (int i = 1; i < c->count; i++) {
        const Draw *d = &c->draw[(number + i) % c->count];
        draw_words(other, d, true);
        if (!strcmp(mine, other)) return d;
    }
    return NULL;
}

static const char *resume_same(Session *session, Result *rest, const char *words, Choices *choices, const Result *mine,
                               const char *folder, const char *killed, char why[FAILURE_MOST])
{
    char again[128];
    snprintf(again, sizeof again, "%s/again", scratch_folder());
    LayoutRun whole = { .words = words, .data = session->data, .save = killed, .save_at = SAVED, .steps = STEPS - 1,
        .choices = choices, .killed = true, .seconds = session->seconds };
    run_layout(rest, &whole);
    if (rest->failure[0]) return snprintf(why, FAILURE_MOST, "to be killed: %.500s", rest->failure), why;
    for (int s = 0; s < STEPS - 1; s++)
        if (rest->loss[s] != mine->loss[s] || rest->norm[s] != mine->norm[s])
            return snprintf(why, FAILURE_MOST, "the second run has other bits: loss of step %d %.17g, before %.17g", s + 1,
                            rest->loss[s], mine->loss[s]), why;
    run_layout(rest, &(LayoutRun){ .words = words, .data = session->data, .load = killed, .save = again,
        .beside = folder, .choices = choices, .states = true, .steps = STEPS - SAVED, .seconds = session->seconds });
    folder_remove(again);
    if (rest->failure[0]) return snprintf(why, FAILURE_MOST, "resumed: %.500s", rest->failure), why;
    if (same_bits(rest, mine)) return NULL;
    return snprintf(why, FAILURE_MOST, "resumed after a kill: not the same bits: loss %.17g, without a kill %.17g; "
                    "%s differs by %g", rest->loss[STEPS - SAVED - 1], mine->loss[STEPS - 1],
                    rest->weights.worst[0] ? rest->weights.worst : "no weight", rest->weights.off), why;
}

const char *session_resume(Session *session, int number, const Reference *one, const Result *mine, const char *folder,
                           char why[FAILURE_MOST])
{
    const Coverage *c = session->coverage;
    const Draw *d = &c->draw[number], *other = other_layout(c, number);
    char words[WORDS_MOST], killed[128], name[WORDS_MOST] = "one rank", bad[FAILURE_MOST];
    Result *rest = result_new();
    snprintf(killed, sizeof killed, "%s/killed", scratch_folder());
    draw_words(words, d, false);
    session->resumed++;
    const char *wrong = resume_same(session, rest, words, one->choices, mine, folder, killed, why);
    if (!wrong) {
        draw_words(words, other ? other : d, !other);
        if (other) draw_name(name, other);
        run_layout(rest, &(LayoutRun){ .words = words, .data = session->data, .load = killed,
            .choices = one->choices, .steps = STEPS - SAVED, .seconds = session->seconds });
        wrong = session_judge(session, d, rest, mine, SAVED, bad);
        if (wrong) snprintf(why, FAILURE_MOST, "resumed as %.200s: %.300s", name, bad), wrong = why;
    }
    folder_remove(killed);
    result_free(rest);
    return wrong;
}
