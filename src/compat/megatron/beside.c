/* Arguments that are read beside others of the same command line. */
#include "compat/megatron/megatron.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/message.h"
#include "conf/value.h"

const char *given_value(const TextList *words, const char *name)
{
    size_t      letters = strlen(name);
    const char *value   = NULL;
    for (int i = 0; i < words->count; i++) {
        const char *word = words->text[i];
        if (!strcmp(word, name) && i + 1 < words->count) value = words->text[i + 1];
        else if (!strncmp(word, name, letters) && word[letters] == '=') value = word + letters + 1;
    }
    return value;
}

bool given_flag(const TextList *words, const char *name)
{
    for (int i = 0; i < words->count; i++)
        if (!strcmp(words->text[i], name)) return true;
    return false;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* ---- tokens in the place of samples ---- */

static bool take_tokens(Import *m, Options *o, const TextList *words, const char *from, char **word)
{
    static const struct {
        const char *tokens, *samples;
    } lengths[] = {
        {"--lr-decay-tokens", "--lr-decay-samples"},
        {"--lr-warmup-tokens", "--lr-warmup-samples"},
    };
    char        taken[64], *takes[] = {taken};
    const char *length = given_value(words, "--seq-length");
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char     *end[2];
        long long tokens   = strtoll(word[1], &end[0], 10);
        long long sequence = length ? strtoll(length, &end[1], 10) : 0;
        if (strcmp(word[0], lengths[i].tokens) || *end[0] || sequence <= 0 || *end[1]) continue;
        snprintf(taken, sizeof taken, "%s=%lld", lengths[i].samples, tokens / sequence);
        import_remark(m, o, from, "%s %lld is %s of %lld tokens%s", word[0], tokens, taken, sequence,
                      tokens % sequence ? ", rounded down" : "");
        import_take(m, o, from, 1, takes);
        return true;
    }
    return false;
}

/* ---- experts of DeepSpeed ---- */

/* Its forks give --num-experts as a list, a number for each layer or one for all; 1 is a dense model there.
 */
static bool is_dense(const TextList *words)
{
    for (int i = 0; i + 1 < words->count; i++)
        for (int at = i + 1;
             !strcmp(words->text[i], "--num-experts") && at < words->count && !begins(words->text[at], "--");
             at++)
            if (strcmp(words->text[at], "1") != 0) return false;
    return true;
}

static const char *const ITS_EXPERTS[] = {
    "--topk",
    "--moe-loss-coeff",
    "--moe-train-capacity-factor",
    "--moe-eval-capacity-factor",
    "--moe-min-capacity",
    "--moe-expert-parallel-size",
    "--expert-interval",
    "--disable-moe-token-dropping",
    "--disable-moe-top2-2nd-expert-sampling",
    "--mlp-type",
    "--create-moe-param-group",
    "--use-tutel",
    "--enable-expert-tensor-parallelism",
    "--num-experts",
};

static bool take_experts(Import *m, Options *o, const TextList *words, const char *from, int count,
                         char **word)
{
    bool its = false;
    for (size_t i = 0; i < COUNT(ITS_EXPERTS); i++) its |= !strcmp(word[0], ITS_EXPERTS[i]);
    if (!its) return false;
    if (is_dense(words)) {
        import_remark(m, o, from, "%s of Megatron-DeepSpeed is ignored: there is one expert, which is a "
                      "dense model", word[0]);
        return true;
    }
    bool several = !strcmp(word[0], "--num-experts") && count > 2;
    if (several)
        import_refuse(m, o, from,
                      "--num-experts has another number for each layer: all layers with experts have as "
                      "many; give one number, and "
                      "--moe-layer-freq a list with a 1 for each layer that has them");
    return several;
}

/* Habana's fork drops no token where experts have capacity bins: its validate_args sets the factor to
 * none. */
