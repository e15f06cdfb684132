#ifndef COMM_HOST_DATA_H
#define COMM_HOST_DATA_H
/* What comm/host_data.c and comm/host_sum.c share: the state of a call on the host. No other file includes
 * it. */
#include "base/team.h"
#include "comm/data_transport.h"
#include "comm/sum_order.h"

/* SUM_GROUP_MAX bounds the members of an inner group, and so the messages of one round. SUM_ARRIVALS: groups'
 * sums whose receives are posted at the same time. */
enum { SUM_GROUP_MAX = 128, SUM_ARRIVALS = 8 };
enum { TAG_DATA = TAG_CONTROL + 1, TAG_SUM };         /* TAG_SUM and above: a reduction in flight has one */

struct DataGroup {
    Transport *control;
    Group     *group;
    SumOrder   order;
};

/* A set of requests that are waited for together. */
typedef struct { int count, request[3 * SUM_GROUP_MAX + 2]; } Requests;

/* A reduction in flight: see comm/host_sum.c for what a round is. */
typedef struct {
    bool       used, done;
    DataCall   call;
    DataGroup *group;
    int        tag;
    int64_t    count, part, width;                    /* elements: all, of the largest part; bytes of one */
    int64_t    elements;                              /* of a window */
    long       rounds, posted, summed;                /* in all; begun; whose sums are computed */
    bool       added;                                 /* round `summed` too, but not the end of its window */
    int        repeats;                               /* rounds of a group for each other group */
    Requests   inner[2];                              /* contributions, of even and odd rounds */
    Requests   outer[2];                              /* groups' sums sent, of even and odd rounds */
    int        arrival[SUM_ARRIVALS];                 /* receives of groups' sums, a ring */
    long       arrivals_posted, arrivals_taken;
    char      *rows[2], *sums[2], *arrived;           /* the window: contributions, own sums, groups' sums */
    /* The second half of an all-reduce: groups whose parts are here; those of the next have come to their
     * collectors. */
    int        gathered;
    bool       crossed;
    Requests   gather;
} HostSum;

/* Starts the reduction; advances it as far as it goes without waiting, and returns whether anything moved.
 * The sums are operations of `queue`. */
void host_sum_begin  (HostSum *sum, DataGroup *group, const DataCall *call);
bool host_sum_advance(HostSum *sum, Queue *queue);
/* A request of this rank that the reduction waits for; -1: none. */
int  host_sum_awaits (const HostSum *sum);
/* As `window` and `payload` of DataTransport. */
size_t  host_sum_window (const DataGroup *group, Dtype dtype, int64_t part);
int64_t host_sum_payload(const DataGroup *group, const DataCall *call);
/* What the dry run does instead: counts the sums on the call's queue. */
void host_sum_count(const DataGroup *group, const DataCall *call);
#endif
