/* Options to the structs of the modules below; values that a tokenizer or a checkpoint adds. */
#include "cli/setup/setup.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/team.h"
#include "cli/in_out.h"
#include "comm/agree.h"
#include "conf/value.h"
#include "store/checkpoint.h"
#include "text/tokenizer.h"

/* train and config: these have a model of their own, other commands take a checkpoint's. */
static bool trains(const Options *o) { return o->command & FOR_CONFIG; }

/* --- configuration structs ------------------------------------------------------------------------------ */

static LrStyle lr_style(const Options *o)
{
    switch ((enum ChoiceOf_lr_decay_style)o->lr_decay_style.value) {
    case CHOICE_lr_decay_style_linear:   return LR_LINEAR;
    case CHOICE_lr_decay_style_cosine:   return LR_COSINE;
    case CHOICE_lr_decay_style_constant: return LR_CONSTANT;
    }
    NO_SUCH_CHOICE(o->lr_decay_style);
}

LrSchedule setup_lr(const Options *o)
{
    return (LrSchedule){ lr_style(o), o->lr, o->min_lr, o->lr_warmup_iters, o->lr_decay_iters };
}

static MuonScale muon_scale(const Options *o)
{
    switch ((enum ChoiceOf_muon_scale_mode)o->muon_scale_mode.value) {
    case CHOICE_muon_scale_mode_spectral:      return MUON_SPECTRAL;
    case CHOICE_muon_scale_mode_unit_rms_norm: return MUON_UNIT_RMS;
    case CHOICE_muon_scale_mode_shape_scaling: return MUON_SHAPE;
    }
    NO_SUCH_CHOICE(o->muon_scale_mode);
}

static MuonCoefficients muon_coefficients(const Options *o)
{
    switch ((enum ChoiceOf_muon_coefficient_type)o->muon_coefficient_type.value) {
    case CHOICE_muon_coefficient_type_simple:  return MUON_SIMPLE;
    case CHOICE_muon_coefficient_type_quintic: return MUON_QUINTIC;
    }
    NO_SUCH_CHOICE(o->muon_coefficient_type);
}

static bool muon_narrow(const Options *o)
{
    switch ((enum ChoiceOf_muon_fp32_matmul_prec)o->muon_fp32_matmul_prec.value) {
    case CHOICE_muon_fp32_matmul_prec_low:
    case CHOICE_muon_fp32_matmul_prec_medium: return true;
    case CHOICE_muon_fp32_matmul_prec_high:   return false;
    }
    NO_SUCH_CHOICE(o->muon_fp32_matmul_prec);
}

OptimizerSettings setup_optimizer(const Options *o)
{
    return (OptimizerSettings){ .beta1 = o->adam_beta1, .beta2 = o->adam_beta2, .epsilon = o->adam_eps,
        .decay = o->weight_decay, .stochastic = o->stochastic_rounding, .momentum = o->sgd_momentum,
        .least_ratio = o->lamb_min_coeff, .most_ratio = o->lamb_max_coeff,
        .muon = { .momentum = o->muon_momentum, .nesterov = o->muon_nesterov,
                  .steps = (int)o->muon_num_ns_steps, .scale = muon_scale(o),
                  .extra = o->muon_extra_scale_factor, .coefficients = muon_coefficients(o),
                  .narrow = muon_narrow(o) } };
}

static DataPath data_path_of(const TextList *list) { return (DataPath){ list->text, list->count }; }

static OrderKind order_kind(const Options *o)
{
    switch ((enum ChoiceOf_data_order)o->data_order.value) {
    case CHOICE_data_order_jotun:    return ORDER_JOTUN;
    case CHOICE_data_order_megatron: return ORDER_MEGATRON;
    case CHOICE_data_order_forks:    return ORDER_FORKS;
    }
    NO_SUCH_CHOICE(o->data_order);
}

/* jotun's own order is computed, so that it has no use for a cache. */
DatasetRules setup_datasets(const Options *o)
{
    OrderKind order = order_kind(o);
    return (DatasetRules){
        .order = order, .data_path = data_path_of(&o->data_path), .list = o->data_file_list,
        .split_path = { data_path_of(&o->train_data_path), data_path_of(&o->valid_data_path),
                        data_path_of(&o->test_data_path) },
        .cache = order == ORDER_JOTUN ? NULL : o->data_cache_path, .final_epoch_cut = o->final_epoch_cut,
        .surplus = o->surplus, .corpus_shuffled = o->corpus_shuffled, .corpus_blended = o->corpus_blended,
    };
}

