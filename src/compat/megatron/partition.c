/* The pipeline stages of BigScience's fork under DeepSpeed.
 *
 * Its model (megatron/model/gpt_model.py) is a list of modules: a function that converts to 16 bits, the
 * embedding, a function that transposes, the layers, a function, the final norm, the embedding again as
 * output layer, and with --fp16 or --bf16 a function that converts back. DeepSpeed's PipelineModule divides
 * this list:
 *
 *     uniform      as many modules for each stage, one more for the first ones where they do not divide
 *     type:REGEX   modules whose class matches weigh 1, others 0; stages are chosen such that the difference
 *                  between the heaviest and the lightest is least (partition_balanced of runtime/utils.py)
 *     parameters   the same with the parameters of each module, which only that program can count
 *
 * Which layers a stage has changes no result, but memory and time. */
#include "compat/megatron/megatron.h"
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"
#include "conf/value.h"

enum { MODULES_MAX = 1024, STAGES_MAX = 512, LAYOUT_BYTES = 16 * STAGES_MAX, BEFORE = 3 };

/* Names of the modules around the layers; the last one is there with numbers of 16 bits only. */
static const char *const before[BEFORE] = {"_to_float16", "EmbeddingPipe", "<lambda>"};
static const char *const behind[]       = {"undo", "MixedFusedLayerNorm", "EmbeddingPipe", "float16_to_fp32"};

static int modules_of(const char *name[MODULES_MAX], int64_t layers, bool half)
{
    int n = 0, last = half ? 4 : 3;
    for (int i = 0; i < BEFORE; i++) name[n++] = before[i];
    for (int64_t i = 0; i < layers; i++) name[n++] = "ParallelTransformerLayerPipe";
    for (int i = 0; i < last; i++) name[n++] = behind[i];
    return n;
}

/* begin[0 .. stages], the first module of each stage and the end */
static void partition_uniform(int *begin, int modules, int stages)
{
    int each = modules / stages, more = modules % stages;
    for (int s = 0; s <= stages; s++)
        begin[s] = modules <= stages ? (s < modules ? s : modules) : s * each + (s < more ? s : more);
}

/* The first i modules in j stages: the heaviest and the lightest of these, and where the last one begins. */
typedef struct {
    double most, least, cost;
    int    position;
} Part;

/* Of several divisions that are as good the one whose last stage begins latest, as there. */
static void partition_balanced(int *begin, const int *weight, int modules, int stages)
{
    int   width = stages + 1, *sum = calloc((size_t)modules + 1, sizeof *sum);
    Part *part = calloc((size_t)(modules + 1) * (size_t)width, sizeof *part);
    CHECK(sum && part, "no memory for the stages of a pipeline");
    for (int i = 0; i < (modules + 1) * width; i++) part[i] = (Part){INFINITY, INFINITY, INFINITY, 0};
    for (int i = 0; i < modules; i++) sum[i + 1] = sum[i] + weight[i];
    part[0].most = part[0].cost = 0;
    for (int i = 1; i <= modules; i++)
        for (int j = 1; j <= (i < stages ? i : stages); j++)
            for (int k = 0; k < i; k++) {
                const Part *p    = &part[k * width + j - 1];
                double      last = sum[i] - sum[k], most = fmax(p->most, last), least = fmin(p->least, last);
                Part       *best = &part[i * width + j];
                if (best->cost >= most - least) *best = (Part){most, least, most - least, k};
            }
    begin[stages] = modules;
    for (int j = stages; j > 0; j--) begin[j - 1] = part[begin[j] * width + j].position;
    free(part);
    free(sum);
}

/* type:REGEX, a regular expression of Python's; what both languages have of these is taken. */
static bool weigh_types(int *weight, char *why, size_t size, const char *expression, const char *const *name,
                        int modules)
{
    regex_t regex;
    int     found = 0;
    if (strpbrk(expression, "\\[](){}?+*^$.") ||
        regcomp(&regex, expression, REG_EXTENDED | REG_ICASE | REG_NOSUB) != 0) {
        snprintf(why, size, "\"%.100s\" is read as words with | between them; give it as such", expression);
        return false;
    }
    for (int i = 0; i < modules; i++) found += weight[i] = regexec(&regex, name[i], 0, NULL, 0) == 0;
    regfree(&regex);
    if (!found)
        snprintf(why, size,
                 "no module of that model is called %.100s: they are EmbeddingPipe, "
                 "ParallelTransformerLayerPipe and MixedFusedLayerNorm",
                 expression);
    return found > 0;
}