static bool take_bins(Import *m, Options *o, const TextList *words, const char *from, char **word)
{
    const char *bins = given_value(words, "--moe-capacity-bins-num");
    if (!bins || !strtol(bins, NULL, 10) || strcspn(word[0], "=") != strlen("--moe-expert-capacity-factor") ||
        !begins(word[0], "--moe-expert-capacity-factor"))
        return false;
    import_remark(m, o, from, "--moe-expert-capacity-factor is ignored: --moe-capacity-bins-num %.20s drops "
                  "no token", bins);
    return true;
}

/* ---- gated activations of BigScience ---- */

/* Its width stays 4 x hidden size, where --swiglu has two thirds of it; its GELU is by erf. --t5-swiglu of
 * OpenGPTX is its swiglu. */
static bool take_gate(Import *m, Options *o, const TextList *words, const char *from, int given, char **word)
{
    char swiglu[] = "--swiglu", geglu[] = "--geglu", erf[] = "--gelu-approximate=none", width[64];
    char       *takes[3];
    int         count  = 0;
    const char *hidden = given_value(words, "--hidden-size");
    bool        flag   = !strcmp(word[0], "--t5-swiglu") && given == 1;
    const char *kind   = flag ? "swiglu" : word[given - 1];
    if (!flag && (strcmp(word[0], "--glu-activation") || given != 2)) return false;
    if (!strcmp(kind, "swiglu")) takes[count++] = swiglu;
    else if (!strcmp(kind, "geglu")) takes[count++] = geglu, takes[count++] = erf;
    else {
        import_refuse(m, o, from, "--glu-activation %.60s is not built; give swiglu or geglu", kind);
        return true;
    }
    if (!given_value(words, "--ffn-hidden-size") && hidden) {
        snprintf(width, sizeof width, "--ffn-hidden-size=%lld", 4 * strtoll(hidden, NULL, 10));
        import_remark(m, o, from, "%s is %s of width 4 x --hidden-size: %s", word[0], takes[0], width);
        takes[count++] = width;
    }
    import_take(m, o, from, count, takes);
    return true;
}

/* ---- positions of latent attention ---- */

/* Only latent attention reads it (core_transformer_config_from_args). */
static bool take_rope_type(Import *m, Options *o, const TextList *words, const char *from, char **word)
{
    const char *type = given_value(words, "--rope-type");
    bool        known = type && (!strcmp(type, "rope") || !strcmp(type, "yarn"));
    if (!known || strcspn(word[0], "=") != strlen("--rope-type") || !begins(word[0], "--rope-type"))
        return false;
    if (given_flag(words, "--multi-latent-attention")) return true;
    if (!strcmp(type, "rope"))
        import_remark(m, o, from, "--rope-type rope is ignored: only --multi-latent-attention reads it");
    else
        import_refuse(m, o, from, "--rope-type yarn is of --multi-latent-attention, and the original refuses "
                      "it without; give --position-embedding-type yarn");
    return true;
}

/* MLATransformerConfig takes YaRN where nothing else is given. */
static void turn_latents(Import *m, Options *o, const TextList *words, const char *from)
{
    const char *type = given_value(words, "--rope-type");
    char        word[] = "--position-embedding-type=yarn", *takes[] = {word};
    bool        rope = type && !strcmp(type, "rope");
    if (!o->mla || o->position.value != CHOICE_position_rope) return;
    if (rope && options_said(o, OPTION_yarn_factor)) {
        import_refuse(m, o, o->source[OPTION_yarn_factor].from, "--rotary-scaling-factor beside --rope-type "
                      "rope turns nothing, but scales scores in some versions; leave it out");
        o->source[OPTION_yarn_factor].kind = SOURCE_NOTHING;
    }
    if (rope) return;
    import_remark(m, o, from, "latent attention has YaRN in Megatron-LM where --rope-type is not rope: %s",
                  word);
    o->source[OPTION_position].kind = SOURCE_DEFAULT;
    import_take(m, o, from, 1, takes);
    if (o->yarn_factor != 1 && o->mscale != o->mscale_all)
        import_remark(m, o, from, "scores are multiplied by t(--mscale-all-dim)^2 here; earlier versions of "
                      "Megatron-core multiply them by t(--mscale)^2");
}

