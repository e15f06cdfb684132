/* What a pickle's names mean, and what a call of a name makes. Nothing is called: each case looks at the
 * arguments and makes a value of them. */
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "convert/torch/pickle_internal.h"

enum { NAME_LIMIT = 200 };

static const struct { const char *modules, *names; PickleMeaning meaning; } rows[] = {
#define PICKLE_NAMES(modules, meaning, names) { modules, names, MAKES_##meaning },
#include "convert/torch/pickle_names.def"
};

/* ---- element types ---- */

static const struct { const char *storage, *name; size_t width; int dtype; } types[TORCH_TYPES] = {
    [TORCH_NO_TYPE] = { "-", "", 1, -1 },
#define TORCH_TYPE(id, storage, name, width, dtype) [TORCH_##id] = { storage, name, width, dtype },
#include "convert/torch/torch_type.def"
};

size_t      torch_type_width(TorchType type) { return types[type].width; }
const char *torch_type_name (TorchType type) { return types[type].name; }

bool torch_type_dtype(TorchType type, Dtype *dtype)
{
    if (types[type].dtype < 0) return false;
    *dtype = (Dtype)types[type].dtype;
    return true;
}

/* By "FloatStorage" or by "float32", of which "-" means that there is none. */
static TorchType type_named(const char *text, size_t bytes, bool storage)
{
    for (int i = 1; i < TORCH_TYPES; i++)
        if (bytes > 1 && words_have(storage ? types[i].storage : types[i].name, text, bytes))
            return (TorchType)i;
    return TORCH_NO_TYPE;
}

/* ---- names ---- */

/* 0: the name is not known. */
static int meaning_of(const char *module, size_t module_bytes, const char *name, size_t name_bytes)
{
    for (int i = 0; i < COUNT(rows); i++)
        if (words_have(rows[i].modules, module, module_bytes) && words_have(rows[i].names, name, name_bytes))
            return rows[i].meaning;
    if (!words_have("torch", module, module_bytes)) return 0;
    if (type_named(name, name_bytes, true)) return MAKES_STORAGE;
    return type_named(name, name_bytes, false) ? MAKES_TYPE : 0;
}

/* Only letters, digits, dots and underscores reach a message, so a name cannot send codes to a terminal. */
static bool is_name(const char *text, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.<>";
    for (size_t i = 0; i < bytes; i++)
        if (!memchr(letters, text[i], sizeof letters - 1)) return false;
    return bytes > 0 && bytes <= NAME_LIMIT;
}

Status pickle_global(PickleValue **value, PickleReader *r, const char *module, size_t module_bytes,
                     const char *name, size_t name_bytes)
{
    if (!is_name(module, module_bytes) || !is_name(name, name_bytes))
        return pickle_refuse(r, "a class or function whose name is empty, longer than %d bytes or not a name",
                             NAME_LIMIT);
    int meaning = meaning_of(module, module_bytes, name, name_bytes);
    if (!meaning)
        return pickle_refuse(r,
                             "it names %.*s.%.*s, which is none of the classes that checkpoints of PyTorch "
                             "and Megatron-LM need; "
                             "nothing was executed; torch.save(model.state_dict(), ...) writes weights alone",
                             (int)module_bytes, module, (int)name_bytes, name);
    TRY(pickle_new(value, r, PICKLE_GLOBAL));
    (*value)->module = module, (*value)->module_bytes = (uint32_t)module_bytes;
    (*value)->name   = name,   (*value)->name_bytes   = (uint32_t)name_bytes;
    (*value)->meaning = meaning;
    return OK;
}

/* ---- tensors ---- */

static PickleValue *item_at(const PickleValue *list, uint32_t i)
{
    return i < list->items ? list->item[i] : NULL;
}

static bool is_kind(const PickleValue *v, PickleKind kind) { return v && v->kind == kind; }

/* The type that a storage's class or an element type names; TORCH_NO_TYPE if v names none. */
static TorchType type_of(const PickleValue *v)
{
    if (!is_kind(v, PICKLE_GLOBAL)) return TORCH_NO_TYPE;
    if (v->meaning != MAKES_STORAGE && v->meaning != MAKES_TYPE) return TORCH_NO_TYPE;
    return type_named(v->name, v->name_bytes, v->meaning == MAKES_STORAGE);
}

