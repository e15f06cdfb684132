#ifndef CONVERT_FORMATS_H
#define CONVERT_FORMATS_H
/* The formats of other programs' checkpoints that are read, in one table: how each is recognised, what it is
 * called in options ("hf", "megatron"), and its reader. */
#include "convert/format.h"

typedef enum { FORMAT_HF, FORMAT_MEGATRON, FORMAT_LLMC, FORMAT_NANOGPT, FORMAT_FAIRSEQ,
               FORMATS } ForeignFormat;

const char *foreign_format_name(ForeignFormat format);
/* By the files that are there; false: of none of them. */
bool   foreign_format_find(ForeignFormat *format, const char *path);
/* Why an input that is in none of them is not read. */
Status foreign_format_refuse(const char *path);
/* The format of "megatron:PATH"; *path is then PATH. False: it begins with no format. */
bool   foreign_format_of(ForeignFormat *format, const char **path, const char *text);
/* What is said of a path where nothing is. */
#define FOREIGN_NOT_THERE                                                                                  \
    "there is no such file or folder here, and nothing is downloaded; correct the name, or fetch the "     \
    "model of the hub first: hf download NAME --local-dir FOLDER"
/* BAD_FILE as the readers say, with what mends a damaged file of the format; then *model is all zeros. */
Status foreign_model_open(ForeignModel *model, ForeignFormat format, const char *path);
#endif
