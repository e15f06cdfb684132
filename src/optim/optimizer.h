#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
/* Optimizers. One is a row: the rules that update the matrices of transformer layers, embeddings and the
 * head, and vectors. A rule is one row too: its states (optim/state.h), the smallest range of a parameter
 * that it can update alone, its granule, at whose ends ZeRO cuts, and its functions. Formulas of the updates
 * are those of their operations in tensor/ops.def.
 *
 * An update begins with `begin`, for each piece alone: states; a rule without phases updates the weights here
 * and has no more. Then come up to two phases, each of
 *     measure    sums over whole logical tensors, such as norms: each rank adds what it counts, and the sums
 *                of all tensors of a rank cross in one message              <-> stage: all-reduce
 *     finish     for all pieces of a rule, with these sums
 * What changes with the step (learning rate, weight decay, gradient factor, skip, number of updates) is read
 * from the queue's StepState. Nothing is allocated but on the scratch arena. */
#include "comm/comm.h"
#include "optim/state.h"

/* What is chosen of Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks";
 * Liu et al. 2025, arXiv 2502.16982). */
/* Of a matrix of R rows and C columns: sqrt(max(R, C)), sqrt(R / C), sqrt(max(1, R / C)) */
typedef enum { MUON_SPECTRAL, MUON_UNIT_RMS, MUON_SHAPE } MuonScale;
/* The polynomials a x + b x^3 + c x^5 of the iterations: one for all, of Jordan et al., or five */
typedef enum { MUON_SIMPLE, MUON_QUINTIC } MuonCoefficients;
typedef struct {
    double momentum;
    bool   nesterov;
    int    steps;                      /* Newton-Schulz iterations */
    MuonScale scale;
    double extra;                      /* a further factor of the scale */
    MuonCoefficients coefficients;
    bool   narrow;                     /* iterations in BF16, but on the back end of double */
} MuonSettings;

typedef struct {
    double beta1, beta2, epsilon;      /* of AdamW, ADOPT and LAMB */
    bool   coupled;                    /* of Adam and ADOPT: weight decay is part of the gradient (L2) */
    bool   uncorrected;                /* epsilon of AdamW is added before the second moment's correction */
    bool   stochastic;                 /* states narrower than the compute type are rounded at random */
    double momentum;                   /* of SGD */
    bool   nesterov;
    double sophia_rho;
    int64_t estimate_interval;         /* updates from one of Sophia's estimates to the next */
    double lion_beta1, lion_beta2;     /* of the step, of the momentum that is kept */
    double least_ratio, most_ratio;    /* bounds of LAMB's trust ratio */
    struct {
        double decay_rate;             /* of second moments: 1 - t^-decay_rate */
        double clip;                   /* largest root mean square of a direction */
        double epsilon1, epsilon2;     /* least second moment's root; least root mean square of weights */
    } adafactor;
    MuonSettings muon;
    StateSizes   sizes;                /* of GaLore, Shampoo and SOAP */
    int64_t      renewal;              /* updates from one subspace, or basis, or pair of roots to the next */
    double       galore_scale;         /* of what is projected back */
    double       shampoo_epsilon;      /* added to eigenvalues */
    double       gram_beta;            /* of SOAP's means of products */
    OnebitBounds onebit;               /* of 1-bit LAMB, besides those of the trust ratio */
    int64_t      freeze;               /* its updates before momenta are sent as signs */
} OptimizerSettings;

enum { UPDATE_PHASES = 2 };

/* The part of one parameter that this rank updates. Tensors are 1-dim and hold the same elements. A parameter
 * is one matrix, or one for each expert; a vector is one matrix with columns of 1. */
typedef struct OptimizerPiece {
    const struct UpdateRule *rule;
    Tensor   w, param;                 /* the master weights; their copy in the parameters' type, absent where
                                        * the master weights are the parameters */
    Tensor   g;                        /* sum over tokens, to be multiplied by StepState.factor; a rule with
                                        * phases writes its direction over it */
    Tensor   state[OPTIMIZER_STATES];  /* what this rank holds of each (state_held), 1-dim */
    bool     decayed;                  /* weight decay applies to this parameter */
    bool     decoupled;                /* it has StepState's decoupled_lr */
    uint64_t site;                     /* of stochastic rounding: one for each parameter */
    ElementPlace place;
    /* elements of the rank's part of the parameter; of them, those that this rank counts in sums over ranks:
     * of all copies of an element one is counted */
    int64_t  first, count, counted_first, counted;
    /* of a matrix: of the logical tensor, and stored here; the first of the matrices that are stored here */
    int64_t  rows, columns, local_rows, local_columns, first_matrix;
    int64_t  row0, column0;            /* where the part begins in the matrix */
    int64_t  matrices;                 /* of the logical tensor */
    int64_t  block_rows;               /* of the blocks of state.h */
    Comm    *cut;                      /* the ranks that have its other parts; NULL: it is whole here */
    int      parts;                    /* different parts over these ranks, in their order */
    bool     saves;                    /* Param.saves */
    /* of each phase: where the parameter's sums begin in OptimizerRun.sums_N, and how many a matrix has */
    int64_t  sums_at[UPDATE_PHASES], sums[UPDATE_PHASES];
} OptimizerPiece;