Sampling setup_sampling(const Options *o)
{
    return (Sampling){ .temperature = o->temperature, .top_p = o->top_p, .top_k = o->top_k,
                       .seed = (uint64_t)o->sampling_seed };
}

TokenizePlan setup_tokenize(const Options *o, const Tokenizer *tokenizer)
{
    return (TokenizePlan){
        .path = o->input.text, .paths = o->input.count, .key = o->json_keys.text, .keys = o->json_keys.count,
        .tokenizer = tokenizer, .append_eod = o->append_eod,
        .skip = o->on_error.value == CHOICE_on_error_skip,
        .workers = o->workers ? (int)o->workers : team_cores(), .line_most = o->document_most,
        .ratio_most = o->ratio_most,
    };
}

BpePlan setup_bpe(const Options *o, Team *team)
{
    return (BpePlan){ .vocabulary = o->learned_vocabulary, .least = o->min_frequency, .team = team,
                      .special = o->special_tokens.text, .specials = o->special_tokens.count };
}

/* --- what a tokenizer adds ------------------------------------------------------------------------------ */

typedef struct { int32_t vocabulary, eod; char fingerprint[TOKENIZER_FINGERPRINT]; } TokenizerFacts;

static Status tokenizer_facts(TokenizerFacts *facts, const char *name)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, name));
    facts->vocabulary = t.vocabulary;
    facts->eod        = t.eod;
    tokenizer_fingerprint(facts->fingerprint, &t);
    tokenizer_close(&t);
    return OK;
}

/* A checkpoint has the name of its tokenizer, which may be a file that has moved. */
static Status moved(const Options *o, Status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(status, "%s; the checkpoint of --load %s names it: say where it is now by --tokenizer", why,
                o->load);
}

/* Of a fingerprint what was found to differ: "257 ids, tokens 0123456789abcdef" */
static const char *tokens_text(char out[TOKENIZER_FINGERPRINT], const char *fingerprint)
{
    const char *ids = strchr(fingerprint, ' '), *rules = strstr(fingerprint, ", rules");
    size_t bytes = ids && rules > ids ? (size_t)(rules - ids - 1) : 0;
    snprintf(out, TOKENIZER_FINGERPRINT, "%.*s", (int)bytes, ids ? ids + 1 : "");
    return out;
}

static Status refuse_tokenizer(const Options *o, const TokenizerFacts *facts)
{
    char said[512], now[TOKENIZER_FINGERPRINT], was[TOKENIZER_FINGERPRINT];
    SourceKind kind = o->source[OPTION_tokenizer].kind;
    return fail(BAD_OPTION, "%s (%s) is not the one that %s was trained with, %s (%s); %s",
                options_typed(said, sizeof said, o, OPTION_tokenizer), tokens_text(now, facts->fingerprint),
                o->checkpoint.path, o->checkpoint.tokenizer, tokens_text(was, o->checkpoint.fingerprint),
                options_typed_by_person(o, OPTION_tokenizer) ?
                "leave --tokenizer out, or say where that one is now" :
                kind == SOURCE_CHECKPOINT ?
                "the file was changed: say by --tokenizer where an unchanged one is" :
                "give that one as --tokenizer, or give --use-checkpoint-args");
}

/* Told with the other changes of a resumed run, once it has started */
static void note_tokenizer(Options *o, const TokenizerFacts *facts)
{
    char line[4096];
    snprintf(line, sizeof line, "--tokenizer %s (%s), was %s (%s)", o->tokenizer, facts->fingerprint,
             o->checkpoint.tokenizer, o->checkpoint.fingerprint);
    o->checkpoint.change = options_hold(o, line);
}

/* The tokenizer that a checkpoint is used with is the one that it was trained with; a resumed run may have
 * another one that a person names. A checkpoint without a fingerprint may be used with fewer ids, since
 * --vocab-size may be larger than the tokenizer, and they are only reported. */
