// SPDX-License-Identifier: Apache-2.0
#include "bad/secret.h"

int secret(void);

int secret(void)
{
	return SECRET;
}
