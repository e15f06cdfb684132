#ifndef COMM_AGREE_H
#define COMM_AGREE_H
/* All ranks go on or all stop:   TRY(agree(world, checkpoint_save(...)));
 * Between two agreements no rank returns early from a function with a collective in it. */
#include "comm/comm.h"

/* Collective. OK where all were OK; otherwise the lowest failing rank's status, and its message (with rank and host) is
 * fail_text() everywhere. */
Status agree(Comm *world, Status mine);
/* Collective. BAD_FILE where the ranks' values differ, as in "the step found in --load". */
Status agree_on(Comm *world, int64_t mine, const char *what);
/* Collective. agree() before the run has a world of its own: over one that is opened for it and closed again. */
Status agree_at_start(Transport *transport, Status mine);
#endif
