/* The options of a run as TrainConfig. */
#include "cli/choice.h"
#include "cli/setup/setup.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "cli/command.h"
#include "cli/setup/tokenizer.h"
#include "comm/transport.h"
#include "conf/rules.h"
#include "conf/schedule.h"
#include "conf/value.h"

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

static Recompute setup_recompute(const Options *o)
{
    switch ((enum ChoiceOf_recompute_granularity)o->recompute_granularity.value) {
    case CHOICE_recompute_granularity_none:
        return (Recompute){ 0, RECOMPUTE_NONE, 0 };
    case CHOICE_recompute_granularity_selective:
        return (Recompute){ recompute_modules(o), RECOMPUTE_NONE, 0 };
    case CHOICE_recompute_granularity_full:
        return (Recompute){ 0, o->recompute_method.value == CHOICE_recompute_method_block
                               ? RECOMPUTE_BLOCK : RECOMPUTE_UNIFORM, o->recompute_layers };
    }
    NO_SUCH_CHOICE(o->recompute_granularity);
}

static CHOICE_AS( KernelFamily, kernels, kernels,
    TO( CHOICE_kernels_auto,        KERNELS_AUTO )
    TO( CHOICE_kernels_avx512_bf16, KERNELS_AVX512_BF16 )
    TO( CHOICE_kernels_avx512,      KERNELS_AVX512 )
    TO( CHOICE_kernels_avx2,        KERNELS_AVX2 )
    TO( CHOICE_kernels_neon,        KERNELS_NEON )
    TO( CHOICE_kernels_portable,    KERNELS_PORTABLE ) )

static CHOICE_AS( LogLines, log_lines, log_format,
    TO( CHOICE_log_format_jotun,       LINES_JOTUN )
    TO( CHOICE_log_format_megatron,    LINES_MEGATRON )
    TO( CHOICE_log_format_epochs,      LINES_EPOCHS )
    TO( CHOICE_log_format_epochs_json, LINES_EPOCHS_JSON ) )

/* Samples of a step. Evaluation has no --global-batch-size: each data-parallel rank takes one micro-batch. */
static int64_t global_batch(const Options *o, const BatchStep *last)
{
    return o->command == FOR_EVAL ? o->micro_batch * options_data_parallel(o)
         : o->command == FOR_TRAIN ? last->size : o->global_batch;
}

/* The batch sizes of a run, in memory of the options; none where they are one. */
static Status batch_schedule(BatchSchedule *batch, BatchStep *last, Options *o)
{
    BatchStep step[BATCH_STEPS_MAX];
    int steps;
    TRY(options_batch(step, &steps, o));
    *last  = step[steps - 1];
    const BatchStep *held = options_hold_bytes(o, step, (size_t)steps * sizeof *step);
    *batch = (BatchSchedule){ held, steps > 1 ? steps : 0 };
    return OK;
}

static LogsConfig setup_logs(Options *o, const char *json)
{
    char folder[1100] = "";
    if (o->save) snprintf(folder, sizeof folder, "%.1000s/wandb", o->save);
    WandbConfig wandb = { o->wandb_project, o->wandb_exp_name, o->wandb_entity,
                          o->wandb_save_dir ? o->wandb_save_dir : options_hold(o, folder) };
    int with = LOG_WITH_TIMERS * o->log_timers | LOG_WITH_LOSS_SCALE * !o->no_log_loss_scale |
               LOG_WITH_WORLD_SIZE * o->log_world_size | LOG_WITH_PERPLEXITY * o->log_perplexity |
               LOG_WITH_MEMORY * o->log_memory;
    return (LogsConfig){ .metrics = o->metrics, .history = o->history,
                         .tensorboard = o->tensorboard_dir, .with = with, .wandb = wandb,
                         .other_keys = o->wandb_names.value == CHOICE_wandb_names_forks,
                         .interval = o->tensorboard_interval, .options = json, .saved = o->save,
                         .version = JOTUN_VERSION,
                         .command = setup_trains(o) ? options_command(o, SOURCE_PRESET) : NULL };
}

/* Whether validation is a part of the data by --split, and its weight, the second one, is 0 or missing. */
static bool has_no_validation(const TrainConfig *r)
{
    const char *comma = r->split ? strchr(r->split, ',') : NULL;
    const DatasetRules *rules = &r->datasets;
    if (rules->split_path[SPLIT_TRAIN].count || rules->split_path[SPLIT_VALID].count || rules->valid_sets)
        return false;
    return r->split && (!comma || strtod(comma + 1, NULL) == 0);
}

/* Evaluations that could read nothing are left out, with a line. What needs them is refused where the data
 * are opened. */
static void leave_out_evaluations(TrainConfig *r)
{
    if (!r->training || r->eval_iters == 0) return;
    bool needed = r->skip_train || r->keep_best || r->patience > 0;
    if (has_no_validation(r) && !needed) {
        log_line("--split %s has no validation set: nothing is evaluated", r->split);
        r->eval_iters = r->eval_interval = 0;
        return;
    }
    for (int set = SPLIT_VALID; set < DATA_SETS; set++)
        if (datasets_has(&r->datasets, set)) return;
    log_line("the data of training is given without validation data: nothing is evaluated");
    r->eval_iters = r->eval_interval = 0;
}

static DeviceTransport device_transport(const Options *o)
{
    switch ((enum ChoiceOf_device_transport)o->device_transport.value) {
    case CHOICE_device_transport_auto:   break;
    case CHOICE_device_transport_nccl:   return DEVICE_NCCL;
    case CHOICE_device_transport_staged: return DEVICE_STAGED;
    }
    return DEVICE_AUTO;
}

