/* Writing manifest.json, and reading it from an untrusted source: every value is checked before it is
 * used. */
#include "store/manifest.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/array.h"
#include "base/file.h"
#include "store/tensor_entry.h"

/* A limit on the file's bytes, and on the memory of its JSON tree in multiples of them. The manifests that
 * this program writes need a multiple below 10. */
enum { VERSION = 2, MANIFEST_LIMIT = 256 << 20, MANIFEST_MULTIPLE = 24 };
/* The largest number of steps, samples and updates: sums and products of them with batch sizes stay below
 * 2^63. */
static const int64_t COUNT_LIMIT = (int64_t)1 << 53;
/* Above every loss that is computed in fp32. */
static const double LOSS_LIMIT = 1e100;
static const char FORMAT[] = "jotun checkpoint", NAME[] = "manifest.json";

/* ---- the list of all tensors by name ---- */

static int entry_order(const void *a, const void *b)
{
    return strcmp(((const ManifestEntry *)a)->name, ((const ManifestEntry *)b)->name);
}

/* Fills m->sorted. Equal names become neighbours, so they are found in O(n log n). `bad`: the Status of
 * equal names. */
static Status manifest_sort(Manifest *m, Status bad)
{
    int n = 0;
    if (!(m->sorted = calloc((size_t)m->tensors + 1, sizeof *m->sorted)))
        return fail(NO_MEMORY, "no memory for %d tensors' names", m->tensors);
    for (int f = 0; f < m->files; f++)
        for (int t = 0; t < m->file[f].contents.tensors; t++)
            m->sorted[n++] = (ManifestEntry){ m->file[f].contents.tensor[t].name, f, t };
    qsort(m->sorted, (size_t)n, sizeof *m->sorted, entry_order);
    for (int i = 1; i < n; i++)
        if (entry_order(&m->sorted[i - 1], &m->sorted[i]) == 0)
            return fail(bad, "%s: two tensors of the checkpoint are named '%s'", m->folder,
                        m->sorted[i].name);
    return OK;
}

const ManifestEntry *manifest_find(const Manifest *m, const char *name)
{
    ManifestEntry wanted = { .name = name };
    return bsearch(&wanted, m->sorted, (size_t)m->tensors, sizeof wanted, entry_order);
}

const LogicalTensor *manifest_tensor(const Manifest *m, const ManifestEntry *entry)
{
    return &m->file[entry->file].contents.tensor[entry->tensor];
}

void manifest_free(Manifest *m)
{
    for (int f = 0; f < m->files; f++) {
        free(m->file[f].checksum);
        if (!m->planned) free(m->file[f].contents.tensor);
    }
    free(m->file);
    free(m->sorted);
    free(m->options);
    free(m->data_fingerprint);
    free(m->tokenizer);
    free(m->fingerprint);
    free(m->kernels);
    free(m->given);
    *m = (Manifest){ 0 };
}

static Status files_make(Manifest *m, size_t files)
{
    if (!(m->file = calloc(files + 1, sizeof *m->file)))
        return fail(NO_MEMORY, "no memory for a list of %zu files", files);
    return OK;
}

/* Appends a file with these contents. files_make has made memory for it. */
static Status file_add(Manifest *m, const CheckpointFile *contents)
{
    ManifestFile *file = &m->file[m->files++];
    *file = (ManifestFile){ .contents = *contents, .first = m->tensors };
    m->tensors += contents->tensors;
    if (!(file->checksum = calloc((size_t)contents->tensors + 1, sizeof *file->checksum)))
        return fail(NO_MEMORY, "no memory for %d checksums", contents->tensors);
    return OK;
}

static Status plan_fill(Manifest *m, const CheckpointFile *files, int nfiles)
{
    TRY(files_make(m, (size_t)nfiles));
    for (int i = 0; i < nfiles; i++) TRY(file_add(m, &files[i]));
    return manifest_sort(m, BAD_SHAPE);
}

Status manifest_plan(Manifest *m, const CheckpointState *state, const CheckpointFile *files, int nfiles)
{
    *m = (Manifest){ .state = *state, .planned = true, .folder = "checkpoint to be written" };
    Status status = plan_fill(m, files, nfiles);
    if (status != OK) manifest_free(m);
    return status;
}

