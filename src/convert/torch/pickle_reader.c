/* The machine that reads a pickle's opcodes: a stack of values, marks in it, and a memo of values that are
 * used again. Every size is compared with the bytes that are left before anything is made. */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/utf8.h"
#include "base/words.h"
#include "convert/torch/pickle_internal.h"

/* ---- bytes ---- */

static size_t left(const PickleReader *r) { return reader_left(&r->in); }

static Status take(const char **bytes, PickleReader *r, uint64_t count)
{
    if (count > left(r))
        return pickle_refuse(r, "%llu bytes are announced, %zu are left, so it is truncated or damaged",
                             (unsigned long long)count, left(r));
    *bytes = (const char *)r->in.at;
    r->in.at += count;
    return OK;
}

static Status number(uint64_t *value, PickleReader *r, int bytes)
{
    const char *at = NULL;
    TRY(take(&at, r, (uint64_t)bytes));
    *value = little_endian((const uint8_t *)at, bytes);
    return OK;
}

/* Up to a newline, which is read and not counted. */
static Status line(const char **text, size_t *bytes, PickleReader *r)
{
    const uint8_t *end = memchr(r->in.at, '\n', left(r));
    if (!end) return pickle_refuse(r, "a line without an end");
    *text  = (const char *)r->in.at;
    *bytes = (size_t)(end - r->in.at);
    r->in.at = end + 1;
    return OK;
}

/* ---- the stack ---- */

static Status push(PickleReader *r, PickleValue *value)
{
    TRY(ARRAY_RESERVE(r->stack, r->stack_room, r->depth + 1));
    r->stack[r->depth++] = value;
    return OK;
}

static Status push_new(PickleValue **value, PickleReader *r, PickleKind kind)
{
    TRY(pickle_new(value, r, kind));
    return push(r, *value);
}

static size_t floor_of(const PickleReader *r) { return r->marks ? r->mark[r->marks - 1] : 0; }

/* Values above a mark are not reached by opcodes that do not name the mark. */
static Status pop(PickleValue **value, PickleReader *r)
{
    if (r->depth <= floor_of(r)) return pickle_refuse(r, "it takes from an empty stack");
    *value = r->stack[--r->depth];
    return OK;
}

static Status top(PickleValue **value, PickleReader *r)
{
    TRY(pop(value, r));
    r->depth++;
    return OK;
}

static Status mark_push(PickleReader *r)
{
    TRY(ARRAY_RESERVE(r->mark, r->mark_room, r->marks + 1));
    r->mark[r->marks++] = r->depth;
    return OK;
}

static Status mark_pop(size_t *from, PickleReader *r)
{
    if (!r->marks) return pickle_refuse(r, "it takes up to a mark where there is none");
    *from = r->mark[--r->marks];
    return OK;
}

/* All values above stack[from] become the items of a list. */
static Status items_take(PickleValue *list, PickleReader *r, size_t from)
{
    for (size_t i = from; i < r->depth; i++) TRY(pickle_add(list, r, r->stack[i]));
    r->depth = from;
    return OK;
}

static Status push_collection(PickleReader *r, PickleKind kind, size_t from)
{
    PickleValue *value = NULL;
    TRY(pickle_new(&value, r, kind));
    TRY(items_take(value, r, from));
    if (kind == PICKLE_DICT && value->items % 2) return pickle_refuse(r, "a key without a value");
    return push(r, value);
}

static Status push_tuple(PickleReader *r, size_t items)
{
    if (r->depth - floor_of(r) < items) return pickle_refuse(r, "it takes from an empty stack");
    return push_collection(r, PICKLE_TUPLE, r->depth - items);
}

/* Moves the values above stack[from] into the collection below them; a record gets a collection
 * of that kind. */
static Status append(PickleReader *r, PickleKind kind, size_t from)
{
    if (from == 0 || from > r->depth || (r->marks && from <= r->mark[r->marks - 1]))
        return pickle_refuse(r, "it adds to nothing");
    PickleValue *to = r->stack[from - 1];
    if (to->kind == PICKLE_RECORD && kind != PICKLE_SET) {
        PickleValue **held = kind == PICKLE_LIST ? &to->record->list : &to->record->dict;
        if (!*held) TRY(pickle_new(held, r, kind));
        to = *held;
    }
    if (to->kind != kind) return pickle_refuse(r, "it adds to a value of another kind");
    if (kind == PICKLE_DICT && (r->depth - from) % 2) return pickle_refuse(r, "a key without a value");
    return items_take(to, r, from);
}

