/* The functions of BLAS that the tests need, by their Fortran names, as every BLAS library has them. */
#include <stdint.h>

static double at(const double *m, int lead, char letter, int i, int j) {
    return letter == 'N' ? m[i + (int64_t)j * lead] : m[j + (int64_t)i * lead];
}

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc) {
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *m; i++) {
            double sum = 0.0;
            for (int l = 0; l < *k; l++) sum += at(a, *lda, *ta, i, l) * at(b, *ldb, *tb, l, j);
            double old = *beta == 0.0 ? 0.0 : *beta * c[i + (int64_t)j * *ldc];
            c[i + (int64_t)j * *ldc] = *alpha * sum + old;
        }
}

void dgemv_(const char *ta, const int *m, const int *n, const double *alpha, const double *a, const int *lda,
            const double *x, const int *incx, const double *beta, double *y, const int *incy) {
    int rows = *ta == 'N' ? *m : *n, columns = *ta == 'N' ? *n : *m;
    for (int i = 0; i < rows; i++) {
        double sum = 0.0;
        for (int j = 0; j < columns; j++) sum += at(a, *lda, *ta, i, j) * x[(int64_t)j * *incx];
        double old = *beta == 0.0 ? 0.0 : *beta * y[(int64_t)i * *incy];
        y[(int64_t)i * *incy] = *alpha * sum + old;
    }
}

void dsyrk_(const char *uplo, const char *ta, const int *n, const int *k, const double *alpha, const double *a,
            const int *lda, const double *beta, double *c, const int *ldc) {
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *n; i++) {
            if (*uplo == 'U' ? i > j : i < j) continue;
            double sum = 0.0;
            for (int p = 0; p < *k; p++) sum += at(a, *lda, *ta, i, p) * at(a, *lda, *ta, j, p);
            double *to = &c[i + (int64_t)j * *ldc];
            *to = *alpha * sum + (*beta == 0.0 ? 0.0 : *beta * *to);
        }
}
