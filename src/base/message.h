#ifndef BASE_MESSAGE_H
#define BASE_MESSAGE_H
/* Texts that are put together in an array of fixed size, as for a message: `out` holds `size` bytes and a
 * text that ends with NUL. What is not said to write from the beginning appends. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What does not fit is cut; then false. */
bool message_add (char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* An item of a list: `between`, usually ", ", which the first item lacks, and then the item. One that does
 * not fit whole is left out; then false. */
bool message_item(char *out, size_t size, const char *between, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same: item `at` of a list of `count`, "a, b or c". */
bool message_choice(char *out, size_t size, int at, int count, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The multiples of `unit` on either side of `value`: "8 or 12". This and the next one write from the
 * beginning. */
const char *message_multiples(char *out, size_t size, int64_t value, int64_t unit);
/* The sizes of a tensor: "[2, 3]". Returns out. */
const char *message_shape(char *out, size_t size, const int64_t *dim, int dims);
#endif
