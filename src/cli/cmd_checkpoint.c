/* The commands that inspect checkpoints. `jotun checkpoint info DIR` prints the step, options and tensors of
 * the newest complete checkpoint; `jotun checkpoint verify DIR` reads every checkpoint and checks every
 * checksum. DIR is the folder that --save named, or the folder of one step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "conf/conf.h"
#include "store/checkpoint.h"
#include "store/tensor_entry.h"
#include "store/manifest.h"
#include "store/checkpoint_dir.h"

static void options_list(const char *text)
{
    const char *name;
    json_t     *value, *options = json_loads(text, 0, NULL);
    json_object_foreach(options, name, value) {
        char *said = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        printf("           %s = %s\n", name, said ? said : "");
        free(said);
    }
    json_decref(options);
}

static void tensors_list(const Manifest *m)
{
    char text[128];
    for (int f = 0; f < m->files; f++)
        for (int t = 0; t < m->file[f].contents.tensors; t++) {
            const LogicalTensor *tensor = &m->file[f].contents.tensor[t];
            printf("%-24s %-24s %s\n", m->file[f].contents.name, tensor_entry_text(text, tensor),
                   tensor->name);
        }
}

static Status info(const char *dir)
{
    Manifest m;
    char     bytes[24], folder[1024];
    double   sum = 0;
    bool     found;
    TRY(checkpoint_find(dir, folder, &found));
    if (!found) return checkpoint_dir_none(dir);
    TRY(manifest_read(&m, folder));
    for (int f = 0; f < m.files; f++) sum += (double)m.file[f].bytes;
    printf("directory  %s\n", folder);
    printf("step       %" PRId64 "\nsamples    %" PRId64 "\nupdates    %" PRId64 "\nseed       %" PRIu64 "\n",
           m.state.step, m.state.samples, m.state.updates, m.state.seed);
    if (m.state.lacks)
        printf("lacks      %s%s%s\n", m.state.lacks & CHECKPOINT_STATES ? "optimizer states" : "",
               m.state.lacks == (CHECKPOINT_STATES | CHECKPOINT_POSITION) ? ", " : "",
               m.state.lacks & CHECKPOINT_POSITION ? "position of a run" : "");
    for (int bit = 0; bit < DUE_BITS; bit++)
        if (m.state.due >> bit & 1)
            printf("due        %s\n", bit == DUE_SAMPLES ? "samples of text" : "an evaluation");
    if (m.kernels) printf("kernels    %s\n", m.kernels);
    if (m.state.loss_scale.scale > 0) printf("loss scale %g\n", m.state.loss_scale.scale);
    if (m.tokenizer)
        printf("tokenizer  %s (%s)%s\n", m.tokenizer, m.fingerprint, m.state.tokenizer.copies ?
               ", carried in tokenizer/" : strcmp(m.tokenizer, "bytes") ? ", not carried" : "");
    printf("tensors    %d in %d files, %s\noptions    as the run was given them\n", m.tensors, m.files,
           log_bytes(bytes, sum));
    options_list(m.options);
    printf("\n");
    tensors_list(&m);
    manifest_free(&m);
    return OK;
}

static Status look(const Options *o, Status (*at)(const char *))
{
    TRY(options_expect(o, 1, "DIR"));
    TRY(checkpoint_directory(o->words.text[0], o->words.text[0]));
    return at(o->words.text[0]);
}

Status cmd_checkpoint_info  (Options *o) { return look(o, info); }
Status cmd_checkpoint_verify(Options *o) { return look(o, checkpoint_verify_all); }