static Status compare_tokenizer(Options *o, const TokenizerFacts *facts)
{
    const char *path = o->checkpoint.path, *was = o->checkpoint.fingerprint;
    bool typed = options_typed_by_person(o, OPTION_tokenizer);
    if (path && !was && typed && !trains(o) && facts->vocabulary < o->vocabulary)
        log_line("--tokenizer %s has %d ids, and the model of %s has %lld; the checkpoint does not tell "
                 "whether it was trained with this tokenizer", o->tokenizer, facts->vocabulary, path,
                 (long long)o->vocabulary);
    if (!was) return OK;
    TokenizerMatch match = tokenizer_match(was, facts->fingerprint);
    if (match == TOKENIZER_OTHER && !(typed && trains(o))) return refuse_tokenizer(o, facts);
    if (match == TOKENIZER_OTHER || (match == TOKENIZER_OTHER_RULES && typed && trains(o)))
        note_tokenizer(o, facts);
    else if (match == TOKENIZER_OTHER_RULES)
        log_line("--tokenizer %s (%s) has the tokens and merges of the one that %s was trained with (%s), "
                 "but another normalizer, pre-tokenizer, post-processor, end of document or other added "
                 "tokens, or is another format of file: a text may get other ids", o->tokenizer,
                 facts->fingerprint, path, was);
    else if (match == TOKENIZER_OTHER_VERSION)
        log_line("%s has the fingerprint of its tokenizer in another version (%s), so --tokenizer %s is not "
                 "compared with it", path, was, o->tokenizer);
    return OK;
}

/* The size of the vocabulary, where nobody gave another; a smaller one is refused. */
static Status take_tokenizer(Options *o)
{
    TokenizerFacts facts;
    Status status = tokenizer_facts(&facts, o->tokenizer);
    if (status != OK && o->load && !options_typed_by_person(o, OPTION_tokenizer)) return moved(o, status);
    TRY(status);
    int32_t vocabulary = facts.vocabulary;
    options_fill(o, OPTION_vocabulary, vocabulary, "--tokenizer");
    if (o->vocabulary >= vocabulary) return compare_tokenizer(o, &facts);
    if (!trains(o))
        return fail(BAD_OPTION, "--tokenizer %s has %d ids, and the model of --load %s has %lld; give the "
                    "tokenizer it "
                    "was trained with", o->tokenizer, vocabulary, o->load, (long long)o->vocabulary);
    return fail(BAD_OPTION, "--vocab-size %lld is less than the %d ids of --tokenizer %s; give %d or more",
                (long long)o->vocabulary, vocabulary, o->tokenizer, vocabulary);
}

/* --- a run ---------------------------------------------------------------------------------------------- */

/* Virtual stages of a pipeline stage: given in one way or another, those of a layout, or what the schedule
 * has. A layout that does not fit is refused where it is read (stage_make). */
static int chunks(const Options *o)
{
    int pp = (int)o->pipeline_parallel;
    int layout = o->pipeline_layout ? stage_layout_virtuals(o->pipeline_layout) : 0;
    if (o->pipeline_schedule.value == CHOICE_pipeline_schedule_zb_v) return 2;
    if (o->layers_per_chunk) return (int)(o->layers / (pp * o->layers_per_chunk));
    if (o->virtual_stages)   return (int)o->virtual_stages;
    return layout > pp && layout % pp == 0 && layout / pp <= CHUNKS_MAX ? layout / pp : 1;
}

/* Context-parallel ranks that exchange heads. */
static int ulysses(const Options *o)
{
    switch ((enum ChoiceOf_cp_comm_type)o->cp_comm_type.value) {
    case CHOICE_cp_comm_type_p2p: case CHOICE_cp_comm_type_allgather: return 1;
    case CHOICE_cp_comm_type_a2a:     return (int)o->context_parallel;
    case CHOICE_cp_comm_type_a2a_p2p: return options_hierarchical(o);
    }
    NO_SUCH_CHOICE(o->cp_comm_type);
}

