/* jotun eval perplexity: the mean cross entropy of a checkpoint's model over a text or over a .bin and .idx,
 * printed as one JSON object. Ranks share the windows of the text as they share the samples of a training
 * step. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/seam.h"
#include "cli/command.h"
#include "cli/eval_lines.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "corpus/read/encoding.h"
#include "data/token_facts.h"
#include "comm/broadcast.h"
#include "corpus/read/codec.h"
#include "eval/windows.h"
#include "text/tokenizer.h"

/* ids: [count], owned by the task; bytes: the length of the text that the predicted ids encode, 0 where it is
 * unknown because the ids come from a token file */
typedef struct {
    const Options *o;
    TrainConfig    config;
    int32_t       *ids;
    int64_t        count, bytes, original;    /* original: words; 0: not asked for */
    SampleBlocks   blocks;                    /* zeros: windows of equal size */
    TokenFile      file;                      /* that the blocks are of */
} Task;

static void fill(void *context, Batch *batch, int64_t step, int micro)
{
    windows_fill(context, batch, step, micro);
}

static void show_value(const char *key, double value)
{
    if (isfinite(value)) printf(",\"%s\":%.17g", key, value);
    else                 printf(",\"%s\":null", key);                   /* JSON has no infinity */
}

/* NULL: the device has one family */
static const char *kernels_of(const Trainer *t)
{
    return t->queue.backend == &cpu_backend ? kernel_family_name(t->queue.kernels) : NULL;
}

/* loss: nats per token. Models with different tokenizers can only be compared per byte, because their tokens
 * have different lengths. */
static void show(const Task *task, const Trainer *t, int64_t tokens, int64_t step, double loss)
{
    double  byte = loss * (double)tokens / (double)task->bytes;
    printf("{\"tokens\":%lld", (long long)tokens);
    show_value("loss", loss);
    show_value("perplexity", exp(loss));
    show_value("bits_per_token", loss / log(2));
    if (task->bytes) {
        printf(",\"bytes\":%lld", (long long)task->bytes);
        show_value("bits_per_byte", byte / log(2));
        show_value("perplexity_per_byte", exp(byte));
    }
    if (task->original) {
        printf(",\"original_tokens\":%lld", (long long)task->original);
        show_value("perplexity_per_original_token", exp(loss * (double)tokens / (double)task->original));
    }
    printf(",\"step\":%lld,\"type\":\"%s\"", (long long)step, train_config_type(t->config));
    if (kernels_of(t)) printf(",\"kernels\":\"%s\"", kernels_of(t));
    printf("}\n");
}

/* How many of the weights that this rank has are NaN or infinite. */
static int64_t broken_weights(const Trainer *t)
{
    enum { CHUNK = 1 << 16 };
    unsigned char bytes[CHUNK];
    int64_t broken = 0;
    for (int i = 0; i < t->buckets.count; i++) {
        Tensor x = t->buckets.bucket[i].weights;
        int64_t width = (int64_t)dtype_width(x.dtype), step = CHUNK / width;
        for (int64_t at = 0, n = tensor_count(x); tensor_present(x) && at < n; at += step) {
            int64_t count = n - at < step ? n - at : step;
            queue_read((Queue *)&t->queue, bytes, (char *)x.data + at * width, (size_t)(count * width));
            broken += dtype_not_finite(bytes, x.dtype, count);
        }
    }
    return broken;
}

/* A loss that is not finite comes from such weights, or from sums beyond the range of the run's type. */
static Status explain_loss(Trainer *t, const char *path)
{
    double broken = (double)broken_weights(t);
    trainer_world_max(t, tensor_at(&broken, F64, (int64_t[]){ 1 }, 1));            /* <-> tp, dp+cp, pp */
    if (broken > 0)
        return fail(BAD_FILE, "%s gives a loss that is not finite: %.0f of its weights%s are NaN or "
                    "infinite; load an earlier checkpoint", path, broken,
                    comm_size(t->world) > 1 ? " on one rank" : "");
    return fail(BAD_FILE, "%s gives a loss that is not finite, though all its weights are finite numbers: "
                "activations exceed the range of %s%s", path, train_config_type(t->config),
                strcmp(train_config_type(t->config), "fp32") ? "; evaluate it without that type" : "");
}

