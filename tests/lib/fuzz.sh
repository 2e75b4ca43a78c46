#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target under libFuzzer with the sanitizers for BJ_FUZZ_SECONDS (60), from its corpus: `fuzz.sh [NAME...]`. A
# crash leaves its input in BJ_FUZZ_CRASHES (tests/fuzz/crashes), to be added to the corpus under a name that says what it is.
. "$(dirname "$(realpath "$0")")/setup_root.sh"

seconds=${BJ_FUZZ_SECONDS:-60}
crashes=${BJ_FUZZ_CRASHES:-$BJ_ROOT/tests/fuzz/crashes}
scratch=$(mktemp -d "${BJ_TMP:-/tmp}/fuzz.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

if [ $# = 0 ]; then
	# shellcheck disable=SC2046
	set -- $(bj_bazel query --noshow_progress 'kind(cc_test, //tests/fuzz:all)' 2>/dev/null | sed 's/.*://')
fi
if [ $# = 0 ]; then
	echo "skipped: there are no fuzz targets"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

# shellcheck disable=SC2086
bj_bazel build --config=fuzz ${BJ_BAZEL_FLAGS:-} --symlink_prefix=/ --noshow_progress -- "${@/#///tests/fuzz:}" >&2 || exit 1
# shellcheck disable=SC2086
bin=$(bj_bazel info --config=fuzz ${BJ_BAZEL_FLAGS:-} bazel-bin 2>/dev/null) || exit 1

passed=0 failed=0
for name in "$@"; do
	mkdir -p "$scratch/$name" "$crashes"
	if "$bin/tests/fuzz/$name" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$crashes/$name-" "$scratch/$name" "$BJ_ROOT/tests/fuzz/corpus/$name" \
		>"$scratch/log" 2>&1 </dev/null; then
		passed=$((passed + 1))
		echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log") runs"
	else
		failed=$((failed + 1))
		tail -n 60 "$scratch/log"
		echo "$name: FAILED"
	fi
done
rmdir "$crashes" 2>/dev/null
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
