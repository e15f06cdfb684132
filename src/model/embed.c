#include "model/rooms.h"
/*  t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels   V vocabulary rows held by this rank  */

static uint64_t embed_site(const Run *run) { return (uint64_t)(SITES * run->shape->layers); }

static int64_t first_word(const Run *run)
{
    return comm_rank(run->tp.comm) * shape_vocabulary_held(run->shape, comm_size(run->tp.comm));
}

/* y = drop(word[id] + position[p]):  a rank adds the words it holds, the sum over tp is the row */
void embed_unit_forward(const Run *run, Tensor y_tC, const UnitParam *w)
{
    Queue *q = run->queue;
    Tensor id_T = run->batch->token_i, position_PC = unit_param(w, "embed.position.weight");
    Tensor e_TC = scratch_new(run, "embedding", id_T.dim[0], run->shape->hidden);
    embed_forward(q, (EmbedForward){ .y_TC = e_TC, .id_i = id_T, .table_VC = unit_param(w, "embed.token.weight"), .first = first_word(run) });
    Tensor e_tC = tp_leave_forward(&run->tp, e_TC);                           /* <-> tp: all-reduce | reduce-scatter */
    if (tensor_present(position_PC))
        embed_forward(q, (EmbedForward){ .y_TC = e_tC, .id_i = tp_rows(&run->tp, run->batch->position_i), .table_VC = position_PC, .add = true });
    dropout_forward(q, (DropoutForward){ .y_TC = y_tC, .residual_TC = tensor_none(), .x_TC = e_tC, .bias_C = tensor_none(),
        .place_i = tp_rows(&run->tp, run->batch->place_i), .p = run_dropout(run, run->shape->hidden_dropout), .site = embed_site(run) });
}

void embed_unit_backward_input(const Run *run, EmbedSave *save, Tensor dy_tC)
{
    save->dy = keep_new(run, "embedding gradient", dy_tC.dim[0], dy_tC.dim[1]);
    dropout_backward(run->queue, (DropoutBackward){ .dx_TC = save->dy, .dy_TC = dy_tC, .place_i = tp_rows(&run->tp, run->batch->place_i),
        .p = run_dropout(run, run->shape->hidden_dropout), .site = embed_site(run) });
}

/* dposition[p] += dy,  dword[id] += dy of all rows */
void embed_unit_backward_weight(const Run *run, const UnitParam *dw, const EmbedSave *save)
{
    Queue *q = run->queue;
    Tensor dposition_PC = unit_param(dw, "embed.position.weight");
    if (tensor_present(dposition_PC))
        embed_backward(q, (EmbedBackward){ .dtable_VC = dposition_PC, .id_i = tp_rows(&run->tp, run->batch->position_i), .dy_TC = save->dy });
    Tensor dy_TC = tp_leave_backward(&run->tp, save->dy, run->scratch);       /* <-> tp: - | all-gather */
    embed_backward(q, (EmbedBackward){ .dtable_VC = unit_param(dw, "embed.token.weight"), .id_i = run->batch->token_i, .dy_TC = dy_TC, .first = first_word(run) });
}
