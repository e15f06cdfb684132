#ifndef BASE_CLONES_H
#define BASE_CLONES_H
/* CLONES before a static function compiles it once for each instruction set; the program loader chooses one.
 * The choice runs before a sanitizer is initialized, so sanitizer builds have no clones. The name of such a
 * function must be unique in the tree, because clang 14 exports the symbol that chooses even when
 * the function is static. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CPU_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CPU_SANITIZED
#endif
#if defined(__x86_64__) && !defined(CPU_SANITIZED)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
/* CLONES of loops with products of 64-bit words, which gcc multiplies in one instruction of AVX-512DQ only
 * for that level of machines, while clang 14 chooses no clone by level. */
#if defined(__x86_64__) && !defined(CPU_SANITIZED) && !defined(__clang__)
#define CLONES_PRODUCT __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CLONES_PRODUCT CLONES
#endif
#endif