/* ---- checkpoints of every layout ---- */

static bool take_universal(Import *m, Options *o, const char *from, int count, char **word)
{
    if (strcmp(word[0], "--universal-checkpoint") || count > 1) return false;
    import_remark(
        m, o, from,
        "--universal-checkpoint of Megatron-DeepSpeed is ignored: --load DIR opens "
        "every checkpoint of jotun under every layout; one of DeepSpeed is refused where it is met");
    return true;
}

/* ---- profiles ---- */

/* A flag there; in Microsoft's fork the kind of profiler. */
static bool take_profile(Import *m, Options *o, const char *from, int count, char **word)
{
    char        file[] = "profile.json", *profile[] = {word[0], file};
    const char *kind = count == 2 ? word[1] : "pt";
    if (strcmp(word[0], "--profile") || count > 2) return false;
    if (!strcmp(kind, "none")) {
        import_remark(m, o, from, "--profile none is ignored: it is the default");
        return true;
    }
    if (strcmp(kind, "pt") && strcmp(kind, "pt-full")) return false;
    import_remark(m, o, from, "--profile of Megatron-LM has no file; here it writes profile.json");
    import_take(m, o, from, 2, profile);
    return true;
}

/* ---- more words than an option has here ---- */

static const OptionRow *row_of(const Options *o, const char *word, int *option)
{
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    *option            = option_find(name, o->command);
    const Dialect *row = *option < 0 ? dialect_find(dialects_understood(o->command), name, NULL) : NULL;
    if (row && (row->verb == VERB_SAME || row->verb == VERB_WITH))
        *option = row->option;
    return *option < 0 ? NULL : &option_rows[*option];
}

/* The steps of the schedule are one text here, without quotes several words there. */
static bool join_schedule(Import *m, Options *o, const char *from, int count, char **word)
{
    char   text[1024], *takes[] = {text};
    size_t used = 0;
    if (strcmp(word[0], "--step-batch-size-schedule") || count <= 2) return false;
    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i > 1 ? " "
                                 : i   ? "="
                                       : "",
                                 word[i]);
    import_take(m, o, from, 1, takes);
    return true;
}

static bool refuse_several(Import *m, Options *o, const char *from, int count, char **word)
{
    int              option;
    const OptionRow *row = row_of(o, word[0], &option);
    if (!row || row->kind == KIND_LIST || row->kind == KIND_FLAG || count <= 2) return false;
    import_refuse(m, o, from, "%s %.60s %.60s: %s has one value here; give one", word[0], word[1], word[2],
                  word[0]);
    return true;
}

/* ---- placeholders ---- */

/* <Specify path> in the place of a value; without quotes bash makes several words of it. */
static bool refuse_placeholder(Import *m, Options *o, const char *from, int count, char **word)
{
    char        text[256] = "";
    const char *equals = strchr(word[0], '='), *value = equals ? equals + 1 : count > 1 ? word[1] : "";
    if (*value != '<') return false;
    for (int i = equals ? 0 : 1; i < count; i++)
        message_add(text, sizeof text, "%s%s", *text ? " " : "", i ? word[i] : value);
    if (!strchr(text, '>')) return false;
    import_refuse(m, o, from, "%.*s %s: that is a placeholder; put the value in its place",
                  (int)strcspn(word[0], "="), word[0], text);
    return true;
}

/* bash leaves a pattern as it is where no file matches. How many files there are elsewhere is not known. */
static bool refuse_pattern(Import *m, Options *o, const char *from, int count, char **word)
{
    size_t name = strcspn(word[0], "=");
    if (name < 9 || strncmp(word[0] + name - 9, "data-path", 9)) return false;
    for (int i = 0; i < count; i++) {
        if (!strchr(word[i], '*')) continue;
        import_refuse(m, o, from, "%.*s %.200s: no file matches this pattern here; run it where the files"
                      " are, or put their prefixes in its place", (int)name, word[0],
                      i ? word[i] : word[0] + name + (word[0][name] == '='));
        return true;
    }
    return false;
}

