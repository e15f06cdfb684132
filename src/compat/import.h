#ifndef COMPAT_IMPORT_H
#define COMPAT_IMPORT_H
/* Options from other programs' files. What cannot be taken is refused with its file, line, reason and cure;
 * the rest is taken all the same, so that one run names everything. A reader works on a copy of the options
 * so far, on which it sees what its values do; what the copy has in addition are its words. */
#include <stdio.h>
#include "compat/translate.h"
#include "conf/conf.h"

/* remarks: what was ignored, refused or not followed, a line each; owned by `copy`. */
typedef struct {
    Options  copy;
    TextList remarks;
    int      taken, refused;
} Import;

/* import_close has to be called. */
void   import_open (Import *import, const Options *so_far);
void   import_show (FILE *out, const Import *import); /* as comments of YAML */
/* BAD_OPTION where something was refused. */
Status import_ends (const Import *import, const char *path);
void   import_close(Import *import);

/* For `jotun config`: a script or list of arguments of Megatron-LM or its DeepSpeed forks, a model
 * configuration of NeMo. Values are as strong as those of a file of --config. BAD_FILE where the file cannot
 * be read at all. */
Status import_megatron(Import *m, Options *o);       /* o->from_script: FILE [ARGUMENT...] */
Status import_nemo(Import *m, Options *o);           /* o->from_yaml */

/* For the files that read one kind. from: "run.sh:12" */
enum { IMPORT_LINE = 1400 };

__attribute__((format(printf, 4, 5)))
void import_remark(Import *m, Options *o, const char *from, const char *format, ...);
/* What is not taken, and why; also a line in the log. */
__attribute__((format(printf, 4, 5)))
void import_refuse(Import *m, Options *o, const char *from, const char *format, ...);
/* One option with its values, as words of a command line. What is ignored makes a remark instead of a line in
 * the log. */
void import_take(Import *m, Options *o, const char *from, int count, char **words);
/* A default of the other program that is not jotun's, "--lr=0.1", with a remark that says why. */
void import_default(Import *m, Options *o, const char *from, const char *word, const char *why);
/* One name of a file's own dialect with its value, by the name as it is written there. */
void import_take_name(Import *m, Options *o, const char *from, const Dialect *row, const char *name,
                      const char *value);
/* After all options: Megatron-LM computes GELU by erf where no linear layer has a bias to fuse it with. */
void import_gelu(Import *m, Options *o, const char *from);
/* After all options: samples come in the order of the program that the file is for, where it names data. */
void import_data_order(Import *m, Options *o, const char *from, const char *order);
/* DeepSpeed's JSON, held against the options that the command line gave before. */
void import_deepspeed(Import *m, Options *o, const char *from, const char *text);
/* The same of a file. BAD_FILE where it cannot be read at all. */
Status import_deepspeed_file(Import *m, Options *o, const char *path);
#endif
