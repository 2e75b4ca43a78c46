// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "good/greet.h"

int main(void)
{
	char text[8];

	if (greet("you", text, sizeof(text)) != 10)
		return 1;
	return strcmp(text, "hello, ") == 0 ? 0 : 1;
}