/* A name that only looks like a value is taken, as there, with a remark. */
static void name_placeholders(Import *m, Options *o, const char *from, int count, char **word)
{
    static const char *const signs[] = {"/path/to", "path/to/",  "PATH_TO",  "YOUR_", "your_",
                                        "your-",    "CHANGE_ME", "CHANGEME", "<"};
    for (int i = 1; i < count; i++)
        for (size_t k = 0; k < COUNT(signs); k++) {
            if (!strstr(word[i], signs[k])) continue;
            import_remark(m, o, from, "%s %.200s looks like a placeholder: put the value in its place",
                          word[0], word[i]);
            break;
        }
}

void placeholders_of_script(Import *m, Options *o, const char *path, const char *text)
{
    char from[1100];
    int  line = 1;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n', line++) {
        const char *c = at + strspn(at, " \t");
        if (begins(c, "export ")) c += strlen("export ");
        size_t name  = strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
        size_t inner = begins(c + name, "=<") ? strcspn(c + name + 2, "<>\n") : 0;
        if (!name || !inner || c[name + 2 + inner] != '>') continue;
        snprintf(from, sizeof from, "%s:%d", path, line);
        import_remark(m, o, from, "%.*s is a placeholder: put the value in its place",
                      (int)(name + inner + 3 < 300 ? name + inner + 3 : 300), c);
    }
}

bool beside_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word)
{
    const char *kind = given_value(words, "--tokenizer-type");
    bool        other = kind && strcmp(kind, "TikTokenizer") != 0;
    if (other && count == 2 && !strcmp(word[0], "--tiktoken-pattern")) {
        import_remark(m, o, from, "--tiktoken-pattern of Megatron-LM is ignored: %.100s does not read it",
                      kind);
        return true;
    }
    if (refuse_placeholder(m, o, from, count, word) || refuse_pattern(m, o, from, count, word)) return true;
    name_placeholders(m, o, from, count, word);
    return take_experts(m, o, words, from, count, word) || optimizers_take(m, o, words, from, count, word) ||
           take_profile(m, o, from, count, word) || take_universal(m, o, from, count, word) ||
           join_schedule(m, o, from, count, word) || (count == 2 && take_tokens(m, o, words, from, word)) ||
           take_bins(m, o, words, from, word) || take_rope_type(m, o, words, from, word) ||
           partition_take(m, o, words, from, word) ||
           take_gate(m, o, words, from, count, word) ||
           refuse_several(m, o, from, count, word);
}

/* ---- numbers ---- */

/* out has room for text. false: no number that only Python reads. */
static bool python_number(char *out, const char *text)
{
    const char *end   = text + strlen(text);
    bool        other = false;
    while (isspace((unsigned char)*text)) text++, other = true;
    while (end > text && isspace((unsigned char)end[-1])) end--, other = true;
    for (const char *c = text; c < end; c++) {
        bool between = *c == '_' && c > text && isdigit((unsigned char)c[-1]) && isdigit((unsigned char)c[1]);
        if (!between && !isdigit((unsigned char)*c) && !strchr("+-.eE", *c)) return false;
        if (between) other = true;
        else *out++ = *c;
    }
    *out = 0;
    return other;
}

