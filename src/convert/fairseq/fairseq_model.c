/* The model of a fairseq checkpoint as our options. Its arguments are a Namespace named "args", or, since
 * fairseq 0.10, in the sections "model" and "task" of "cfg": dictionaries, Namespaces or omegaconf's. */
#include <math.h>
#include <string.h>
#include "base/array.h"
#include "convert/fairseq/fairseq_internal.h"

/* ---- arguments ---- */

/* Of omegaconf's objects what they hold, of a member of an enumeration the word that made it. */
static const PickleValue *plain(const PickleValue *v)
{
    const PickleValue *held = v && v->kind == PICKLE_RECORD ? pickle_get(v, "_val") : NULL;
    if (held) v = held;
    if (!v || v->kind != PICKLE_RECORD || v->record->state) return v;
    const PickleValue *made_of = v->record->arguments;
    return made_of && made_of->kind == PICKLE_TUPLE && made_of->items == 1 ? made_of->item[0] : v;
}

static const PickleValue *entry(const PickleValue *section, const char *name)
{
    const PickleValue *content = section && section->kind == PICKLE_RECORD ? pickle_get(section, "_content")
                                                                           : NULL;
    return plain(pickle_get(content ? content : section, name));
}

/* "${task.tokens_per_sample}" is said in another section; "???" nowhere. */
static bool is_elsewhere(const PickleValue *v)
{
    return v && v->kind == PICKLE_TEXT && v->bytes > 1 &&
           (!memcmp(v->text, "${", 2) || pickle_is_text(v, "???"));
}

static bool is_there(const PickleValue *v) { return v && v->kind != PICKLE_NONE; }

static const PickleValue *argument(const FairseqFile *f, const char *name)
{
    const PickleValue *root = fairseq_root(f, 0), *args = pickle_get(root, "args");
    static const char *const sections[] = { "model", "task" };
    if (is_there(args)) return pickle_get(args, name);
    for (size_t i = 0; i < COUNT(sections); i++) {
        const PickleValue *v = entry(entry(pickle_get(root, "cfg"), sections[i]), name);
        if (v && !is_elsewhere(v)) return v;
    }
    return NULL;
}

/* A flag that is missing is off. */
bool fairseq_is_on(const FairseqFile *f, const char *name)
{
    int64_t on = 0;
    return pickle_integer(argument(f, name), &on) && on;
}

/* ---- options ---- */

static Status give_whole(FairseqFile *f, const char *name, const char *option)
{
    int64_t number;
    if (!pickle_integer(argument(f, name), &number) || number < 1)
        return fail(BAD_FILE, "%s: its arguments have no whole number %s", f->file->path, name);
    json_object_set_new(f->options, option, json_integer(number));
    return OK;
}

/* Arguments that change what is computed, and are refused where they are on. */
static Status refuse_others(const FairseqFile *f)
{
    static const char *const others[] = { "adaptive_input", "character_embeddings", "layernorm_embedding",
                                          "no_decoder_final_norm", "tie_adaptive_weights", "base_layers",
                                          "scale_fc", "scale_attn", "scale_heads", "scale_resids" };
    char text[FAIRSEQ_NAME];
    int64_t layers;
    for (size_t i = 0; i < COUNT(others); i++) {
        bool counted = !strcmp(others[i], "base_layers");
        bool on = counted ? pickle_integer(argument(f, others[i]), &layers) && layers > 0
                          : fairseq_is_on(f, others[i]);
        if (on)
            return fail(BAD_FILE, "%s: its argument %s is on, and such models are not built; models without "
                        "it are read", f->file->path, others[i]);
    }
    const PickleValue *cutoff = argument(f, "adaptive_softmax_cutoff");
    if (is_there(cutoff))
        return fail(BAD_FILE, "%s: its output layer has an adaptive softmax (%s), which is not built; models "
                    "without one are read", f->file->path, pickle_text(text, sizeof text, cutoff));
    return OK;
}

static Status give_activation(FairseqFile *f)
{
    char word[FAIRSEQ_NAME] = "relu";
    const PickleValue *given = argument(f, "activation_fn");
    if (given) pickle_text(word, sizeof word, given);
    bool tanh = !strcmp(word, "gelu_fast") || !strcmp(word, "gelu_accurate");
    if (!strcmp(word, "relu")) json_object_set_new(f->options, "relu", json_true());
    else if (tanh || !strcmp(word, "gelu"))
        json_object_set_new(f->options, "gelu-approximate", json_string(tanh ? "tanh" : "none"));
    else return fail(BAD_FILE, "%s: its activation_fn %s is not built; models with relu, gelu, gelu_fast or "
                     "gelu_accurate are read", f->file->path, word);
    return OK;
}

static void give_dropout(FairseqFile *f, const char *name, const char *option)
{
    double share = 0;
    pickle_real(argument(f, name), &share);
    json_object_set_new(f->options, option, json_real(share));
}

static void give_positions(FairseqFile *f)
{
    const char *kind = fairseq_is_on(f, "no_token_positional_embeddings") ? "none"
                     : fairseq_is_on(f, "decoder_learned_pos") ? "learned_absolute" : "sinusoidal";
    json_object_set_new(f->options, "position-embedding-type", json_string(kind));
}

Status fairseq_options_read(FairseqFile *f)
{
    const PickleValue *root = fairseq_root(f, 0);
    int64_t width = 0;
    if (!is_there(pickle_get(root, "args")) && !is_there(pickle_get(root, "cfg")))
        return fail(BAD_FILE, "%s: no arguments named 'args' or 'cfg', so no checkpoint of fairseq-train; "
                    "give one", f->file->path);
    TRY(refuse_others(f));
    TRY(give_whole(f, "decoder_layers", "num-layers"));
    TRY(give_whole(f, "decoder_embed_dim", "hidden-size"));
    TRY(give_whole(f, "decoder_ffn_embed_dim", "ffn-hidden-size"));
    TRY(give_whole(f, "decoder_attention_heads", "num-attention-heads"));
    TRY(give_whole(f, "tokens_per_sample", "seq-length"));
    bool positions = is_there(argument(f, "max_target_positions"));
    TRY(give_whole(f, positions ? "max_target_positions" : "tokens_per_sample", "max-position-embeddings"));
    TRY(give_activation(f));
    give_positions(f);
    give_dropout(f, "dropout", "hidden-dropout");
    give_dropout(f, "attention_dropout", "attention-dropout");
    pickle_integer(argument(f, "decoder_embed_dim"), &width);
    if (!fairseq_is_on(f, "no_scale_embedding"))
        json_object_set_new(f->options, "embedding-multiplier", json_real(sqrt((double)width)));
    if (!fairseq_is_on(f, "share_decoder_input_output_embed"))
        json_object_set_new(f->options, "untie-embeddings-and-output-weights", json_true());
    return OK;
}
