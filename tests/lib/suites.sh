# SPDX-License-Identifier: Apache-2.0
# The engine of tests/run and tests/full.
#
# A suite is a function suite_NAME below, or an executable tests/NAME/run (quick) or tests/NAME/full (slow; its name here is
# NAME-full). It ends with the line `N passed, N failed, N skipped`, prints why it skipped, and exits with 0 if nothing
# failed. Its output is shown when it fails, and with BJ_VERBOSE=1 always.
#
# What a suite gets: no stdin, the tree as its directory, and
#   BJ_BIN       a directory with belljar and belljar-jail, built optimised by gcc
#   BJ_TMP       an empty directory of its own, removed afterwards
#   BJ_MUST_RUN  1: a test that cannot run here has failed
# What a person may set: BJ_BAZEL (the Bazel command, with startup options), BJ_BAZEL_FLAGS (for each build),
# BJ_SUITE_SECONDS (after which a suite is killed), BJ_NO_INSTALL=1, BJ_KEEP=1 (leave the temporary directory).

set -u

BJ_ROOT=$(dirname "$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")")
BJ_MUST_RUN=${BJ_MUST_RUN:-0}
export BJ_ROOT BJ_MUST_RUN
. "$BJ_ROOT/tests/lib/setup.sh"

QUICK_BUILTIN="format unit asan clang"
SLOW_BUILTIN="clang-asan tsan clang-tsan analyzer tidy fuzz bazel-2.1.0"

total_passed=0
total_failed=0
total_skipped=0

# ---- builtin suites ------------------------------------------------------------------------------------------------

# bazel_test CONFIG PATTERN... - runs tests and counts their cases.
bazel_test() {
	local config=$1 events status=0
	shift
	events=$BJ_TMP/events.json
	# shellcheck disable=SC2086
	bj_bazel test ${config:+--config=$config} ${BJ_BAZEL_FLAGS:-} --symlink_prefix=/ --keep_going \
		--noshow_progress --build_event_json_file="$events" -- "$@" || status=$?
	/usr/bin/python3 -B "$BJ_ROOT/tests/lib/count_bazel.py" "$events" "$status"
}

# bazel_build CONFIG PATTERN... - one test: it builds.
bazel_build() {
	local config=$1
	shift
	# shellcheck disable=SC2086
	if bj_bazel build ${config:+--config=$config} ${BJ_BAZEL_FLAGS:-} --symlink_prefix=/ --keep_going --noshow_progress \
		-- "$@"; then
		echo "1 passed, 0 failed, 0 skipped"
		return 0
	fi
	echo "0 passed, 1 failed, 0 skipped"
	return 1
}

