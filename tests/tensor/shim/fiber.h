#ifndef SHIM_FIBER_H
#define SHIM_FIBER_H
/* A fiber: a stack of its own that runs a function until it yields or the function returns. The main stack
 * resumes fibers, fibers yield to the main stack; no fiber resumes another. The page below a stack stops an
 * overflow. */
#include <stddef.h>

struct Fiber {
    void *stack_pointer;               /* while it does not run */
    char *stack;
    void *fake_stack;                  /* AddressSanitizer's, while it does not run */
    bool  returned;
};

void fiber_stack (Fiber *f);                        /* once, before the first start */
void fiber_start (Fiber *f, void (*body)(void));    /* body runs at the next resume; the stack is used anew */
void fiber_resume(Fiber *f);                        /* returns when it yields or its body has returned */
void fiber_yield (void);                            /* from within a fiber */
#endif
