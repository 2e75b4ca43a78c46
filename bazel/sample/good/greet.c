// SPDX-License-Identifier: Apache-2.0
#include "good/greet.h"

#include <stdio.h>

int greet(const char *name, char *out, size_t out_bytes)
{
	return snprintf(out, out_bytes, "hello, %s", name);
}