bool partition_layers(int64_t *layers, char *why, size_t size, const char *method, int64_t all, int stages,
                      bool half)
{
    const char *name[MODULES_MAX];
    int         weight[MODULES_MAX], begin[STAGES_MAX + 1];
    if (all < 1 || all > MODULES_MAX - 8 || stages < 1 || stages > STAGES_MAX) {
        snprintf(why, size, "%" PRId64 " layers in %d stages are not divided", all, stages);
        return false;
    }
    int modules = modules_of(name, all, half);
    if (!strcasecmp(method, "uniform")) partition_uniform(begin, modules, stages);
    else if (strncasecmp(method, "type:", 5) != 0) {
        bool counts = !strcasecmp(method, "parameters");
        snprintf(why, size,
                 counts ? "only that program can count the parameters of its modules"
                        : "%.100s is not built in DeepSpeed either; it has uniform, parameters and "
                          "type:REGEX",
                 method);
        return false;
    } else {
        if (!weigh_types(weight, why, size, method + 5, name, modules)) return false;
        if (modules <= stages) partition_uniform(begin, modules, stages);
        else partition_balanced(begin, weight, modules, stages);
    }
    for (int s = 0; s < stages; s++) {
        int from  = begin[s] > BEFORE ? begin[s] : BEFORE;
        int to    = begin[s + 1] < BEFORE + (int)all ? begin[s + 1] : BEFORE + (int)all;
        layers[s] = to > from ? to - from : 0;
        if (layers[s]) continue;
        snprintf(why, size,
                 "stage %d of %d would have no layer, and does not run there either; give fewer "
                 "stages",
                 s, stages);
        return false;
    }
    return true;
}

/* ---- in options of jotun ---- */

/* Whether each stage has as many layers, where embedding and head count as `ends` layers. */
static bool is_even(const int64_t *layers, int stages, int ends)
{
    for (int s = 0; s < stages; s++)
        if (layers[s] + (s == 0) * ends + (s == stages - 1) * ends != layers[0] + ends) return false;
    return true;
}

/* "Et*3|t*4|t*3L" */
static void write_layout(char *out, const int64_t *layers, int stages)
{
    snprintf(out, LAYOUT_BYTES, "E");
    for (int s = 0; s < stages; s++)
        message_add(out, LAYOUT_BYTES, "%st*%" PRId64, s ? "|" : "", layers[s]);
    message_add(out, LAYOUT_BYTES, "L");
}

static int64_t given_number(const TextList *words, const char *name, int64_t missing)
{
    const char *text = given_value(words, name);
    return text ? strtoll(text, NULL, 10) : missing;
}

/* Words of jotun for these layers of each stage. */
static void take_words(Import *m, Options *o, const char *from, const char *method, const int64_t *layers,
                       int stages)
{
    char layout[LAYOUT_BYTES], option[LAYOUT_BYTES + 64];
    char embedding[] = "--account-for-embedding-in-pipeline-split",
         loss[]      = "--account-for-loss-in-pipeline-split";
    char *words[]    = {embedding, loss, option};
    if (stages == 1 || is_even(layers, stages, 0)) {
        return import_remark(m, o, from,
                             "--pp-partition-method %s: every stage has %" PRId64 " layers, as by default",
                             method, layers[0]);
    }
    if (is_even(layers, stages, 1)) {
        import_remark(m, o, from, "--pp-partition-method %s: embedding and output layer count as a layer "
                      "each", method);
        import_take(m, o, from, 1, words);
        return import_take(m, o, from, 1, words + 1);
    }
    write_layout(layout, layers, stages);
    snprintf(option, sizeof option, "--pipeline-model-parallel-layout=%s", layout);
    import_remark(m, o, from, "--pp-partition-method %s: the layers of the stages are those that DeepSpeed "
                  "chooses", method);
    import_take(m, o, from, 1, words + 2);
}

bool partition_take(Import *m, Options *o, const TextList *words, const char *from, char **word)
{
    char        why[IMPORT_LINE];
    int64_t     layers[STAGES_MAX], all = given_number(words, "--num-layers", 0);
    int64_t     stages = given_number(words, "--pipeline-model-parallel-size", 1);
    bool        half   = given_flag(words, "--fp16") || given_flag(words, "--bf16");
    const char *name = "--pp-partition-method", *method = given_value(words, name);
    if (strncmp(word[0], name, strlen(name)) != 0 || !method || !all) return false;
    if (stages > STAGES_MAX) stages = STAGES_MAX + 1;
    if (partition_layers(layers, why, sizeof why, method, all, (int)stages, half)) {
        take_words(m, o, from, method, layers, (int)stages);
        return true;
    }
    import_refuse(m, o, from, "--pp-partition-method %.200s is refused: %.900s; or leave it out and give "
                  "--pipeline-model-parallel-layout", method, why);
    return true;
}