/* ---- writing ---- */

static json_t *file_json(const ManifestFile *file)
{
    json_t *tensors = json_array();
    for (int t = 0; t < file->contents.tensors; t++) {
        const LogicalTensor *tensor = &file->contents.tensor[t];
        char sum[24];
        snprintf(sum, sizeof sum, "%016" PRIx64, file->checksum[t]);
        json_array_append_new(tensors, json_pack("{s:s, s:s, s:o, s:s}", "name", tensor->name, "dtype",
                                                 dtype_name(tensor->dtype), "shape",
                                                 tensor_entry_shape(tensor), "xxh3", sum));
    }
    return json_pack("{s:s, s:I, s:o}", "file", file->contents.name, "bytes", (json_int_t)file->bytes,
                     "tensors", tensors);
}

/* The options are JSON text in the state and a JSON object in the manifest. */
static Status options_json(json_t **options, const char *text)
{
    json_error_t error;
    char         problem[160];
    *options = json_loads(text && text[0] ? text : "{}", JSON_REJECT_DUPLICATES, &error);
    if (!*options)
        return fail(BAD_OPTION, "the options to be saved are not JSON: %s", json_error_text(problem, &error));
    if (json_is_object(*options)) return OK;
    json_decref(*options);
    return fail(BAD_OPTION, "the options to be saved are not a JSON object");
}

/* The checksum covers the compact text with sorted keys of everything but the checksum itself, so neither
 * white space nor the order of keys matters. */
static Status checksum_of(char out[24], const json_t *root)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return fail(NO_MEMORY, "no memory for a manifest's text");
    snprintf(out, 24, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
    free(text);
    return OK;
}

static const struct { unsigned bit; const char *name; } parts[] = {
    { CHECKPOINT_STATES, "optimizer states" }, { CHECKPOINT_POSITION, "position" } };
enum { PARTS = COUNT(parts) };

static json_t *lacks_json(unsigned lacks)
{
    json_t *names = json_array();
    for (int i = 0; i < PARTS; i++)
        if (lacks & parts[i].bit) json_array_append_new(names, json_string(parts[i].name));
    return names;
}

/* "valid", "test", "valid-3" of several validation sets, "samples". */
static const char *due_name(char out[16], int bit)
{
    if (bit < SPLITS) return split_name((SplitKind)bit);
    snprintf(out, 16, "valid-%d", (bit - SPLITS) % VALID_SETS_MAX);
    return bit == DUE_SAMPLES ? "samples" : out;
}

static json_t *due_json(uint64_t due)
{
    char number[16];
    json_t *names = json_array();
    for (int bit = 0; bit < DUE_BITS; bit++)
        if (due >> bit & 1) json_array_append_new(names, json_string(due_name(number, bit)));
    return names;
}

static json_t *tokenizer_json(const TokenizerRecord *t)
{
    json_t *record = json_object(), *files = json_array();
    json_object_set_new(record, "fingerprint", json_string(t->fingerprint));
    json_object_set_new(record, "name", json_string(t->name));
    for (int i = 0; i < t->copies; i++) {
        char sum[24];
        snprintf(sum, sizeof sum, "%016" PRIx64, t->copy[i].checksum);
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "file", t->copy[i].name, "bytes",
                                               (json_int_t)t->copy[i].bytes, "xxh3", sum));
    }
    if (t->copies) json_object_set_new(record, "folder", json_boolean(t->folder));
    if (t->copies) json_object_set(record, "files", files);
    json_decref(files);
    return record;
}

/* What older versions can do without: they ignore a key of it that they do not know. json_string returns NULL
 * for a name that is not UTF-8, and then it is left out. */
