#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the tree with another Bazel, out of npm: `old_bazel.sh VERSION`. BJ_NPM_BAZELS keeps what was installed.
. "$(dirname "$(realpath "$0")")/setup_root.sh"

version=$1
cache=${BJ_NPM_BAZELS:-${XDG_CACHE_HOME:-$HOME/.cache}/belljar-tests/bazel}/$version
scratch=$(mktemp -d "${BJ_TMP:-/tmp}/old-bazel.XXXXXX")
binary=

done_with() {
	[ -n "$binary" ] && "${command[@]}" shutdown >/dev/null 2>&1 </dev/null
	chmod -R u+w "$scratch" 2>/dev/null
	rm -rf --one-file-system "$scratch"
}
trap done_with EXIT

find_binary() {
	binary=$(find "$cache" -type f -name 'bazel-*-linux-x86_64' 2>/dev/null | head -n 1)
	[ -n "$binary" ]
}

if ! find_binary; then
	if ! command -v npm >/dev/null && [ "$(id -u)" = 0 ]; then
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends npm >"$scratch/log" 2>&1 </dev/null ||
			cat "$scratch/log"
	fi
	mkdir -p "$cache" &&
		npm install --prefix "$cache" --no-save --no-audit --no-fund "@bazel/bazel-linux_x64@$version" \
			>"$scratch/log" 2>&1 </dev/null
	if ! find_binary; then
		cat "$scratch/log" 2>/dev/null
		if [ "$BJ_MUST_RUN" = 1 ]; then
			echo "0 passed, 1 failed, 0 skipped"
			exit 1
		fi
		echo "skipped: Bazel $version could not be installed from npm"
		echo "0 passed, 0 failed, 1 skipped"
		exit 0
	fi
fi

# A copy of the tree: one Bazel's convenience links lead another astray.
mkdir "$scratch/tree"
(cd "$BJ_ROOT" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
	[ -e "$file" ] && printf '%s\0' "$file"
done | tar -c --null -T - | tar -x -C "$scratch/tree")

command=("$binary" --nohome_rc --nosystem_rc --output_base="$scratch/base" --max_idle_secs=60)
status=0
(cd "$scratch/tree" && "${command[@]}" test --symlink_prefix=/ --keep_going --noshow_progress \
	--build_event_json_file="$scratch/events" -- //... </dev/null) || status=$?
/usr/bin/python3 -B "$BJ_ROOT/tests/lib/count_bazel.py" "$scratch/events" "$status"
