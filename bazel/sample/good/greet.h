// SPDX-License-Identifier: Apache-2.0
#ifndef SAMPLE_GOOD_GREET_H
#define SAMPLE_GOOD_GREET_H

#include <stddef.h>

/** Writes "hello, NAME" into @out, cut to @out_bytes; returns the length it would have had. */
int greet(const char *name, char *out, size_t out_bytes);

#endif