/* ("storage", class, key, device, elements) and in the old format a view of it, None or
 * (key, first, count). */
Status pickle_persistent(PickleValue **value, PickleReader *r, const PickleValue *id)
{
    int64_t count = -1, first = 0, all;
    if (!is_kind(id, PICKLE_TUPLE) || id->items < 5 || !pickle_is_text(id->item[0], "storage"))
        return pickle_refuse(r, "a persistent id that is not a tensor's storage");
    const PickleValue *key = id->item[2], *view = item_at(id, 5);
    TorchType          type = type_of(id->item[1]);
    if (!type) return pickle_refuse(r, "a storage without a known type");
    if (!is_kind(key, PICKLE_TEXT) || key->bytes == 0 || key->bytes > NAME_LIMIT)
        return pickle_refuse(r, "a storage without a name");
    if (!pickle_integer(id->item[4], &count)
        || (is_kind(view, PICKLE_TUPLE) && (!pickle_integer(item_at(view, 1), &first)
                                            || !pickle_integer(item_at(view, 2), &count)))
        || count < 0 || first < 0 || __builtin_add_overflow(count, first, &all)
        || __builtin_mul_overflow(all, (int64_t)torch_type_width(type), &all))
        return pickle_refuse(r, "a storage of an impossible size");
    TRY(pickle_new(value, r, PICKLE_STORAGE));
    TRY(pickle_block(&(*value)->storage, r, sizeof *(*value)->storage));
    *(*value)->storage = (PickleStorage){ .type = type, .key = key->text, .key_bytes = (uint32_t)key->bytes,
                                          .count = count, .first = first };
    *r->storage = (*value)->storage;
    r->storage  = &(*r->storage)->next;
    return OK;
}

/* Every element must lie in the storage: offset + sum over d of (size[d] - 1) stride[d] < elements. */
static Status extent_check(const PickleReader *r, const PickleTensor *t)
{
    int64_t room = t->storage->count, last = t->offset, far;
    bool    none = false;
    if (t->type != t->storage->type)
        room = room * (int64_t)torch_type_width(t->storage->type) / (int64_t)torch_type_width(t->type);
    for (int d = 0; d < t->dims; d++) {
        none |= t->size[d] == 0;
        if (t->size[d] < 0 || t->stride[d] < 0)
            return pickle_refuse(r, "a tensor with a negative size or stride");
        if (t->size[d] > 0 && (__builtin_mul_overflow(t->size[d] - 1, t->stride[d], &far)
                               || __builtin_add_overflow(last, far, &last)))
            return pickle_refuse(r, "a tensor whose size or strides overflow");
    }
    if (t->offset < 0 || (none ? t->offset > room : last >= room))
        return pickle_refuse(r, "a tensor reaches element %lld of a storage of %lld", (long long)last,
                             (long long)room);
    int64_t elements = 1; /* strides of 0 repeat elements; what is read must still be countable */
    for (int d = 0; d < t->dims; d++)
        if (__builtin_mul_overflow(elements, t->size[d] > 0 ? t->size[d] : 1, &elements) ||
            elements > INT64_MAX / 16)
            return pickle_refuse(r, "a tensor of more elements than can be counted");
    return OK;
}

