#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H
/* Generation under every layout: continues prompts token by token, with the keys and values of earlier
 * positions cached (KvCaches in model/unit.h), so that each new token costs one forward of one position.
 *
 *  tp   each rank caches its key-value heads; the logits, sharded over the vocabulary, are gathered
 *  pp   micro-batches go by the rows of a FORWARD schedule; the stage with the head draws
 *  dp   each data rank continues prompts of its own; all run the same number of forwards, so that ZeRO 3 can
 *       gather weights
 *  cp   the prompts are distributed as sequences are in training, and each rank caches the keys of its
 *       positions; later positions are computed by all cp ranks, each over the keys that it has
 *
 * A round continues as many prompts as there are rows: data ranks x micro-batches x rows of a micro-batch. It
 * begins with a forward of all positions of the prompts, where shorter prompts are followed by padding; each
 * later forward is of one position of each row. Rows without a prompt, or whose text has ended, are
 * computed and ignored. No row sees another one or padding, so a prompt is continued as it is alone.
 *
 * Under sequence parallelism the first forward is padded until tp divides its rows. A forward of one position
 * is sequence-parallel only where tp divides the rows of a micro-batch; it has the same result either way. */
#include "generate/generation.h"

/* Continues each prompt until `end` or until it has its `most` new tokens. No prompt is longer than a
 * sequence of the executor's batches. Collective over all ranks, which give the same prompts. Logits that are
 * not finite are a CHECK, unless `goes_on`: the weights are broken. In a dry run: one forward of as many
 * positions as the widest round begins with, and one of a position. <-> tp, cp, pp, data */
void generate(const Generation *g, const Prompt *prompt, int64_t prompts);
#endif
