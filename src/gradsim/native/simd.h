// Vectors of one cache line, 16 floats or 8 doubles, and the operations that all native kernels build on.
//
// They use Clang's vector extensions, so the same source compiles for AVX-512 (one register a vector), AVX2 and NEON
// (several registers) and scalar targets. Headers that include this one set the floating-point contraction mode first:
// the functions below are compiled in the mode of the including header.
#pragma once

#define LANES_INLINE static inline __attribute__((always_inline))
#define LANES_MEMBER inline __attribute__((always_inline))
#define LANES_LAMBDA __attribute__((always_inline))

#define SHUFFLE __builtin_shufflevector

namespace gradsim {

template <class T> struct LaneTypes;
template <> struct LaneTypes<float> {
    typedef float Wide __attribute__((vector_size(64)));
    typedef int Mask __attribute__((vector_size(64)));
    typedef int Index __attribute__((vector_size(64)));
    typedef float Node __attribute__((vector_size(16)));
    typedef unsigned short Bits;
    enum { width = 16 };
};
template <> struct LaneTypes<double> {
    typedef double Wide __attribute__((vector_size(64)));
    typedef long long Mask __attribute__((vector_size(64)));
    typedef int Index __attribute__((vector_size(32)));
    typedef double Node __attribute__((vector_size(32)));
    typedef unsigned char Bits;
    enum { width = 8 };
};
template <class T> using Lanes = typename LaneTypes<T>::Wide;
template <class T> using Mask = typename LaneTypes<T>::Mask;    // result of a comparison: all bits set where true
template <class T> using Index = typename LaneTypes<T>::Index;  // one int a lane

// Loads and stores without alignment requirements.
template <class V, class U> LANES_INLINE V load_as(const U* p) {
    V r;
    __builtin_memcpy(&r, p, sizeof(r));
    return r;
}
template <class T> LANES_INLINE Lanes<T> load(const T* p) { return load_as<Lanes<T>>(p); }
template <class U, class V> LANES_INLINE void store(U* p, V a) {
    static_assert(sizeof(V) > sizeof(U), "only vectors are stored");
    __builtin_memcpy(p, &a, sizeof(a));
}
template <class T> LANES_INLINE void accumulate(T* p, Lanes<T> a) { store(p, load(p) + a); }
template <class T> LANES_INLINE Lanes<T> splat(T a) { return Lanes<T>{} + a; }

// Functions of single numbers and of vectors.
template <class S> LANES_INLINE S square_root(S a) { return __builtin_elementwise_sqrt(a); }
template <class S> LANES_INLINE S magnitude(S a) { return __builtin_elementwise_abs(a); }
// One instruction each, unlike the builtins. The result is b where a is NaN.
template <class S> LANES_INLINE S larger(S a, S b) { return a > b ? a : b; }
template <class S> LANES_INLINE S smaller(S a, S b) { return a < b ? a : b; }
template <class S> LANES_INLINE S clamp(S a, S low, S high) { return smaller(larger(a, low), high); }
template <class S> LANES_INLINE S saturate(S a) { return clamp(a, S{}, S{} + 1); }

// Whether a comparison holds in any lane.
LANES_INLINE bool any(bool mask) { return mask; }
template <class M> LANES_INLINE bool any(M mask) { return __builtin_reduce_or(mask) != 0; }
// One bit for each lane in which a comparison holds.
template <class T> LANES_INLINE unsigned bits(Mask<T> mask) {
    typedef bool Packed __attribute__((ext_vector_type(LaneTypes<T>::width)));
    const Packed packed = __builtin_convertvector(mask, Packed);
    typename LaneTypes<T>::Bits r;
    __builtin_memcpy(&r, &packed, sizeof(r));
    return r;
}
// A mask of an index comparison, converted to lanes as wide as T.
template <class T> LANES_INLINE Mask<T> widened(Index<T> mask) { return __builtin_convertvector(mask, Mask<T>); }

}  // namespace gradsim
