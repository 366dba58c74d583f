// The tensor core's instructions and what feeds them, one function each: addresses and copies of
// shared memory, ldmatrix, mma.sync, wgmma. Templates include it; no inline assembly of these
// stands elsewhere. Addresses are of shared memory in bytes (tc_shared_address); 16-bit elements or
// TF32, f32 sums. Source of each rule: the PTX ISA, the section of the instruction that is named.
#pragma once

#include "tc_numeric.h"

/// Products of floats by matrix units: both factors are rounded to 10 bits of mantissa, to nearest.
/// The host multiplies floats.
struct tc_tf32 {};

#ifdef TC_DEVICE

TC_FN unsigned tc_shared_address(const void *p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// `value`, which all threads of the warp have, as a number that the compiler knows they share:
/// what follows from it is found once a warp, in registers of the warp, and branches by it diverge
/// for nobody. (Which group of warps a thread is in: attention of depth 64 took 0.86 to 0.94 of the
/// time, of depth 256 0.92, and spilled nothing where it had.)
TC_FN int tc_of_warp(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// Where the 16-byte word `word` of line `line` lies among lines of 128 bytes, bytes: permuted, so
/// that neither lines nor columns of words meet a bank twice (the 128-byte swizzle). Beyond 8 words
/// a line, pass word % 8 and the place of its block.
TC_FN unsigned tc_swizzled(int line, int word) {
  return static_cast<unsigned>(line * 128 + ((word ^ line) & 7) * 16);
}
/// The same from where the line's word 0 is, in memory that starts at a multiple of 128.
TC_FN unsigned tc_swizzled_word(unsigned word0, int word) {
  return word0 ^ static_cast<unsigned>(word * 16);
}
TC_FN void tc_shared_store(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
TC_FN void tc_shared_load(float (&to)[4], unsigned from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from)
               : "memory");
}
TC_FN void tc_shared_load(unsigned (&to)[4], unsigned from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
TC_FN void tc_shared_store(unsigned to, unsigned a) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory");
}
TC_FN void tc_shared_load(float (&to)[2], unsigned from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(to[0]), "=f"(to[1])
               : "r"(from)
               : "memory");
}
TC_FN unsigned tc_shared_load_word(unsigned from) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from));
  return word;
}
TC_FN void tc_shared_load(float (&to)[1], unsigned from) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(to[0]) : "r"(from) : "memory");
}
/// To 10 bits of mantissa, the nearest, ties away from zero: what matrix units read as TF32.
TC_FN unsigned tc_round_tf32(float x) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

// ---- cp.async: 16 bytes from memory to shared memory, both on multiples of 16, in the background

/// Zeros, where not `present`; `from` is not read then.
TC_FN void tc_async_copy(unsigned to, const void *from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}
/// The copies that this thread has started since the last call are a group.
TC_FN void tc_async_end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most the `Left` last groups of this thread are under way.
template <int Left> TC_FN void tc_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}
/// For all copies of the thread, of no group, too.
TC_FN void tc_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---- ldmatrix and mma.sync: a warp multiplies 16 x 16 by 16 x 8

