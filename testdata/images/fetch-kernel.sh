#!/bin/bash
# fetch-kernel.sh DIR: Debian's current kernel for amd64 with its modules,
# unpacked into DIR and not installed. Needs apt-get and dpkg.
set -euo pipefail
dir=$1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
package=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
[ -n "$package" ] || { echo "fetch-kernel: apt knows no linux-image-amd64; run apt-get update" >&2; exit 1; }
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package")
mkdir -p "$dir.new"
dpkg -x "$work"/*.deb "$dir.new"
rm -rf "$dir"; mv "$dir.new" "$dir"
echo "$package is in $dir"
