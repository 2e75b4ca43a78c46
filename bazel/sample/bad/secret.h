// SPDX-License-Identifier: Apache-2.0
#ifndef SAMPLE_BAD_SECRET_H
#define SAMPLE_BAD_SECRET_H

#define SECRET 42

#endif
