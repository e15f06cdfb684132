#include "model/unit.h"
#include "model/rooms.h"

void unit_forward(const Run *run, int64_t unit, Flow y, const UnitParam *w, UnitSave *save, Flow x)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_forward(run, y.t[0], w); break;
    case UNIT_BLOCK: block_forward(run, unit - 1, y.t[0], w, &save->block, x.t[0]); break;
    case UNIT_HEAD:  head_forward(run, w, &save->head, x.t[0]); break;
    }
}

void unit_backward_input(const Run *run, int64_t unit, Flow dx, const UnitParam *w, UnitSave *save, Flow dy)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_backward_input(run, &save->embed, dy.t[0]); break;
    case UNIT_BLOCK: block_backward_input(run, unit - 1, dx.t[0], w, &save->block, dy.t[0]); break;
    case UNIT_HEAD:  head_backward_input(run, dx.t[0], w, &save->head); break;
    }
}

void unit_backward_weight(const Run *run, int64_t unit, const UnitParam *dw, UnitSave *save)
{
    switch (shape_unit(run->shape, unit)) {
    case UNIT_EMBED: embed_unit_backward_weight(run, dw, &save->embed); break;
    case UNIT_BLOCK: block_backward_weight(run, dw, &save->block); break;
    case UNIT_HEAD:  head_backward_weight(run, dw, &save->head); break;
    }
}
