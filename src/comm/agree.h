#ifndef COMM_AGREE_H
#define COMM_AGREE_H
/* Agreement on errors, so that all ranks continue or all stop:   TRY(agree(world, checkpoint_save(...)));
 * A rank that returned alone would leave the others waiting in their next collective. Therefore no rank
 * returns early, between two agreements, from a function that contains a collective. */
#include "comm/comm.h"

/* Collective over world: one all-gather of 4 bytes, and only after a failure a broadcast and a second one. OK
 * where `mine` is OK on all ranks. Otherwise every rank gets the status of the lowest failing rank, and
 * fail_text() is its message, preceded by its rank and host unless all ranks failed alike. In a dry run
 * and on one rank it returns `mine`. */
Status agree(Comm *world, Status mine);
/* Collective over world. BAD_FILE where `mine` is not the same on all ranks; `what` names the value in
 * the message. */
Status agree_on(Comm *world, int64_t mine, const char *what);
/* Collective over world: the bits that are set on all ranks. An all-gather of 8 bytes. */
uint64_t agree_bits(Comm *world, uint64_t mine);
/* Collective over world. BAD_OPTION where the text is not rank 0's on all ranks; the message shows the first
 * line that differs, and what to do. What follows AGREE_SHOWN in a line is shown and not compared: where a
 * value comes from. An all-gather of 8 bytes; rank 0's text is sent only after a difference. */
#define AGREE_SHOWN '\x1f'
Status agree_on_text(Comm *world, const char *mine, const char *what_to_do);
/* Collective. agree() and agree_on_text() before the run has a world communicator: over one that is opened
 * for it and closed again. */
Status agree_at_start(Transport *transport, Status mine);
Status agree_on_text_at_start(Transport *transport, const char *mine, const char *what_to_do);
#endif
