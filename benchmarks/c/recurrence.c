/* A recurrence of scalar steps with a branch that the data decide and a sine. */
#include <math.h>
#include <stdint.h>

void kernel(double x, int64_t steps, double *restrict result)
{
    for (int64_t i = 0; i < steps; i++)
        x = x > 0.5 ? 0.9 * sin(x) + 0.01 : x * x + 0.3;
    *result = x;
}
