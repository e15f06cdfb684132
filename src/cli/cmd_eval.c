/* jotun eval perplexity: the mean cross entropy of a checkpoint's model over a text or over a .bin and .idx,
 * printed as one JSON object. Ranks share the windows of the text as they share the samples of a training
 * step. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/seam.h"
#include "cli/command.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "corpus/read/encoding.h"
#include "data/token_facts.h"
#include "corpus/read/codec.h"
#include "eval/windows.h"
#include "logs/log_record.h"
#include "text/tokenizer.h"
#include "train/evaluation.h"
#include "train/step.h"

/* ids: [count], owned by the task; bytes: the length of the text that the predicted ids encode, 0 where it is
 * unknown because the ids come from a token file */
typedef struct {
    const Options *o;
    TrainConfig    config;
    int32_t       *ids;
    int64_t        count, bytes, original;    /* original: words, on rank 0; 0: not asked for */
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

/* ---- as fairseq prints it ---- */

/* 1234567 as 1,234,567 */
static const char *with_commas(char out[32], int64_t number)
{
    char digits[24];
    int  count = snprintf(digits, sizeof digits, "%lld", (long long)number), used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[1400], line[1600];
    LogRecord now = log_record(0, 0, NULL);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_other_line(line, sizeof line, LINE_eval_message, &now, text);
    printf("%s\n", line);
}

/* The result in lines of --log-format epochs, where "DIR/test" is "DIR test". examples: windows; original:
 * words of the original text, 0 where it is not known; loss: the mean over `tokens`, in nats. */
static void show_epoch(const Options *o, int64_t parameters, int64_t examples, int64_t tokens,
                       int64_t original, double seconds, double loss)
{
    char number[32], words[32], prefix[1100];
    double bits = loss / log(2);
    snprintf(prefix, sizeof prefix, "%.1000s", o->text ? o->text : o->data_path.text[0]);
    char *slash = strrchr(prefix, '/');
    if (slash) *slash = ' ';
    say("num. model params: %s", with_commas(number, parameters));
    say("%s %s examples", prefix, with_commas(number, examples));
    say("Evaluated %s tokens in %.1fs (%.2f tokens/s)", with_commas(number, tokens), seconds,
        seconds > 0 ? (double)tokens / seconds : 0);
    say("Loss (base 2): %.4f, Perplexity: %.2f", bits, exp2(bits));
    with_commas(number, tokens);
    if (!original)
        log_line("perplexity %.10g; of words it is 2 ^ (log2(%.10g) x %s / words), with --original-text FILE "
                 "or --original-tokens N", exp2(bits), exp2(bits), number);
    else
        log_line("perplexity %.10g; renormalized: 2 ^ (log2(%.10g) x %s / %s) = %.10g", exp2(bits),
                 exp2(bits), number, with_commas(words, original),
                 exp2(bits * (double)tokens / (double)original));
}

/* ---- the evaluation ---- */

/* A loss that is not finite comes from such weights, or from sums beyond the range of the run's type. */
static Status explain_loss(Trainer *t, const char *path)
{
    double broken = trainer_broken_weights(t);                                      /* <-> tp, dp+cp, pp */
    if (broken > 0)
        return fail(BAD_FILE, "%s gives a loss that is not finite: %.0f of its weights%s are NaN or "
                    "infinite; load an earlier checkpoint", path, broken,
                    comm_size(t->comms.world) > 1 ? " on one rank" : "");
    return fail(BAD_FILE, "%s gives a loss that is not finite, though all its weights are finite numbers: "
                "activations exceed the range of %s%s", path, train_config_type(t->config),
                strcmp(train_config_type(t->config), "fp32") ? "; evaluate it without that type" : "");
}

static Status evaluate(Trainer *t, const Task *task)
{
    char    path[1024];
    int64_t step;
    TRY(setup_load(t, path, &step));                                             /* same on every rank */
    if (t->mesh.rank == 0)
        log_line("evaluates step %lld of %s; %s%s%s%s", (long long)step, path,
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
        show_epoch(task->o, model_parameters(&task->config.model), windows_count(&w), tokens, task->original,
                   seconds, loss);
    else if (t->mesh.rank == 0) show(task, t, tokens, step, loss);
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

static Status ids_of_text(Task *task, const Tokenizer *t, const FileMap *map)
{
    const char *text = (const char *)map->data;
    Buffer  converted = { 0 };
    int64_t bytes = (int64_t)map->size;
    TRY(codec_check_uncompressed(map->path, text, map->size));
    TRY(text_to_utf8(&text, &bytes, &converted, task->o->input_encoding, map->path));
    int64_t capacity = tokenizer_max_ids(t, text, bytes);
    task->ids   = malloc(((size_t)capacity + 1) * sizeof *task->ids);
    task->count = task->ids ? t->encode(t, task->ids, text, bytes) : 0;
    /* The first id has no context to be predicted from, so that its bytes do not count. */
    TextPiece first = task->count > 0 ? t->decode(t, task->ids[0]) : (TextPiece){ 0 };
    task->bytes = task->count > 0 ? bytes - (first.bytes - first.prefix) : 0;
    buffer_free(&converted);
    if (!task->ids)
        return fail(NO_MEMORY, "no memory for the %lld tokens of %s", (long long)capacity, map->path);
    return task->count < 0 ? BAD_FILE : OK;                     /* encode has written the message */
}

static Status ids_of_file(Task *task, const char *path)
{
    Tokenizer t;
    FileMap   map;
    TRY(setup_open_tokenizer(&t, task->o));
    Status status = file_map(&map, path);
    if (status == OK) {
        status = ids_of_text(task, &t, &map);
        file_unmap(&map);
    }
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

static Status run(Options *o, Task *task, int argc, char **argv)
{
    Transport *mpi;
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_EVAL, argc, argv));
    TRY(setup_agree(mpi, ids_read(task, o)));
    TRY(setup_device(&task->config, o, mpi));                          /* <-> world; same on every rank */
    TRY(setup_agree(mpi, mpi && mpi->rank != 0 ? OK : count_original(task, o)));    /* rank 0 prints it */
    char ids[1200];                                        /* the tokenizer is seen in the hash as well */
    uint64_t hash = 0;
    for (int64_t i = 0; i < task->count; i++) hash = random_mix(hash, (uint32_t)task->ids[i]);
    snprintf(ids, sizeof ids, "%s %.1000s: %lld tokens, hash %016llx", o->text ? "--text" : "--data-path",
             o->text ? o->text : o->data_path.text[0], (long long)task->count, (unsigned long long)hash);
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