static Status evaluate(Trainer *t, const Task *task)
{
    char path[1024];
    bool found;
    CheckpointState state = { .step = -1 };
    TRY(agree(t->world, trainer_find(task->config.load, path, &found, &state)));
    TRY(agree_on(t->world, state.step, "the step found in --load"));
    watchdog_work(t->world, "loading");
    TRY(trainer_load(t, path));
    watchdog_work(t->world, NULL);
    if (t->mesh.rank == 0)
        log_line("evaluates step %lld of %s; %s%s%s%s", (long long)state.step, path,
                 train_config_type(t->config), kernels_of(t) ? ", " : "", kernels_of(t) ? kernels_of(t) : "",
                 kernels_of(t) ? " kernels" : "");
    bool blocks = task->blocks.kind != BREAK_OVERLAPPING;
    Windows w = { .ids = task->ids, .count = task->count, .config = trainer_loader_config(t),
                  .overlap = task->o->overlap, .blocks = blocks ? &task->blocks : NULL };
    int64_t began = seam.clock();
    double loss = trainer_evaluate(t, windows_steps(&w), fill, &w);
    /* The loss is all-reduced, so that every rank takes this branch or none does. */
    if (!isfinite(loss))
        return explain_loss(t, path);                                    /* <-> world; same on every rank */
    double seconds = seam_seconds_since(began);
    int64_t tokens = windows_predictions(&w);
    if (t->mesh.rank == 0 && task->o->log_format.value != CHOICE_log_format_jotun)
        epoch_evaluated(task->o, model_parameters(&task->config.model), windows_count(&w), tokens,
                          task->original, seconds, loss);
    else if (t->mesh.rank == 0) show(task, t, tokens, state.step, loss);
    return OK;
}

static Status on_rank(Transport *transport, void *context)
{
    Task *task = context;
    Trainer t;
    Status status = trainer_start(&t, &task->config, transport);
    if (status == OK) status = evaluate(&t, task);
    trainer_close(&t);
    return status;
}

/* The first id has no context to be predicted from, so that its bytes do not count. */
static int64_t first_bytes(const Tokenizer *t, int32_t id)
{
    TextPiece piece = t->decode(t, id);
    return piece.bytes - piece.prefix;
}

static Status ids_of_text(Task *task, const Tokenizer *t, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    Status status = codec_check_uncompressed(map.path, (const char *)map.data, map.size);
    if (status != OK) {
        file_unmap(&map);
        return status;
    }
    const char *text = (const char *)map.data;
    Buffer  converted = { 0 };
    int64_t bytes = (int64_t)map.size;
    status = text_to_utf8(&text, &bytes, &converted, task->o->input_encoding, path);
    int64_t capacity = status == OK ? tokenizer_max_ids(t, text, bytes) : 0;
    task->ids   = malloc(((size_t)capacity + 1) * sizeof *task->ids);
    task->count = task->ids && status == OK ? t->encode(t, task->ids, text, bytes) : 0;
    task->bytes = task->count > 0 ? bytes - first_bytes(t, task->ids[0]) : 0;
    file_unmap(&map);
    buffer_free(&converted);
    TRY(status);
    if (!task->ids) return fail(NO_MEMORY, "no memory for the %lld tokens of %s", (long long)capacity, path);
    return task->count < 0 ? BAD_FILE : OK;                     /* encode has written the message */
}

static Status ids_of_file(Task *task, const char *path)
{
    Tokenizer t;
    TRY(setup_open_tokenizer(&t, task->o));
    Status status = ids_of_text(task, &t, path);
    tokenizer_close(&t);
    return status;
}

/* ids: [tokens of the file] */
typedef struct { int32_t *ids; const TokenFile *token_file; } TokensCopy;

static void copy_guarded(void *context)
{
    const TokensCopy *copy = context;
    for (int64_t i = 0; i < copy->token_file->tokens; i++)
        copy->ids[i] = token_file_token(copy->token_file, i);
}

/* Blocks are cut as in training, and predict the first token too, from the end of a sentence before it. The
 * other tokenizers' end of a document is that of the model's tokenizer. */
static Status blocks_of(Task *task)
{
    SampleBreak breaks = task->config.datasets.breaks;
    Tokenizer   t;
    int32_t     eod = -1;
    if (breaks == BREAK_OVERLAPPING) return OK;
    if (task->file.kind == TOKEN_FILE_MEGATRON && tokenizer_open(&t, setup_tokenizer_path(task->o)) == OK) {
        eod = t.eod;
        tokenizer_close(&t);
    }
    TRY(blocks_open(&task->blocks, &task->file, 0, task->file.sequences, breaks,
                    task->config.model.sequence - task->o->overlap, eod));
    memmove(task->ids + 1, task->ids, (size_t)task->count * sizeof *task->ids);
    task->ids[0] = task->blocks.lead;
    task->count++;
    return OK;
}

static Status tokens_suit(const Task *task, const char *prefix)
{
    TokenizerFacts facts;
    const Options *o = task->o;
    TokenReader reader = { o->tokenizer, NULL, task->config.model.vocabulary, false };
    if (!setup_without_tokenizer(o)) {
        TRY(setup_tokenizer_facts(&facts, setup_tokenizer_path(o)));
        reader.fingerprint = facts.fingerprint;
    }
    return token_facts_suit(&task->file, prefix, &reader);
}