/* What checkpoints keep of the tokenizer. What nobody changed on purpose stays as it was recorded. */
static Status tokenizer_record(TokenizerRecord *record, TokenizerFacts *facts, Options *o)
{
    if (!setup_without_tokenizer(o)) {
        const char *path = setup_tokenizer_path(o);
        TRY(setup_tokenizer_facts(facts, path));
        record->name        = o->tokenizer;
        record->fingerprint = options_hold(o, facts->fingerprint);
        if (o->save && transport_launcher_rank() <= 0) TRY(setup_tokenizer_copies(record, o, path));
    }
    if (!o->checkpoint.fingerprint || options_typed_by_person(o, OPTION_tokenizer)) return OK;
    record->name        = o->checkpoint.tokenizer;
    record->fingerprint = o->checkpoint.fingerprint;
    return OK;
}

Status setup_train_config(TrainConfig *r, Options *o)
{
    TokenizerFacts facts = { .eod = -1 };
    TokenizerRecord tokenizer = { 0 };
    const char *device = o->device.value == CHOICE_device_auto ? "cpu" : o->device.word;
    const char *json = "", *given = NULL;
    BatchStep last;
    BatchSchedule batch;
    int64_t left_out[LEFT_OUT_MAX];
    LengthSchedule lengths;
    int left_outs;
    TRY(batch_schedule(&batch, &last, o));
    TRY(options_left_out(left_out, &left_outs, o));
    TRY(options_lengths(&lengths, o));
    bool without = setup_without_tokenizer(o);
    if (setup_trains(o)) TRY(tokenizer_record(&tokenizer, &facts, o));           /* others open their own */
    if (without && o->mock_data) facts.eod = (int32_t)o->vocabulary - 1;        /* of made documents */
    if (setup_trains(o)) TRY(options_json(o, &json));                             /* kept in checkpoints */
    if (setup_trains(o)) TRY(options_given(o, &given));
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
        .micro = o->micro_batch, .global = global_batch(o, &last), .batch = batch,
        .lengths = lengths,
        .valid_micro = o->eval_micro_batch, .valid_global = o->eval_global_batch,
        .steps = o->train_iters, .samples = o->train_samples, .left_outs = left_outs,
        .left_out = options_hold_bytes(o, left_out, (size_t)left_outs * sizeof *left_out),
        .skip_train = o->skip_train, .eval_from = o->eval_from,
        .full_validation = o->full_validation,
        .lr = setup_lr(o), .weight_decay = setup_weight_decay(o), .recompute = setup_recompute(o),
        .head_chunk = o->logits_chunk,
        .precision = setup_precision(o), .scaling = setup_scaling(o),
        .loss_scale = !o->fp16 ? 0 : o->loss_scale > 0 ? o->loss_scale : o->initial_loss_scale,
        .optimizer = optimizer_named(o->optimizer.word), .settings = setup_optimizer(o), .clip = o->clip_grad,
        .seed = (uint64_t)o->seed, .device = device,
        .device_transport = device_transport(o), .threads = (int)o->threads,
        .kernels = kernels(o), .kernels_before = o->checkpoint.kernels,
        .watchdog = o->watchdog_seconds, .split = o->split,
        .reset_positions = o->reset_positions,
        .reset_attention = o->reset_attention, .mask_eod = o->mask_eod, .eod = facts.eod,
        .save = o->save, .load = o->checkpoint.path ? o->checkpoint.path : o->load,
        .leave = (o->finetune ? CHECKPOINT_STATES | CHECKPOINT_POSITION : 0) |
                 (o->no_load_optim ? CHECKPOINT_STATES : 0), .no_save_states = o->no_save_optim,
        .save_interval = o->save_interval, .keep_last = o->keep_last,
        .spike = !(o->spike_factor > 0 || o->spike_deviations > 0) ? (SpikeGuard){ .window = 0 }
            : (SpikeGuard){ o->spike_factor, o->spike_deviations, o->spike_window,
                            o->spike_action.value == CHOICE_spike_action_rewind },
        .no_replay = o->no_replay,
        .exit_minutes = o->exit_duration, .keep_best = o->keep_best,
        .patience = o->patience,
        .lines = log_lines(o),
        .count_zeros = o->log_zeros, .params_norm = o->log_params_norm,
        .log_throughput = o->log_throughput, .test_copies = o->test_mode,
        .exit_interval = o->exit_interval, .options = json,
        .given = given, .tokenizer = tokenizer, .changed = o->changed, .log_interval = o->log_interval,
        .eval_interval = o->eval_interval,
        .eval_iters = o->eval_interval > 0 ? o->eval_iters : 0, .logs = setup_logs(o, json),
        .verbose = o->verbose, .peak = 1e12 * o->peak_tflops, .profile = o->profile,
        .profile_start = o->profile_start, .profile_end = o->profile_end,
    };
    TRY(setup_datasets(&r->datasets, o));
    TRY(setup_valid_names(&r->valid_names, &r->datasets, o));
    r->datasets.mock     = o->mock_data ? o->vocabulary : 0;
    r->datasets.mock_eod = facts.eod;
    leave_out_evaluations(r);
    Queue queue;                  /* a device that cannot be had is refused here, with the reason */
    char dry[16];                 /* a dry run needs none */
    snprintf(dry, sizeof dry, "dry-%s", r->device);
    TRY(queue_open(&queue, setup_trains(o) && o->dry_run ? dry : r->device, 1, NULL));
    queue_close(&queue);
    return OK;
}