/* (storage, offset, size, stride, ...); `typed`: the element type is the seventh. */
static Status tensor_make(PickleValue **value, PickleReader *r, const PickleValue *a, bool typed)
{
    const PickleValue *memory = item_at(a, 0), *size = item_at(a, 2), *stride = item_at(a, 3);
    PickleTensor      *t;
    if (!is_kind(memory, PICKLE_STORAGE) || !is_kind(size, PICKLE_TUPLE) || !is_kind(stride, PICKLE_TUPLE)
        || size->items != stride->items)
        return pickle_refuse(r, "a tensor that is not made of a storage, an offset, a shape and strides");
    if (size->items > PICKLE_TENSOR_DIMS)
        return pickle_refuse(r, "a tensor of %u dimensions; at most %d are read", size->items,
                             PICKLE_TENSOR_DIMS);
    TRY(pickle_new(value, r, PICKLE_TENSOR));
    TRY(pickle_block(&t, r, sizeof *t));
    (*value)->tensor = t;
    *t = (PickleTensor){ .storage = memory->storage, .type = memory->storage->type };
    t->dims = (int)size->items;
    if (typed) t->type = type_of(item_at(a, 6));
    if (t->type == TORCH_NO_TYPE) return pickle_refuse(r, "a tensor of an unknown element type");
    if (!pickle_integer(item_at(a, 1), &t->offset)) return pickle_refuse(r, "a tensor without an offset");
    for (int d = 0; d < t->dims; d++)
        if (!pickle_integer(size->item[d], &t->size[d]) || !pickle_integer(stride->item[d], &t->stride[d]))
            return pickle_refuse(r, "a tensor whose shape or strides are not integers");
    return extent_check(r, t);
}

/* ---- other calls ---- */

/* A collection of what the first argument holds, or an empty one. OrderedDict's may be a list of pairs. */
static Status collection_make(PickleValue **value, PickleReader *r, PickleKind kind, const PickleValue *a)
{
    const PickleValue *from = item_at(a, 0);
    TRY(pickle_new(value, r, kind));
    if (!from || from->kind < PICKLE_LIST || from->kind > PICKLE_DICT) return OK;
    bool pairs = kind == PICKLE_DICT && from->kind != PICKLE_DICT;
    TRY(pickle_spend(r, (size_t)from->items * (pairs ? 2 : 1)));
    for (uint32_t i = 0; i < from->items; i++) {
        PickleValue *item = from->item[i];
        if (!pairs) TRY(pickle_add(*value, r, item));
        else if ((item->kind != PICKLE_LIST && item->kind != PICKLE_TUPLE) || item->items != 2)
            return pickle_refuse(r, "a dictionary of what are not pairs");
        else for (int k = 0; k < 2; k++) TRY(pickle_add(*value, r, item->item[k]));
    }
    return OK;
}

/* _codecs.encode(text, "latin1"): each character is a byte. bytes() is empty, bytes(list) is not written. */
static Status bytes_make(PickleValue **value, PickleReader *r, const PickleValue *a)
{
    const PickleValue *from = item_at(a, 0);
    char              *out;
    size_t             used = 0;
    TRY(pickle_new(value, r, PICKLE_BYTES));
    (*value)->text = "";
    if (!from) return OK;
    if (from->kind == PICKLE_BYTES) {
        (*value)->text  = from->text;
        (*value)->bytes = from->bytes;
        return OK;
    }
    if (from->kind != PICKLE_TEXT) return pickle_refuse(r, "bytes that are made of something else than text");
    TRY(pickle_spend(r, from->bytes));
    TRY(pickle_block(&out, r, from->bytes));
    for (size_t i = 0; i < from->bytes; i++) {
        unsigned char c = (unsigned char)from->text[i];
        bool          two = c >= 0xc0 && c <= 0xc3 && i + 1 < from->bytes;
        if (c >= 0x80 && !two) return pickle_refuse(r, "bytes of text that is not Latin-1");
        out[used++] = two ? (char)((c & 3) << 6 | (from->text[++i] & 0x3f)) : (char)c;
    }
    (*value)->text  = out;
    (*value)->bytes = used;
    return OK;
}

static Status record_make(PickleValue **value, PickleReader *r, PickleValue *name,
                          PickleValue *arguments, PickleValue *state)
{
    TRY(pickle_new(value, r, PICKLE_RECORD));
    TRY(pickle_block(&(*value)->record, r, sizeof *(*value)->record));
    *(*value)->record = (PickleRecord){ .name = name, .arguments = arguments, .state = state };
    return OK;
}

/* Of the class that is the first argument. */
static Status object_make(PickleValue **value, PickleReader *r, PickleValue *a, PickleValue *state,
                          const char *what)
{
    PickleValue *class = item_at(a, 0);
    if (is_kind(class, PICKLE_GLOBAL) && class->meaning == MAKES_RECORD)
        return record_make(value, r, class, a, state);
    return pickle_refuse(r, "%s what is not a plain class", what);
}

