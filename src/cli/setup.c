#include "cli/setup.h"
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "store/checkpoint.h"
#include "text/tokenizer.h"

static bool trains(const Options *o) { return o->command & FOR_CONFIG; }

static ModelConfig shape_of(const Options *o)
{
    static const PositionKind positions[] = { [WORD_position_learned_absolute] = POSITION_LEARNED, [WORD_position_rope] = POSITION_ROPE,
                                              [WORD_position_none] = POSITION_NONE };
    return (ModelConfig){ .layers = o->layers, .hidden = o->hidden, .ffn = o->ffn, .heads = o->heads, .groups = o->groups,
        .head_dim = o->hidden / o->heads, .vocabulary = o->vocabulary, .positions = o->positions, .sequence = o->sequence,
        .norm = o->norm.is == WORD_norm_rmsnorm ? NORM_RMS : NORM_LAYER, .position = positions[o->position.is],
        .activation = o->swiglu ? ACT_SWIGLU : o->squared_relu ? ACT_SQUARED_RELU : ACT_GELU_TANH, .epsilon = o->epsilon,
        .rope_base = o->rope_base, .hidden_dropout = o->hidden_dropout, .attention_dropout = o->attention_dropout,
        .init_std = o->init_std, .bias = !o->disable_bias, .tied = !o->untie };
}

static LrSchedule lr_of(const Options *o)
{
    static const LrStyle styles[] = { [WORD_lr_decay_style_linear] = LR_LINEAR, [WORD_lr_decay_style_cosine] = LR_COSINE,
                                      [WORD_lr_decay_style_constant] = LR_CONSTANT };
    return (LrSchedule){ styles[o->lr_decay_style.is], o->lr, o->min_lr, o->lr_warmup_iters, o->lr_decay_iters };
}

static const char *device_of(const Options *o)
{
    return o->device.is == WORD_device_auto ? "cpu" : o->device.word;
}

static DatasetWords words_of(const TextList *list) { return (DatasetWords){ list->text, list->count }; }

DatasetRules setup_datasets(const Options *o)
{
    static const OrderKind orders[] = { [WORD_data_order_jotun] = ORDER_JOTUN, [WORD_data_order_megatron] = ORDER_MEGATRON,
                                        [WORD_data_order_forks] = ORDER_FORKS };
    return (DatasetRules){ .order = orders[o->data_order.is], .words = words_of(&o->data_path), .list = o->data_file_list,
        .own = { words_of(&o->train_data_path), words_of(&o->valid_data_path), words_of(&o->test_data_path) },
        .cache = o->data_cache_path, .cut = o->final_epoch_cut, .surplus = o->surplus, .corpus_shuffled = o->corpus_shuffled,
        .corpus_blended = o->corpus_blended };
}

static Status tokenizer_facts(const char *name, int32_t *vocabulary, int32_t *eod)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, name));
    *vocabulary = t.vocabulary;
    *eod        = t.eod;
    tokenizer_close(&t);
    return OK;
}

/* A checkpoint knows the name of its tokenizer, not the file. */
static Status moved(const Options *o, Status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", fail_text());
    return fail(status, "%s; the checkpoint of --load %s names it: say where it is now by --tokenizer", why, o->load);
}

/* The vocabulary, where nobody said another; refused where a smaller one was said */
static Status take_tokenizer(Options *o)
{
    int32_t vocabulary, eod;
    Status status = tokenizer_facts(o->tokenizer, &vocabulary, &eod);
    if (status != OK && o->load && !options_typed_by_person(o, OPTION_tokenizer)) return moved(o, status);
    TRY(status);
    options_fill(o, OPTION_vocabulary, vocabulary, "--tokenizer");
    if (o->vocabulary >= vocabulary) return OK;
    if (!trains(o))
        return fail(BAD_OPTION, "--tokenizer %s has %d ids, and the model of --load %s has %lld; give the tokenizer it was trained with",
                    o->tokenizer, vocabulary, o->load, (long long)o->vocabulary);
    return fail(BAD_OPTION, "--vocab-size %lld is less than the %d ids of --tokenizer %s; %d or more do",
                (long long)o->vocabulary, vocabulary, o->tokenizer, vocabulary);
}

