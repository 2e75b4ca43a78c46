# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts of this directory that may also be started by hand: finds the tree.
set -u
BJ_ROOT=${BJ_ROOT:-$(dirname "$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")")}
BJ_MUST_RUN=${BJ_MUST_RUN:-0}
export BJ_ROOT BJ_MUST_RUN
. "$BJ_ROOT/tests/lib/setup.sh"
