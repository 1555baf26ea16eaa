/* Both triangular factors of a matrix, in place, without pivots. */
#include <stdint.h>

void kernel(double *a, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < j; k++)
                sum += a[i * n + k] * a[k * n + j];
            a[i * n + j] = (a[i * n + j] - sum) / a[j * n + j];
        }
        for (int64_t j = i; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < i; k++)
                sum += a[i * n + k] * a[k * n + j];
            a[i * n + j] -= sum;
        }
    }
}
