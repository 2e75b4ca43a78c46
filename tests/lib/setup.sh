# SPDX-License-Identifier: Apache-2.0
# Sourced by what a person starts on a fresh machine: tests/run, tests/full, bazel/demo.

# bj_packages - the names in bazel/packages.txt.
bj_packages() {
	sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$BJ_ROOT/bazel/packages.txt"
}

# bj_missing_packages - those of them that are not installed.
bj_missing_packages() {
	local package
	for package in $(bj_packages); do
		case "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" in
		installed) ;;
		*) echo "$package" ;;
		esac
	done
}

# bj_install_packages - installs what is missing. Only root can; anybody else is told what to do.
bj_install_packages() {
	local missing log
	missing=$(bj_missing_packages)
	[ -z "$missing" ] && return 0
	# Word splitting is meant: one package a word.
	# shellcheck disable=SC2086
	set -- $missing
	if [ "$(id -u)" != 0 ]; then
		echo "missing packages; run as root: apt-get install $*" >&2
		return 1
	fi
	echo "installing $# packages: $*"
	log=$(mktemp)
	if apt-get update >"$log" 2>&1 </dev/null &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
		rm -f "$log"
		return 0
	fi
	cat "$log" >&2
	rm -f "$log"
	return 1
}

# bj_bazel ARG... - Bazel in this tree. BJ_BAZEL may hold another command with startup options, split at blanks.
bj_bazel() {
	# shellcheck disable=SC2086
	(cd "$BJ_ROOT" && exec ${BJ_BAZEL:-bazel} "$@" </dev/null)
}
