/* Reading and writing a tensor's JSON entry, and parsing JSON of bounded cost. */
#include "store/tensor_entry.h"
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json_cost.h"
#include "base/message.h"

/* Control characters are refused because names are printed, and an escape sequence would control the
 * user's terminal. */
static bool name_fits(const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) return false;
    return bytes > 0 && bytes < sizeof ((LogicalTensor *)0)->name;
}

static bool dtype_named(Dtype *dtype, const char *word)
{
    for (int d = 0; d < DTYPES; d++) {
        if (strcmp(word, dtype_name((Dtype)d)) != 0) continue;
        *dtype = (Dtype)d;
        return true;
    }
    return false;
}

static Status shape_read(LogicalTensor *tensor, const char *path, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > 4)
        return fail(BAD_FILE, "%s: tensor '%s' has no shape of at most 4 dims", path, tensor->name);
    int64_t bytes = (int64_t)dtype_width(tensor->dtype);
    tensor->dims = (int)json_array_size(shape);
    for (int d = 0; d < 4; d++) tensor->dim[d] = 1;
    for (int d = 0; d < tensor->dims; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);
        tensor->dim[d] = json_integer_value(dim);
        if (!json_is_integer(dim) || tensor->dim[d] < 0)
            return fail(BAD_FILE, "%s: tensor '%s' has a dim that is not an integer above -1", path,
                        tensor->name);
        if (__builtin_mul_overflow(bytes, tensor->dim[d], &bytes))
            return fail(BAD_FILE, "%s: tensor '%s' has a shape beyond 2^63 bytes", path, tensor->name);
    }
    return OK;
}

Status tensor_entry_read(LogicalTensor *tensor, const char *path, const char *name, const json_t *dtype,
                         const json_t *shape)
{
    if (!name_fits(name))
        return fail(BAD_FILE,
                    "%s: a tensor's name is empty, longer than %zu bytes or has control characters", path,
                    sizeof tensor->name - 1);
    *tensor = (LogicalTensor){ 0 };
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    if (!json_is_string(dtype)) return fail(BAD_FILE, "%s: tensor '%s' has no dtype", path, name);
    if (!dtype_named(&tensor->dtype, json_string_value(dtype)))
        return fail(BAD_FILE, "%s: tensor '%s' has an unsupported dtype; F64, F32, BF16, F16, F8_E4M3, "
                    "F8_E5M2, I32 and U8 are supported", path, name);
    return shape_read(tensor, path, shape);
}


json_t *tensor_entry_shape(const LogicalTensor *tensor)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->dims; d++) json_array_append_new(shape, json_integer(tensor->dim[d]));
    return shape;
}

int64_t tensor_entry_count(const LogicalTensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->dims; d++) count *= tensor->dim[d];
    return count;
}

bool tensor_entry_equal(const LogicalTensor *a, const LogicalTensor *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->dims == b->dims &&
           memcmp(a->dim, b->dim, (size_t)a->dims * sizeof *a->dim) == 0;
}

const char *tensor_entry_text(char out[128], const LogicalTensor *tensor)
{
    snprintf(out, 128, "%s ", dtype_name(tensor->dtype));
    return message_shape(out, 128, tensor->dim, tensor->dims);
}

/* The cost is an upper bound from one pass over the text, since the parser itself has no limit on memory. */
Status json_parse_bounded(json_t **root, const char *path, const char *what, const char *text, size_t bytes,
                          size_t multiple, size_t flags)
{
    json_error_t error;
    char         problem[160];
    size_t       cost = json_cost(text, bytes), limit = multiple * bytes + (1 << 20);
    if (cost > limit)
        return fail(BAD_FILE,
                    "%s: %s%zu bytes of JSON that would take %zu bytes of memory; no valid file takes more"
                    " than %zu", path, what, bytes, cost, limit);
    *root = json_loadb(text, bytes, flags, &error);
    if (*root) return OK;
    bool cut = json_error_code(&error) == json_error_premature_end_of_input;
    return fail(BAD_FILE, "%s: %s%s%s", path, what, json_error_text(problem, &error),
                cut ? ": the file is cut off there; copy or download it again" : "");
}

Status json_file_bounded(json_t **root, const char *path, size_t most, size_t multiple, size_t flags)
{
    FileMap map;
    *root = NULL;
    TRY(file_map(&map, path));
    Status status = map.size > most
        ? fail(BAD_FILE, "%s: %zu bytes; at most %zu are read", path, map.size, most)
        : json_parse_bounded(root, path, "", (const char *)map.data, map.size, multiple, flags);
    file_unmap(&map);
    return status;
}

/* jansson appends " near '...'" with text of the file, which is removed. */
const char *json_error_text(char out[160], const json_error_t *error)
{
    const char *quote = strstr(error->text, " near ");
    int length = quote ? (int)(quote - error->text) : (int)strlen(error->text);
    snprintf(out, 160, "line %d, byte %d: %.*s", error->line, error->position, length < 100 ? length : 100,
             error->text);
    return out;
}
