/* The folder of a Megatron-LM checkpoint, its format, and what both formats share: names, which are taken
 * apart into layer, expert and the rest, which a table looks up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "convert/format.h"
#include "convert/megatron/megatron_internal.h"

/* ---- names ---- */

static const struct { const char *part; MegatronJoin join; const char *spellings; } rows[] = {
#define MEGATRON(name, join, spellings) { name, MEGATRON_##join, spellings },
#include "convert/megatron/megatron_names.def"
};

static bool skip(const char **name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (strncmp(*name, prefix, bytes) != 0) return false;
    *name += bytes;
    return true;
}

/* Digits up to an end, at most 7 of them; -1: there are none. */
static int number(const char **name, char end)
{
    char *stop;
    if (**name < '0' || **name > '9') return -1;
    long value = strtol(*name, &stop, 10);
    if (*stop != end || stop - *name > 7) return -1;
    *name = stop + (end ? 1 : 0);
    return (int)value;
}

static bool look_up(MegatronName *out, const char *part)
{
    for (int i = 0; i < COUNT(rows); i++)
        if (!strcmp(rows[i].part, part) || words_have(rows[i].spellings, part, strlen(part))) {
            out->part = rows[i].part;
            out->join = rows[i].join;
            return true;
        }
    return false;
}

/* An expert's number stands before or behind the matrix: "mlp.experts.local_experts.3.linear_fc1.weight" of a
 * list of modules, "mlp.experts.linear_fc1.weight3" of one grouped module, and "mlp.experts.experts." with a
 * number or, of all experts in one tensor, without. */
static bool expert_look_up(MegatronName *out, const char *part)
{
    char inner[96];
    if (!skip(&part, "local_experts.")) skip(&part, "experts.");
    out->expert = number(&part, '.');
    int length  = snprintf(inner, sizeof inner, "mlp.experts.{expert}.%s", part);
    if (length >= (int)sizeof inner) return false;
    if (out->expert < 0) {
        int end = length;
        while (end > 0 && inner[end - 1] >= '0' && inner[end - 1] <= '9') end--;
        const char *digits = inner + end;
        out->expert = end < length ? number(&digits, 0) : MEGATRON_ALL;
        inner[end] = 0;
    }
    return out->expert >= MEGATRON_ALL && look_up(out, inner);
}

bool megatron_name(MegatronName *out, const char *name)
{
    char part[128];
    *out = (MegatronName){ .layer = MEGATRON_NONE, .expert = MEGATRON_NONE };
    skip(&name, "module.");
    skip(&name, "model.");
    skip(&name, "language_model.");
    if (text_ends(name, "._extra_state")) name = "rotary_pos_emb.inv_freq"; /* of Transformer Engine */
    bool stack = skip(&name, "decoder.") || skip(&name, "encoder.") || skip(&name, "transformer.");
    if (!stack || !skip(&name, "layers.")) {
        snprintf(part, sizeof part, "%s%s", stack ? "decoder." : "", name);
        return look_up(out, part);
    }
    out->layer = number(&name, '.');
    if (out->layer < 0) out->layer = MEGATRON_ALL;
    return skip(&name, "mlp.experts.") ? expert_look_up(out, name) : look_up(out, name);
}

void megatron_name_print(char out[96], const MegatronName *name, int layer, int expert)
{
    const char *mark = strstr(name->part, "{expert}");
    char        text[64];
    if (mark) snprintf(text, sizeof text, "%.*s%d%s", (int)(mark - name->part), name->part, expert, mark + 8);
    else      snprintf(text, sizeof text, "%s", name->part);
    if (name->layer == MEGATRON_NONE) snprintf(out, 96, "%s", text);
    else                              snprintf(out, 96, "decoder.layers.%d.%s", layer, text);
}

/* ---- tensors and position ---- */

int64_t megatron_rows(const MegatronRead *m, const char *tensor)
{
    bool words =
        !strcmp(tensor, "embedding.word_embeddings.weight") || !strcmp(tensor, "output_layer.weight");
    return words ? m->vocabulary : 0;
}

void megatron_position(ForeignPosition *position, const PickleValue *root)
{
    const PickleValue *args = pickle_get(root, "args");
    int64_t            step, samples;
    if (!pickle_integer(pickle_get(root, "iteration"), &step) || step < 1) return;
    position->step = step;
    if (pickle_integer(pickle_get(args, "consumed_train_samples"), &samples) && samples >= 0)
        position->samples = samples;
}

