/* Cholesky's factor by three nested loops, in place. */
#include <math.h>
#include <stdint.h>

void kernel(double *a, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double rest = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                rest -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = rest / a[j * n + j];
        }
        double rest = a[i * n + i];
        for (int64_t k = 0; k < i; k++)
            rest -= a[i * n + k] * a[i * n + k];
        a[i * n + i] = sqrt(rest);
    }
}