static ScheduleKind schedule(const Options *o)
{
    switch ((enum ChoiceOf_pipeline_schedule)o->pipeline_schedule.value) {
    case CHOICE_pipeline_schedule_1f1b:
        return chunks(o) > 1 || o->layers_per_chunk ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    case CHOICE_pipeline_schedule_gpipe: return SCHEDULE_GPIPE;
    case CHOICE_pipeline_schedule_zb_h1: return SCHEDULE_ZB_H1;
    case CHOICE_pipeline_schedule_zb_v:  return SCHEDULE_ZB_V;
    }
    NO_SUCH_CHOICE(o->pipeline_schedule);
}

/* The words are the modules in the order of option_recompute_module; others have been refused. */
static unsigned recompute_modules(const Options *o)
{
    static const RecomputeModules module[] = { RECOMPUTE_CORE_ATTN, RECOMPUTE_LAYERNORM, RECOMPUTE_MLP,
                                               RECOMPUTE_MLP_ACT, RECOMPUTE_MOE, RECOMPUTE_MOE_ACT,
                                               RECOMPUTE_SHARED_EXPERTS };
    unsigned all = 0;
    for (int i = 0; i < o->recompute_modules.count; i++)
        all |= module[option_recompute_module(o->recompute_modules.text[i])];
    return all ? all : RECOMPUTE_CORE_ATTN;
}

static RecomputeMethod recompute_method(const Options *o)
{
    switch ((enum ChoiceOf_recompute_method)o->recompute_method.value) {
    case CHOICE_recompute_method_uniform: return RECOMPUTE_UNIFORM;
    case CHOICE_recompute_method_block:   return RECOMPUTE_BLOCK;
    }
    NO_SUCH_CHOICE(o->recompute_method);
}

static Recompute setup_recompute(const Options *o)
{
    switch ((enum ChoiceOf_recompute_granularity)o->recompute_granularity.value) {
    case CHOICE_recompute_granularity_none:
        return (Recompute){ 0, RECOMPUTE_NONE, 0 };
    case CHOICE_recompute_granularity_selective:
        return (Recompute){ recompute_modules(o), RECOMPUTE_NONE, 0 };
    case CHOICE_recompute_granularity_full:
        return (Recompute){ 0, recompute_method(o), o->recompute_layers };
    }
    NO_SUCH_CHOICE(o->recompute_granularity);
}

static KernelFamily kernels(const Options *o)
{
    switch ((enum ChoiceOf_kernels)o->kernels.value) {
    case CHOICE_kernels_auto:        return KERNELS_AUTO;
    case CHOICE_kernels_avx512_bf16: return KERNELS_AVX512_BF16;
    case CHOICE_kernels_avx512:      return KERNELS_AVX512;
    case CHOICE_kernels_avx2:        return KERNELS_AVX2;
    case CHOICE_kernels_neon:        return KERNELS_NEON;
    case CHOICE_kernels_portable:    return KERNELS_PORTABLE;
    }
    NO_SUCH_CHOICE(o->kernels);
}

/* Samples of a step. Evaluation has no --global-batch-size: each data-parallel rank takes one micro-batch. */
static int64_t global_batch(const Options *o)
{
    return o->command == FOR_EVAL ? o->micro_batch * options_data_parallel(o) : o->global_batch;
}

/* Evaluations that could read nothing are left out, with a line. */
static void leave_out_evaluations(TrainConfig *r)
{
    if (!r->training || r->eval_iters == 0) return;
    if (datasets_has(&r->datasets, SPLIT_VALID) || datasets_has(&r->datasets, SPLIT_TEST)) return;
    log_line("--train-data-path is given without --valid-data-path: nothing is evaluated");
    r->eval_iters = r->eval_interval = 0;
}

