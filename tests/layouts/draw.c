/* Choices of values: their options, whether they can be, and random ones. */
#include "layouts/draw.h"
#include <stdio.h>
#include <string.h>
#include "base/random.h"
#include "cli/setup/setup.h"

/* What all layouts have in common. The vocabulary is the tokenizer's 257, which no tp divides. */
#define COMMON "--hidden-size 32 --num-attention-heads 8 --seq-length 16 --init-method-std 0.05 --lr 1e-3 " \
               "--lr-decay-style cosine --train-iters 8 --split 90,10,0 --eval-iters 1 --eval-interval 1000 --log-interval 1000 --threads 1"

int64_t dice(Dice *d, int64_t low, int64_t high)
{
    return low + (int64_t)(random_bits(d->key, d->at++) % (uint64_t)(high - low + 1));
}

int draw_size(const Draw *d, Dimension dimension) { return values[d->value[dimension]].size; }

int draw_ranks(const Draw *d) { return draw_size(d, TP) * draw_size(d, CP) * draw_size(d, PP) * draw_size(d, DP); }

static int virtual_stages(const Draw *d) { return draw_size(d, PP) * draw_size(d, SCHEDULE); }

/* The fewest of these that the virtual stages divide, so that few runs of one rank serve all layouts */
static int layers_of(const Draw *d)
{
    enum { EVEN, UNEVEN, COUNTED, SHORT };
    int stages = draw_size(d, STAGES), chunks = draw_size(d, SCHEDULE), layers = 4;
    if (stages == SHORT) return chunks + 2 * (virtual_stages(d) - chunks);
    while (layers % virtual_stages(d) != 0) layers += 2;
    return stages == UNEVEN ? layers + 1 : stages == COUNTED ? layers - 2 + virtual_stages(d) : layers;
}

/* The same for micro-batches of all data-parallel ranks, whose number the stages divide if they are
 * interleaved; of half of it too, where a ramp begins with that. */
static int global_of(const Draw *d)
{
    int unit = draw_size(d, MICRO) * draw_size(d, DP) * (draw_size(d, SCHEDULE) > 1 ? draw_size(d, PP) : 1);
    int global = 8;
    if (draw_size(d, BATCH)) unit *= 2;
    while (global % unit != 0) global += 4;
    return global;
}

static int number(const Draw *d, const char *name)
{
    int chunk_layers = layers_of(d) / virtual_stages(d);
    if (!strcmp(name, "@first_layers")) return draw_size(d, SCHEDULE);
    int smallest = global_of(d) / (draw_size(d, BATCH) ? 2 : 1);
    if (!strcmp(name, "@micros")) return smallest / (draw_size(d, MICRO) * draw_size(d, DP));
    if (!strcmp(name, "@half")) return smallest;
    if (!strcmp(name, "@group_layers")) return chunk_layers < 2 ? chunk_layers : 2;
    CHECK(false, "no number is called %s", name);
    return 0;
}

/* Adds words; one that begins with @ stands for what depends on other values. */
static void add(char out[WORDS_MOST], const Draw *d, const char *words)
{
    char copy[WORDS_MOST], *rest;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        size_t used = strlen(out);
        if (!strcmp(w, "@mlp_module")) w = draw_size(d, MLP) ? "moe_act" : "mlp";
        if (*w == '@') snprintf(out + used, WORDS_MOST - used, "%s%d", used ? " " : "", number(d, w));
        else           snprintf(out + used, WORDS_MOST - used, "%s%s", used ? " " : "", w);
    }
}

/* The same workers: of dense parameters the data-parallel ranks, each with its samples; of experts as many neighbours in a stage as hold
 * all of them once, each with its tokens. Their tensor and context parallelism stays where it cuts a worker's tokens. */
static void add_workers(char out[WORDS_MOST], const Draw *d)
{
    char words[128];
    int tp = draw_size(d, TP), cp = draw_size(d, CP), dp = draw_size(d, DP), ep = draw_size(d, EP);
    int neighbours = (draw_size(d, ETP) ? 1 : tp) * ep;
    bool experts = draw_size(d, MLP) > 0;
    if (!experts) tp = cp = ep = 1;
    else if (neighbours % (tp * cp) == 0) ep = neighbours / (tp * cp), tp = cp = 1;
    else if (neighbours % tp == 0) ep = neighbours / tp, tp = 1;
    snprintf(words, sizeof words, "--ranks %d --tp %d --cp %d%s", tp * cp * dp, tp, cp, tp > 1 ? " --sp --etp 1" : "");
    add(out, d, words);
    if (cp > 1) add(out, d, values[d->value[CONTEXT]].words);
    if (ep > 1) snprintf(words, sizeof words, "--ep %d", ep), add(out, d, words);
    if (tp * cp * dp > 1) add(out, d, values[d->value[MICRO]].words);
}

void draw_words(char out[WORDS_MOST], const Draw *d, bool course)
{
    char counted[128];
    bool workers = course && draw_size(d, OPTIMIZER) == SIGNS;
    snprintf(counted, sizeof counted, "--num-layers %d --global-batch-size %d", layers_of(d), global_of(d));
    out[0] = 0;
    add(out, d, COMMON);
    add(out, d, counted);
    for (int i = 0; i < (course ? (int)COURSE : (int)DIMENSIONS); i++) add(out, d, values[d->value[i]].words);
    if (workers) add_workers(out, d);
    else snprintf(counted, sizeof counted, "--ranks %d", course ? 1 : draw_ranks(d)), add(out, d, counted);
}

