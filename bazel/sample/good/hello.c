// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "good/greet.h"

int main(int argc, char **argv)
{
	char text[64];

	greet(argc > 1 ? argv[1] : "world", text, sizeof(text));
	puts(text);
	return 0;
}