static Status ids_of_token_file(Task *task, const char *prefix)
{
    TRY(token_file_open(&task->file, prefix));
    TRY(tokens_suit(task, prefix));
    const TokenFile file = task->file;
    task->ids   = malloc(((size_t)file.tokens + 2) * sizeof *task->ids);
    task->count = file.tokens;
    Status status = OK;
    if (!task->ids)
        status = fail(NO_MEMORY, "no memory for the %lld tokens of %s", (long long)file.tokens, prefix);
    else
        status = token_file_guarded(&file, copy_guarded, &(TokensCopy){ task->ids, &file });
    for (int64_t i = 0; status == OK && i < file.tokens; i++) {
        if (task->ids[i] < 0 || task->ids[i] >= task->config.model.vocabulary)
            status = fail(BAD_SHAPE, "%s.bin: token %lld is id %d, and the model has %lld; it was prepared "
                          "for another tokenizer", prefix, (long long)i, (int)task->ids[i],
                          (long long)task->config.model.vocabulary);
    }
    return status == OK ? blocks_of(task) : status;
}

/* len(text.strip().split(" ")) in Python, which is how Megatron-LM counts WikiText's tokens: each line's end
 * is one, since blanks are around it. */
static Status count_original(Task *task, const Options *o)
{
    FileMap map;
    task->original = o->original_tokens;
    if (!o->original_text) return OK;
    if (o->original_tokens)
        return fail(BAD_OPTION, "%s and %s both say how many words there are; leave one out",
                    o->source[OPTION_original_tokens].name, o->source[OPTION_original_text].name);
    TRY(file_map(&map, o->original_text));
    Status status = codec_check_uncompressed(map.path, (const char *)map.data, map.size);
    size_t begin = 0, end = map.size;
    while (end > begin && isspace(map.data[end - 1])) end--;
    while (begin < end && isspace(map.data[begin])) begin++;
    for (size_t i = begin; i < end; i++) task->original += map.data[i] == ' ';
    task->original++;
    file_unmap(&map);
    if (status == OK && begin == end)
        status = fail(BAD_FILE, "%s %s has no words; give the text before it was encoded",
                      o->source[OPTION_original_text].name, o->original_text);
    return status;
}

/* What each rank reads by itself before the ranks start. */
static Status ids_read(Task *task, Options *o)
{
    const char *path = o->text ? o->text : o->data_path.text[0];
    TRY(setup_train_config(&task->config, o));
    TRY(o->text ? ids_of_file(task, path) : ids_of_token_file(task, path));
    if (task->count >= 2) return OK;
    return fail(BAD_FILE, "%s holds %lld tokens; perplexity needs two or more", path, (long long)task->count);
}

/* Rank 0 counts the original text for all. */
static Status original_share(Task *task, const Options *o, Transport *mpi)
{
    bool   first = !mpi || mpi->rank == 0;
    Status status = first ? count_original(task, o) : OK;
    if (!mpi) return status;
    size_t bytes = sizeof task->original;
    char  *count = first ? malloc(bytes) : NULL;               /* on the others by the broadcast */
    if (status == OK && first && !count) status = fail(NO_MEMORY, "no memory for a number");
    if (status == OK && first) memcpy(count, &task->original, bytes);
    status = broadcast_bytes_at_start(mpi, status, &count, &bytes);                /* <-> world: broadcast */
    if (status == OK) memcpy(&task->original, count, bytes);
    free(count);
    if (status != OK) mpi->close(mpi);
    return status;
}

/* "--text FILE: 120 tokens, hash 0123456789abcdef". The tokenizer is seen in it as well. */
static void ids_shown(char out[1200], const Task *task, const Options *o)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < task->count; i++) hash = random_mix(hash, (uint32_t)task->ids[i]);
    snprintf(out, 1200, "%s %.1000s: %lld tokens, hash %016llx", o->text ? "--text" : "--data-path",
             o->text ? o->text : o->data_path.text[0], (long long)task->count, (unsigned long long)hash);
}

static Status run(Options *o, Task *task, int argc, char **argv)
{
    Transport *mpi;
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_EVAL, argc, argv));
    TRY(setup_agree(mpi, ids_read(task, o)));
    TRY(original_share(task, o, mpi));                                        /* same on every rank */
    char ids[1200];
    ids_shown(ids, task, o);
    TRY(setup_agree_on(mpi, ids, "give all hosts the same file and --tokenizer"));
    return setup_run(o, mpi, on_rank, task);
}

Status cmd_perplexity(int argc, char **argv)
{
    Options o;
    Task task = { 0 };
    Status status = run(&o, &task, argc, argv);
    free(task.ids);
    blocks_close(&task.blocks);
    token_file_close(&task.file);
    options_close(&o);
    return status;
}