Status setup_train_config(TrainConfig *r, Options *o)
{
    TokenizerFacts facts = { .eod = -1 };
    TokenizerRecord tokenizer = { NULL, NULL };
    const char *json = "", *device = o->device.value == CHOICE_device_auto ? "cpu" : o->device.word;
    if (trains(o)) {                                    /* others open their own */
        TRY(tokenizer_facts(&facts, o->tokenizer));
        tokenizer = (TokenizerRecord){ o->tokenizer, options_hold(o, facts.fingerprint) };
    }
    /* What nobody changed on purpose stays as it was recorded. */
    if (trains(o) && o->checkpoint.fingerprint && !options_typed_by_person(o, OPTION_tokenizer))
        tokenizer = (TokenizerRecord){ o->checkpoint.tokenizer, o->checkpoint.fingerprint };
    if (trains(o)) TRY(options_json(o, &json));                             /* kept in checkpoints */
    *r = (TrainConfig){
        .model = setup_model(o), .training = o->command == FOR_TRAIN,
        .tp = (int)o->tensor_parallel, .cp = (int)o->context_parallel, .pp = (int)o->pipeline_parallel,
        .ep = (int)o->expert_parallel, .etp = (int)o->expert_tensor_parallel,
        .order = o->tp_pp_dp ? MESH_TP_PP_DP : MESH_TP_DP_PP, .hybrid_shard = (int)o->hybrid_shard,
        .chunks = chunks(o), .zero = (int)o->zero_stage, .ulysses = ulysses(o),
        .gather = o->cp_comm_type.value == CHOICE_cp_comm_type_allgather,
        .sum_group = (int)o->sum_group_size, .no_overlap = o->no_overlap,
        .sequence_parallel = o->sequence_parallel,
        .schedule = schedule(o), .micro_group = (int)o->micro_group, .extra_warmup = (int)o->extra_warmup,
        .layer_split = { .first = o->first_layers, .last = o->last_layers, .embedding = o->count_embedding,
                         .loss = o->count_loss, .layout = o->pipeline_layout },
        .micro = o->micro_batch, .global = global_batch(o), .steps = o->train_iters,
        .lr = setup_lr(o), .recompute = setup_recompute(o), .head_chunk = o->logits_chunk,
        .precision = setup_precision(o), .scaling = setup_scaling(o),
        .loss_scale = !o->fp16 ? 0 : o->loss_scale > 0 ? o->loss_scale : o->initial_loss_scale,
        .optimizer = optimizer_named(o->optimizer.word), .settings = setup_optimizer(o), .clip = o->clip_grad,
        .seed = (uint64_t)o->seed, .device = device, .threads = (int)o->threads,
        .kernels = kernels(o), .kernels_before = o->checkpoint.kernels,
        .watchdog = o->watchdog_seconds, .datasets = setup_datasets(o), .split = o->split,
        .reset_positions = o->reset_positions,
        .reset_attention = o->reset_attention, .mask_eod = o->mask_eod, .eod = facts.eod,
        .save = o->save, .load = o->checkpoint.path ? o->checkpoint.path : o->load,
        .save_interval = o->save_interval, .keep_last = o->keep_last,
        .exit_interval = o->exit_interval, .exit_on_missing = o->exit_on_missing, .options = json,
        .tokenizer = tokenizer, .changed = o->changed, .log_interval = o->log_interval,
        .eval_interval = o->eval_interval,
        .eval_iters = o->eval_interval > 0 ? o->eval_iters : 0, .metrics = o->metrics,
        .verbose = o->verbose, .profile = o->profile,
        .profile_start = o->profile_start, .profile_end = o->profile_end,
    };
    leave_out_evaluations(r);
    Queue queue;                  /* a device that cannot be had is refused here, with the reason */
    char dry[16];                 /* a dry run needs none */
    snprintf(dry, sizeof dry, "dry-%s", r->device);
    TRY(queue_open(&queue, trains(o) && o->dry_run ? dry : r->device, 1, NULL));
    queue_close(&queue);
    return OK;
}

/* --- what a checkpoint adds ----------------------------------------------------------------------------- */

/* Once, before all that reads it: another run may save meanwhile, and options of one step do not go with
 * weights of another. */
static Status find_checkpoint(Options *o)
{
    char path[1024];
    bool found;
    CheckpointFacts facts;
    TRY(checkpoint_find(o->load, path, &found));
    if (!found) return OK;              /* the trainer starts from new weights, or refuses to */
    TRY(checkpoint_facts(&facts, path));
    TokenizerRecord tokenizer = facts.state.tokenizer;
    o->checkpoint.path    = options_hold(o, path);
    o->checkpoint.options = options_hold(o, facts.state.options);
    o->checkpoint.loss_scale = facts.state.loss_scale.scale;
    if (facts.state.kernels) o->checkpoint.kernels = options_hold(o, facts.state.kernels);
    if (tokenizer.fingerprint) {
        o->checkpoint.tokenizer   = options_hold(o, tokenizer.name);
        o->checkpoint.fingerprint = options_hold(o, tokenizer.fingerprint);
    }
    checkpoint_facts_free(&facts);
    return OK;
}