Status setup_train_config(TrainConfig *r, Options *o)
{
    bool interleaved = o->layers_per_chunk > 0;
    int32_t vocabulary, eod = -1;
    const char *json = "";
    if (trains(o)) TRY(tokenizer_facts(o->tokenizer, &vocabulary, &eod));       /* who says texts opens it */
    if (trains(o)) TRY(options_json(o, &json));                    /* what a checkpoint keeps: nobody else writes one */
    *r = (TrainConfig){ .model = shape_of(o), .learn = o->command == FOR_TRAIN, .tp = (int)o->tensor_parallel, .cp = (int)o->context_parallel,
        .pp = (int)o->pipeline_parallel, .chunks = interleaved ? (int)(o->layers / (o->pipeline_parallel * o->layers_per_chunk)) : 1,
        .zero = (int)o->zero_stage, .sequence = o->sequence_parallel,
        .schedule = interleaved ? SCHEDULE_INTERLEAVED : o->pipeline_schedule.is == WORD_pipeline_schedule_zb_h1 ? SCHEDULE_ZB_H1 : SCHEDULE_1F1B,
        .micro = o->micro_batch, .global = o->global_batch, .steps = o->train_iters, .lr = lr_of(o),
        .optimizer = optimizer_named(o->optimizer.word), .settings = { o->adam_beta1, o->adam_beta2, o->adam_eps, o->weight_decay },
        .clip = o->clip_grad, .seed = (uint64_t)o->seed, .device = device_of(o), .threads = (int)o->threads, .watchdog = o->watchdog_seconds,
        .datasets = setup_datasets(o), .split = o->split, .reset_positions = o->reset_positions, .reset_attention = o->reset_attention,
        .mask_eod = o->mask_eod, .eod = eod, .save = o->save, .load = o->load, .save_interval = o->save_interval,
        .keep_last = o->keep_last, .exit_interval = o->exit_interval, .exit_on_missing = o->exit_on_missing, .options = json,
        .log_interval = o->log_interval, .eval_interval = o->eval_interval, .eval_iters = o->eval_interval > 0 ? o->eval_iters : 0, .metrics = o->metrics };
    if (r->learn && r->datasets.order == ORDER_JOTUN && r->datasets.cache) {
        log_line("--data-cache-path %s is passed over: --data-order jotun is computed, not cached", r->datasets.cache);
        r->datasets.cache = NULL;
    }
    if (r->learn && r->eval_iters > 0 && !datasets_has(&r->datasets, SPLIT_VALID) && !datasets_has(&r->datasets, SPLIT_TEST)) {
        log_line("no --valid-data-path stands beside --train-data-path: nothing is evaluated");
        r->eval_iters = r->eval_interval = 0;
    }
    Queue device;
    TRY(queue_open(&device, r->device, 1, NULL));                       /* refused here, with the reason, where it is not to be had */
    queue_close(&device);
    if (!r->optimizer) return fail(BAD_OPTION, "--optimizer %s is not built; adam does", o->optimizer.word);
    return OK;
}

/* The model's shape is the checkpoint's own, unless a person says otherwise, and then judge_with_checkpoint has a word. */
static Status take_checkpoint_options(Options *o)
{
    char path[1024];
    bool found;
    char *options;
    TRY(checkpoint_find(o->load, path, &found));
    if (!found) return fail(BAD_FILE, "--load %s holds no checkpoint; give the folder that --save of jotun train wrote", o->load);
    TRY(checkpoint_options(path, &options));
    Status status = options_from_json(o, options, path);
    free(options);
    return status;
}

Status setup_values(Options *o)
{
    if (o->load && (o->use_checkpoint_args || !trains(o))) TRY(take_checkpoint_options(o));
    TRY(take_tokenizer(o));
    return options_derive(o);
}

/* A run goes on with the model it was begun with. */
static Status judge_with_checkpoint(const Options *o)
{
    char path[1024];
    bool found;
    char *options;
    TRY(checkpoint_find(o->load, path, &found));
    if (!found) return OK;                                              /* it begins anew, or refuses to: the trainer's affair */
    TRY(checkpoint_options(path, &options));
    Status status = options_match_json(o, options, path);
    free(options);
    return status;
}

Status setup_judge(const Options *o)
{
    if (o->load && trains(o)) TRY(judge_with_checkpoint(o));
    return options_judge(o);
}

Status setup_options(Options *o, Transport **mpi, int command, int argc, char **argv)
{
    *mpi = NULL;
    if (transport_launcher_rank() != 0) log_mute();                     /* what all ranks would say, rank 0 says */
    TRY(options_parse(o, command, argc, argv));
    bool said = options_typed_by_person(o, OPTION_watchdog_seconds);    /* what it is derived from stands already; it does not yet */
    TRY(transport_mpi_open(mpi, said ? o->watchdog_seconds : 60 * o->timeout_minutes, &argc, &argv));
    if (*mpi) options_fill(o, OPTION_ranks, (*mpi)->size, "the MPI launcher");
    if (*mpi && o->ranks != (*mpi)->size)
        return fail(BAD_OPTION, "--ranks %lld, but the MPI launcher started %d; leave --ranks out", (long long)o->ranks, (*mpi)->size);
    TRY(setup_values(o));
    return setup_judge(o);
}

Status setup_run(const Options *o, Transport *mpi, RankBody *body, void *context)
{
    if (!mpi) return transport_threads_run((int)o->ranks, body, context);
    Status status = body(mpi, context);
    mpi->close(mpi);
    return status;
}
