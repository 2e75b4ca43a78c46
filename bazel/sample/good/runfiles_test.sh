#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
[ "$(cat "$1")" = "hello, everybody" ] || exit 1
[ "$(cat "$2/2.txt")" = everybody ]
