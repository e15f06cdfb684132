/* The table of formats. */
#include "convert/format.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool format_begins(const char *path, const char *bytes, size_t count)
{
    FileMap     map;
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode) || file_map(&map, path) != OK) return false;
    bool same = map.size >= count && memcmp(map.data, bytes, count) == 0;
    file_unmap(&map);
    return same;
}

static bool is_llmc(const char *path) { return format_begins(path, "\xc6\xd7\x34\x01", 4); }   /* 20240326 */
/* Its files begin as nanoGPT's and those of others: `fairseq:` names it. */
static bool is_fairseq(const char *path) { return strstr(path, "-model_part-") && file_exists(path); }
static bool is_nanogpt(const char *path) { return !is_fairseq(path) && format_begins(path, "PK\3\4", 4); }

static const struct {
    const char *name;
    bool      (*is)(const char *path);
    Naming      naming;
    Status    (*read)(ForeignModel *, json_t *, const char *);
    const char *again;                                                 /* what mends a damaged one */
} formats[FORMATS] = {
    [FORMAT_HF]       = { "hf", hf_is_folder, NAMINGS, hf_read,
                          "download or copy the file again, or mend it where a person wrote it" },
    [FORMAT_MEGATRON] = { "megatron", megatron_is_folder, NAMING_MEGATRON, megatron_read,
                          "copy the checkpoint again, or let Megatron-LM save another one" },
    [FORMAT_LLMC]     = { "llmc", is_llmc, NAMING_NANOGPT, llmc_read,
                          "copy the file again, or let llm.c write another one" },
    [FORMAT_NANOGPT]  = { "nanogpt", is_nanogpt, NAMING_NANOGPT, nanogpt_read,
                          "copy the file again, or let nanoGPT save another one" },
    [FORMAT_FAIRSEQ]  = { "fairseq", is_fairseq, NAMING_FAIRSEQ, fairseq_read,
                          "copy the file again, or let fairseq save another one" },
};

const char *foreign_format_name(ForeignFormat format) { return formats[format].name; }

bool foreign_format_find(ForeignFormat *format, const char *path)
{
    for (*format = 0; *format < FORMATS; ++*format)
        if (formats[*format].is(path)) return true;
    return false;
}

Status foreign_format_refuse(const char *path)
{
    TRY(hf_refuse_adapter(path));
    return fail(BAD_OPTION, "--input %s is in no format that is read: a folder of transformers with "
                "config.json, a checkpoint of Megatron-LM, llm.c or nanoGPT, or by --from fairseq a file of "
                "fairseq; those of metaseq (OPT) and DeepSpeed are not read; --from names the format", path);
}

bool foreign_format_of(ForeignFormat *format, const char **path, const char *text)
{
    for (*format = 0; text && *format < FORMATS; ++*format) {
        size_t bytes = strlen(formats[*format].name);
        if (strncmp(text, formats[*format].name, bytes) != 0 || text[bytes] != ':') continue;
        *path = text + bytes + 1;
        return true;
    }
    return false;
}

/* What a reader says of a file that it cannot make sense of, with what to do. A message that has its own cure
 * has it after a semicolon. */
static Status with_cure(Status status, ForeignFormat format, const char *path)
{
    if (status != BAD_FILE || strchr(fail_text(), ';') || !file_exists(path)) return status;
    return fail(status, "%s; %s", fail_text(), formats[format].again);
}

void foreign_model_close(ForeignModel *model)
{
    foreign_close(&model->file);
    free(model->options);
    free(model->given);
    free(model->data);
    *model = (ForeignModel){ 0 };
}

Status foreign_model_open(ForeignModel *model, ForeignFormat format, const char *path)
{
    const char *name = formats[format].name;
    *model = (ForeignModel){ .naming = formats[format].naming, .step = -1, .samples = -1 };
    if (!*path) return fail(BAD_OPTION, "%s: names no folder; give %s:FOLDER", name, name);
    if (!file_exists(path) && (format != FORMAT_FAIRSEQ || !fairseq_is_there(path)))
        return fail(BAD_FILE, "%s: " FOREIGN_NOT_THERE, path);
    json_t *options = json_object();
    foreign_begin(&model->file, path);
    Status status = options ? with_cure(formats[format].read(model, options, path), format, path)
                            : fail(NO_MEMORY, "%s: no memory for its options", path);
    if (status == OK && !(model->options = json_dumps(options, JSON_COMPACT | JSON_REAL_PRECISION(17))))
        status = fail(NO_MEMORY, "%s: no memory for its options", path);
    json_decref(options);
    if (status != OK) foreign_model_close(model);
    return status;
}
