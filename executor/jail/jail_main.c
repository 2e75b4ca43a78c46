// SPDX-License-Identifier: Apache-2.0
/*
 * belljar-jail: the zygote of one slot. The server starts it; a person has no reason to.
 */
#include <stdio.h>

int main(void)
{
	fputs("belljar-jail is started by belljar serve\n", stderr);
	return 2;
}
