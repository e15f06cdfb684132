/* Divides layers among virtual stages: by a layout, by the layers of the first and the last stage, with
 * embedding and head counted as layers, or as evenly as the work of the head allows. */
#include "parallel/stage_split.h"

#include <ctype.h>
#include <string.h>

static const char LAYOUT[] = "--pipeline-model-parallel-layout";

/* ---- a layout ---- */

/* What has been read: virtual stage `at` is being filled; layers[at] as long as there is room. */
typedef struct {
    const char *layout;
    int64_t *layers;                           /* NULL: the stages are only counted */
    int      at, virtuals;
    int64_t  units;                            /* of the present one */
    int64_t  mtp;                              /* units of multi-token prediction (m) */
    bool     embedding, head;                  /* have been read */
} LayoutReader;

/* E is the first unit, L the last one. */
static Status layout_unit(LayoutReader *r, char c)
{
    if (c == '|') {
        if (r->mtp > 0)
            return fail(BAD_OPTION, "%s %s: multi-token prediction (m) is in the last stage, before L",
                        LAYOUT, r->layout);
        if (r->units == 0)
            return fail(BAD_OPTION, "%s %s: virtual stage %d is empty; give each a layer (t), E or L", LAYOUT,
                        r->layout, r->at);
        r->units = 0;
        r->at++;
        return OK;
    }
    if (c != 't' && c != 'E' && c != 'L' && c != 'm')
        return fail(BAD_OPTION, "%s %s: \"%c\" is none of E, t, m, L, |, *, ( and )", LAYOUT, r->layout, c);
    if (c == 't' && r->mtp > 0)
        return fail(BAD_OPTION, "%s %s: multi-token prediction (m) comes after all layers (t)", LAYOUT,
                    r->layout);
    if (r->head || (c == 'E') == r->embedding || (c == 'E' && (r->at > 0 || r->units > 0)))
        return fail(BAD_OPTION, "%s %s: it begins with its only E and ends with its only L", LAYOUT,
                    r->layout);
    r->embedding = true;
    r->head = c == 'L';
    r->units++;
    r->mtp += c == 'm';
    if (c == 't' && r->layers && r->at < r->virtuals) r->layers[r->at]++;
    return OK;
}

/* [text, end), where a unit or a group in parentheses may be followed by * and a number. */
static Status layout_read(LayoutReader *r, const char *text, const char *end)
{
    while (text < end) {
        bool group = *text == '(';
        const char *first = text + group, *last = text + 1;
        if (*text == ',' || isspace((unsigned char)*text)) { text++; continue; }
        if (group) last = memchr(first, ')', (size_t)(end - first));
        if (!last) return fail(BAD_OPTION, "%s %s: a ( has no )", LAYOUT, r->layout);
        text = last + group;
        long times = 1;
        if (text < end && *text == '*') {
            times = 0;
            for (text++; text < end && isdigit((unsigned char)*text) && times < 65536; text++)
                times = 10 * times + (*text - '0');
        }
        if (times < 1 || times > 65536)
            return fail(BAD_OPTION, "%s %s: after * comes a number from 1 to 65536", LAYOUT, r->layout);
        for (; times > 0; times--) {
            if (group) TRY(layout_read(r, first, last));
            else       TRY(layout_unit(r, *first));
        }
    }
    return OK;
}

static Status layout_take(LayoutReader *r)
{
    TRY(layout_read(r, r->layout, r->layout + strlen(r->layout)));
    if (r->head && r->units > 0) return OK;
    return fail(BAD_OPTION, "%s %s: it begins with its only E and ends with its only L", LAYOUT, r->layout);
}

int stage_layout_virtuals(const char *layout)
{
    LayoutReader reader = { .layout = layout };
    return layout_take(&reader) == OK ? reader.at + 1 : 0;
}

static Status split_by_layout(int64_t *layers, const char *layout, const ModelConfig *config, int virtuals)
{
    LayoutReader reader = { .layout = layout, .layers = layers, .virtuals = virtuals };
    int64_t sum = 0;
    TRY(layout_take(&reader));
    if (reader.at + 1 != virtuals)
        return fail(BAD_OPTION, "%s %s has %d virtual stages, and stages x chunks are %d; give as many",
                    LAYOUT, layout, reader.at + 1, virtuals);
    for (int v = 0; v < virtuals; v++) sum += layers[v];
    if (reader.mtp != config->mtp)
        return fail(BAD_OPTION, "%s %s has multi-token prediction (m) %lld times, and --mtp-num-layers is "
                    "%lld; give as many, before L", LAYOUT, layout, (long long)reader.mtp,
                    (long long)config->mtp);
    if (sum == config->layers) return OK;
    return fail(BAD_OPTION, "%s %s has %lld layers (t), and --num-layers is %lld; give as many", LAYOUT,
                layout, (long long)sum, (long long)config->layers);
}

/* ---- evenly, in one way or another ---- */

