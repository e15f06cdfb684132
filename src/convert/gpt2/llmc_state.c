/* The state files of llm.c's ranks. */
#include "convert/gpt2/llmc_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/reader.h"

enum { HEADER_BYTES = 1024, MAGIC = 20240527, RANKS_MAX = 65536 };

typedef struct {
    ForeignFile *file;
    const char  *first;                    /* its first parameter */
    int64_t      width, parameters;
    int          tensors, ranks;
    int64_t      step;
    bool         master, whole;            /* every rank's file has all parameters */
} States;

static int64_t header_at(const FileMap *map, int i)
{
    return (int32_t)little_endian(map->data + 4 * i, 4);
}

/* state_00000010_00002.bin beside model_00000010.bin; false where the model has another name. */
static bool state_path(char out[1024], const char *model, int rank)
{
    const char *slash = strrchr(model, '/'), *name = slash ? slash + 1 : model;
    size_t      digits = strspn(name + (strncmp(name, "model_", 6) == 0 ? 6 : 0), "0123456789");
    if (strncmp(name, "model_", 6) != 0 || digits == 0 ||
        strcmp(name + 6 + digits, ".bin") != 0)
        return false;
    return snprintf(out, 1024, "%.*sstate_%.*s_%05d.bin", (int)(name - model), model, (int)digits, name + 6,
                    rank) < 1024;
}

/* How many parameters of each kind a rank's file has. */
static int64_t held(const States *s) { return s->whole ? s->parameters : s->parameters / s->ranks; }

static Status header_read(States *s, const FileMap *map, int rank)
{
    if (map->size < HEADER_BYTES || header_at(map, 0) != MAGIC || header_at(map, 1) != 1)
        return fail(BAD_FILE, "%s: not a state of llm.c of version 1, which train_gpt2cu writes", map->path);
    int64_t ranks = header_at(map, 2), step = header_at(map, 10), master = header_at(map, 4);
    if (ranks < 1 || ranks > RANKS_MAX || step < 0 || header_at(map, 3) != rank ||
        (rank > 0 && (ranks != s->ranks || step != s->step || (master != 0) != s->master)))
        return fail(BAD_FILE, "%s: not the state of rank %d of this run; copy the files of one run and step",
                    map->path, rank);
    s->ranks = (int)ranks, s->step = step, s->master = master != 0;
    uint64_t all = HEADER_BYTES + (uint64_t)s->parameters * 4 * (s->master ? 3 : 2);
    if (rank == 0) s->whole = map->size >= all;
    uint64_t need = HEADER_BYTES + (uint64_t)held(s) * 4 * (s->master ? 3 : 2);
    if (s->parameters % s->ranks == 0 && map->size >= need && (header_at(map, 5) || map->size == need))
        return OK;
    return fail(BAD_FILE, "%s: %zu bytes, which are not those of the states of %lld parameters on %d ranks",
                map->path, map->size, (long long)s->parameters, s->ranks);
}

/* Elements of the model file before tensor i; the next tensor begins behind the rows that pad it. */
static int64_t place(const States *s, int i)
{
    return i == s->tensors ? s->parameters : (s->file->tensor[i].piece->data - s->first) / s->width;
}

/* The part of one rank of one tensor's state. */
static Status part_add(States *s, const FileMap *map, int rank, ForeignKind kind, int of, int tensor)
{
    int64_t at = place(s, of), count = place(s, of + 1) - at, size = s->whole ? count : count / s->ranks;
    int64_t kept = foreign_count(&s->file->tensor[of]), layer = 0;
    int64_t most = s->whole ? kept : kept - rank * size;
    if (!s->whole && count % s->ranks)
        return fail(BAD_FILE, "%s: %d ranks do not divide '%s'", map->path, s->ranks,
                    s->file->tensor[of].name);
    const char *number = strstr(s->file->tensor[of].name, ".h.");
    if (number) layer = strtol(number + 3, NULL, 10);
    int64_t stack = at - layer * count;                  /* where layer 0 of this parameter begins */
    int64_t first = s->whole ? at : stack / s->ranks + layer * size;
    first += (kind - FOREIGN_MOMENT) * held(s);
    if (most > size) most = size;
    if (most <= 0) return OK;
    return foreign_range(s->file, tensor, s->whole ? 0 : rank * size, most,
                         (const char *)map->data + HEADER_BYTES + 4 * first);
}

static Status rank_add(States *s, const char *path, int rank, int *index)
{
    int map;
    TRY(foreign_map(s->file, &map, path));
    FileMap mapped = s->file->map[map];
    TRY(header_read(s, &mapped, rank));
    for (ForeignKind k = FOREIGN_MOMENT; k < FOREIGN_KINDS; k++)
        for (int i = 0; i < s->tensors && (k != FOREIGN_MASTER || s->master); i++) {
            ForeignTensor t = s->file->tensor[i];
            int          *made = &index[(int)k * s->tensors + i];
            if (rank == 0) TRY(foreign_tensor_of(s->file, made, k, t.name, F32, t.dims, t.shape));
            TRY(part_add(s, &mapped, rank, k, i, *made));
        }
    return OK;
}

Status llmc_states_read(ForeignFile *file, const char *path, const char *first, size_t width)
{
    char   state[1024];
    States s = {.file = file, .first = first, .width = (int64_t)width, .tensors = file->tensors, .ranks = 1};
    s.parameters = ((const char *)file->map[0].data + file->map[0].size - first) / (int64_t)width;
    if (!state_path(state, path, 0) || !file_exists(state)) return OK;
    int *index = calloc((size_t)FOREIGN_KINDS * (size_t)s.tensors + 1, sizeof *index);
    Status status = index ? OK : fail(NO_MEMORY, "%s: no memory for its states", path);
    for (int r = 0; status == OK && r < (s.whole ? 1 : s.ranks); r++) {
        state_path(state, path, r);
        status = file_exists(state) ? rank_add(&s, state, r, index)
                                    : fail(BAD_FILE, "%s: is missing; copy it beside the model", state);
    }
    free(index);
    if (status == OK) file->position = (ForeignPosition){ s.step, -1, s.step };
    if (status == BAD_FILE) foreign_leave_states(file, "%s", fail_text());
    return status == BAD_FILE ? OK : status;
}