static json_t *run_json(const CheckpointState *state)
{
    json_t *run = json_object();
    if (state->tokenizer.fingerprint)
        json_object_set_new(run, "tokenizer", tokenizer_json(&state->tokenizer));
    if (state->loss_scale.scale > 0)
        json_object_set_new(run, "loss_scale", json_pack("{s:f, s:I, s:I}", "scale", state->loss_scale.scale,
                                "growth", (json_int_t)state->loss_scale.growth,
                                "hysteresis", (json_int_t)state->loss_scale.hysteresis));
    if (state->fp8_largest[0] > 0)
        json_object_set_new(run, "fp8_largest", json_pack("[f, f]", state->fp8_largest[0],
                                state->fp8_largest[1]));
    if (state->average[0] > 0)
        json_object_set_new(run, "average", json_pack("[f, f]", state->average[0], state->average[1]));
    if (state->estimated > 0)
        json_object_set_new(run, "estimated", json_integer((json_int_t)state->estimated));
    if (state->updated_samples != state->samples)
        json_object_set_new(run, "updated_samples", json_integer((json_int_t)state->updated_samples));
    if (state->step_samples)
        json_object_set_new(run, "step_samples", json_integer((json_int_t)state->step_samples));
    if (state->given) json_object_set_new(run, "given", json_string(state->given));
    if (state->kernels) json_object_set_new(run, "kernels", json_string(state->kernels));
    if (state->losses.count > 0)
        json_object_set_new(run, "losses", json_pack("{s:I, s:f, s:f}", "count",
                                (json_int_t)state->losses.count, "mean", state->losses.mean, "variance",
                                state->losses.variance));
    if (state->evaluations.lowest > 0)
        json_object_set_new(run, "evaluations", json_pack("{s:f, s:I}", "lowest", state->evaluations.lowest,
                                "since", (json_int_t)state->evaluations.since));
    if (state->valid_loss > 0) json_object_set_new(run, "valid_loss", json_real(state->valid_loss));
    if (state->due) json_object_set_new(run, "due", due_json(state->due));
    if (state->lacks) json_object_set_new(run, "lacks", lacks_json(state->lacks));
    return run;
}

static Status manifest_json(json_t **root, const Manifest *m)
{
    json_t *files = json_array(), *options = NULL;
    char    seed[24], sum[24];
    for (int f = 0; f < m->files; f++) json_array_append_new(files, file_json(&m->file[f]));
    /* A string, because jansson's integers end at 2^63 and those of many JSON readers at 2^53. */
    snprintf(seed, sizeof seed, "%" PRIu64, m->state.seed);
    Status status = options_json(&options, m->state.options);
    if (status != OK) {
        json_decref(files);
        return status;
    }
    *root = json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:o, s:o, s:o}", "format", FORMAT, "version", VERSION,
                      "step", (json_int_t)m->state.step, "samples", (json_int_t)m->state.samples, "updates",
                      (json_int_t)m->state.updates, "seed", seed, "options", options, "run",
                      run_json(&m->state), "files", files);
    if (!*root) return fail(NO_MEMORY, "no memory for a manifest of %d tensors", m->tensors);
    /* json_string returns NULL for a path that is not UTF-8, and then the fingerprints are left out. */
    if (m->state.data_fingerprint)
        json_object_set_new(*root, "data", json_string(m->state.data_fingerprint));
    TRY(checksum_of(sum, *root));
    json_object_set_new(*root, "checksum", json_string(sum));
    return OK;
}

Status manifest_write(const Manifest *m, const char *folder)
{
    char    path[1024];
    json_t *root = NULL;
    TRY(path_join(path, folder, NAME));
    Status status = manifest_json(&root, m);
    char  *text   = status == OK ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    TRY(status);
    if (!text) return fail(NO_MEMORY, "%s: no memory for its text", path);
    status = file_write_whole(path, text, strlen(text));
    free(text);
    return status;
}

/* ---- reading ---- */

static bool checksum_read(uint64_t *sum, const char *text)
{
    char *end;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *sum = strtoull(text, &end, 16);
    return true;
}

/* Accepts only a plain name: with a slash in it, a manifest could make the reader open any file of the
 * system. */
static Status file_name_read(char out[64], const char *path, const char *name)
{
    if (name[0] == '.' || name[0] == 0 || strlen(name) >= 64 || strchr(name, '/'))
        return fail(BAD_FILE,
                    "%s: a file's name must have 1 to 63 bytes, no '/' and no '.' at its beginning", path);
    snprintf(out, 64, "%s", name);
    return OK;
}

