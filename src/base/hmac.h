#ifndef BASE_HMAC_H
#define BASE_HMAC_H
/* HMAC-SHA256 (RFC 2104 and FIPS 180-4): proves that its maker knows a secret, without showing it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HMAC_BYTES = 32 };
/* Of the two parts, one behind the other. A key may have any length. */
void hmac_sha256(uint8_t out[HMAC_BYTES], const void *key, size_t key_bytes, const void *first,
                 size_t first_bytes, const void *second, size_t second_bytes);
/* In a time that does not depend on where they differ, so that a wrong proof cannot be improved byte by
 * byte. */
bool hmac_equal(const uint8_t a[HMAC_BYTES], const uint8_t b[HMAC_BYTES]);
#endif