/* The pieces first .. end - 1, of one bucket, whose momenta its data-parallel ranks, the workers, sum by a
 * compressed all-reduce (optim/onebit.c). */
typedef struct {
    Comm   *workers;
    ParamFamily family;
    int     first, end;
    bool    counts;                    /* in norms of the model: of copies one does */
    Tensor  error_N, summed_N;         /* the workers' states of all its pieces, one after the other */
    int64_t *at;                       /* [workers + 1] where the bytes of signs for each begin; not owned */
} CompressedPieces;

/* What a compressed all-reduce of momenta needs of the run. Sums are for each worker of each family, and one
 * for each family: in F64 of this rank, and over the world in the compute type; `most`: a number for each
 * matrix of the stage. */
typedef struct {
    Comm   *world;
    CompressedPieces *of;              /* [count] */
    int     count;
    double  elements[PARAM_FAMILIES];  /* of the whole model */
    double  tensors;                   /* logical matrices and vectors of the whole model */
    Tensor  own_W, sums_W, most_M;
} CompressedAllReduce;

/* What a run does now and then: one that ends before, or begins after, has not used the memory of it. From
 * WORK_UPDATE on it is that of whole matrices: an update that is not skipped, its first one, those after a
 * beginning of their own, and those that renew something. */
typedef enum { WORK_STEP = 1, WORK_EVALUATION = 2, WORK_SAMPLES = 4, WORK_UPDATE = 8, WORK_FIRST = 16,
               WORK_LATER = 32, WORK_RENEWAL = 64, WORK_ALL = 127 } Work;

/* What a rank's updates need; the trainer fills it once. */
typedef struct {
    Queue  *queue;
    const struct Optimizer  *optimizer;
    const OptimizerSettings *settings;
    Comm   *stage;                     /* the ranks of a pipeline stage; NULL where no rule measures */
    Arena  *scratch;
    OptimizerPiece *piece;             /* [pieces], in one order on all ranks that have parts of a matrix */
    int     pieces;
    /* all sums of the stage in a phase: of this rank, F64; over the ranks, in the compute type. As many as
     * the phase with the most of them has; absent if no rule has any */
    Tensor  own_sums_N, sums_N;
    int64_t sums[UPDATE_PHASES];
    StateSizes sizes;                  /* those of the settings, with the workers of this run */
    CompressedAllReduce compressed;    /* of rules that have one */
    unsigned *work;                    /* bits of Work: done; of a dry run: to be measured. NULL: not wanted,
                                        * and a dry run measures all */
} OptimizerRun;

typedef struct UpdateRule UpdateRule;
/* Adds to out_N [sums] what elements first .. first + count - 1 of the piece, of one matrix, add. */
typedef void OptimizerMeasure(const OptimizerRun *run, const OptimizerPiece *piece, int64_t first,
                              int64_t count, Tensor out_N);
typedef struct {
    /* numbers of `measure` for each matrix; NULL: the rule has nothing to measure in this phase */
    int64_t (*sums)   (const Param *param);
    OptimizerMeasure *measure;
    /* For all pieces of the run that have this rule. May communicate over their `cut`. NULL: nothing. */
    void    (*finish) (const OptimizerRun *run, const UpdateRule *rule);
} UpdatePhase;

struct UpdateRule {
    int     states;                                    /* tensors of state for each parameter */
    OptimizerState state[OPTIMIZER_STATES];
    const UpdateRule *states_as;             /* a rule whose states mean the same; NULL: its own alone do */
    int64_t (*granule)(const Param *param);  /* in elements of the part stored here; NULL: 1 */
    bool    whole;                           /* takes whole matrices on scratch (optim/muon.c) */
    /* About how many elements `update` takes on scratch for a matrix, by which the ranks are compared that
     * may need the most memory; NULL: none. */
    int64_t (*scratch)(const Param *param, const StateSizes *sizes);
    /* The states of a new run that are not 0, from the weights; NULL: all are 0. */
    void  (*start)(Queue *q, const OptimizerPiece *piece);
    /* Of rules whose parameters are not the rounded weights, else NULL: writes them, or with `average` the
     * weights, which are evaluated. */
    void  (*parameters)(Queue *q, const OptimizerSettings *settings, const OptimizerPiece *piece,
                        bool average);
    /* Takes the gradient of targets that the model has drawn, of so many tokens, every estimate_interval-th
     * update before the others; NULL: the rule needs none. */
    void  (*estimate)(Queue *q, const OptimizerSettings *settings, const OptimizerPiece *piece,
                      Tensor tokens_1);
    int     phases;
    /* Whether gradients are those of the rank's own data from now on, and momenta are summed by a compressed
     * all-reduce; NULL: gradients are sums over data-parallel ranks. Then the update of all pieces of the
     * run, which all have this rule, in the place of begin and phases. <-> world workers stage */
    bool  (*compresses)(const OptimizerSettings *settings, int64_t updates);
    void  (*compressed)(OptimizerRun *run);
    /* In the place of begin, of a rule without phases that takes scratch or communicates over the `cut` of a
     * piece; else NULL. <-> cut */
    void  (*update)(const OptimizerRun *run, const OptimizerPiece *piece);
    void  (*begin)(Queue *q, const OptimizerSettings *settings, const OptimizerPiece *piece);
    bool    elementwise;                     /* `begin` may take neighbours as one, unless it draws numbers */
    UpdatePhase phase[UPDATE_PHASES];
};