suite_format() { /usr/bin/python3 -B "$BJ_ROOT/tests/lib/lint.py"; }
suite_unit() { bazel_test "" //...; }
suite_asan() { bazel_test asan //tests/unit/... //tests/fuzz/...; }
suite_clang() { bazel_build clang //...; }
suite_clang-asan() { bazel_test clang-asan //tests/unit/... //tests/fuzz/...; }
suite_tsan() { bazel_test tsan //tests/unit/...; }
suite_clang-tsan() { bazel_test clang-tsan //tests/unit/...; }
suite_analyzer() { bazel_build analyzer //executor/... //policy/...; }
suite_tidy() { "$BJ_ROOT/tests/lib/tidy.sh"; }
suite_fuzz() { "$BJ_ROOT/tests/lib/fuzz.sh"; }
suite_bazel-2.1.0() { "$BJ_ROOT/tests/lib/old_bazel.sh" 2.1.0; }

# ---- the engine ----------------------------------------------------------------------------------------------------

# suites KIND - the names of quick, or of all.
suites() {
	local kind=$1 file
	echo "$QUICK_BUILTIN"
	for file in "$BJ_ROOT"/tests/*/run; do
		[ -f "$file" ] && [ -x "$file" ] && basename "$(dirname "$file")"
	done
	[ "$kind" = quick ] && return 0
	echo "$SLOW_BUILTIN"
	for file in "$BJ_ROOT"/tests/*/full; do
		[ -f "$file" ] && [ -x "$file" ] && echo "$(basename "$(dirname "$file")")-full"
	done
	return 0
}

# run_one NAME - the suite itself, in a subshell whose output is caught.
run_one() {
	local name=$1
	cd "$BJ_ROOT" || return 1
	if [ "$(type -t "suite_$name")" = function ]; then
		"suite_$name"
	else
		local script=$BJ_ROOT/tests/$name/run
		case $name in *-full) script=$BJ_ROOT/tests/${name%-full}/full ;; esac
		# A suite that hangs must not hang us: it has its own process group, which timeout(1) ends as a whole.
		timeout --kill-after=20 "${BJ_SUITE_SECONDS:-1800}" "$script"
	fi
}

# run_suite NAME - runs it, adds up what its last line says, prints one line and, on failure, everything.
run_suite() {
	local name=$1 log status=0 line passed failed skipped started=$SECONDS
	log=$tmp/$name.log
	export BJ_TMP=$tmp/$name BJ_BIN=$tmp/bin
	mkdir -p "$BJ_TMP"
	(run_one "$name") >"$log" 2>&1 </dev/null || status=$?
	line=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1)
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		passed=${BASH_REMATCH[1]} failed=${BASH_REMATCH[2]} skipped=${BASH_REMATCH[3]}
	else
		passed=0 failed=1 skipped=0
		echo "the suite $name ended with status $status and no count" >>"$log"
	fi
	if [ "$failed" = 0 ] && [ "$status" != 0 ]; then
		failed=1
		echo "the suite $name ended with status $status" >>"$log"
	fi
	if [ $((passed + failed + skipped)) = 0 ]; then
		failed=1
		echo "the suite $name ran nothing" >>"$log"
	fi
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))
	printf '%-16s %5d passed %4d failed %4d skipped %5d s\n' "$name" "$passed" "$failed" "$skipped" $((SECONDS - started))
	if [ "$failed" != 0 ] || [ "${BJ_VERBOSE:-0}" = 1 ]; then
		sed "s/^/  $name| /" "$log"
	elif [ "$skipped" != 0 ]; then
		grep -i '\bskip' "$log" | grep -v '[0-9] skipped$' | sed "s/^/  $name| /" || true
	fi
	rm -rf --one-file-system "$BJ_TMP"
}

# build_binaries - belljar and belljar-jail into $tmp/bin, where later builds with other flags do not disturb them.
build_binaries() {
	local log=$tmp/build.log bin
	# shellcheck disable=SC2086
	if bj_bazel build ${BJ_BAZEL_FLAGS:-} --noshow_progress //executor:belljar //executor:belljar-jail >"$log" 2>&1 &&
		bin=$(bj_bazel info ${BJ_BAZEL_FLAGS:-} bazel-bin 2>/dev/null) &&
		mkdir -p "$tmp/bin" &&
		cp -L "$bin/executor/belljar" "$bin/executor/belljar-jail" "$tmp/bin/" && chmod u+w "$tmp"/bin/*; then
		return 0
	fi
	sed 's/^/  build| /' "$log"
	return 1
}

# bj_main KIND [NAME...]
bj_main() {
	local kind=$1 known names name built=0
	shift
	known=$(suites "$kind" | tr '\n' ' ')
	names=${*:-$known}
	for name in $names; do
		case " $(suites all | tr '\n' ' ') " in
		*" $name "*) ;;
		*)
			echo "no suite $name; there are: $(suites all | tr '\n' ' ')" >&2
			exit 2
			;;
		esac
	done
	# Under CI and cron there may be no HOME, which Bazel needs.
	export HOME=${HOME:-/root} LC_ALL=C.UTF-8
	[ "${BJ_NO_INSTALL:-0}" = 1 ] || bj_install_packages || exit 1
	tmp=$(mktemp -d "${TMPDIR:-/tmp}/belljar-tests.XXXXXX")
	trap 'finish' EXIT
	trap 'exit 130' INT TERM
	build_binaries && built=1
	for name in $names; do
		if [ "$built" = 0 ] && [ "$(type -t "suite_$name")" != function ]; then
			printf '%-16s not run: there is no belljar\n' "$name"
			total_failed=$((total_failed + 1))
			continue
		fi
		run_suite "$name"
	done
	echo
	if [ "$BJ_MUST_RUN" = 1 ] && [ "$total_skipped" != 0 ]; then
		echo "BJ_MUST_RUN=1: a skip is a failure"
	fi
	echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
	[ "$total_failed" = 0 ] || exit 1
	[ "$BJ_MUST_RUN" = 1 ] && [ "$total_skipped" != 0 ] && exit 1
	exit 0
}

finish() {
	local status=$?
	[ "${BJ_KEEP_BAZEL:-0}" = 1 ] || bj_bazel shutdown >/dev/null 2>&1
	[ "${BJ_KEEP:-0}" = 1 ] || rm -rf --one-file-system "$tmp"
	exit $status
}