static Status tensors_read(ManifestFile *file, const char *path, const json_t *tensors)
{
    for (int t = 0; t < file->contents.tensors; t++) {
        const char   *name, *sum;
        const json_t *dtype, *shape;
        if (json_unpack(json_array_get(tensors, (size_t)t), "{s:s, s:o, s:o, s:s !}", "name", &name, "dtype",
                        &dtype, "shape", &shape, "xxh3", &sum) != 0 ||
            !checksum_read(&file->checksum[t], sum))
            return fail(BAD_FILE, "%s: tensor %d of %s is not { name, dtype, shape, xxh3 }", path, t,
                        file->contents.name);
        TRY(tensor_entry_read(&file->contents.tensor[t], path, name, dtype, shape));
    }
    return OK;
}

static Status file_read(Manifest *m, const char *path, json_t *json)
{
    const char *name;
    json_t     *tensors;
    json_int_t  bytes;
    CheckpointFile contents = { 0 };
    if (json_unpack(json, "{s:s, s:I, s:o !}", "file", &name, "bytes", &bytes, "tensors", &tensors) != 0 ||
        !json_is_array(tensors) || bytes < 0 ||
        json_array_size(tensors) > (size_t)(TENSOR_LIMIT - m->tensors))
        return fail(BAD_FILE, "%s: file %d is not { file, bytes, tensors }", path, m->files);
    TRY(file_name_read(contents.name, path, name));
    contents.tensors = (int)json_array_size(tensors);
    if (!(contents.tensor = calloc((size_t)contents.tensors + 1, sizeof *contents.tensor)))
        return fail(NO_MEMORY, "%s: no memory for a list of %d tensors", path, contents.tensors);
    /* manifest_free frees the array from here on, also after a failure. */
    TRY(file_add(m, &contents));
    m->file[m->files - 1].bytes = bytes;
    return tensors_read(&m->file[m->files - 1], path, tensors);
}

/* files: "files" of "tokenizer"; NULL: of a version that kept the name only, or a tokenizer without files. */
static Status copies_read(TokenizerRecord *t, const char *path, const json_t *files)
{
    if (files && (!json_is_array(files) || json_array_size(files) > TOKENIZER_COPIES))
        return fail(BAD_FILE, "%s: the tokenizer's files are not a list of up to %d", path, TOKENIZER_COPIES);
    for (size_t i = 0; i < json_array_size(files); i++) {
        TokenizerCopy *copy = &t->copy[t->copies++];
        const char *name, *sum;
        json_int_t bytes;
        if (json_unpack(json_array_get(files, i), "{s:s, s:I, s:s}", "file", &name, "bytes", &bytes, "xxh3",
                        &sum) != 0 || bytes < 0 || !checksum_read(&copy->checksum, sum))
            return fail(BAD_FILE, "%s: a file of the tokenizer is not { file, bytes, xxh3 }", path);
        TRY(file_name_read(copy->name, path, name));
        copy->bytes = bytes;
    }
    return OK;
}

/* Version 1 has the name, a tab and the fingerprint in one text, and the name may have tabs of its own. */
static Status tokenizer_read(Manifest *m, const char *path, const char *joined, const json_t *record)
{
    const char *tab  = joined ? strrchr(joined, '\t') : NULL;
    const char *name = json_string_value(json_object_get(record, "name"));
    const char *fingerprint = tab ? tab + 1 : json_string_value(json_object_get(record, "fingerprint"));
    if (!joined && !record) return OK;
    if (!fingerprint) return fail(BAD_FILE, "%s: tokenizer is not { name, fingerprint }", path);
    m->tokenizer   = tab ? strndup(joined, (size_t)(tab - joined)) : strdup(name ? name : "");
    m->fingerprint = strdup(fingerprint);
    if (!m->tokenizer || !m->fingerprint) return fail(NO_MEMORY, "%s: no memory for its tokenizer", path);
    m->state.tokenizer.folder = json_is_true(json_object_get(record, "folder"));
    return copies_read(&m->state.tokenizer, path, json_object_get(record, "files"));
}

