#ifndef TESTS_BASE_LEAKS_H
#define TESTS_BASE_LEAKS_H
/* LeakSanitizer looks for leaks at exit, which a child process of a test skips: it ends by _exit, so that what the
 * parent has buffered is not written twice. The child asks before it ends. */
#include <stdbool.h>

#ifdef __has_feature                               /* Clang; GCC defines __SANITIZE_ADDRESS__ itself */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
enum { LEAKS_SEEN = 1 };                           /* whether leaks_found can be true */
/* Whether memory is allocated that nothing points to; where it is goes to stderr. Always false without
 * AddressSanitizer. */
static inline bool leaks_found(void) { return __lsan_do_recoverable_leak_check() != 0; }
#else
enum { LEAKS_SEEN = 0 };
static inline bool leaks_found(void) { return false; }
#endif

enum { EXIT_LEAKED = 23 };                         /* as LeakSanitizer's own exit code */
#endif
