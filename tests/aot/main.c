/* The library that dlc makes of model.py, from C: values, gradients, errors, arrays of unknown extents, threads. */
#include "model.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, const double *x, int64_t n) {
    printf("%s", what);
    for (int64_t i = 0; i < n; i++) printf(" %.17g", x[i]);
    printf("\n");
}

/* Each thread fails in a way of its own, many times, and must find its own message. */
static void *worker(void *argument) {
    long me = *(long *)argument, wrong = 0;
    double x[2] = {1.0, 2.0}, y;
    char expected[32];
    snprintf(expected, sizeof expected, "index %ld ", 5 + me);
    for (int k = 0; k < 2000; k++) {
        if (model_element(x, 2, 5 + me, 1.0, &y) != 1) wrong++;
        if (strstr(model_last_error(), expected) == NULL) wrong++;
        if (model_element(x, 2, 1, (double)(me + 1), &y) != 0 || y != 2.0 + 1.0 / (double)(me + 1)) wrong++;
    }
    *(long *)argument = wrong;
    return NULL;
}

static void *deep(void *argument) {
    double y;
    int *status = argument;
    status[0] = model_down(100, 1.0, &y);
    status[1] = model_down(1000000000, 1.0, &y);
    status[2] = strcmp(model_last_exception(), "RecursionError");
    return NULL;
}

/* Bytes that are in use more after many calls than after some (malloc keeps a few blocks): results that are dropped or freed, and errors. */
static long leaked(void) {
    double x[64] = {0.0}, *gradient, slope, value;
    int64_t extents[1];
    size_t used = 0;
    for (int k = 0; k < 300; k++) {
        model_dloss(x, 64, 0.75, &gradient, extents, &slope);
        model_free(gradient);
        model_dheat(x, 64, 0.125, 9, NULL, NULL, &slope);
        model_element(x, 3, 3, 1.0, &value);
        model_evens(x, (int64_t)1 << 58, &gradient, extents);
        if (k == 50) used = mallinfo2().uordblks;
    }
    return (long)(mallinfo2().uordblks - used);
}

int main(void) {
    double x[3] = {0.5, -1.5, 2.0}, value = -1.0, *gradient = NULL, slope;
    int64_t extents[1];
    if (model_last_error()[0] || model_last_exception()[0]) return 1;
    if (model_loss(x, 3, 0.75, &value)) return 2;
    printf("loss %.17g\n", value);
    if (model_dloss(x, 3, 0.75, &gradient, extents, &slope)) return 3;
    show("dloss", gradient, extents[0]);
    printf("slope %.17g\n", slope);
    model_free(gradient);
    model_free(NULL);
    /* what is not wanted may be NULL */
    if (model_dloss(x, 3, 0.75, NULL, NULL, &slope)) return 4;

    double u[5] = {0.0, 1.0, 4.0, 1.0, 0.5};
    if (model_dheat(u, 5, 0.125, 3, &gradient, extents, &slope)) return 5;
    show("dheat", gradient, extents[0]);
    show("u", u, 5); /* a gradient leaves its arguments alone */
    model_free(gradient);
    if (model_heat(u, 5, 0.125, 3, &value)) return 6;
    show("heat", u, 5);

    value = -1.0;
    printf("status %d\n", model_element(x, 3, 3, 1.0, &value));
    printf("%s: %s\n", model_last_exception(), model_last_error());
    printf("status %d\n", model_element(x, 3, -1, 0.0, &value));
    printf("%s: %s\n", model_last_exception(), model_last_error());
    printf("untouched %g\n", value);

    double *found;
    if (model_evens(x, 3, &found, extents)) return 7;
    show("evens", found, extents[0]);
    model_free(found);
    if (model_evens(NULL, 0, &found, extents) || extents[0] != 0) return 8;
    model_free(found);

    printf("leaked %ld\n", leaked());

    long ids[2] = {0, 1};
    pthread_t threads[2];
    for (int k = 0; k < 2; k++) pthread_create(&threads[k], NULL, worker, &ids[k]);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    printf("threads %ld %ld\n", ids[0], ids[1]);

    int status[3];
    pthread_t small;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    pthread_create(&small, &attributes, deep, status);
    pthread_join(small, NULL);
    printf("deep %d %d %d\n", status[0], status[1], status[2]);
    int64_t n;
    if (model_fibonacci(20, &n)) return 9;
    printf("fibonacci %lld\n", (long long)n);
    return 0;
}