/* numpy's type is called with "f8", "i4", ... and restored with its byte order: little-endian is
 * '<' or '|'. */
static Status scalar_make(PickleValue **value, PickleReader *r, PickleValue *a)
{
    PickleValue *type = item_at(a, 0), *raw = item_at(a, 1);
    char               code[8];
    if (!pickle_is_record(type, "numpy.dtype") || !raw ||
        (raw->kind != PICKLE_BYTES && raw->kind != PICKLE_TEXT))
        return record_make(value, r, type, a, NULL);
    pickle_text(code, sizeof code, item_at(type->record->arguments, 0));
    const PickleValue *state = type->record->state;
    bool               big   = is_kind(state, PICKLE_TUPLE) && pickle_is_text(item_at(state, 1), ">");
    size_t width = code[0] && code[1] >= '1' && code[1] <= '8' && !code[2] ? (size_t)(code[1] - '0') : 0;
    if (!width || raw->bytes != width || big) return record_make(value, r, type, a, NULL);
    uint64_t bits = little_endian((const uint8_t *)raw->text, (int)width);
    TRY(pickle_new(value, r, code[0] == 'f' ? PICKLE_FLOAT : code[0] == 'b' ? PICKLE_BOOL : PICKLE_INT));
    float single;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    if (code[0] == 'f' && width == 8) memcpy(&(*value)->real, &bits, sizeof bits);
    else if (code[0] == 'f' && width == 4) (*value)->real = (double)single;
    else if (code[0] == 'i') (*value)->integer = (int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width);
    else if ((code[0] == 'u' && width < 8) || code[0] == 'b') (*value)->integer = (int64_t)bits;
    else return record_make(value, r, type, a, NULL);
    return OK;
}

Status pickle_call(PickleValue **value, PickleReader *r, PickleValue *function, PickleValue *a)
{
    if (!is_kind(function, PICKLE_GLOBAL) || !is_kind(a, PICKLE_TUPLE))
        return pickle_refuse(
            r, "it calls what is not a class or function by name, or without a tuple of arguments");
    /* A tensor of a subclass names the function that makes the tensor. It may not name itself again. */
    if (function->meaning == MAKES_FROM_TYPE) {
        function = item_at(a, 0);
        a        = item_at(a, 2);
        if (!is_kind(function, PICKLE_GLOBAL) || !is_kind(a, PICKLE_TUPLE) || function->meaning < MAKES_TENSOR
            || function->meaning == MAKES_FROM_TYPE)
            return pickle_refuse(r, "a tensor of a subclass that is not made as tensors are");
    }
    switch ((PickleMeaning)function->meaning) {
    case MAKES_DICT:          return collection_make(value, r, PICKLE_DICT,  a);
    case MAKES_LIST:          return collection_make(value, r, PICKLE_LIST,  a);
    case MAKES_TUPLE:         return collection_make(value, r, PICKLE_TUPLE, a);
    case MAKES_SET:           return collection_make(value, r, PICKLE_SET,   a);
    case MAKES_BYTES:         return bytes_make(value, r, a);
    case MAKES_RECORD:        return record_make(value, r, function, a, NULL);
    case MAKES_RECONSTRUCTOR: return object_make(value, r, a, item_at(a, 2), "an object of");
    case MAKES_ATTRIBUTE:     return object_make(value, r, a, NULL, "an attribute of");
    case MAKES_SCALAR:        return scalar_make(value, r, a);
    case MAKES_TENSOR:        return tensor_make(value, r, a, false);
    case MAKES_TENSOR_TYPED:  return tensor_make(value, r, a, true);
    case MAKES_PARAMETER:     /* its tensor; what else it carries (requires_grad, hooks) is not needed */
        *value = item_at(a, 0);
        return is_kind(*value, PICKLE_TENSOR) ? OK
                                              : pickle_refuse(r, "a parameter that is not made of a tensor");
    case MAKES_FROM_TYPE: case MAKES_STORAGE: case MAKES_TYPE: break;
    }
    return pickle_refuse(r, "it calls %.*s, which is not called in a checkpoint", (int)function->name_bytes,
                         function->name);
}