/* The same with the values above the last mark. */
static Status marked(PickleReader *r, Status act(PickleReader *, PickleKind, size_t), PickleKind kind)
{
    size_t from = 0;
    TRY(mark_pop(&from, r));
    return act(r, kind, from);
}

/* ---- the memo ---- */

/* Writers number the memo from 0, and each entry takes bytes of its own; so an index is
 * below the position. */
static Status memo_put(PickleReader *r, uint64_t index)
{
    PickleValue *value = NULL;
    size_t       room = r->memo_room;
    TRY(top(&value, r));
    if (index >= reader_offset(&r->in)) return pickle_refuse(r, "memo entry %llu", (unsigned long long)index);
    TRY(ARRAY_RESERVE(r->memo, r->memo_room, index + 1));
    if (r->memo_room > room) memset(r->memo + room, 0, (r->memo_room - room) * sizeof *r->memo);
    r->memo[index] = value;
    return OK;
}

static Status memo_get(PickleReader *r, uint64_t index)
{
    if (index >= r->memo_room || !r->memo[index])
        return pickle_refuse(r, "memo entry %llu, which is not set", (unsigned long long)index);
    return push(r, r->memo[index]);
}

/* ---- plain values ---- */

static Status push_integer(PickleReader *r, PickleKind kind, int64_t integer)
{
    PickleValue *value = NULL;
    TRY(push_new(&value, r, kind));
    value->integer = integer;
    return OK;
}

static Status push_sized(PickleReader *r, PickleKind kind, int size_bytes)
{
    PickleValue *value = NULL;
    const char  *text = NULL;
    uint64_t     bytes = 0;
    TRY(number(&bytes, r, size_bytes));
    TRY(take(&text, r, bytes));
    TRY(push_new(&value, r, kind));
    value->text = text, value->bytes = bytes;
    return OK;
}

/* A two's complement number of any length. */
static Status push_long(PickleReader *r, int size_bytes)
{
    PickleValue *value = NULL;
    TRY(push_sized(r, PICKLE_BIG, size_bytes));
    TRY(top(&value, r));
    if (value->bytes > 8) return OK;
    uint64_t bits = little_endian((const uint8_t *)value->text, (int)value->bytes);
    int unused = value->bytes ? (int)(64 - 8 * value->bytes) : 0;
    value->kind    = PICKLE_INT;
    value->integer = (int64_t)(bits << unused) >> unused;
    return OK;
}

/* A line of digits; a final L was written by Python 2. *truth: it is 00 or 01. */
static Status decimal(int64_t *value, bool *truth, PickleReader *r)
{
    const char *text = NULL;
    size_t      bytes = 0;
    TRY(line(&text, &bytes, r));
    *truth = bytes == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1');
    if (bytes && text[bytes - 1] == 'L') bytes--;
    bool minus = bytes && text[0] == '-';
    *value = 0;
    if (bytes == minus) return pickle_refuse(r, "an integer without digits");
    for (size_t i = minus; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*value, 10, value)
            || __builtin_add_overflow(*value, minus ? '0' - text[i] : text[i] - '0', value))
            return pickle_refuse(r, "an integer that is not a number of 64 bits");
    }
    return OK;
}

static Status push_decimal(PickleReader *r)
{
    int64_t value;
    bool    truth;
    TRY(decimal(&value, &truth, r));
    return push_integer(r, truth ? PICKLE_BOOL : PICKLE_INT, value);
}

/* In eight bytes, which are big-endian, unlike all other numbers, or as a line. */
static Status push_float(PickleReader *r, bool binary)
{
    PickleValue *value = NULL;
    const char  *text = NULL;
    size_t       bytes = 0;
    uint64_t     bits = 0;
    char         copy[64], *end;
    TRY(push_new(&value, r, PICKLE_FLOAT));
    if (binary) {
        TRY(number(&bits, r, 8));
        bits = __builtin_bswap64(bits);
        memcpy(&value->real, &bits, sizeof bits);
        return OK;
    }
    TRY(line(&text, &bytes, r));
    if (bytes == 0 || bytes >= sizeof copy) return pickle_refuse(r, "a number of %zu characters", bytes);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    value->real = strtod(copy, &end);
    return *end ? pickle_refuse(r, "a floating-point number that is none") : OK;
}