/// Four 8 x 8 matrices; lane l names line l % 8 of matrix l / 8.
template <bool Transposed> TC_FN void tc_load_matrices(unsigned (&r)[4], unsigned at) {
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
/// c[16, 8] += a[16, 16] @ b[16, 8]. Lane l has rows l / 4 and l / 4 + 8 of c, columns l % 4 * 2
/// and the next: c[0..3].
#define TC_MMA_OF(type, name)                                                                      \
  TC_FN void tc_multiply(type, float *c, const unsigned(&a)[4], unsigned b0, unsigned b1) {        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, "  \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                  \
  }
TC_MMA_OF(tc_f16, "f16")
TC_MMA_OF(tc_bf16, "bf16")
/// c[16, 8] += a[16, 8] @ b[8, 8], lanes as above.
#define TC_MMA_EIGHT_OF(type, name)                                                                \
  TC_FN void tc_multiply_eight(type, float *c, unsigned a0, unsigned a1, unsigned b) {             \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, "   \
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"                                               \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                  \
                 : "r"(a0), "r"(a1), "r"(b));                                                      \
  }
TC_MMA_EIGHT_OF(tc_f16, "f16")
TC_MMA_EIGHT_OF(tc_bf16, "bf16")
/// c[16, 8] += a[16, 32] @ b[32, 8] of 8-bit floats, which f16 holds exactly: 16-bit words of two
/// neighbours lie as elements of 16 bits do. Two products, of the even and of the odd words' terms.
TC_FN void tc_multiply(tc_f8e4m3fn, float *c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const auto widened = [](unsigned pair) {
    return tc_pack(tc_f16{}, tc_f8e4m3fn::widen(pair & 255u), tc_f8e4m3fn::widen(pair >> 8 & 255u));
  };
  const unsigned b[2] = {b0, b1};
  TC_UNROLL
  for (int i = 0; i < 2; ++i) {
    const unsigned left[4] = {widened(a[i * 2]), widened(a[i * 2 + 1]), widened(a[i * 2] >> 16),
                              widened(a[i * 2 + 1] >> 16)};
    tc_multiply(tc_f16{}, c, left, widened(b[i]), widened(b[i] >> 16));
  }
}
/// c[16, 8] += a[16, 8] @ b[8, 8] of TF32, c as above. Lane l has a at rows l / 4, l / 4 + 8 of
/// column l % 4, then of column l % 4 + 4; b at rows l % 4, l % 4 + 4 of column l / 4.
TC_FN void tc_multiply_tf32(float *c, const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- wgmma: four warps multiply 64 x 16 by 16 x columns, both in shared memory (sm_90a)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// What cp.async and stores put into shared memory is there for wgmma.
TC_FN void tc_wgmma_see_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Before the first of a group, and where registers of sums were touched.
TC_FN void tc_wgmma_start() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TC_FN void tc_wgmma_end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left> TC_FN void tc_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

/// The compiler moves nothing that computes with `c` past this point: what waits for products has
/// no operands that would hold it.
template <int N> TC_FN void tc_wgmma_hold(float (&c)[N]) {
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    asm volatile("" : "+f"(c[i])::"memory");
}

/// An operand of 128-byte lines whose 16-byte words are permuted by the line's number modulo 8 (the
/// 128-byte swizzle): groups of eight lines follow each other; an operand whose lines lie along its
/// rows steps `block_bytes` from 64 rows to the next 64.
TC_FN unsigned long long tc_wgmma_descriptor(unsigned address, int block_bytes) {
  constexpr unsigned long long group = 1024 / 16, swizzle = 1ull << 62;
  return (address & 0x3ffffu) >> 4 | static_cast<unsigned long long>(block_bytes / 16) << 16 |
         group << 32 | swizzle;
}
/// The same of shorter lines, 32 or 64 bytes, that lie along the terms (the 32- or 64-byte
/// swizzle).
template <int LineBytes> TC_FN unsigned long long tc_wgmma_descriptor_of(unsigned address) {
  static_assert(LineBytes == 32 || LineBytes == 64, "lines of 128 bytes have a function of theirs");
  constexpr unsigned long long group = 8 * LineBytes / 16, swizzle = (LineBytes == 32 ? 3ull : 2ull)
                                                                     << 62;
  return (address & 0x3ffffu) >> 4 | 1ull << 16 | group << 32 | swizzle;
}
/// The same of lines of 32, 64 or 128 bytes, groups of eight of which are `group_bytes` apart. It
/// may begin at any line of those that a copy has brought: words are permuted by their address.
template <int LineBytes>
TC_FN unsigned long long tc_wgmma_descriptor_lines(unsigned address, int group_bytes) {
  constexpr unsigned long long swizzle = (LineBytes == 32   ? 3ull
                                          : LineBytes == 64 ? 2ull
                                                            : 1ull)
                                         << 62;
  return (address & 0x3ffffu) >> 4 | 1ull << 16 |
         static_cast<unsigned long long>(group_bytes / 16) << 32 | swizzle;
}
/// The same operand, `bytes` further on.
TC_FN unsigned long long tc_wgmma_further(unsigned long long descriptor, unsigned bytes) {
  return descriptor + bytes / 16;
}
#define TC_C4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define TC_C8(c, i) TC_C4(c, i), TC_C4(c, i + 4)
#define TC_C12(c) TC_C8(c, 0), TC_C4(c, 8)
#define TC_C16(c, i) TC_C4(c, i), TC_C4(c, i + 4), TC_C4(c, i + 8), TC_C4(c, i + 12)
#define TC_C24(c) TC_C16(c, 0), TC_C8(c, 16)
#define TC_C32(c) TC_C16(c, 0), TC_C16(c, 16)
#define TC_C40(c) TC_C32(c), TC_C4(c, 32), TC_C4(c, 36)
#define TC_C48(c) TC_C32(c), TC_C16(c, 32)
#define TC_C64(c) TC_C48(c), TC_C16(c, 48)
#define TC_C80(c) TC_C64(c), TC_C16(c, 64)
#define TC_C96(c) TC_C80(c), TC_C16(c, 80)
#define TC_C112(c) TC_C96(c), TC_C16(c, 96)
#define TC_C128(c) TC_C112(c), TC_C16(c, 112)
#define TC_N4 "%0, %1, %2, %3"
#define TC_N8 TC_N4 ", %4, %5, %6, %7"
#define TC_N12 TC_N8 ", %8, %9, %10, %11"
#define TC_N16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define TC_N24 TC_N16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TC_N32                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "     \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TC_N40 TC_N32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TC_N48                                                                                     \
  TC_N32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TC_N64                                                                                     \
  TC_N32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
         "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TC_N80                                                                                     \
  TC_N64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TC_N96                                                                                     \
  TC_N64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "      \
         "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TC_N112                                                                                    \
  TC_N96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "      \
         "%110, %111"
#define TC_N128                                                                                    \
  TC_N96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "      \
         "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "    \
         "%124, %125, %126, %127"
#define TC_WGMMA(type, name, columns, count, names, registers, a, b, keep, left, right)            \
  template <int left_turned, int right_turned>                                                     \
  TC_FN void tc_multiply_group(type, float(&c)[count], unsigned long long left_at,                 \
                               unsigned long long right_at, int added) {                           \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep ", 0;\n"                         \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" names  \
                 "}, %" #a ", %" #b ", keep, 1, 1, %" #left ", %" #right ";\n}\n"                  \
                 : registers                                                                       \
                 : "l"(left_at), "l"(right_at), "r"(added), "n"(left_turned), "n"(right_turned));  \
  }
/// c[64, columns] (+)= a[64, 16] @ b[16, columns], columns = 2 * the registers of c. `added` 0: c
/// starts at zero; "turned": the operand's lines lie along its rows.
#define TC_WGMMA_OF(type, name)                                                                    \
  TC_WGMMA(type, name, 8, 4, TC_N4, TC_C4(c, 0), 4, 5, 6, 7, 8)                                    \
  TC_WGMMA(type, name, 16, 8, TC_N8, TC_C8(c, 0), 8, 9, 10, 11, 12)                                \
  TC_WGMMA(type, name, 24, 12, TC_N12, TC_C12(c), 12, 13, 14, 15, 16)                              \
  TC_WGMMA(type, name, 32, 16, TC_N16, TC_C16(c, 0), 16, 17, 18, 19, 20)                           \
  TC_WGMMA(type, name, 48, 24, TC_N24, TC_C24(c), 24, 25, 26, 27, 28)                              \
  TC_WGMMA(type, name, 64, 32, TC_N32, TC_C32(c), 32, 33, 34, 35, 36)                              \
  TC_WGMMA(type, name, 80, 40, TC_N40, TC_C40(c), 40, 41, 42, 43, 44)                              \
  TC_WGMMA(type, name, 96, 48, TC_N48, TC_C48(c), 48, 49, 50, 51, 52)                              \
  TC_WGMMA(type, name, 128, 64, TC_N64, TC_C64(c), 64, 65, 66, 67, 68)                             \
  TC_WGMMA(type, name, 160, 80, TC_N80, TC_C80(c), 80, 81, 82, 83, 84)                             \
  TC_WGMMA(type, name, 192, 96, TC_N96, TC_C96(c), 96, 97, 98, 99, 100)                            \
  TC_WGMMA(type, name, 256, 128, TC_N128, TC_C128(c), 128, 129, 130, 131, 132)
TC_WGMMA_OF(tc_f16, "f16")
TC_WGMMA_OF(tc_bf16, "bf16")
#define TC_WGMMA_LEFT(type, name, columns, count, names, registers, a0, a1, a2, a3, b)             \
  TC_FN void tc_multiply_group_turned(type, float(&c)[count], const unsigned *a,                   \
                                      unsigned long long right_at) {                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" names  \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, 1;\n"             \
                 : registers                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right_at));                     \
  }
