#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) over every C file, one case each. Takes file names for some.
. "$(dirname "$(realpath "$0")")/setup_root.sh"

cd "$BJ_ROOT" || exit 1
# The generated headers.
mapfile -t generated < <(bj_bazel query --noshow_progress 'kind(_proto_c_sources, //...)' 2>/dev/null)
# shellcheck disable=SC2086
bj_bazel build ${BJ_BAZEL_FLAGS:-} --symlink_prefix=/ --noshow_progress -- "${generated[@]}" >&2 || exit 1
# shellcheck disable=SC2086
bin=$(bj_bazel info ${BJ_BAZEL_FLAGS:-} bazel-bin 2>/dev/null) || exit 1

flags=(-std=gnu17 -D_GNU_SOURCE -Wall -Wextra -I.)
for label in "${generated[@]}"; do
	label=${label#//}
	directory=${label/://}
	flags+=(-isystem "$bin/${directory%_sources}_gen")
done

if [ $# = 0 ]; then
	mapfile -t files < <(git ls-files --cached --others --exclude-standard 'executor/*.c' 'policy/*.c' 'tests/*.c')
else
	files=("$@")
fi

# tidy FILE - says "ok FILE", or what is wrong and "FAILED FILE".
tidy() {
	local file=$1 out
	shift
	if out=$(clang-tidy --quiet "$file" -- "$@" 2>/dev/null); then
		echo "ok $file"
	else
		printf '%s\nFAILED %s\n' "$out" "$file"
	fi
}
export -f tidy

result=$(printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'tidy "$@"' tidy {} "${flags[@]}")
echo "$result"
passed=$(grep -c '^ok ' <<<"$result")
failed=$(grep -c '^FAILED ' <<<"$result")
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