static Status not_even(const char *what, int64_t layers, int64_t parts, const char *unit)
{
    return fail(BAD_OPTION, "%s: %lld layers do not divide into %lld %s; %lld or %lld would", what,
                (long long)layers, (long long)parts, unit, (long long)(layers / parts * parts),
                (long long)((layers / parts + 1) * parts));
}

/* The options that were given. */
static const char *ends_given(const StageSplit *split)
{
    return !split->last  ? "--decoder-first-pipeline-num-layers"
         : !split->first ? "--decoder-last-pipeline-num-layers"
                         : "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers";
}

static const char *units_given(const StageSplit *split)
{
    return !split->loss      ? "--account-for-embedding-in-pipeline-split"
         : !split->embedding ? "--account-for-loss-in-pipeline-split"
                             : "--account-for-embedding-in-pipeline-split, "
                               "--account-for-loss-in-pipeline-split";
}

/* Stage i's layers divide evenly among its chunks. */
static Status stage_fill(int64_t *layers, const StageSplit *split, const ScheduleShape *shape, int stage,
                         int64_t count)
{
    const char *what = ends_given(split);
    if (count % shape->chunks || count < 1) return not_even(what, count, shape->chunks, "chunks of a stage");
    for (int c = 0; c < shape->chunks; c++)
        layers[schedule_virtual(shape, stage, c)] = count / shape->chunks;
    return OK;
}

static Status split_by_ends(int64_t *layers, const StageSplit *split, const ModelConfig *config,
                            const ScheduleShape *shape)
{
    const char *what = ends_given(split);
    int p = shape->stages, from = split->first > 0, to = p - (split->last > 0), between = to - from;
    int64_t rest = config->layers - split->first - split->last;
    if (shape->v_shaped || p < 2)
        return fail(BAD_OPTION, "%s: first and last virtual stage are on one stage; give %s", what, LAYOUT);
    if (rest < between || (between == 0 && rest > 0))
        return fail(BAD_OPTION, "%s: %lld of %lld layers are left for %d other stages; give others", what,
                    (long long)rest, (long long)config->layers, between);
    if (between > 0 && rest % between) return not_even(what, rest, between, "other stages");
    for (int i = 0; i < p; i++) {
        int64_t count = i < from ? split->first : i >= to ? split->last : rest / between;
        TRY(stage_fill(layers, split, shape, i, count));
    }
    return OK;
}

static Status split_with_units(int64_t *layers, const StageSplit *split, const ModelConfig *config,
                               int virtuals)
{
    int64_t all = config->layers + split->embedding + split->loss;
    if (all % virtuals)
        return not_even(units_given(split), all, virtuals, "virtual stages (embedding or head counted)");
    for (int v = 0; v < virtuals; v++) layers[v] = all / virtuals;
    layers[0]            -= split->embedding;
    layers[virtuals - 1] -= split->loss;
    return OK;
}

/* The work of the head and of multi-token prediction in units of a layer's: multiplications of a token,
 * attention causal. */
static double head_layers(const ModelConfig *c)
{
    double head = 6.0 * (double)c->hidden * (double)c->vocabulary;       /* as model_flops counts it */
    ModelConfig without = *c;
    without.mtp = 0;
    double layers = model_flops(&without, true) - head;
    return (model_flops(c, true) - layers) * (double)c->layers / layers;
}

/* The last virtual stage gets the number of layers, at least one and at most an even share, with which the
 * longest stage is shortest. */
static void split_balanced(int64_t *layers, const ModelConfig *config, int virtuals)
{
    int64_t n = config->layers, others = virtuals - 1, best = n / virtuals;
    double  head = head_layers(config), least = 0;
    for (int64_t last = n / virtuals; virtuals > 1 && n % virtuals && last >= 1; last--) {
        double most = (double)((n - last + others - 1) / others), end = (double)last + head;
        if (end > most) most = end;
        if (least == 0 || most < least) { least = most; best = last; }
    }
    layers[virtuals - 1] = best;
    for (int v = 0; v < others; v++) layers[v] = (n - best) / others + (v >= others - (n - best) % others);
}

Status stage_split_layers(int64_t *layers, const StageSplit *split, const ModelConfig *config,
                          const ScheduleShape *shape)
{
    int virtuals = shape->stages * shape->chunks;
    bool ends = split->first || split->last, units = split->embedding || split->loss;
    if ((split->layout != NULL) + ends + units > 1)
        return fail(BAD_OPTION, "layers are divided by %s, by --decoder-first-pipeline-num-layers and "
                    "--decoder-last-pipeline-num-layers, or by --account-for-embedding-in-pipeline-split and "
                    "--account-for-loss-in-pipeline-split; leave two of the three out", LAYOUT);
    if (split->layout) return split_by_layout(layers, split->layout, config, virtuals);
    if (ends)  return split_by_ends(layers, split, config, shape);
    if (units) return split_with_units(layers, split, config, virtuals);
    if (config->layers < virtuals)
        return fail(BAD_OPTION,
            "%lld blocks cannot fill %d stages of %d chunks; give at most %lld stages x chunks",
            (long long)config->layers, shape->stages, shape->chunks, (long long)config->layers);
    split_balanced(layers, config, virtuals);
    return OK;
}