/// c[64, columns] += a[64, 16] @ b[16, columns]: a in registers, each warp its 16 rows as in
/// tc_multiply; the lines of b lie along its columns.
#define TC_WGMMA_LEFT_OF(type, name)                                                               \
  TC_WGMMA_LEFT(type, name, 32, 16, TC_N16, TC_C16(c, 0), 16, 17, 18, 19, 20)                      \
  TC_WGMMA_LEFT(type, name, 64, 32, TC_N32, TC_C32(c), 32, 33, 34, 35, 36)                         \
  TC_WGMMA_LEFT(type, name, 96, 48, TC_N48, TC_C48(c), 48, 49, 50, 51, 52)                         \
  TC_WGMMA_LEFT(type, name, 128, 64, TC_N64, TC_C64(c), 64, 65, 66, 67, 68)                        \
  TC_WGMMA_LEFT(type, name, 160, 80, TC_N80, TC_C80(c), 80, 81, 82, 83, 84)                        \
  TC_WGMMA_LEFT(type, name, 192, 96, TC_N96, TC_C96(c), 96, 97, 98, 99, 100)                       \
  TC_WGMMA_LEFT(type, name, 224, 112, TC_N112, TC_C112(c), 112, 113, 114, 115, 116)                \
  TC_WGMMA_LEFT(type, name, 256, 128, TC_N128, TC_C128(c), 128, 129, 130, 131, 132)