/* record: "loss_scale" of "run", NULL where losses are not scaled. 256 is read as well as 256.0. */
static Status loss_scale_read(LossScale *loss, const char *path, json_t *record)
{
    json_t    *scale;
    json_int_t growth, hysteresis;
    if (!record) return OK;
    if (json_unpack(record, "{s:o, s:I, s:I}", "scale", &scale, "growth", &growth, "hysteresis",
                    &hysteresis) != 0 ||
        !json_is_number(scale))
        return fail(BAD_FILE, "%s: loss_scale is not { scale, growth, hysteresis }", path);
    double value = json_number_value(scale);
    if (!(value >= 1e-30 && value <= 1e30) || growth < 0 || growth > COUNT_LIMIT || hysteresis < 0 ||
        hysteresis > COUNT_LIMIT)
        return fail(BAD_FILE, "%s: no run has a loss scale of %g, growth %lld and hysteresis %lld", path,
                    value, (long long)growth, (long long)hysteresis);
    *loss = (LossScale){ json_number_value(scale), growth, hysteresis };
    return OK;
}

/* record: "fp8_largest" of "run", NULL without delayed scaling */
static Status fp8_largest_read(double largest[2], const char *path, json_t *record)
{
    if (!record) return OK;
    if (json_unpack(record, "[F, F !]", &largest[0], &largest[1]) == 0 && largest[0] >= 1e-30 &&
        largest[0] <= 1e30 && largest[1] >= 1e-30 && largest[1] <= 1e30) return OK;
    return fail(BAD_FILE, "%s: fp8_largest is not two numbers between 1e-30 and 1e30", path);
}

/* record: "average" of "run", NULL where the optimizer averages no weights */
static Status average_read(double average[2], const char *path, json_t *record)
{
    if (!record) return OK;
    if (json_unpack(record, "[F, F !]", &average[0], &average[1]) == 0 && average[0] >= 0 &&
        average[0] <= 1e30 && average[1] >= 0 && average[1] <= 1e15) return OK;
    return fail(BAD_FILE, "%s: average is not a sum of squares of learning rates and the largest one", path);
}

/* record: "losses" of "run", NULL without a guard against spikes */
static Status losses_read(LossStatistics *losses, const char *path, json_t *record)
{
    json_int_t count;
    if (!record) return OK;
    if (json_unpack(record, "{s:I, s:F, s:F}", "count", &count, "mean", &losses->mean, "variance",
                    &losses->variance) != 0)
        return fail(BAD_FILE, "%s: losses is not { count, mean, variance }", path);
    losses->count = count;
    if (count >= 0 && count <= COUNT_LIMIT && fabs(losses->mean) <= LOSS_LIMIT && losses->variance >= 0 &&
        losses->variance <= LOSS_LIMIT * LOSS_LIMIT)
        return OK;
    return fail(BAD_FILE, "%s: no run has %lld losses of mean %g and variance %g", path, (long long)count,
                losses->mean, losses->variance);
}

/* record: "valid_loss" of "run", NULL where there was no evaluation after the step */
static Status valid_loss_read(double *loss, const char *path, const json_t *record)
{
    if (!record) return OK;
    *loss = json_number_value(record);
    if (json_is_number(record) && *loss > 0 && *loss <= LOSS_LIMIT) return OK;
    return fail(BAD_FILE, "%s: valid_loss is not a number above 0 and up to %g", path, LOSS_LIMIT);
}

/* record: "kernels" of "run", NULL where they are not known */
static Status text_read(char **text, const char *path, const char *key, const json_t *run)
{
    const json_t *record = json_object_get(run, key);
    if (!record) return OK;
    if (!json_is_string(record)) return fail(BAD_FILE, "%s: %s is not a text", path, key);
    *text = strdup(json_string_value(record));
    return *text ? OK : fail(NO_MEMORY, "%s: no memory for its %s", path, key);
}

/* record: "evaluations" of "run", NULL where there was none */
static Status evaluations_read(EvaluationLosses *losses, const char *path, json_t *record)
{
    json_int_t since;
    if (!record) return OK;
    if (json_unpack(record, "{s:F, s:I}", "lowest", &losses->lowest, "since", &since) != 0 ||
        !(losses->lowest > 0) || since < 0 || since > COUNT_LIMIT)
        return fail(BAD_FILE, "%s: evaluations is not { lowest, since }", path);
    losses->since = since;
    return OK;
}

/* record: "lacks" of "run", NULL where the checkpoint has all parts. A part of a newer version is not
 * known. */
