/* Gauss-Seidel sweeps of the nine-point average, in place. */
#include <stdint.h>

void kernel(int64_t steps, int64_t size, double *a, int64_t n, int64_t columns)
{
    for (int64_t t = 0; t + 1 < steps; t++)
        for (int64_t i = 1; i + 1 < n; i++) {
            double *up = a + (i - 1) * n, *at = a + i * n, *down = a + (i + 1) * n;
            for (int64_t j = 1; j + 1 < n; j++)
                at[j] = (up[j - 1] + up[j] + up[j + 1] + at[j - 1] + at[j] + at[j + 1] + down[j - 1] + down[j]
                         + down[j + 1]) / 9;
        }
}
