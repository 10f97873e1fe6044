/* Loops for any processor, of which the compiler also makes a version for those with AVX2. */

#define ANY_PROCESSOR static inline __attribute__((always_inline))
#ifdef __x86_64__
#define WITH_AVX2 static __attribute__((target("avx2")))
static int has_avx2(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#define WITH_AVX2 static
static int has_avx2(void) { return 0; }
#endif