static Status lacks_read(unsigned *lacks, const char *path, const json_t *record)
{
    if (record && !json_is_array(record)) return fail(BAD_FILE, "%s: lacks is not a list of names", path);
    for (size_t n = 0; n < json_array_size(record); n++) {
        const char *name = json_string_value(json_array_get(record, n));
        int i = 0;
        while (name && i < PARTS && strcmp(name, parts[i].name) != 0) i++;
        if (!name || i == PARTS) return fail(BAD_FILE, "%s: lacks has a name that is not known", path);
        *lacks |= parts[i].bit;
    }
    return OK;
}

/* record: "due" of "run", NULL where all that follows the step was done. Work of a newer version is not
 * known. */
static Status due_read(uint64_t *due, const char *path, const json_t *record)
{
    char number[16];
    if (record && !json_is_array(record)) return fail(BAD_FILE, "%s: due is not a list of names", path);
    for (size_t n = 0; n < json_array_size(record); n++) {
        const char *name = json_string_value(json_array_get(record, n));
        int bit = 0;
        while (name && bit < DUE_BITS && strcmp(name, due_name(number, bit)) != 0) bit++;
        if (!name || bit == DUE_BITS) return fail(BAD_FILE, "%s: due has a name that is not known", path);
        *due |= UINT64_C(1) << bit;
    }
    return OK;
}

/* record: "updated_samples" of "run", NULL where they are the samples. Older manifests do not have it: their
 * steps are taken as equally large. */
static Status updated_samples_read(CheckpointState *state, const char *path, json_t *record)
{
    json_int_t samples = json_integer_value(record);
    bool skipped = !record && state->step > 0 && state->updates < state->step;
    state->updated_samples = record ? samples
                           : skipped ? state->samples / state->step * state->updates : state->samples;
    if (!record || (json_is_integer(record) && samples >= 0 && samples <= COUNT_LIMIT)) return OK;
    return fail(BAD_FILE, "%s: updated_samples is not a number from 0 to 2^53", path);
}

static Status step_samples_read(CheckpointState *state, const char *path, json_t *record)
{
    state->step_samples = json_integer_value(record);
    bool known = json_is_integer(record) && state->step_samples > 0 && state->step_samples <= COUNT_LIMIT;
    if (!record || known) return OK;
    return fail(BAD_FILE, "%s: step_samples is not a number from 1 to 2^53", path);
}

static Status estimated_read(CheckpointState *state, const char *path, json_t *record)
{
    state->estimated = json_integer_value(record);
    bool known = json_is_integer(record) && state->estimated >= 0 && state->estimated <= state->updates + 1;
    if (!record || known) return OK;
    return fail(BAD_FILE, "%s: estimated is not a number from 0 to updates + 1", path);
}

