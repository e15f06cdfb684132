#ifndef DATA_MOCK_TOKENS_H
#define DATA_MOCK_TOKENS_H
/* Tokens that are computed instead of read, for runs without data (--mock-data): documents of equal length in
 * which each id follows the one before it, from another first id in each document. */
#include <stdint.h>

enum { MOCK_DOCUMENTS = 1 << 17, MOCK_LENGTH = 1024 };
/* Token `at` of all documents: below `vocabulary`; the last one of a document is `eod`, which occurs nowhere
 * else; eod -1: there is none. */
int32_t mock_token(int64_t vocabulary, int32_t eod, int64_t at);
#endif