void python_numbers(Options *o, int count, char **word)
{
    int              option;
    const OptionRow *row    = word[0][0] == '-' ? row_of(o, word[0], &option) : NULL;
    bool             list   = row && (option == OPTION_rampup_batch || option == OPTION_left_out);
    bool             tokens = !row && (strstr(word[0], "-tokens") || strstr(word[0], "-samples"));
    if (!tokens && !list && (!row || (row->kind != KIND_INT && row->kind != KIND_REAL))) return;
    for (int i = 0; i < count; i++) {
        const char *value = i ? word[i] : strchr(word[0], '=');
        char       *plain = value ? malloc(strlen(word[i]) + 1) : NULL;
        size_t      name  = i || !value ? 0 : (size_t)(value + 1 - word[0]);
        if (!plain) continue;
        memcpy(plain, word[i], name);
        if (python_number(plain + name, word[i] + name)) word[i] = (char *)(uintptr_t)options_hold(o, plain);
        free(plain);
    }
}

/* ---- defaults ---- */

/* Names that BigScience's fork has since its last epoch is cut at another share (November 2021). */
static bool cuts_as_bigscience(const TextList *words)
{
    static const char *const names[] = {
        "--embed-layernorm",
        "--kill-switch-path",
        "--pp-partition-method",
        "--pad-vocab-size-to",
        "--abort-on-unmet-fused-kernel-constraints",
        "--valid-num-workers",
        "--sync-tp-duplicated-parameters",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (given_flag(words, names[i])) return true;
    return false;
}

void beside_defaults(Import *m, Options *o, const TextList *words, const char *from)
{
    bool data = options_said(o, OPTION_data_path) || options_said(o, OPTION_train_data_path) ||
                options_said(o, OPTION_train_parts) || options_said(o, OPTION_train_parts_file);
    optimizers_defaults(m, o, words, from);
    turn_latents(m, o, words, from);
    if (data && cuts_as_bigscience(words) && !options_said(o, OPTION_final_epoch_cut))
        import_default(m, o, from, "--final-epoch-cut=0.95", "the last epoch is cut as in BigScience's fork");
    if (o->experts > 0 && o->balance_coefficient > 0 && !options_said(o, OPTION_balancing))
        import_default(m, o, from, "--moe-router-load-balancing-type=aux_loss",
                       "Megatron-LM balances experts within a micro-batch where nothing else is given");
}

/* ---- what has to be given ---- */

/* Sizes that a checkpoint has, and those that it has not. */
static const OptionIndex required[] = {OPTION_layers,    OPTION_hidden,      OPTION_heads, OPTION_sequence,
                                       OPTION_positions, OPTION_micro_batch, OPTION_lr};
enum { REQUIRED = COUNT(required), STORED = 5 };

/* --no-position-embedding, which demands that positions are not learned. */
static bool has_no_positions(const Options *o)
{
    for (int i = 0; i < o->demands; i++)
        if (o->demand[i].option == OPTION_position) return true;
    return false;
}

/* The table of positions is read only by models with learned ones. */
static bool is_missing(const Options *o, int i)
{
    bool table = o->position.value == CHOICE_position_learned_absolute && !has_no_positions(o);
    return !options_said(o, required[i]) && (required[i] != OPTION_positions || table);
}

/* "--num-layers, --lr" of those from first to end that are not given; their number. */
static int list_missing(char *out, size_t size, const Options *o, int first, int end)
{
    int count = 0;
    out[0]    = 0;
    for (int i = first; i < end; i++)
        if (is_missing(o, i)) {
            message_item(out, size, ", ", "--%s", option_rows[required[i]].name);
            count++;
        }
    return count;
}

void required_check(Import *m, Options *o, const char *from)
{
    char names[256];
    int  first = 0, count;
    if (o->use_checkpoint_args && list_missing(names, sizeof names, o, 0, STORED)) {
        import_remark(m, o, from, "%s: from the checkpoint of --load, as --use-checkpoint-args says", names);
    }
    if (o->use_checkpoint_args) first = STORED;
    count = list_missing(names, sizeof names, o, first, REQUIRED);
    if (!count) return;
    import_refuse(m, o, from, "%s %s not given, and the original does not train without %s; give %s in the "
                  "script, or before --from-megatron", names, count == 1 ? "is" : "are",
                  count == 1 ? "it" : "them", count == 1 ? "it" : "them");
}