static Status state_read(Manifest *m, const char *path, json_t *root, json_t **files)
{
    CheckpointState *state = &m->state;
    const char *seed;
    const char *data = NULL, *tokenizer = NULL;
    json_t     *options, *run = NULL;
    json_int_t  step, samples, updates;
    if (json_unpack(root, "{s:s, s:i, s:I, s:I, s:I, s:s, s:o, s:o, s?s, s?s, s?o !}", "format",
                    &(const char *){ 0 }, "version", &(int){ 0 }, "step", &step, "samples", &samples,
                    "updates", &updates, "seed", &seed, "options", &options, "files", files, "data", &data,
                    "tokenizer", &tokenizer, "run", &run) != 0 ||
        step < 0 || samples < 0 || updates < 0 || !json_is_object(options) || !json_is_array(*files) ||
        (run && !json_is_object(run)))
        return fail(BAD_FILE, "%s: step, samples, updates, seed, options, run or files are missing or wrong",
                    path);
    if (step > COUNT_LIMIT || samples > COUNT_LIMIT || updates > COUNT_LIMIT)
        return fail(BAD_FILE,
                    "%s: step %lld, samples %lld or updates %lld is above 2^53, which no run reaches", path,
                    (long long)step, (long long)samples, (long long)updates);
    *state = (CheckpointState){ .step = step, .samples = samples, .updates = updates };
    TRY(updated_samples_read(state, path, json_object_get(run, "updated_samples")));
    TRY(step_samples_read(state, path, json_object_get(run, "step_samples")));
    char *end;
    state->seed = strtoull(seed, &end, 10);
    if (seed[0] < '0' || seed[0] > '9' || *end) return fail(BAD_FILE, "%s: seed is not a number", path);
    if (data && !(m->data_fingerprint = strdup(data)))
        return fail(NO_MEMORY, "%s: no memory for its data", path);
    TRY(tokenizer_read(m, path, tokenizer, json_object_get(run, "tokenizer")));
    TRY(loss_scale_read(&state->loss_scale, path, json_object_get(run, "loss_scale")));
    TRY(fp8_largest_read(state->fp8_largest, path, json_object_get(run, "fp8_largest")));
    TRY(average_read(state->average, path, json_object_get(run, "average")));
    TRY(estimated_read(state, path, json_object_get(run, "estimated")));
    TRY(valid_loss_read(&state->valid_loss, path, json_object_get(run, "valid_loss")));
    TRY(losses_read(&state->losses, path, json_object_get(run, "losses")));
    TRY(evaluations_read(&state->evaluations, path, json_object_get(run, "evaluations")));
    TRY(due_read(&state->due, path, json_object_get(run, "due")));
    TRY(lacks_read(&state->lacks, path, json_object_get(run, "lacks")));
    TRY(text_read(&m->kernels, path, "kernels", run));
    TRY(text_read(&m->given, path, "given", run));
    m->options = json_dumps(options, JSON_COMPACT);
    return m->options ? OK : fail(NO_MEMORY, "%s: no memory for its options", path);
}

static int file_name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No file may be listed twice: otherwise a short manifest could make the reader checksum one large file
 * many times. */
static Status files_differ(const Manifest *m, const char *path)
{
    const char **name = calloc((size_t)m->files + 1, sizeof *name);
    Status       status = OK;
    if (!name) return fail(NO_MEMORY, "%s: no memory for the names of %d files", path, m->files);
    for (int f = 0; f < m->files; f++) name[f] = m->file[f].contents.name;
    qsort(name, (size_t)m->files, sizeof *name, file_name_order);
    for (int f = 1; f < m->files && status == OK; f++)
        if (strcmp(name[f - 1], name[f]) == 0)
            status = fail(BAD_FILE, "%s: names the file '%s' twice", path, name[f]);
    free(name);
    return status;
}

/* Checks format and version before the checksum, so that a newer format is reported as such and not as
 * damage. */
static Status identity_check(const char *path, json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *sum    = json_string_value(json_object_get(root, "checksum"));
    json_int_t  version = json_integer_value(json_object_get(root, "version"));
    char        stored[24] = "", found[24];
    if (!format || strcmp(format, FORMAT) != 0)
        return fail(BAD_FILE, "%s: is not the manifest of a jotun checkpoint", path);
    if (version < 1 || version > VERSION)
        return fail(BAD_FILE, "%s: format version %lld; this jotun reads versions 1 to %d", path,
                    (long long)version, VERSION);
    if (sum) snprintf(stored, sizeof stored, "%s", sum);
    json_object_del(root, "checksum");
    TRY(checksum_of(found, root));
    if (strcmp(stored, found) != 0)
        return fail(BAD_FILE, "%s: its checksum is not that of its text; it is damaged or was edited", path);
    return OK;
}

static Status root_read(Manifest *m, const char *path, json_t *root)
{
    json_t *files;
    TRY(identity_check(path, root));
    TRY(state_read(m, path, root, &files));
    TRY(files_make(m, json_array_size(files)));
    for (size_t f = 0; f < json_array_size(files); f++) TRY(file_read(m, path, json_array_get(files, f)));
    TRY(files_differ(m, path));
    return manifest_sort(m, BAD_FILE);
}

Status manifest_read(Manifest *m, const char *folder)
{
    char    path[1024];
    json_t *root;
    *m = (Manifest){ 0 };
    TRY(path_join(path, folder, NAME));
    TRY(json_file_bounded(&root, path, MANIFEST_LIMIT, MANIFEST_MULTIPLE, JSON_REJECT_DUPLICATES));
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    Status status = root_read(m, path, root);
    json_decref(root);
    if (status != OK) manifest_free(m);
    return status;
}
