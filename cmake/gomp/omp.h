/* The part of GCC's OpenMP runtime (libgomp) that oneDNN's and FAISS's users need, for other
 * compilers. oneDNN and FAISS are linked with libgomp. The omp.h of clang is that of LLVM's
 * runtime, whose locks have another size, and it is often not installed; GCC's own does not compile
 * with clang. */
#ifndef PC_GOMP_OMP_H
#define PC_GOMP_OMP_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct omp_lock_t {
    unsigned state; /* as large as libgomp's on Linux */
} omp_lock_t;

void omp_init_lock(omp_lock_t *lock);
void omp_destroy_lock(omp_lock_t *lock);
void omp_set_lock(omp_lock_t *lock);
void omp_unset_lock(omp_lock_t *lock);
int omp_get_max_threads(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void omp_set_num_threads(int count);

#ifdef __cplusplus
}
#endif
#endif
