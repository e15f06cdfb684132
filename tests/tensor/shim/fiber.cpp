/* Fibers by saving and restoring registers (see fiber.h): fast enough to run every lane of a kernel as
 * one. */
#include "fiber.h"
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#else                                  /* without AddressSanitizer nobody needs to know of a switch */
static void __sanitizer_start_switch_fiber(void **, const void *, size_t) {}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *) {}
#endif

enum { STACK_BYTES = 128 * 1024 };

/* Saves the registers that a call keeps on the running stack, leaves its pointer in *save, and goes on from
 * the stack at `load`. A new stack holds one such frame, which returns into fiber_main. */
extern "C" void fiber_switch(void **save, void *load);
#if defined(__x86_64__)
enum { RETURN_WORD = 6, FRAME_WORDS = 8 };     /* 6 registers, the return address, and one word to align */
__asm__(".text\n.globl fiber_switch\n.type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n.size fiber_switch, . - fiber_switch\n");
#elif defined(__aarch64__)
enum { RETURN_WORD = 11, FRAME_WORDS = 20 };       /* x19 .. x30 (where it returns), d8 .. d15 */
__asm__(".text\n.globl fiber_switch\n.type fiber_switch, %function\n"
        "fiber_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n    ret\n.size fiber_switch, . - fiber_switch\n");
#else
#error "fiber_switch is written for x86-64 and aarch64"
#endif

static Fiber *running;
static void  *main_pointer, *main_fake_stack;
static const void *main_stack;
static size_t      main_bytes;
static void      (*fiber_body)(void);

void fiber_stack(Fiber *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char  *memory = (char *)mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == (char *)MAP_FAILED || mprotect(memory, page, PROT_NONE)) {
        perror("gpu shim: a fiber's stack");
        exit(3);
    }
    f->stack = memory + page;
}

static void to_main(void)
{
    Fiber *f = running;
    __sanitizer_start_switch_fiber(f->returned ? nullptr : &f->fake_stack, main_stack, main_bytes);
    fiber_switch(&f->stack_pointer, main_pointer);
    __sanitizer_finish_switch_fiber(f->fake_stack, &main_stack, &main_bytes);
}

static void fiber_main(void)
{
    __sanitizer_finish_switch_fiber(nullptr, &main_stack, &main_bytes);
    fiber_body();
    running->returned = true;
    to_main();
    abort();                           /* nobody resumes a fiber that has returned */
}

void fiber_start(Fiber *f, void (*body)(void))
{
    uintptr_t *frame = (uintptr_t *)(f->stack + STACK_BYTES) - FRAME_WORDS;
    for (int i = 0; i < FRAME_WORDS; i++) frame[i] = 0;
    frame[RETURN_WORD] = (uintptr_t)fiber_main;
    f->stack_pointer = frame;
    f->fake_stack    = nullptr;
    f->returned      = false;
    fiber_body       = body;
}

void fiber_resume(Fiber *f)
{
    running = f;
    __sanitizer_start_switch_fiber(&main_fake_stack, f->stack, STACK_BYTES);
    fiber_switch(&main_pointer, f->stack_pointer);
    __sanitizer_finish_switch_fiber(main_fake_stack, nullptr, nullptr);
}

void fiber_yield(void)
{
    to_main();
}
