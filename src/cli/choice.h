#ifndef CLI_CHOICE_H
#define CLI_CHOICE_H
/* The words of a choice as the values of a module's enum, by rows:
 *     static CHOICE_AS( OrderKind, order_kind, data_order,
 *         TO( CHOICE_data_order_jotun, ORDER_JOTUN )
 *         TO( CHOICE_data_order_forks, ORDER_FORKS ) )
 * makes `static OrderKind order_kind(const Options *o)`. The compiler refuses a word that has no row. */
#include "conf/options.h"

#define TO(choice, kind) case choice: return kind;
#define CHOICE_AS(type, name, option, rows)                                  \
    type name(const Options *o)                                              \
    {                                                                        \
        switch ((enum ChoiceOf_##option)o->option.value) { rows }            \
        NO_SUCH_CHOICE(o->option);                                           \
    }
#endif
