#ifndef LOGS_CHECKSUM_H
#define LOGS_CHECKSUM_H
/* The checksums of log files: CRC-32 of zlib and CRC-32C (Castagnoli), both of 32 bits, reflected. */
#include <stddef.h>
#include <stdint.h>

/* crc: of the bytes before these; 0 for none. */
uint32_t crc32_zlib      (uint32_t crc, const void *data, size_t bytes);
uint32_t crc32_castagnoli(uint32_t crc, const void *data, size_t bytes);
/* As TFRecord files store a CRC-32C: rotated and shifted, so that the checksum of bytes which contain
 * checksums is sound. */
uint32_t crc32_masked(const void *data, size_t bytes);
#endif
