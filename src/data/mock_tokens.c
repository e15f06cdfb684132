/* Made tokens. */
#include "data/mock_tokens.h"

/* A prime, so that documents begin with all ids in turn. */
enum { STRIDE = 7919 };

int32_t mock_token(int64_t vocabulary, int32_t eod, int64_t at)
{
    int64_t document = at / MOCK_LENGTH, i = at % MOCK_LENGTH, ids = vocabulary - (eod >= 0);
    if (eod >= 0 && (i == MOCK_LENGTH - 1 || ids == 0)) return eod;
    int64_t id = (document * STRIDE + i) % ids;
    return (int32_t)(eod >= 0 && id >= eod ? id + 1 : id);
}
