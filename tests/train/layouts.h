#ifndef TESTS_TRAIN_LAYOUTS_H
#define TESTS_TRAIN_LAYOUTS_H
/* The layouts that are held against one rank. */
#include "train/harness.h"

static const Layout layouts[] = {
    /* name                  ranks tp cp pp chunks zero sequence schedule */
    { "dp2",                     2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero1",               4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp4 zero2",               4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "dp4 zero3",               4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "tp2",                     2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 sequence",            2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "pp2 1f1b",                2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },
    { "pp4 zb-h1",               4, 1, 1, 4, 1, 0, false, SCHEDULE_ZB_H1 },
    { "pp2 interleaved",         2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED },
    { "cp2",                     2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "cp4",                     4, 1, 4, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 dp2 zero1",   8, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },
    { "tp2 cp2 pp2 interleaved", 8, 2, 2, 2, 2, 0, true,  SCHEDULE_INTERLEAVED },
    { "pp2 zb-h1 dp2 zero3 cp2", 8, 1, 2, 2, 1, 3, false, SCHEDULE_ZB_H1 },
    { "tp2 seq cp2 dp2 zero3",   8, 2, 2, 1, 1, 3, true,  SCHEDULE_1F1B },
    { "one rank, two chunks",    1, 1, 1, 1, 2, 0, false, SCHEDULE_INTERLEAVED },
    { "dp4 zero1 hybrid2",       4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "dp4 zero2 hybrid2",       4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "dp2 cp4 zero3 hybrid4",   8, 1, 4, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 4 },
    { "tp2 seq pp2 dp2 zero3 hybrid1", 8, 2, 1, 2, 1, 3, true, SCHEDULE_ZB_H1, .hybrid = 1 },
    /* more tensor-parallel ranks than llama has key-value heads */
    { "tp4 zero2 dp2",           8, 4, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "tp4 sequence",            4, 4, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "tp2 pp2 dp2 zero1 in order tp-pp-dp", 8, 2, 1, 2, 1, 1, false, SCHEDULE_1F1B, .order = MESH_TP_PP_DP },
    { "pp4 gpipe",               4, 1, 1, 4, 1, 0, false, SCHEDULE_GPIPE },
    { "pp2 zb-v",                2, 1, 1, 2, 2, 0, false, SCHEDULE_ZB_V },
    { "tp2 seq pp2 zb-v zero2",  8, 2, 1, 2, 2, 2, true,  SCHEDULE_ZB_V },
    { "pp3 zb-v by hand",        3, 1, 1, 3, 2, 0, false, SCHEDULE_ZB_V, .layers = "E|t|t|t|t|L" },
    { "pp2 dp2 zero3 embedding alone", 4, 1, 1, 2, 1, 3, false, SCHEDULE_1F1B, .layers = "E|ttttL" },
    { "pp2 groups of 3",         2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED, .group = 3 },
    { "pp3 1f1b extra uneven",   3, 1, 1, 3, 1, 0, false, SCHEDULE_1F1B, .extra = 1 },
    { "cp2 ulysses",             2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B, .ulysses = 2 },
    { "cp4 ulysses zero2",       4, 1, 4, 1, 1, 2, false, SCHEDULE_1F1B, .ulysses = 4 },
    { "cp4 ulysses2 ring2",      4, 1, 4, 1, 1, 1, false, SCHEDULE_1F1B, .ulysses = 2 },
    { "cp4 gather zero3",        4, 1, 4, 1, 1, 3, false, SCHEDULE_1F1B, .gather = 1 },
    { "tp2 seq cp2 pp2 ulysses zero3", 8, 2, 2, 2, 1, 3, true, SCHEDULE_ZB_H1, .ulysses = 2 },
    { "cp4 pp2 ulysses2 ring2 interleaved", 8, 1, 4, 2, 2, 0, false, SCHEDULE_INTERLEAVED, .ulysses = 2 },
    { "tp2 cp2 dp2 gather zero1", 8, 2, 2, 1, 1, 1, false, SCHEDULE_1F1B, .gather = 1 },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };
#endif
