#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H
/* A conversion: the tensors to be written, and from which elements of the tensors of a ForeignFile each is
 * gathered. Any range of a tensor can be gathered alone, so that a window of bounded size is written at a
 * time and a rank reads its own part. */
#include <jansson.h>
#include "convert/foreign.h"
#include "convert/links.h"

/* Element i of the box of `size` is element first + i[0] stride[0] + ... of either tensor in row-major order.
 * The dims are sorted so that to_stride falls. */
typedef struct {
    const ForeignTensor *from;
    int     tensor;                        /* which one is written; copies are in the order of these */
    int64_t size[LINK_DIMS], to_first, to_stride[LINK_DIMS], from_first, from_stride[LINK_DIMS];
} PlanCopy;
/* kind: a weight or a moment. A moment is named <weight>.<state>. dtype: in which it is written, that of its
 * source unless the caller changes it; bytes: which it then takes. first, copies: of Plan.copy */
typedef struct {
    LinkTensor  as;
    ForeignKind kind;
    Dtype       dtype;
    int64_t     bytes;
    int         first, copies;
} PlanTensor;
typedef struct {
    PlanTensor *tensor;                    /* in the order of the links, a weight before its moments; owned */
    PlanCopy   *copy;                      /* owned */
    json_t     *by_name;                   /* index of each tensor; owned */
    int         tensors, copies;
    bool        states;                    /* each weight has its moments behind it */
    int         mtp_tensors;               /* of multi-token prediction, which are not read */
    const ForeignTensor *head_copy;        /* the head of a model that is tied; NULL: `from` has none */
} Plan;

typedef enum { TO_OURS, TO_THEIRS } PlanDirection;
/* What is said of Plan.mtp_tensors, behind the path. */
#define PLAN_MTP_LEFT "its layers of multi-token prediction are left out, as transformers leaves them out"

/* What a conversion does: the naming of the foreign side, and whether the head is tied. TO_THEIRS: layers of
 * our checkpoint from `layers` on are left out, those of multi-token prediction. states, only TO_OURS: with
 * both moments of each weight, and weights from the optimizer's copy of them where there is one. */
typedef struct {
    const Links *links;
    Naming  naming;
    PlanDirection direction;
    bool    tied;
    int64_t layers;
    bool    states;
} PlanRules;

/* Finds each link's source in `from`. BAD_SHAPE, naming the tensor, where one is missing or has another
 * shape, or where `from` has a weight that the model does not (optimizer states that are not asked for
 * are ignored). `from` must outlive the plan. */
Status plan_make(Plan *plan, const PlanRules *rules, const ForeignFile *from);
void   plan_free(Plan *plan);
void   plan_type(PlanTensor *tensor, Dtype dtype);             /* sets its bytes too */
/* Weights get this type, but for those that keep their own. */
void   plan_cast(Plan *plan, Dtype dtype);
/* Compares the checksums of what the tensor is gathered from, as foreign_verify does. */
Status plan_verify(const Plan *plan, const ForeignFile *from, const PlanTensor *tensor, int64_t part,
                   int64_t parts);
/* BAD_FILE where the head of a tied model is in the file as well and has other values than the embedding:
 * transformers then reads it as a head of its own. Of `parts` callers each compares its part, by windows. */
Status plan_check_tied(const Plan *plan, ForeignFile *from, int64_t part, int64_t parts);
/* NULL: there is none. */
const PlanTensor *plan_find(const Plan *plan, const char *name);
int64_t plan_count(const PlanTensor *tensor);                                      /* elements */
/* Whether the copy is the whole tensor that is written, in the order of its source: its element i is element
 * copy->from_first + i of the source. */
bool    plan_copy_in_order(const PlanTensor *tensor, const PlanCopy *copy);
/* Whether the copy may have elements in [first, first + count) of the tensor that is written. */
bool    plan_copy_reaches(const PlanCopy *copy, int64_t first, int64_t count);
/* Elements [first, first + count) of the tensor in row-major order into `to`, in the type dtype. */
void   plan_gather(const Plan *plan, const PlanTensor *tensor, int64_t first, int64_t count, void *to,
                   Dtype dtype);
#endif