typedef struct Optimizer {
    const char *name;                                  /* the value of --optimizer */
    const UpdateRule *matrices;                        /* of transformer layers */
    const UpdateRule *tables;                          /* embeddings and the head */
    const UpdateRule *vectors;
} Optimizer;

/* The row of that name, which is static; NULL when there is none. */
const Optimizer  *optimizer_named(const char *name);
const UpdateRule *optimizer_rule (const Optimizer *optimizer, const Param *param);
/* That of the rule of each parameter; valid as long as the optimizer. */
ParamGranule optimizer_granule(const Optimizer *optimizer);
/* Whether both keep the same states of all parameters, so that one may continue the other's run. */
bool    optimizers_share_states(const char *a, const char *b);
/* Whether weights are averages over the run, apart from the parameters that are updated. All its rules are
 * then alike. */
bool    optimizer_averages(const Optimizer *optimizer);
/* The matrices of which a piece has elements, one after the other: `number` in the logical tensor, `count`
 * elements from element `at` of the piece on, which are those from `first` of the matrix's part here. zero
 * before the first; false: there are no more. */
typedef struct { int64_t number, at, count, first; } PieceMatrix;
bool    piece_next(const OptimizerPiece *piece, PieceMatrix *matrix);
/* What a piece has of a matrix in one of its tensors; none where the tensor is absent. */
Tensor  piece_part(Tensor x_N, const PieceMatrix *matrix);
/* The place of such a part, for stochastic rounding. */
ElementPlace piece_place(const OptimizerPiece *piece, const PieceMatrix *matrix);
/* Of a whole state the numbers of one matrix. */
Tensor  piece_numbers(const OptimizerPiece *piece, int state, const PieceMatrix *matrix);
/* The number of the state of matrices that has this shape; -1: none. */
int     optimizer_state_of(const Optimizer *optimizer, StateShape shape);
/* Whether its rules may keep gradients on their data-parallel ranks; do so after so many updates. */
bool    optimizer_compresses(const Optimizer *optimizer);
bool    optimizer_compresses_now(const Optimizer *optimizer, const OptimizerSettings *settings,
                                int64_t updates);
/* Sums over the stage for a phase, by `measure`. <-> stage: all-reduce */
void    optimizer_measure(OptimizerRun *run, int phase, OptimizerMeasure *measure);
/* Whether its rules take gradients of drawn targets. */
bool    optimizer_estimates(const Optimizer *optimizer);
/* The most phases of its rules; the sums of a parameter in one, of all its matrices. */
int     optimizer_phases(const Optimizer *optimizer);
int64_t optimizer_sums  (const Optimizer *optimizer, const Param *param, int phase);
/* The sums of one matrix: number `matrix` of the logical tensor. */
Tensor  piece_sums(Tensor sums_N, const OptimizerPiece *piece, int phase, int64_t matrix);
/* A step is the first, and then the second for all pieces, so that what is updated can be sent while the
 * rest is. They update weights, states and parameters in place; where StepState.skip is set these stay as
 * they are. Gradients are overwritten. */
/* All pieces whose rules have phases. <-> stage; cut, where a rule needs it */
void    optimizer_tensors (OptimizerRun *run);
/* Of the pieces first .. end - 1 those whose rules have none. */
void    optimizer_elements(OptimizerRun *run, int first, int end);

/* What the average of weights has been made of: the sum of squares of the largest learning rates so far, one
 * for each update. */
typedef struct { double sum, largest; } AverageWeights;
/* The next one, and the share of the step with this learning rate in the average. */
AverageWeights average_next(double *share, AverageWeights now, double lr);

extern const UpdateRule adam_rule;
extern const UpdateRule lamb_rule, muon_rule;          /* optim/lamb.c, optim/muon.c */
extern const UpdateRule adafactor_matrix_rule, adafactor_vector_rule;            /* optim/adafactor.c */
extern const UpdateRule onebit_rule;                                             /* optim/onebit.c */
extern const UpdateRule sophia_rule;                                             /* optim/sophia.c */
extern const UpdateRule adam_mini_rule;                                          /* optim/adam_mini.c */
extern const UpdateRule adam8bit_rule;                                           /* optim/adam8bit.c */
extern const UpdateRule galore_rule, galore8bit_rule, galore_others_rule;        /* optim/galore.c */
extern const UpdateRule shampoo_rule, soap_rule;       /* optim/shampoo.c, optim/soap.c */
extern const UpdateRule adamw_free_rule, sgd_free_rule;                          /* optim/schedule_free.c */
#endif
