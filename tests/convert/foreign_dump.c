/* Prints what a reader of foreign files finds, for the scripts of this folder:
 *     foreign_dump torch|pickle FILE...
 *     foreign_dump megatron|llmc|nanogpt|hf PATH...
 * Exit code 0 where every file was read; 1 with the message where one was refused. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/guard.h"
#include "convert/format.h"
#include "convert/torch/torch_file.h"

static void tensor_print(const PickleTensor *t)
{
    printf("tensor %s [", torch_type_name(t->type));
    int64_t count = 1;
    for (int d = 0; d < t->dims; d++) printf("%s%" PRId64, d ? ", " : "", t->size[d]), count *= t->size[d];
    printf("]");
    ForeignPiece piece;
    Dtype        dtype;
    if (t->dims > FOREIGN_DIMS || !torch_type_dtype(t->type, &dtype) || !t->storage->data) return;
    if (torch_piece(&piece, t, "dump", "x") != OK) return;
    ForeignTensor whole = { .dtype = dtype, .dims = t->dims, .pieces = 1, .piece = &piece };
    memcpy(whole.shape, piece.shape, sizeof whole.shape);
    for (int64_t i = 0; i < count && i < 64; i++) {
        double   number = 0;
        int32_t  integer = 0;
        if (dtype_is_float(dtype)) foreign_read(&whole, i, 1, 1, &number, F64);
        else if (dtype == I32) foreign_read(&whole, i, 1, 1, &integer, I32);
        printf(" %.9g", number + integer);
    }
}

static void value_print(const PickleValue *v)
{
    char text[80];
    if (!v) { printf("absent"); return; }
    switch (v->kind) {
    case PICKLE_NONE:    printf("None"); return;
    case PICKLE_BOOL:    printf(v->integer ? "True" : "False"); return;
    case PICKLE_INT:     printf("%" PRId64, v->integer); return;
    case PICKLE_FLOAT:   printf("%.17g", v->real); return;
    case PICKLE_TEXT:    printf("'%s'", pickle_text(text, sizeof text, v)); return;
    case PICKLE_BYTES:   printf("b'%s'", pickle_text(text, sizeof text, v)); return;
    case PICKLE_BIG:     printf("big %zu", v->bytes); return;
    case PICKLE_GLOBAL:
        printf("<%.*s.%.*s>", (int)v->module_bytes, v->module, (int)v->name_bytes, v->name);
        return;
    case PICKLE_STORAGE: printf("storage"); return;
    case PICKLE_TENSOR:  tensor_print(v->tensor); return;
    case PICKLE_RECORD:
        value_print(v->record->name);
        printf("("), value_print(v->record->arguments);
        if (v->record->state) printf(" state "), value_print(v->record->state);
        if (v->record->list)  printf(" list "), value_print(v->record->list);
        if (v->record->dict)  printf(" dict "), value_print(v->record->dict);
        printf(")");
        return;
    case PICKLE_LIST: case PICKLE_TUPLE: case PICKLE_SET: case PICKLE_DICT: break;
    }
    static const char *ends[] = { "[]", "()", "||", "{}" };
    const char *end = ends[v->kind - PICKLE_LIST];
    putchar(end[0]);
    for (uint32_t i = 0; i < v->items; i++) {
        printf(i == 0 ? "" : v->kind == PICKLE_DICT && i % 2 ? ": " : ", ");
        value_print(v->item[i]);
    }
    putchar(end[1]);
}

static Status pickle_show(const FileMap *map)
{
    Pickle p;
    TRY(pickle_open(&p, map->data, map->size, map->path));
    value_print(p.root);
    pickle_close(&p);
    return OK;
}

static Status torch_show(const FileMap *map)
{
    TorchFile f;
    TRY(torch_file_read(&f, NULL, map->data, map->size, map->path));
    value_print(f.pickle.root);
    torch_file_close(&f);
    return OK;
}

/* The options, then a line for each tensor: its name, type, shape and all elements. */
static Status foreign_show(ForeignFormat format, const char *path)
{
    ForeignModel model;
    TRY(foreign_model_open(&model, format, path));
    ForeignFile file = model.file;
    json_t *options  = json_loads(model.options, 0, NULL);
    char *text = json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS);
    printf("%s\n", text);
    free(text);
    json_decref(options);
    for (int i = 0; i < file.tensors; i++) {
        const ForeignTensor *t = &file.tensor[i];
        printf("%s%s%s %s", t->name, t->kind ? "." : "", foreign_kind_name(t->kind), dtype_name(t->dtype));
        for (int d = 0; d < t->dims; d++) printf("%c%" PRId64, d ? 'x' : ' ', t->shape[d]);
        printf(":");
        for (int64_t k = 0; k < foreign_count(t); k++) {
            double number;
            foreign_read(t, k, 1, 1, &number, F64);
            printf(" %.9g", number);
        }
        printf("\n");
    }
    if (file.position.step >= 0 || *file.states_unread || file.states)
        printf("position %" PRId64 " %" PRId64 " %" PRId64 " %s%s\n", file.position.step, file.position.samples,
               file.position.updates, file.states ? "states" : "", file.states_unread);
    if (*file.unknown) printf("unknown %s\n", file.unknown);
    foreign_model_close(&model);
    return OK;
}

static Status show(const char *kind, const char *path)
{
    FileMap map;
    for (ForeignFormat format = 0; format < FORMATS; format++)
        if (strcmp(kind, foreign_format_name(format)) == 0) return foreign_show(format, path);
    TRY(file_map(&map, path));
    Status status = strcmp(kind, "pickle") == 0 ? pickle_show(&map) : torch_show(&map);
    if (status == OK) printf("\n");
    file_unmap(&map);
    return status;
}

int main(int words, char **word)
{
    int code = 0;
    for (int i = 2; i < words; i++)
        if (show(word[1], word[i]) != OK) printf("refused: %s\n", fail_text()), code = 1;
    return code;
}