void draw_name(char out[WORDS_MOST], const Draw *d)
{
    out[0] = 0;
    for (int i = 0; i < DIMENSIONS; i++) add(out, d, values[d->value[i]].name);
}

Status parsed_open(Parsed *p, const char *words)
{
    char *rest;
    *p = (Parsed){ .words = 0 };
    snprintf(p->text, sizeof p->text, "%s", words);
    for (char *w = strtok_r(p->text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) p->word[p->words++] = w;
    TRY(setup_parse(&p->options, FOR_TRAIN, p->words, p->word));
    TRY(options_needed(&p->options));
    TRY(setup_values(&p->options));
    TRY(setup_validate(&p->options));
    return setup_train_config(&p->config, &p->options);
}

void parsed_close(Parsed *p) { options_close(&p->options); }

/* ---- what can be ---- */

/* The row that needs what is not there, or -1 */
static int lacking(const Draw *d)
{
    for (int i = 0; i < DIMENSIONS; i++)
        for (int n = 0; n < NEEDS; n++) {
            const Need *need = &values[d->value[i]].needs[n];
            if (need->least > 0 && draw_size(d, need->dimension) < need->least) return d->value[i];
        }
    return -1;
}

/* What the options allow and the mesh, the stages or the trainer do not: of each stage the first rank is asked. */
static Status dry_open(const Draw *d, const TrainConfig *config)
{
    int ranks = draw_size(d, TP) * draw_size(d, CP), pp = draw_size(d, PP);
    if (draw_size(d, ORDER) == 0) ranks *= draw_size(d, DP);
    for (int i = 0; i < pp; i++) {
        Trainer t;
        Transport *transport = transport_dry_open(i * ranks, draw_ranks(d));
        Status status = trainer_open(&t, config, transport, NULL);
        CHECK(status != OK || (t.mesh.at.pp == i && t.mesh.at.tp + t.mesh.at.cp + t.mesh.at.dp == 0), "not the first of stage %d", i);
        trainer_close(&t);
        transport->close(transport);
        TRY(status);
    }
    return OK;
}

const char *draw_refusal(const Draw *d, char why[REFUSAL_MOST])
{
    char words[WORDS_MOST];
    Parsed p;
    int row = lacking(d);
    if (row >= 0)
        return snprintf(why, REFUSAL_MOST, "%s has no effect here", values[row].name), why;
    if (draw_ranks(d) > RANKS_MOST)
        return snprintf(why, REFUSAL_MOST, "%d ranks", draw_ranks(d)), why;
    draw_words(words, d, false);
    snprintf(words + strlen(words), sizeof words - strlen(words), " --data-path none");
    Status status = parsed_open(&p, words);
    if (status == OK) status = dry_open(d, &p.config);
    if (status != OK) snprintf(why, REFUSAL_MOST, "%.*s", REFUSAL_MOST - 1, fail_text());
    parsed_close(&p);
    return status == OK ? NULL : why;
}

static int any_value(Dice *chance, Dimension dimension)
{
    int first = 0, count = 0;
    while (values[first].dimension != dimension) first++;
    while (first + count < values_count && values[first + count].dimension == dimension) count++;
    return first + (int)dice(chance, 0, count - 1);
}

static int first_value(Dimension dimension)
{
    int v = 0;
    while (values[v].dimension != dimension) v++;
    return v;
}

/* A dimension at its first value asks for nothing and takes one rank. As many as are needed go back to it,
 * `a` and `b` never. */
static void draw_mend(Draw *d, Dice *chance, int a, int b)
{
    static const Dimension axis[] = { TP, CP, PP, DP };
    for (int turn = 0; turn < 4 * DIMENSIONS; turn++) {
        int row = lacking(d);
        Dimension i = row >= 0 ? values[row].dimension : axis[dice(chance, 0, 3)];
        if (row < 0 && draw_ranks(d) <= RANKS_MOST) return;
        if (d->value[i] != a && d->value[i] != b) d->value[i] = first_value(i);
        else if (row >= 0) {                            /* what it needs, then */
            const Need *need = &values[row].needs[dice(chance, 0, NEEDS - 1)];
            int other = any_value(chance, need->dimension);
            bool fixed = d->value[need->dimension] == a || d->value[need->dimension] == b;
            if (need->least > 0 && !fixed && values[other].size >= need->least) d->value[need->dimension] = other;
        }
    }
}

bool draw_random(Draw *d, Dice *chance, int a, int b, int tries, char why[REFUSAL_MOST])
{
    for (int t = 0; t < tries; t++) {
        for (Dimension i = 0; i < DIMENSIONS; i++) d->value[i] = any_value(chance, i);
        if (a >= 0) d->value[values[a].dimension] = a;
        if (b >= 0) d->value[values[b].dimension] = b;
        draw_mend(d, chance, a, b);
        if (!draw_refusal(d, why)) return true;
    }
    return false;
}