/* The model's shape is the checkpoint's, but for options that a person gives, which judge_with_checkpoint
 * compares. */
static Status take_checkpoint_options(Options *o)
{
    if (!o->checkpoint.path)
        return fail(BAD_FILE, "--load %s holds no checkpoint; give the directory that jotun train --save"
                    " wrote",
                    o->load);
    return options_from_json(o, o->checkpoint.options, o->checkpoint.path);
}

/* A checkpoint before the tokenizer, which it may name, and both before what is derived from them. */
Status setup_values(Options *o)
{
    char typed[1024];
    if (o->load) snprintf(typed, sizeof typed, "--load %s", o->load);
    if (o->load) TRY(checkpoint_directory(typed, o->load));
    if (o->load) TRY(find_checkpoint(o));
    if (o->load && (o->use_checkpoint_args || !trains(o))) TRY(take_checkpoint_options(o));
    TRY(take_tokenizer(o));
    return options_derive(o);
}

/* The dynamic loss scale is saved, so that the one to begin with is of new runs alone. */
static void note_initial_loss_scale(const Options *o)
{
    char typed[256];
    bool kept = o->fp16 && !(o->loss_scale > 0) && o->checkpoint.loss_scale > 0;
    if (kept && options_typed_by_person(o, OPTION_initial_loss_scale))
        log_line("%s is ignored: the run resumes with the loss scale of its checkpoint, %g",
                 options_typed(typed, sizeof typed, o, OPTION_initial_loss_scale), o->checkpoint.loss_scale);
}

/* A run resumes with the model that it began with. */
static Status judge_with_checkpoint(Options *o)
{
    char all[8192];
    const char *change = o->checkpoint.change;
    if (!o->checkpoint.path) return OK;
    TRY(options_match_json(o, o->checkpoint.options, o->checkpoint.path));
    note_initial_loss_scale(o);
    if (!change) return OK;
    snprintf(all, sizeof all, "%s%s%s", o->changed ? o->changed : "", o->changed ? "; " : "", change);
    o->changed = options_hold(o, all);
    return OK;
}

Status setup_validate(Options *o)
{
    if (o->load && trains(o)) TRY(judge_with_checkpoint(o));
    return options_validate(o);
}

Status setup_agree(Transport *mpi, Status mine)
{
    if (!mpi) return mine;
    Status status = agree_at_start(mpi, mine);
    if (status != OK) mpi->close(mpi);
    return status;
}

Status setup_agree_on(Transport *mpi, const char *mine, const char *what_to_do)
{
    if (!mpi) return OK;
    Status status = agree_on_text_at_start(mpi, mine, what_to_do);
    if (status != OK) mpi->close(mpi);
    return status;
}

/* Options decide which collectives a rank enters, so that ranks with different ones would wait for ever, or
 * train with different numbers. Other options come from the environment of one host, for example. */
static Status agree_on_options(const Options *o, Transport *mpi)
{
    char *text = NULL;
    size_t bytes;
    if (!mpi) return OK;
    FILE *out = open_memstream(&text, &bytes);
    if (out) options_show_common(out, o, AGREE_SHOWN);
    bool whole = out && fclose(out) == 0;
    Status status = setup_agree(mpi, whole ? OK : fail(NO_MEMORY, "no memory for the options as text"));
    if (status == OK) status = setup_agree_on(mpi, text, "give all ranks the same options");
    free(text);
    return status;
}

/* The launcher's ranks count as given by nobody, so that --ranks can contradict them only with a message. */
static Status take_ranks(Options *o, const Transport *mpi)
{
    if (mpi) options_fill(o, OPTION_ranks, mpi->size, "the MPI launcher");
    if (!mpi || o->ranks == mpi->size) return OK;
    return fail(BAD_OPTION, "--ranks %lld, but the MPI launcher started %d; leave --ranks out",
                (long long)o->ranks, mpi->size);
}

