/* Looking into checkpoints: jotun checkpoint info DIR, jotun checkpoint verify DIR. DIR is what --save
 * named, or one step's folder. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include "base/log.h"
#include "cli/command.h"
#include "conf/conf.h"
#include "store/tensor_entry.h"
#include "store/manifest.h"

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
        for (int t = 0; t < m->file[f].bundle.tensors; t++) {
            const LogicalTensor *tensor = &m->file[f].bundle.tensor[t];
            printf("%-24s %-24s %s\n", m->file[f].bundle.file, tensor_entry_text(text, tensor), tensor->name);
        }
}

static Status info(const char *folder)
{
    Manifest m;
    char     bytes[24];
    double   sum = 0;
    TRY(manifest_read(&m, folder));
    for (int f = 0; f < m.files; f++) sum += (double)m.file[f].bytes;
    printf("folder     %s\n", folder);
    printf("step       %" PRId64 "\nsamples    %" PRId64 "\nupdates    %" PRId64 "\nseed       %" PRIu64 "\n",
           m.state.step, m.state.samples, m.state.updates, m.state.seed);
    printf("tensors    %d in %d files, %s\noptions\n", m.tensors, m.files, log_bytes(bytes, sum));
    options_list(m.options);
    printf("\n");
    tensors_list(&m);
    manifest_free(&m);
    return OK;
}

static Status verify(const char *folder)
{
    TRY(checkpoint_verify(folder, true));
    printf("%s: every checksum is right\n", folder);
    return OK;
}

static Status look_at(const char *dir, Status (*look)(const char *))
{
    char path[1024];
    bool found;
    TRY(checkpoint_find(dir, path, &found));
    if (!found)
        return fail(BAD_FILE, "%s: holds no checkpoint; give the folder that --save named, or a step's own",
                    dir);
    return look(path);
}

static Status look(int argc, char **argv, Status (*at)(const char *))
{
    Options o;
    Status  status = options_parse(&o, FOR_CHECKPOINT, argc, argv);
    if (status == OK) status = options_expect(&o, 1, "DIR");
    if (status == OK) status = look_at(o.words.text[0], at);
    options_close(&o);
    return status;
}

Status cmd_checkpoint_info  (int argc, char **argv) { return look(argc, argv, info); }
Status cmd_checkpoint_verify(int argc, char **argv) { return look(argc, argv, verify); }