static bool step_find(const PickleValue *v, int depth, double *step)
{
    enum { DEPTH = 6 };
    if (torch_number(pickle_get(v, "common_step"), step)) return true;
    if (torch_number(pickle_get(v, "step"), step)) return true;
    if (!v || depth == DEPTH || (v->kind != PICKLE_DICT && v->kind != PICKLE_LIST)) return false;
    for (uint32_t i = 0; i < v->items; i++)
        if (step_find(v->item[i], depth + 1, step)) return true;
    return false;
}

void megatron_updates(ForeignPosition *position, const PickleValue *root)
{
    double  step;
    int64_t fp16 = 0;
    pickle_integer(pickle_get(pickle_get(root, "args"), "fp16"), &fp16);
    if (step_find(pickle_get(root, "optimizer"), 0, &step) && step >= 0 && step < 1e15)
        position->updates = (int64_t)step;
    else if (!fp16) position->updates = position->step;
}

void megatron_leave_uncounted(MegatronRead *m)
{
    if (m->file->position.updates < 0 && !*m->file->states_unread)
        foreign_leave_states(m->file, "%s: it does not say how many updates its optimizer has done",
                             m->folder);
}

Status megatron_refuse(const char *path, const char *tensor)
{
    return fail(BAD_FILE, "%s: tensor '%s' is none that a GPT of Megatron-LM has here; of others nothing is "
                "read", path, tensor);
}

/* ---- folders ---- */

/* The folder of the iteration that latest_checkpointed_iteration.txt names, or `folder` itself. */
static Status iteration_folder(char out[1024], const char *folder)
{
    char    path[1024], name[32];
    FileMap map;
    snprintf(out, 1024, "%s", folder);
    if (path_join(path, folder, "latest_checkpointed_iteration.txt") != OK || !file_exists(path)) return OK;
    TRY(file_map(&map, path));
    size_t bytes = map.size < sizeof name ? map.size : sizeof name - 1;
    memcpy(name, map.data, bytes);
    name[bytes] = 0;
    file_unmap(&map);
    char *end;
    long  iteration = strtol(name, &end, 10);
    if (strncmp(name, "release", 7) == 0) snprintf(name, sizeof name, "release");
    else if (end == name || iteration < 0)
        return fail(BAD_FILE, "%s: neither the number of an iteration nor 'release'; mend it, or give the "
                    "folder of an iteration, iter_0001000", path);
    else snprintf(name, sizeof name, "iter_%07ld", iteration);
    return path_join(out, folder, name);
}

/* A checkpoint that DeepSpeed's engine saved, or the folder of several, is known so that it can be refused
 * with what to do. Its file `latest` names global_stepN; a checkpoint folder of jotun has a `latest` too. */
static bool is_deepspeed(const char *folder)
{
    static const char step[] = "global_step";
    static const char *const files[] = {
        "mp_rank_00_model_states.pt", "layer_01-model_00-model_states.pt" };
    char path[1024];
    for (size_t i = 0; i < COUNT(files); i++)
        if (path_join(path, folder, files[i]) == OK && file_exists(path)) return true;
    return path_join(path, folder, "latest") == OK && format_begins(path, step, sizeof step - 1);
}

bool megatron_is_folder(const char *folder)
{
    char inner[1024];
    return iteration_folder(inner, folder) == OK
        && (megatron_is_dist(inner) || megatron_is_legacy(inner) || is_deepspeed(inner));
}

Status megatron_read(ForeignModel *model, json_t *options, const char *folder)
{
    char         inner[1024];
    MegatronRead m = { .file = &model->file, .folder = inner, .options = options };
    TRY(iteration_folder(inner, folder));
    if (megatron_is_dist(inner))        TRY(megatron_dist_read(&m));
    else if (megatron_is_legacy(inner)) TRY(megatron_legacy_read(&m));
    else if (is_deepspeed(inner))
        return fail(BAD_FILE, "%s: DeepSpeed's own files (layer_*-model_states.pt, mp_rank_*_model_states.pt)"
                    " are not read; Megatron-DeepSpeed's tools/convert_checkpoint/deepspeed_to_megatron.py"
                    " makes mp_rank_*/model_optim_rng.pt of them, which are", inner);
    else
        return fail(BAD_FILE, "%s: no checkpoint of Megatron-LM: neither .metadata nor mp_rank_00; give the "
                    "folder that its --save named, or that of an iteration", inner);
    TRY(foreign_finish(m.file));
    const ForeignTensor *words = foreign_find(m.file, FOREIGN_WEIGHT, "embedding.word_embeddings.weight");
    if (!words) return fail(BAD_FILE, "%s: no embedding of words; models of GPT's kind are read", inner);
    json_object_set_new(options, "vocab-size", json_integer(words->shape[0]));
    return OK;
}