#define TC_WGMMA_LEFT_DEEP(type, name, columns, count, names, registers, a0, a1, a2, a3, b, keep)  \
  TC_FN void tc_multiply_group_left(type, float(&c)[count], const unsigned(&a)[4],                 \
                                    unsigned long long right_at, int added) {                      \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep ", 0;\n"                         \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" names  \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", keep, 1, 1, 0;\n}\n"       \
                 : registers                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right_at), "r"(added));         \
  }
/// c[64, columns] (+)= a[64, 16] @ b[16, columns], a as above; the lines of b lie along its terms.
#define TC_WGMMA_LEFT_DEEP_OF(type, name)                                                          \
  TC_WGMMA_LEFT_DEEP(type, name, 64, 32, TC_N32, TC_C32(c), 32, 33, 34, 35, 36, 37)                \
  TC_WGMMA_LEFT_DEEP(type, name, 96, 48, TC_N48, TC_C48(c), 48, 49, 50, 51, 52, 53)                \
  TC_WGMMA_LEFT_DEEP(type, name, 128, 64, TC_N64, TC_C64(c), 64, 65, 66, 67, 68, 69)
TC_WGMMA_LEFT_DEEP_OF(tc_f16, "f16")
TC_WGMMA_LEFT_DEEP_OF(tc_bf16, "bf16")
TC_WGMMA_LEFT_OF(tc_f16, "f16")
TC_WGMMA_LEFT_OF(tc_bf16, "bf16")
#define TC_WGMMA_TF32(columns, count, names, registers, a0, a1, a2, a3, b, keep)                   \
  TC_FN void tc_multiply_group_tf32(float(&c)[count], const unsigned(&a)[4],                       \
                                    unsigned long long right_at, int added) {                      \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep ", 0;\n"                         \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k8.f32.tf32.tf32 {" names           \
                 "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", keep, 1, 1;\n}\n"          \
                 : registers                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right_at), "r"(added));         \
  }
/// c[64, columns] (+)= a[64, 8] @ b[8, columns] of TF32: a in registers, each warp its 16 rows as
/// in tc_multiply_tf32; b in lines that lie along the terms.
TC_WGMMA_TF32(64, 32, TC_N32, TC_C32(c), 32, 33, 34, 35, 36, 37)
TC_WGMMA_TF32(128, 64, TC_N64, TC_C64(c), 64, 65, 66, 67, 68, 69)
TC_WGMMA_TF32(192, 96, TC_N96, TC_C96(c), 96, 97, 98, 99, 100, 101)
TC_WGMMA_TF32(256, 128, TC_N128, TC_C128(c), 128, 129, 130, 131, 132, 133)
#define TC_WGMMA_DEEP(type, kind, columns, count, names, registers, a, b, keep)                    \
  template <int left_turned, int right_turned>                                                     \
  TC_FN void tc_multiply_group(type, float(&c)[count], unsigned long long left_at,                 \
                               unsigned long long right_at, int added) {                           \
    static_assert(left_turned == 0 && right_turned == 0, "operands lie along the terms");          \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep ", 0;\n"                         \
                 "wgmma.mma_async.sync.aligned.m64n" #columns kind " {" names "}, %" #a ", %" #b   \
                 ", keep, 1, 1;\n}\n"                                                              \
                 : registers                                                                       \
                 : "l"(left_at), "l"(right_at), "r"(added));                                       \
  }
/// The same, both in shared memory, already rounded.
TC_WGMMA_DEEP(tc_tf32, "k8.f32.tf32.tf32", 64, 32, TC_N32, TC_C32(c), 32, 33, 34)
TC_WGMMA_DEEP(tc_tf32, "k8.f32.tf32.tf32", 128, 64, TC_N64, TC_C64(c), 64, 65, 66)
TC_WGMMA_DEEP(tc_tf32, "k8.f32.tf32.tf32", 192, 96, TC_N96, TC_C96(c), 96, 97, 98)
TC_WGMMA_DEEP(tc_tf32, "k8.f32.tf32.tf32", 256, 128, TC_N128, TC_C128(c), 128, 129, 130)
/// c[64, columns] (+)= a[64, 32] @ b[32, columns] of 8-bit floats. The units add up fewer bits than
/// f32 has.
TC_WGMMA_DEEP(tc_f8e4m3fn, "k32.f32.e4m3.e4m3", 64, 32, TC_N32, TC_C32(c), 32, 33, 34)
TC_WGMMA_DEEP(tc_f8e4m3fn, "k32.f32.e4m3.e4m3", 96, 48, TC_N48, TC_C48(c), 48, 49, 50)
TC_WGMMA_DEEP(tc_f8e4m3fn, "k32.f32.e4m3.e4m3", 128, 64, TC_N64, TC_C64(c), 64, 65, 66)

#endif
#endif