/* n hexadecimal digits at text as a number; -1 where they are not there. */
static long hex(const char *text, size_t bytes, size_t n)
{
    long value = 0;
    if (n > bytes) return -1;
    for (size_t i = 0; i < n; i++) {
        int c = text[i] | 0x20, digit = c >= '0' && c <= '9' && text[i] == c ? c - '0'
                                      : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Protocol 0's text: Latin-1 with \uXXXX and \UXXXXXXXX, which takes at most twice its bytes as UTF-8.
 * quoted: Python 2's string as it is written in a program, with \n, \t, \r, \\, \', \" and \xHH. */
static Status push_text_line(PickleReader *r, bool quoted)
{
    static const char known[] = "nrt\\'\"", means[] = "\n\r\t\\'\"";
    PickleValue *value = NULL;
    const char  *text = NULL;
    char        *out;
    size_t       bytes = 0, used = 0;
    TRY(line(&text, &bytes, r));
    size_t       end = bytes - quoted;
    if (quoted && (bytes < 2 || (text[0] != '\'' && text[0] != '"') || text[end] != text[0]))
        return pickle_refuse(r, "a string without quotes");
    TRY(push_new(&value, r, PICKLE_TEXT));
    TRY(pickle_block(&out, r, 2 * bytes));
    for (size_t i = quoted ? 1 : 0; i < end; i++) {
        char        kind   = text[i] == '\\' && i + 1 < end ? text[i + 1] : 0;
        size_t      digits = quoted ? (kind == 'x' ? 2 : 0) : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
        const char *found  = quoted && kind ? memchr(known, kind, 6) : NULL;
        long        code   = digits ? hex(text + i + 2, end - i - 2, digits)
                           : found  ? means[found - known] : (unsigned char)text[i];
        if (quoted && (code < 0 || (text[i] == '\\' && !digits && !found)))
            return pickle_refuse(r, "a string with a broken escape");
        if (code < 0 || code > 0x10ffff) return pickle_refuse(r, "text with a broken \\u");
        if (quoted) out[used++] = (char)code;
        else        used += (size_t)utf8_encode((uint8_t *)out + used, (uint32_t)code);
        if (digits || found) i += 1 + digits;
    }
    value->text = out, value->bytes = used;
    return OK;
}

/* ---- names and calls ---- */

static Status global_lines(PickleValue **value, PickleReader *r)
{
    const char *module = NULL, *name = NULL;
    size_t      module_bytes = 0, name_bytes = 0;
    TRY(line(&module, &module_bytes, r));
    TRY(line(&name, &name_bytes, r));
    return pickle_global(value, r, module, module_bytes, name, name_bytes);
}

static Status push_stack_global(PickleReader *r)
{
    PickleValue *module = NULL, *name = NULL, *value = NULL;
    TRY(pop(&name, r));
    TRY(pop(&module, r));
    if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
        return pickle_refuse(r, "a class or function whose name is not text");
    TRY(pickle_global(&value, r, module->text, module->bytes, name->text, name->bytes));
    return push(r, value);
}

/* REDUCE and NEWOBJ; NEWOBJ_EX has arguments by name as well, which a record keeps as its dictionary. */
static Status call(PickleReader *r, bool by_name)
{
    PickleValue *function = NULL, *arguments = NULL, *named = NULL, *value = NULL;
    if (by_name) TRY(pop(&named, r));
    TRY(pop(&arguments, r));
    TRY(pop(&function, r));
    TRY(pickle_call(&value, r, function, arguments));
    if (named && named->kind == PICKLE_DICT && value->kind == PICKLE_RECORD) value->record->dict = named;
    return push(r, value);
}

/* OBJ has the class above the mark; INST has it in two lines. */
static Status call_marked(PickleReader *r, bool in_lines)
{
    PickleValue *function = NULL, *arguments = NULL, *value = NULL;
    size_t       from = 0;
    if (in_lines) TRY(global_lines(&function, r));
    TRY(mark_pop(&from, r));
    TRY(pickle_new(&arguments, r, PICKLE_TUPLE));
    if (!in_lines) {
        if (r->depth == from) return pickle_refuse(r, "an object without a class");
        function = r->stack[from];
        for (size_t i = from + 1; i < r->depth; i++) r->stack[i - 1] = r->stack[i];
        r->depth--;
    }
    TRY(items_take(arguments, r, from));
    TRY(pickle_call(&value, r, function, arguments));
    return push(r, value);
}

/* Values of omegaconf name the one that holds them, and so would contain themselves. */
static Status parent_leave(PickleReader *r, const PickleRecord *record, PickleValue *state)
{
    const PickleValue *name = record->name;
    bool omegaconf = name && name->kind == PICKLE_GLOBAL &&
                     words_have("omegaconf.*", name->module, name->module_bytes);
    if (!omegaconf || state->kind != PICKLE_DICT) return OK;
    TRY(pickle_spend(r, state->items));
    for (uint32_t i = 0; i < state->items; i += 2)
        if (pickle_is_text(state->item[i], "_parent"))
            TRY(pickle_new(&state->item[i + 1], r, PICKLE_NONE));
    return OK;
}

/* An OrderedDict's and a parameter's attributes are of no use here. */
static Status build(PickleReader *r)
{
    PickleValue *state = NULL, *object = NULL;
    TRY(pop(&state, r));
    TRY(top(&object, r));
    if (object->kind == PICKLE_RECORD) {
        TRY(parent_leave(r, object->record, state));
        object->record->state = state;
    }
    else if (object->kind != PICKLE_DICT && object->kind != PICKLE_LIST && object->kind != PICKLE_SET
             && object->kind != PICKLE_TENSOR)
        return pickle_refuse(r, "it sets the state of what has none");
    return OK;
}

/* ---- the opcodes ---- */

/* bytes: of a binary number; 0: it is a line */
static Status memo(PickleReader *r, bool put, int bytes)
{
    uint64_t index = 0;
    int64_t  value = 0;
    bool     truth;
    if (bytes) TRY(number(&index, r, bytes));
    else       TRY(decimal(&value, &truth, r));
    if (value < 0) return pickle_refuse(r, "a negative memo entry");
    index += (uint64_t)value;
    return put ? memo_put(r, index) : memo_get(r, index);
}

static Status push_binary(PickleReader *r, int bytes, bool with_sign)
{
    uint64_t value = 0;
    TRY(number(&value, r, bytes));
    return push_integer(r, PICKLE_INT, with_sign ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value);
}

/* Framing only groups bytes for their reader, but a frame beyond the end is damage. */
static Status frame(PickleReader *r)
{
    uint64_t bytes = 0;
    TRY(number(&bytes, r, 8));
    return bytes <= left(r) ? OK : pickle_refuse(r, "a frame of %llu bytes, %zu are left",
                                                 (unsigned long long)bytes, left(r));
}

static Status protocol(PickleReader *r)
{
    uint64_t version = 0;
    TRY(number(&version, r, 1));
    return version <= 5 ? OK
                        : pickle_refuse(r, "protocol %llu; 0 to 5 are read", (unsigned long long)version);
}

static Status opcode(PickleReader *r, uint8_t code)
{
    PickleValue *value = NULL;
    switch (code) {
    case 0x80: return protocol(r);
    case 0x95: return frame(r);
    case '(':  return mark_push(r);
    case '0':  if (r->depth == floor_of(r)) return mark_pop(&r->depth, r);     /* a mark on top is taken */
               return pop(&value, r);
    case '1':  return mark_pop(&r->depth, r);
    case '2':  TRY(top(&value, r)); return push(r, value);
    case 'N':  return push_collection(r, PICKLE_NONE, r->depth);
    case 0x88: return push_integer(r, PICKLE_BOOL, 1);
    case 0x89: return push_integer(r, PICKLE_BOOL, 0);
    case 'I': case 'L': return push_decimal(r);
    case 'J':  return push_binary(r, 4, true);
    case 'K':  return push_binary(r, 1, false);
    case 'M':  return push_binary(r, 2, false);
    case 0x8a: return push_long(r, 1);
    case 0x8b: return push_long(r, 4);
    case 'F':  return push_float(r, false);
    case 'G':  return push_float(r, true);
    case 'S':  return push_text_line(r, true);
    case 'V':  return push_text_line(r, false);
    case 'U': case 0x8c: return push_sized(r, PICKLE_TEXT, 1);
    case 'T': case 'X':  return push_sized(r, PICKLE_TEXT, 4);
    case 0x8d: return push_sized(r, PICKLE_TEXT, 8);
    case 'C':  return push_sized(r, PICKLE_BYTES, 1);
    case 'B':  return push_sized(r, PICKLE_BYTES, 4);
    case 0x8e: case 0x96: return push_sized(r, PICKLE_BYTES, 8);
    case 0x98: return top(&value, r);                                  /* READONLY_BUFFER changes no value */
    case ']':  return push_collection(r, PICKLE_LIST,  r->depth);
    case '}':  return push_collection(r, PICKLE_DICT,  r->depth);
    case ')':  return push_collection(r, PICKLE_TUPLE, r->depth);
    case 0x8f: return push_collection(r, PICKLE_SET,   r->depth);
    case 'l':  return marked(r, push_collection, PICKLE_LIST);
    case 'd':  return marked(r, push_collection, PICKLE_DICT);
    case 't':  return marked(r, push_collection, PICKLE_TUPLE);
    case 0x91: return marked(r, push_collection, PICKLE_SET);
    case 0x85: return push_tuple(r, 1);
    case 0x86: return push_tuple(r, 2);
    case 0x87: return push_tuple(r, 3);
    case 'a':  return append(r, PICKLE_LIST, r->depth ? r->depth - 1 : 0);
    case 's':  return append(r, PICKLE_DICT, r->depth > 1 ? r->depth - 2 : 0);
    case 'e':  return marked(r, append, PICKLE_LIST);
    case 'u':  return marked(r, append, PICKLE_DICT);
    case 0x90: return marked(r, append, PICKLE_SET);
    case 'c':  TRY(global_lines(&value, r)); return push(r, value);
    case 0x93: return push_stack_global(r);
    case 'R': case 0x81: return call(r, false);
    case 0x92: return call(r, true);
    case 'i':  return call_marked(r, true);
    case 'o':  return call_marked(r, false);
    case 'b':  return build(r);
    case 'Q':  TRY(pop(&value, r)); TRY(pickle_persistent(&value, r, value)); return push(r, value);
    case 'g':  return memo(r, false, 0);
    case 'p':  return memo(r, true, 0);
    case 'h':  return memo(r, false, 1);
    case 'q':  return memo(r, true, 1);
    case 'j':  return memo(r, false, 4);
    case 'r':  return memo(r, true, 4);
    case 0x94: return memo_put(r, r->memoized++);      /* protocols 4 and 5 set no entry but by this opcode */
    case 'P':  return pickle_refuse(r, "a persistent id as text, which no checkpoint has");
    case 0x97: return pickle_refuse(r, "a buffer outside the pickle");
    case 0x82:
    case 0x83:
    case 0x84:
        return pickle_refuse(r, "a class by a number of Python's extension registry");
    }
    return pickle_refuse(r, "byte 0x%02x is no opcode of protocols 0 to 5", code);
}

static Status run(PickleValue **root, PickleReader *r)
{
    const char *code = NULL;
    for (;;) {
        TRY(take(&code, r, 1));
        if (*code == '.') break;
        TRY(opcode(r, (uint8_t)*code));
    }
    if (r->depth != 1 || r->marks)
        return pickle_refuse(r, "it ends with %zu values instead of one", r->depth);
    *root = r->stack[0];
    return pickle_check(r, *root);
}

Status pickle_open(Pickle *p, const void *data, size_t size, const char *label)
{
    *p = (Pickle){ 0 };
    PickleReader r = { .in = reader_open(data, size, label, NULL), .memory = &p->memory,
                       .storage = &p->storages };
    Status       status = run(&p->root, &r);
    p->bytes = reader_offset(&r.in);
    free(r.stack);
    free(r.memo);
    free(r.mark);
    if (status != OK) pickle_close(p);
    return status;
}