/* A rank without MPI cannot agree with the others, so it prints its own message. */
static Status unagreed(Status status)
{
    char why[512], host[64] = "";
    if (transport_launcher_rank() == 0) return status;
    log_mute(false);
    snprintf(why, sizeof why, "%s", fail_text());
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");
    return fail(status, "rank %d on %s: %s", transport_launcher_rank(), host, why);
}

/* Other ranks may have a command and wait for this one. Without MPI rank 0 writes it, since what is wrong is
 * almost always wrong on all. */
Status setup_refused(Status status, int argc, char **argv)
{
    enum { SECONDS = 600 };                     /* the default of --watchdog-seconds */
    char why[512];
    Transport *mpi = NULL;
    if (!transport_launcher()) return status;
    snprintf(why, sizeof why, "%s", fail_text());
    log_mute(transport_launcher_rank() != 0);
    Status opened = transport_mpi_open(&mpi, SECONDS, &argc, &argv);
    status = fail(status, "%s", why);
    return opened == OK ? setup_agree(mpi, status) : status;
}

/* Environment, tokenizer and checkpoint may differ on one host, so the ranks agree on what they read; options
 * that could not be parsed are agreed on as well, once MPI is open. */
Status setup_options(Options *o, Transport **mpi, CommandSet command, int argc, char **argv)
{
    char why[512];
    *mpi = NULL;
    log_mute(transport_launcher_rank() != 0);           /* rank 0 logs for all */
    Status status = options_parse(o, command, argc, argv);
    if (status == OK) status = options_needed(o);
    snprintf(why, sizeof why, "%s", fail_text());
    /* Nothing is derived yet; the minutes, from which the seconds follow, are known. */
    bool said = options_typed_by_person(o, OPTION_watchdog_seconds);
    double limit = said ? o->watchdog_seconds : 60 * o->timeout_minutes;
    Status opened = transport_mpi_open(mpi, limit, &argc, &argv);
    if (status != OK) status = fail(status, "%s", why);
    else              status = opened;
    if (opened != OK) return unagreed(status);
    if (status == OK) status = take_ranks(o, *mpi);
    if (status == OK) status = setup_values(o);
    if (status == OK) status = setup_validate(o);
    TRY(setup_agree(*mpi, status));
    return agree_on_options(o, *mpi);
}

/* An allocation that fails follows from options. */
static Status name_memory_options(Status status)
{
    char why[400];
    if (status != NO_MEMORY) return status;
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(NO_MEMORY, "%s; a smaller --micro-batch-size, --seq-length or model, or more ranks "
                "(--tp, --pp, --cp, "
                "--zero-stage) need less; jotun train --dry-run shows what each rank needs", why);
}

/* Of ranks that are threads: each has a stack, and a part in every collective of every other. */
enum { THREAD_RANKS_MAX = 1024 };

/* An MPI launcher may bind each process to a part of the host's cores. */
static void warn_of_too_many_threads(const Options *o, const Transport *mpi)
{
    bool bound = !mpi || o->threads > team_cores();
    int64_t ranks = !mpi ? o->ranks : bound ? 1 : transport_launcher_local();
    int64_t cores = bound ? team_cores() : sysconf(_SC_NPROCESSORS_ONLN);
    if (ranks * o->threads > cores)
        log_line("%lld rank%s x --threads %lld are more threads than the %lld core%s %s: the run is slower "
                 "than with fewer", (long long)ranks, ranks == 1 ? "" : "s", (long long)o->threads,
                 (long long)cores, cores == 1 ? "" : "s",
                 bound ? "that this process may use" : "of this host");
}

Status setup_run(const Options *o, Transport *mpi, RankBody *body, void *context)
{
    if (!mpi && o->ranks > THREAD_RANKS_MAX)
        return fail(BAD_OPTION, "--ranks %lld as threads of one process are too many: up to %d are possible; "
                    "start more by mpirun, or look at their plan with --dry-run", (long long)o->ranks,
                    THREAD_RANKS_MAX);
    warn_of_too_many_threads(o, mpi);
    if (!mpi) return name_memory_options(transport_threads_run((int)o->ranks, body, context));
    Status status = name_memory_options(body(mpi, context));
    mpi->close(mpi);
    return status;
}
